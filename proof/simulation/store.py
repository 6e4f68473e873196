"""The task store as one more process: real functions on fakeredis, called over the network, by a clock that may jump.

Owns what a server does: it executes a function at the instant at which the call arrives, reads its own clock then, publishes notifications,
restarts, and may forget its last second. Watches each execution: which rows of MOVES it made, and what the judge must know.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final, NamedTuple, cast

import fakeredis

from atf.errors import ResourceExhausted
from atf.rpc.stored_spec import whole
from atf.rpc.task_pb2 import TaskSpec
from atf.sdk.work_items import ITEM_MARK
from atf.store import library
from atf.store.servers.refusals import translate
from atf.store.values.claims import Outcome
from atf.task import DEFAULT_MAX_ATTEMPTS, DEFAULT_MAX_LOSSES, FINISHED, US, Status
from atf.testing.runtime import EPOCH_US
from atf.verify.events import Accepted, Called, Claimed, Forgot, Keyed, Recorded, Rescheduled
from tests import quick_fakeredis
from tests.store.world import read
from tools.move_headers import NAMED, PUSHES, at_once

from . import answers, audits, batches, calls, cores, counts, deploys, jobs, lists, pushes, rates, unique
from .chronicle import Chronicle
from .loop import SimLoop

_READS: Final = calls.READS | {"open_partition"}
"""What changes no task's record."""
AFRESH: Final = {"retry", "redrive"}
"""Moves by which somebody starts a task afresh."""
_HELD: Final = ("CLAIMED", "PROCESSING")
_RETRIES: Final = {"retry_tasks", "redrive"}
_TAKERS: Final = 8
"""The place in a call of next_claims that says how many takers there are; behind them come the groups of queues."""
_LEFT_TO: Final = 2
"""The place in its answer of the hosts to which some was left; before that, the queues that hold more."""
_FLAGS: Final = {"cancel a running task", "run for the last time"}
"""Moves by which a running task is flagged."""
_FINISH: Final = 11
"""Arguments of a run in a call of set_results."""
_DEFAULT_LIMITS: Final = f"{DEFAULT_MAX_ATTEMPTS} {DEFAULT_MAX_LOSSES} 0"
"""Of a record without a field of its own for them."""
_NOTHING: Final[tuple[int, Any, dict[str, int], Any, Any, Any, Any]] = (0, {}, {}, {}, {}, (), ())
"""What a server remembers whose disk is lost."""
State = tuple[str, int, int, bool]
"""Of a task: status, counter of the token, losses, flagged."""


class Stored(NamedTuple):
    """When a task was stored: by the observer's clock, and by the server's own."""

    loop_us: int
    time_us: int


SMALL_BYTES: Final = 800
"""Of the claims of one ask, in some seeds: about two."""


def small_answers(seed: int) -> bool:
    """Whether the answers of a seed's asks have room for a few claims only, so that calls take more out of a queue than they give."""
    return seed % 5 == 3


class StoreServer:
    """The server.

    Attributes:
        offset_us: how far its clock stands from the loop's.
        full: whether it refuses what creates something.
        stored: when each task was stored last.
        durable: whether it forgets nothing at a restart.
        ends: of the batch.
        ticks: what was accepted of the job's ticks, in that order.
        tick_numbers: of the job's tasks, by their ids.
        firsts: what first_time answered to each run, by key and task.
        answers: holds what callers are told of tasks against what these were.
        windows: of unique keys.
        stopped: at which task an ordering key has stopped, by what the store calls the key.
        deleted: the last status of each item when it first went with its batch, and of each task whose time was over.
        emptied: how often it has lost everything.
        beside: tasks of a job that somebody made beside its ticks.
        job_deleted: whether a call to delete the job has been answered.
        job_paused: whether one to pause it has, and none to let it go on has been made since.
        rates: how fast tasks were pushed.
        counts: what the runs of each task must have counted.
        lists: when each task was made and has ended, by which people look at them.
        audits: who did what.
        library: the functions that it is given; a server that has lost everything has lost them, too, until a role loads them again.
    """

    def __init__(self, loop: SimLoop, chronicle: Chronicle, seed: int, *, durable: bool, source: str = "") -> None:
        self.offset_us = 0
        self._seed = seed
        self.full = False
        self.durable = durable
        self._shown: list[
            tuple[int, int]
        ] = []  # offset, the loop's clock when its own showed an instant with that last
        self._waits_since: dict[str, int] = {}  # task -> the loop's clock when its instant was set
        self.stored: dict[str, Stored] = {}
        self._loop = loop
        self._chronicle = chronicle
        quick_fakeredis.install()
        self._fake = fakeredis.FakeServer(version=(7, 4))
        self.client = cast("Any", fakeredis.FakeRedis(server=self._fake))
        self.library = library.CURRENT._replace(utf8=source.encode() or library.CURRENT.utf8)
        self.client.execute_command("FUNCTION", "LOAD", self.library.source)
        self._connection = self.client.connection_pool.get_connection()
        self._touched = quick_fakeredis.watch(self._fake)
        self._notifications = self.client.pubsub(ignore_subscribe_messages=True)
        self._notifications.psubscribe("atf:*")
        self._notifications.get_message()
        self._published = quick_fakeredis.inside.waiting_answers(self._notifications.connection)
        self._run = 0
        self._listeners: list[Callable[[str, str], None]] = []
        self._snapshot: tuple[int, Any, dict[str, int], Any, Any, Any, Any] = _NOTHING
        self._kept = False  # whether it will come back with the snapshot
        self._tasks: dict[bytes, State] = {}
        self._parked: set[bytes] = set()
        self.ends = batches.BatchEnds()
        self.ticks: list[jobs.Told] = []
        self._ticks_found: dict[int, int] = {}
        self.tick_numbers: dict[str, int] = {}
        self.firsts: dict[tuple[str, str], list[bool]] = defaultdict(list)
        self._batch: tuple[bytes | None, ...] = ()
        self.answers = answers.RunAnswers()
        self.windows = unique.Windows()
        self.stopped: dict[str, str] = {}
        self.deleted: dict[str, str] = {}
        self.emptied = 0
        self.beside: list[str] = []
        self.job_deleted = self.job_paused = False
        self.rates = rates.Rates(seed)
        self.counts = counts.Counts()
        self.deploys = deploys.Deploys()
        self.lists = lists.ListTimes()
        self.audits = audits.Audits()

    @property
    def fake(self) -> fakeredis.FakeServer:
        return self._fake

    @property
    def run_id(self) -> str:
        """Names the server's process."""
        return f"run-{self._run}"

    def now_us(self) -> int:
        """Its TIME."""
        return EPOCH_US + self._loop.now_us + self.offset_us

    def _show(self) -> None:
        if self._shown and self._shown[-1][0] == self.offset_us:
            self._shown.pop()
        self._shown.append((self.offset_us, self._loop.now_us))

    def shown_us(self, task_id: str) -> int:
        """The latest instant that its clock has shown since a task was given its own: when it was stored or started afresh."""
        return self._shown_since(self._waits_since.get(task_id, 0))

    def _shown_since(self, since: int) -> int:
        return EPOCH_US + max(offset + at for offset, at in self._shown if at >= since)

    def publish_to(self, listener: Callable[[str, str], None]) -> None:
        """Everything published goes there: channel, message."""
        self._listeners.append(listener)

    # --- calls ---------------------------------------------------------------------------------------------------------

    def execute(self, verb: str, record: str, args: Sequence[Any], *, server: bool) -> Any:
        """Calls one function, now.

        Raises:
            ResponseError: there is no such function.
        """
        if self.full and verb in calls.CREATES:
            raise ResourceExhausted("the task store is full (maxmemory); nothing was stored")
        given = str(args[0])
        minus = "-" * given.startswith("-")  # the caller leaves what it makes due to the store consumers
        now = int(given.removeprefix("-") or self.now_us())
        self._show()
        identity = (self.run_id, "1" if self.durable else "p") if server else ()
        self.rates.look(self.offset_us)
        may_push = verb == "enqueue" or verb in PUSHES
        standing = self._standing() if verb == "enqueue" else {}
        queued = self._queued() if verb == "next_claims" and small_answers(self._seed) else {}
        length = self.rates.standing(self._data) if may_push else 0
        cores_before = self._cores() if verb == "set_capacity" else {}
        try:
            reply = self._call(f"{self.library.name}_{verb}", record, f"{minus}{now}", *identity, *args[1:])
        except Exception as error:
            if "Function not found" in str(error):
                raise
            raise translate(error, "the store") from error
        if verb == "schedule":
            at_us = self._loop.now_us
            look = self.windows.look(now, args, reply, self._field_before, self._put_off, at_us, self._shown_since)
            self._chronicle.odd += look
        elif verb in {"skip_key", "resume_key"}:
            self._mended(args, reply)
        elif verb in {"add_audit", "replace_audit"}:
            self.audits.stored(args[1:], full=verb == "replace_audit")
        self._watch(verb, now, args, reply)
        if verb == "next_claims":
            self._judge_left(record, args, reply, now)
            self._judge_taken(queued)
        self._judge_queues(standing)
        if may_push:
            self.rates.pushed(self.rates.standing(self._data) - length, self._loop.now_us)
        self._watch_batch()
        if verb == "set_capacity":
            self._chronicle.odd += cores.judge(cores_before, args, reply)
        self._publish()
        return reply

    def _cores(self) -> dict[bytes, bytes]:
        """The record of the pool's cores."""
        item = self._data.get(cores.KEY)
        return dict(item.value) if item is not None else {}

    def command(self, *command: Any) -> Any:
        """Executes a plain command, now."""
        if command == ("TIME",):  # fakeredis asks the host's clock
            return divmod(self.now_us(), US)
        if self.full and (command[0] == "SADD" or command[:2] == ("FUNCTION", "LOAD")):
            raise ResourceExhausted("the task store is full (maxmemory)")
        try:
            reply = self._process(*command)
        except Exception as error:
            raise translate(error, "the store") from error
        self._publish()
        return reply

    def _process(self, *command: Any) -> Any:
        # Past the wire: to pack a command and to read it again in Python is half of what a call costs.
        quick_fakeredis.inside.process(self._connection, [_encoded(each) for each in command])
        return self._connection.read_response()

    def _call(self, function: str, record: str, *args: Any) -> Any:
        # Past what is said and asked around each command, too: who may do it, what has expired, who waits for the answer.
        with self._fake.lock:
            return quick_fakeredis.inside.call_function(
                self._connection, function.encode(), record.encode(), *map(_encoded, args)
            )

    def _publish(self) -> None:
        while not self._published.empty() and (message := self._notifications.get_message()) is not None:
            for listener in self._listeners:
                listener(message["channel"].decode(), message["data"].decode())

    # --- what may happen to it -----------------------------------------------------------------------------------------

    def keep(self) -> None:
        """Remembers everything as it is now: what a power loss leaves."""
        self._snapshot = (
            self._loop.now_us,
            copy.deepcopy(self._data),
            dict(self._waits_since),
            self.counts.keep(),
            self.deploys.keep(),
            self.lists.keep(),
            self.audits.keep(),
        )
        self._kept = True

    def sync(self) -> None:
        """All of it is on the disk now, and a caller is told so: a power loss leaves it."""
        if self._kept:
            self.keep()

    def keep_nothing(self) -> None:
        """Remembers nothing at all: what is left when its disk is lost."""
        self._snapshot = _NOTHING
        self._kept = False
        self.emptied += 1

    @property
    def made_ticks(self) -> int:
        """Ticks of the job that have become tasks."""
        return sum(each.tick_us is not None for each in self.ticks)

    def restarted(self, *, forgetting: bool) -> None:
        """Another process serves the same data, or, `forgetting`, those kept last."""
        self._run += 1
        if forgetting:
            since, data, waits_since, tallies, met, listed, audited = self._snapshot
            self.counts.forgot(tallies)
            self._kept = False
            self.deploys.forgot(met)
            self.lists.forgot(listed)
            self.audits.forgot(audited)
            self._waits_since = dict(waits_since)
            self._data.clear()
            self._data.update(copy.deepcopy(data))
            if not data:
                self.client.execute_command("FUNCTION", "FLUSH")
            before, self._tasks = self._tasks, self._peek()
            for key in before.keys() | self._tasks.keys():
                self._saw(key, before.get(key), self._tasks.get(key))
            self.answers.forgot(self._loop.now_us, since)
            self.rates.forgot(since)
            self.stopped.clear()
            self._touched.clear()
            self._chronicle.event(Forgot(self._loop.now_us, since))

    def wipe_queues(self) -> int:
        """Somebody deletes the queues. Returns how many there were."""
        queues = [key for key in self._data if key.startswith(b"rq:queue:")]
        for key in queues:
            del self._data[key]
        return len(queues)

    @property
    def _data(self) -> dict[bytes, Any]:
        return quick_fakeredis.inside.keys_of(self._fake)

    # --- what the judge and the counts want to know --------------------------------------------------------------------

    def tasks(self) -> dict[str, State]:
        """Every task with a record, tombstones apart."""
        return {key.split(b":t:", 1)[1].decode(): state for key, state in self._peek().items()}

    def field(self, task_id: str, name: str) -> str | None:
        """A field of a task's record, read past the network."""
        partition = f"atf:{{{task_id.split('-', 1)[0]}}}"
        item = self._data.get(f"{partition}:t:{task_id}".encode())
        if item is None or (value := item.value.get(name.encode())) is None:
            return None
        if value == b"\0":  # it is long, and lies apart
            value = self._data[f"{partition}:v:{task_id}:{name}".encode()].value
        return (whole(item.value[b"q"].decode(), value) if name == "spec" else value).decode("latin-1")

    def _field_before(self, task_id: str, name: str) -> str | None:
        """The same, of one that the call just executed has cancelled at its end, since it pushes what it makes due: as it was before."""
        value = self.field(task_id, name)
        if name == "s" and value == "CANCELLED":
            return self._tasks.get(f"atf:{{{task_id.split('-', 1)[0]}}}:t:{task_id}".encode(), ("NEW",))[0]
        return value

    def sets(self, marks: Collection[str]) -> dict[str, dict[str, int]]:
        """The sorted sets of the partitions whose keys have one of these marks, by key."""
        wanted = [each.encode() for each in marks]
        return {
            key.decode(): {member.decode(): int(score) for member, score in item.value.items()}
            for key, item in self._data.items()
            if key.startswith(b"atf:{") and any(each in key for each in wanted)
        }

    def apart(self) -> list[tuple[str, str]]:
        """What lies apart from records: task and field."""
        found = [key.split(b":v:", 1)[1].decode() for key in self._data if b":v:" in key and key.startswith(b"atf:{")]
        return [(task_id, field) for task_id, _, field in (each.rpartition(":") for each in found)]

    def has_job(self, name: str) -> bool:
        """Whether it has a job's record, read past the network; one that has ended keeps it for a while."""
        return any(key.endswith(f"}}:j:{name}".encode()) for key in self._data)

    def loop_us(self) -> int:
        """The instant of the observer's clock."""
        return self._loop.now_us

    def _standing(self) -> dict[str, str]:
        """The tasks that wait in their queues, and the number of each one's entry."""
        found = {}
        for key, (status, *_) in self._tasks.items():
            if status == "ENQUEUED":
                task_id = key.split(b":t:", 1)[1].decode()
                tag, queue, entry = key[: key.index(b":t:")], self.field(task_id, "q"), self.field(task_id, "e")
                if queue and entry:
                    counts, ids = (
                        self._data.get(tag + b":q:" + queue.encode()),
                        self._data.get(b"rq:queue:" + tag[4:] + queue.encode()),
                    )
                    pushed = int(counts.value.get(b"pushed") or 0) if counts else 0
                    if int(entry) > pushed - (len(ids.value) if ids else 0):
                        found[task_id] = entry
        return found

    def _judge_queues(self, standing: dict[str, str]) -> None:
        """What waits in its queue must not be pushed once more: a backlog would grow by itself."""
        for task_id, entry in standing.items():
            if self.field(task_id, "s") == "ENQUEUED" and self.field(task_id, "e") != entry:
                self._chronicle.odd.append(f"{task_id}: pushed once more while it stood in its queue")

    def _queued(self) -> dict[str, str | None]:
        """The tasks that stand in queues, and the number of each one's entry."""
        found = [raw.decode() for key, item in self._data.items() if key.startswith(b"rq:queue:") for raw in item.value]
        return {each: self.field(each, "e") for each in found}

    def _judge_taken(self, queued: dict[str, str | None]) -> None:
        """What a call takes out of a queue and gives to nobody must stand there again."""
        for task_id in queued.keys() - (self._queued().keys() if queued else set()):
            if self.field(task_id, "s") == "ENQUEUED" and self.field(task_id, "e") == queued[task_id]:
                self._chronicle.odd.append(f"{task_id}: has left its queue, and was given to nobody")

    def _judge_left(self, record: str, args: Sequence[Any], reply: Sequence[Any], now_us: int) -> None:
        """What a call that wanted more leaves to another host must not have been left so for long."""
        if len(reply) < _LEFT_TO + 1 or not reply[_LEFT_TO]:
            return
        named = [str(each).encode() for each in args[_TAKERS + 1 + 3 * int(args[_TAKERS]) :]]
        queues = [each for each in named if b":" in each]
        if len(queues) > 1:
            return  # of another one something was left, perhaps, and this one is paused
        for queue in (each for each in queues if each not in reply[_LEFT_TO - 1]):
            item = self._data.get(b"rq:queue:" + record[4:].encode() + queue)
            for raw in item.value if item is not None else ():
                since, pushed = (int(self.field(raw.decode(), name) or 0) for name in ("pb", "t2"))
                if pushed <= since < now_us - library.PLACE_PATIENCE_US:
                    self._chronicle.odd.append(f"{raw.decode()}: left to another host for {now_us - since} µs")

    def _peek(self) -> dict[bytes, State]:
        states = {key: self._state(key) for key in self._data if b":t:" in key}
        return {key: state for key, state in states.items() if state is not None}

    def _state(self, key: bytes) -> State | None:
        item = self._data.get(key)
        if item is None:
            return None
        get = quick_fakeredis.inside.fields_of(item).get
        status = get(b"s")
        if not status or status == b"TOMBSTONE":
            return None
        return status.decode(), int((get(b"c") or b"0").split(b" ")[0]), int(get(b"l") or 0), get(b"x") is not None

    def _looked(self) -> dict[bytes, State]:
        """The same as _peek, of which only the records written since the last look are read."""
        found = dict(self._tasks)
        for key in self._touched:
            state = self._state(key)
            if state is None:
                found.pop(key, None)
            else:
                found[key] = state
        return found

    def _written(self, states: dict[bytes, State]) -> dict[str, tuple[str, int]]:
        """Status and counter of the tasks that the last call has written to."""
        found = {key: states[key] for key in self._touched if key in states}
        return {key.split(b":t:", 1)[1].decode(): state[:2] for key, state in found.items()}

    def _watch_batch(self) -> None:
        stored = self._data.get(batches.RECORD)
        if stored is None:
            return
        batch = tuple(map(stored.value.get, (b"round", b"ended")))
        if batch != self._batch:
            self._batch = batch
            self._chronicle.say(f"the batch: round, end {batch}")
            self._chronicle.odd += self.ends.look(read(self.client))

    def batch_goes_on(self) -> bool:
        """Whether there is a batch that has not ended, or whose end is not known everywhere."""
        stored = self._data.get(batches.RECORD)
        return stored is not None and (
            (stored.value.get(b"ended") is None and stored.value.get(b"gone") is None)
            or any(key.endswith(b":outbox") for key in self._data)
        )

    def _watch(self, verb: str, now_us: int, args: Sequence[Any], reply: Any) -> None:
        if verb == "enqueue":
            for tick in jobs.due(reply[7]):
                self._ticks_found[tick] = max(now_us, self._ticks_found.get(tick, 0))
        if verb in _READS or (verb == "enqueue" and not self._touched and not any((*reply[2:5], reply[8]))):
            return
        before, after = self._tasks, self._looked()
        self._tasks = after
        written = self._written(before), self._written(after)
        self._chronicle.odd += self.counts.look(verb, args, reply, *written, self.field)
        if deploys.has_deploys(self._seed):
            instants = now_us, self._loop.now_us
            self._chronicle.odd += self.deploys.look(verb, args, reply, *written, self.field, instants)
        changed = {key for key in self._touched if key in after and after[key] != before.get(key)}
        if verb in _RETRIES:  # those that were cancelled again at once, too
            changed |= {
                key for key in self._touched if key in before and key in after and before[key][0] == "CANCELLED"
            }
        for key in self._touched:
            if key in before and key not in after:
                self._gone(verb, now_us, args, key, before[key])
        touched = [key for key in self._touched if before.get(key, ("",))[0] == after.get(key, ("",))[0]]
        if verb in PUSHES:
            pushed = [key for key in changed if after[key][0] == "ENQUEUED" and before.get(key, ("",))[0] not in _HELD]
            self._chronicle.odd += pushes.judge(self._data, pushed, self._touched, now_us)
        self._touched.clear()
        # In the order in which they lie there; a set would have one of its own.
        for key in changed if len(changed) < 2 else [key for key in self._data if key in changed]:
            self._changed(verb, now_us, key.split(b":t:", 1)[1].decode(), before.get(key), after[key])
        parked = (
            {key for key in after if self._data[key].value.get(b"g") is not None}
            if verb in {"enqueue", "next_claims", *PUSHES}
            else self._parked
        )
        if verb == "enqueue" or verb in PUSHES:
            self._chronicle.moves["gate"] += len(parked - self._parked)
            self._chronicle.moves["let through"] += len(self._parked - parked)
        self._parked = parked
        if verb == "heartbeat":
            self._chronicle.moves["heartbeat"] += sum(each in {1, 3, 5} for each in reply)
        elif verb == "enqueue":
            self._chronicle.moves["enqueue again"] += reply[3]
        elif verb == "pause_job":
            self._held(args, touched)
        elif verb == "tick":
            self.ticks += jobs.told(args, reply, now_us, self._ticks_found)
        elif verb == "set_results":
            self._finished(before, after, args, reply, now_us)
        elif verb == "sweep":
            self._chronicle.odd += self.lists.standing(self)

    def _unfit(self, task_id: str) -> bool:
        return (self.field(task_id, "mf") or "0 ")[:2] != "0 "

    def _changed(self, verb: str, now_us: int, task_id: str, old: State | None, new: State) -> None:
        source, target = (Status[old[0]] if old else None), Status[new[0]]
        name = _row(
            verb,
            source,
            target,
            flagged=new[3] and not (old and old[3]),
            counted=old is None or new[2] > old[2],
            unfit=self._unfit(task_id),
            held=self.field(task_id, "hd") is not None,
        )
        told = f"{verb}: {source.name if source else '-'} -> {target.name}, token {new[1]}, losses {new[2]}"
        self._chronicle.say(told, task_id)
        if name is not None:
            self._moved(verb, now_us, task_id, name, told, old, new)
        elif ways := at_once(verb, source, target):  # and pushed by the same call
            first, then = ways[0]
            assert first.target is not None
            between = (first.target.name, *new[1:])
            self._moved(verb, now_us, task_id, first.name, told, old, between)
            self._moved(verb, now_us, task_id, then.name, told, between, new)
        elif source is not target:
            self._chronicle.odd.append(f"{task_id}: {told} is no row of MOVES")

    def _moved(self, verb: str, now_us: int, task_id: str, name: str, told: str, old: State | None, new: State) -> None:
        """A task has made a row of MOVES."""
        self.answers.saw(self._loop.now_us, task_id, new[0])
        if (old and old[0]) != new[0]:
            self.lists.moved(
                now_us, task_id, Status[old[0]] if old else None, Status[new[0]], self.field(task_id, "lim")
            )
        self._chronicle.moves[name] += 1
        if name in {"schedule", *AFRESH}:
            self._waits_since[task_id] = self._loop.now_us
        if name == "claim":
            nonce = self.field(task_id, "n") or ""
            self._chronicle.event(Claimed(self._loop.now_us, task_id, new[1], nonce, now_us))
        if name == "claim" and (why := jobs.must_not_start(self, task_id)):
            self._chronicle.odd.append(f"{task_id}: {told}, {why}")
        if name in {"enqueue", "claim"} and self._paused(task_id):
            self._chronicle.odd.append(f"{task_id}: {told}, past a gate")
        if name == "schedule":
            if self._labels(task_id) != (self.field(task_id, "lb") or "").split():
                self._chronicle.odd.append(f"{task_id}: {told}, without its labels")
            if task_id in self.stored:  # by an earlier call, which the store has forgotten
                self._chronicle.event(Rescheduled(self._loop.now_us, task_id, int(self.field(task_id, "at") or 0)))
            self.stored[task_id] = Stored(self._loop.now_us, now_us)
            if verb == "tick":
                self._ticked(task_id)
            elif verb == "run_job_now":
                self._beside(task_id)
            if ITEM_MARK in task_id or (self.field(task_id, "q") or "").startswith(
                batches.CALLBACK
            ):  # the batch asked for it
                self._chronicle.event(Called(self._loop.now_us, task_id))
                self._chronicle.event(Accepted(self._loop.now_us, task_id, now_us, self._loop.now_us))
        self._judge_stop(name, task_id, told)
        self._judge_losses(name, task_id, told, old[2] if old else 0, new[2])
        if verb in _RETRIES and ITEM_MARK in task_id:
            self.ends.by_hand += 1
        if name in AFRESH:
            if key := self.field(task_id, "uk"):
                self._chronicle.odd += self.windows.afresh(now_us, task_id, key, self.field, self._shown_since)
            due_us = int(self.field(task_id, "at") or 0)
            self._chronicle.event(Rescheduled(self._loop.now_us, task_id, max(now_us, due_us)))

    def _held(self, args: Sequence[Any], touched: Sequence[bytes]) -> None:
        """A job was paused, or goes on: of its ticks those were written that keep their status."""
        held = sum(self._data[key].value.get(b"hd") is not None for key in touched if b":t:" in key)
        if str(args[2]) == "1":
            self._chronicle.moves["hold"] += held
        else:
            self._chronicle.moves["go on"] += sum(b":t:" in key for key in touched) - held

    def _beside(self, task_id: str) -> None:
        """Somebody has made a task of the job beside its ticks."""
        self.beside.append(task_id)
        now = self._loop.now_us
        self._chronicle.event(Called(now, task_id))
        self._chronicle.event(Accepted(now, task_id, int(self.field(task_id, "at") or 0), now))

    def _put_off(self, task_id: str, due_us: int) -> None:
        """A call with the same unique key has given a task another instant."""
        self._waits_since[task_id] = self._loop.now_us
        self._chronicle.event(Rescheduled(self._loop.now_us, task_id, due_us))

    def _saw(self, key: bytes, old: State | None, new: State | None) -> None:
        if (old and old[0]) != (new and new[0]):
            status = new[0] if new else answers.UNKNOWN
            self.answers.saw(self._loop.now_us, key.split(b":t:", 1)[1].decode(), status)

    def _gone(self, verb: str, now_us: int, args: Sequence[Any], key: bytes, last: State) -> None:
        """A task's record has been removed."""
        self._saw(key, last, None)
        task_id = key.split(b":t:", 1)[1].decode()
        if verb in {"command_batch", "sync_batch"}:
            # What a late copy of a call has made anew goes with the batch a second time, unfinished.
            self.deleted.setdefault(task_id, last[0])
        elif verb == "sweep":
            self._chronicle.moves["sweep"] += 1
            self.deleted[task_id] = last[0]
            self._chronicle.odd += self.lists.swept(now_us, task_id, last[0], early=str(args[3]) == "1")

    def _stops(self, task_id: str) -> bool:
        """Whether a task that fails for good stops its ordering key, by what its partition has been told of its lambda."""
        partition, queue = task_id.split("-", 1)[0], self.field(task_id, "q") or ""
        known = self._data.get(f"atf:{{{partition}}}:l:{queue.rpartition(':')[0]}".encode())
        return known is not None and b"stop=1" in (known.value.get(b"settings") or b"")

    def _judge_losses(self, name: str, task_id: str, told: str, before: int, now: int) -> None:
        """Only a loss counts as one, and the one that is the task's own limit ends it: no earlier one, and none comes after it."""
        _, limit, _ = map(int, (self.field(task_id, "lim") or _DEFAULT_LIMITS).split())
        right = {
            "lose": now in {before, before + 1} and now < limit,
            "hold back": now in {before, before + 1} and now < limit,
            "lose for good": now == before + 1 == limit,
            "stop": now in {before, before + 1},
        }
        if not right.get(name, now == (0 if name in {"schedule", *AFRESH} else before)):
            self._chronicle.odd.append(f"{task_id}: {told}, after {before} of {limit} losses")

    def _judge_stop(self, name: str, task_id: str, told: str) -> None:
        """Nothing of an ordering key that has stopped may be started, but for the task at which it has."""
        key = self.field(task_id, "k")
        if not key:
            return
        if name in {"fail for good", "lose for good"} and self._stops(task_id):
            self.stopped[key] = task_id
        elif name in {"retry", "redrive"} and self.stopped.get(key) == task_id:
            del self.stopped[key]
        elif name in {"enqueue", "claim"} and key in self.stopped:
            self._chronicle.odd.append(f"{task_id}: {told}, and its key has stopped at {self.stopped[key]}")

    def _mended(self, args: Sequence[Any], reply: Sequence[Any]) -> None:
        """Somebody has let a stopped key go on: with its task, which is seen by that one's move, or without it."""
        done, task_id = int(reply[0]), reply[1].decode()
        if done in {1, 2}:
            self._chronicle.say(f"the key {args[2]} goes on from {task_id}", task_id)
            self.stopped = {key: at for key, at in self.stopped.items() if at != task_id}

    def _ticked(self, task_id: str) -> None:
        """The job has made a task."""
        tick = TaskSpec.FromString((self.field(task_id, "spec") or "").encode("latin-1")).tick
        self.tick_numbers[task_id] = tick.number
        now = self._loop.now_us
        self._chronicle.event(Called(now, task_id))
        self._chronicle.event(Accepted(now, task_id, int(self.field(task_id, "at") or 0), now))
        if jobs.alone(self._seed):
            self._chronicle.event(Keyed(now, task_id, jobs.JOB, 1, ordered=False))

    def _paused(self, task_id: str) -> bool:
        """Whether a gate of the task's lambda pauses it, by what its partition has been told of them."""
        partition, queue = task_id.split("-", 1)[0], self.field(task_id, "q") or ""
        known = self._data.get(f"atf:{{{partition}}}:l:{queue.rpartition(':')[0]}".encode())
        text = known.value.get(b"gates") if known is not None else None
        if not text:
            return False
        mine = set(self._labels(task_id))
        gates = [line.split() for line in text.decode().split(";")]
        return any(action == "pause" and wanted and mine >= set(wanted) for _, action, _, _, *wanted in gates)

    def _labels(self, task_id: str) -> list[str]:
        """Of a task, by its spec."""
        spec = TaskSpec.FromString((self.field(task_id, "spec") or "").encode("latin-1"))
        return sorted(f"{name}={value}" for name, value in spec.labels.items())

    def _finished(
        self, before: dict[bytes, State], after: dict[bytes, State], args: Sequence[Any], reply: Any, now_us: int
    ) -> None:
        for number, verdict in enumerate(reply[: len(args) // _FINISH]):
            task_id, counter, nonce, *_ = args[1 + _FINISH * number : 1 + _FINISH * (number + 1)]
            key = f"atf:{{{task_id.split('-', 1)[0]}}}:t:{task_id}".encode()
            if verdict == 1 and before.get(key) != after.get(key):
                again = after[key][0] in {"RETRIABLE_FAILURE", "NEW"}
                if after[key][0] == "SUCCESS":
                    self.answers.succeeded(self._loop.now_us, task_id, int(counter))
                again = again and int(args[1 + _FINISH * number + 3]) != Outcome.MISFIT
                not_before = now_us + int(args[1 + _FINISH * number + 7]) if again else 0
                self._chronicle.event(Recorded(self._loop.now_us, task_id, int(counter), not_before, nonce))


def _encoded(argument: Any) -> bytes:
    return argument if isinstance(argument, bytes) else str(argument).encode()


def _row(
    verb: str, source: Status | None, target: Status, *, flagged: bool, counted: bool, unfit: bool, held: bool
) -> str | None:
    """The row of MOVES that a change of state was, of those that the header of its function names.

    `counted`: it has a loss more. `unfit`: the task waits for an executor of another signature. `held`: it is a tick whose job is paused.
    """
    named = [move for move in NAMED.get(verb, []) if source in move.sources]
    if source is target:
        return next((move.name for move in named if flagged and move.name in _FLAGS), None)
    rows = {move.name for move in named if move.target is target} - (set() if held else {"hold back"})
    if verb == "enqueue" and target is Status.NEW and unfit and not rows:  # and left to others in the same visit
        rows = {move.name for move in named if move.name in {"lapse", "lose"}}
    if "hold back" in rows:
        return "hold back"
    rows -= {"drop"} if "cancel" in rows else set()
    if len(rows) > 1:
        rows -= {"put off", "park"} if unfit else {"misfit", "leave to others"}
        rows -= {"lapse"} if counted else {"lose"}
    return next(iter(rows), None)


def unfinished(tasks: dict[str, State]) -> list[str]:
    """The ids of live tasks."""
    return [task_id for task_id, state in tasks.items() if Status[state[0]] not in FINISHED]
