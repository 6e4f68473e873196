"""What the store's tests share: a clock they move, one line to make tasks and bring them into a state, and the invariants.

It looks into Redis by itself, past the store's own reading verbs, so that these are tested too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atf.rpc.stored_spec import whole
from atf.store import fields, keys, library
from atf.store.library import FULL_REVISIT_US
from atf.store.status import LiveRole
from atf.store.store import Store
from atf.store.user_keys import HeldUniqueKey
from atf.store.values.audit import AuditEntry
from atf.store.values.batches import BatchAnswer, BatchCommandAnswer, ItemTerms, NewItem
from atf.store.values.claims import (
    ClaimedTask,
    ClaimRenewal,
    FirstTimeKey,
    HeldClaim,
    Outcome,
    RunResult,
    Taker,
    Verdict,
)
from atf.store.values.jobs import NewJob, ReplaceJob, Tick
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.store.values.tasks import NewTask, RestoredTask, TaskRecord
from atf.task import DEFAULT_RETENTION_US, FINISHED, LIVE, STARTS, US, Status
from tests.claiming import claim_ids, fresh_nonce, pop_ids, serve_queues
from tests.known import know
from tests.store_calls import list_outbox

EPOCH_US = 1_700_000_000 * US
LAMBDA = "shop/mail"
QUEUE = f"{LAMBDA}:1"
LEASE_US = 16 * US
ENQUEUE_TIMEOUT_US = 10 * US
BACKOFF_US = 60 * US


class Clock:
    """The store's TIME in tests; it stands still until it is moved."""

    def __init__(self) -> None:
        self.us = EPOCH_US

    def __call__(self) -> int:
        return self.us

    def advance(self, seconds: float) -> int:
        """Moves on (or back), and answers the instant it is then."""
        self.us += round(seconds * US)
        return self.us


@dataclass
class Dump:
    """Everything in one Redis: key -> (type, value)."""

    data: dict[str, tuple[str, Any]] = field(default_factory=dict)

    def hash(self, key: str) -> dict[str, str]:
        return self.data.get(key, ("hash", {}))[1]  # type: ignore[no-any-return]

    def zset(self, key: str) -> dict[str, float]:
        return self.data.get(key, ("zset", {}))[1]  # type: ignore[no-any-return]

    def list(self, key: str) -> list[str]:
        return self.data.get(key, ("list", []))[1]  # type: ignore[no-any-return]

    def tasks(self) -> dict[str, dict[str, str]]:
        """Every task's fields by id, tombstones too."""
        return {
            key.split(":t:", 1)[1]: value for key, (_, value) in self.data.items() if key[:4] == "atf:" and ":t:" in key
        }

    def spec(self, task_id: str) -> bytes:
        """A task's spec, wherever it lies."""
        task = self.tasks()[task_id]
        apart = f"{keys.record(int(task_id.partition('-')[0]))}:v:{task_id}:spec"
        return whole(task["q"], (self.data[apart][1] if task["spec"] == "\0" else task["spec"]).encode("latin-1"))

    def without_visits(self) -> dict[str, tuple[str, Any]]:
        """Everything but the upper level of the due index: looking at a queue may score it anew."""
        return {key: value for key, value in self.data.items() if not key.endswith("}:due")}


def _text(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {_text(name): _text(each) for name, each in value.items()}
    if isinstance(value, set | frozenset):
        return frozenset(_text(each) for each in value)
    if isinstance(value, list | tuple):
        return [_text(each) for each in value]
    return value


_READERS = {
    "hash": lambda pipe, key: pipe.hgetall(key),
    "zset": lambda pipe, key: pipe.zrange(key, 0, -1, withscores=True),
    "list": lambda pipe, key: pipe.lrange(key, 0, -1),
    "set": lambda pipe, key: pipe.smembers(key),
    "string": lambda pipe, key: pipe.get(key),
}


async def dump(store: Store) -> Dump:
    """Reads the whole of Redis."""
    found = Dump()
    for server in await store.link.masters():
        await _dump_server(server.client, found)
    return found


async def _dump_server(client: Any, found: Dump) -> None:
    names = sorted(_text(await client.keys("*")))
    async with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name)
        types = _text(await pipe.execute()) if names else []
        for name, kind in zip(names, types, strict=True):
            _READERS[kind](pipe, name)
        values = await pipe.execute() if names else []
    found.data.update(_entries(names, types, values))


def read(client: Any) -> Dump:
    """Reads the whole of Redis through a blocking client."""
    found = Dump()
    names = sorted(_text(client.keys("*")))
    with client.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.type(name)
        types = _text(pipe.execute()) if names else []
        there = [
            (name, kind) for name, kind in zip(names, types, strict=True) if kind != "none"
        ]  # its time was just over
        for name, kind in there:
            _READERS[kind](pipe, name)
        values = pipe.execute() if there else []
    found.data.update(_entries([name for name, _ in there], [kind for _, kind in there], values))
    return found


def _entries(
    names: Sequence[str], types: Sequence[str], values: Sequence[Any]
) -> Iterator[tuple[str, tuple[str, Any]]]:
    for name, kind, value in zip(names, types, values, strict=True):
        yield name, (kind, dict(_text(value)) if kind == "zset" else _text(value))


_MAY_BE_LONG = {"q", "k", "kc", "uk", "u", "lb", "af", "mf"}
"""Fields that tell names and keys that somebody chose: where these are long, so is the record."""

# --- invariants -------------------------------------------------------------------------------------------------------


def violations(found: Dump, now_us: int) -> list[str]:
    """What breaks an invariant of the store; empty where all hold.

    Exactly one status set per task · live <=> in the due index, or waiting behind a task that is · a queue that holds
    anything to look at is visited in time · an ordering key's list is exactly its unfinished tasks, and where it has stopped
    the task at which it has.
    """
    tasks = found.tasks()
    if wrong := [f"{task_id}: a record without a status" for task_id, task in tasks.items() if "s" not in task]:
        return wrong
    places: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for key, (_, value) in found.data.items():
        for mark in (":s:", ":f:"):
            if key.startswith("atf:{") and mark in key:
                for task_id, score in value.items():
                    places[task_id].append((key, score))
    wrong += _list_violations(found, tasks) + _group_violations(found, tasks)
    for task_id, task in tasks.items():
        wrong += _task_violations(found, now_us, task_id, task, places.pop(task_id, []))
    wrong += [f"{task_id} has no record and stands in {where}" for task_id, where in places.items()]
    for key in found.data:
        if ":line:" in key and key.startswith("atf:{"):
            wrong += _line_violations(found, key, tasks)
    wrong += _job_violations(found, tasks) + _apart_violations(found, tasks)
    for key, (_, listed) in found.data.items():
        if ":o:" in key and key.startswith("atf:{"):
            ids = listed
            if ids[0][0] == "!":
                wrong += _stop_violations(found, key, ids[0][1:])
                ids = ids[1:]
            ordered = [task_id for task_id in ids if Status[tasks[task_id]["s"]] in LIVE]
            if ordered != ids or len(set(ids)) != len(ids):
                wrong.append(f"{key} holds {ids}, unfinished among them {ordered}")
    return wrong


def _list_violations(found: Dump, tasks: dict[str, dict[str, str]]) -> list[str]:
    """Whether the lists hold exactly the tasks that have records, and are known by name, none newer than it is said."""
    wrong = []
    made: dict[str, set[str]] = defaultdict(set)
    indexed: dict[str, set[str]] = defaultdict(set)
    for task_id, task in tasks.items():
        if task["s"] != "TOMBSTONE":
            record, name = keys.record(int(task_id.split("-", maxsplit=1)[0])), task["q"].rpartition(":")[0]
            made[f"{record}:n:{name}"].add(task_id)
            for entry in task.get("ix", "").split():
                indexed[f"{record}:x:{name}:{entry}"].add(task_id)
    for mark, expected in ((":n:", made), (":x:", indexed)):
        stands = {key: set(value) for key, (_, value) in found.data.items() if key.startswith("atf:{") and mark in key}
        if stands != expected:
            wrong.append(f"tasks by {mark} are {dict(expected)}, and listed {stands}")
    for key, (_, listed) in found.data.items():
        record, mark, name = key.partition(":n:") if ":n:" in key else key.partition(":f:")
        if not mark or not key.startswith("atf:{"):
            continue
        newest = found.zset(f"{record}:newest").get(name)
        if name not in found.zset(f"{record}:lists") or newest is None or newest < max(listed.values()):
            wrong.append(f"{key} is not found by its name, or by its newest entry ({newest})")
    return wrong


def _group_violations(found: Dump, tasks: dict[str, dict[str, str]]) -> list[str]:
    """Whether each dead letter is of one group, nothing else is of any, and each group is known by its newest."""
    wrong = []
    for task_id, task in tasks.items():
        groups = [each for each in task.get("ix", "").split() if each.startswith("!")]
        if len(groups) != (task["s"] == "FATAL_FAILURE"):
            wrong.append(f"{task_id} is {task['s']} and of the groups {groups}")
    newest: dict[str, dict[str, float]] = defaultdict(dict)
    for key, (_, listed) in found.data.items():
        record, mark, name = key.partition(":x:")
        if mark and ":!" in name:
            newest[f"{record}:groups"][name] = max(listed.values())
    known = {key: value for key, (_, value) in found.data.items() if key.endswith("}:groups")}
    return wrong if known == newest else [*wrong, f"groups have newest tasks {dict(newest)}, and are known as {known}"]


def _job_violations(found: Dump, tasks: dict[str, dict[str, str]]) -> list[str]:
    """Whether exactly the live tasks of a job are known as its own, and those that wait for it to go on wait for a job that is paused."""
    wrong, expected, listed, with_tasks = [], {}, {}, defaultdict(set)
    for task_id, task in tasks.items():
        if task.get("w", "1")[0] in "@+" and task["s"] not in {"TOMBSTONE", *(each.name for each in FINISHED)}:
            expected[task_id] = (task_id.split("-")[0], task["w"][1:], task["w"][0])
    for key, (_, kinds) in found.data.items():
        record, mark, name = key.partition(":ticks:")
        if not mark or not key.startswith("atf:{"):
            continue
        paused = "p" in found.hash(f"{record}:j:{name}")
        for task_id, kind in kinds.items():
            listed[task_id] = (record[5:-1], name, "+" if kind == 3 else "@")
            keeps = kind == 2
            if kind and (keeps != paused if kind < 3 else False):
                wrong.append(f"{task_id} is {kind} to {name}, of which paused is {paused}")
            if not keeps and "hd" in tasks[task_id]:
                wrong.append(f"{task_id} is kept for {name}, which does not know it")
            if kind:
                with_tasks[record].add(name)
            elif tasks[task_id].get("x") is None:
                wrong.append(f"{task_id} is of a job that was deleted, and may run again")
    orphans = {
        each: of for each, of in expected.items() if of[2] == "+" and tasks[each].get("x") and each not in listed
    }
    if {each: of for each, of in expected.items() if each not in orphans} != listed:
        wrong.append(f"live tasks of jobs are {expected}, and known {listed}")
    for key, (_, names) in found.data.items():
        if key.endswith("}:ticking") and set(names) != with_tasks.pop(key.removesuffix(":ticking"), set()):
            wrong.append(f"{key} holds {names}")
    return wrong + [f"nobody finds {names} of {record}" for record, names in with_tasks.items()]


def _stop_violations(found: Dump, key: str, task_id: str) -> list[str]:
    """Whether a key that has stopped can be found, and so can be helped on."""
    record, _, name = key.partition(":o:")
    task = found.tasks().get(task_id, {})
    stops = found.zset(f"{record}:stops:{task['q'].rpartition(':')[0]}") if "q" in task else {name: 0}
    return [] if name in stops else [f"{key} has stopped at {task_id}, and nobody finds it"]


def _line_violations(found: Dump, key: str, tasks: dict[str, dict[str, str]]) -> list[str]:
    """Whether what waits for a slot of a concurrency key waits for good reason, and will be looked at."""
    record, _, name = key.partition(":line:")
    slots = found.zset(f"{record}:slots:{name}")
    waiting = [each for each in found.zset(key) if tasks.get(each, {}).get("s") in {"NEW", "RETRIABLE_FAILURE"}]
    wrong = [f"{each} waits in {key} and holds a slot" for each in waiting if each in slots]
    if waiting and len(slots) < int(tasks[waiting[0]]["kc"].split(" ")[1]):
        wrong.append(f"{waiting[0]} waits in {key}, of which only {list(slots)} hold slots")
    return wrong if name in found.zset(f"{record}:lines") else [*wrong, f"nobody looks at {key}"]


def _apart_violations(found: Dump, tasks: Mapping[str, dict[str, str]]) -> list[str]:
    """Long values lie apart from their records, and none without a record that names it."""
    wrong = []
    for key in found.data:
        if ":v:" in key and key.startswith("atf:{"):
            task_id, _, field = key.partition(":v:")[2].rpartition(":")
            if field not in tasks.get(task_id, {}).get("ap", "").split(" "):
                wrong.append(f"{key} lies apart, and no record names it")
    for task_id, task in tasks.items():
        long = {name for name, each in task.items() if len(each) > library.RECORD_INLINE_BYTES} - _MAY_BE_LONG
        lost = {name for name, each in task.items() if each == "\0" and name not in task["ap"].split(" ")}
        if long or lost:
            wrong.append(f"{task_id}: {long} are too long for its record, {lost} lie nowhere")
    return wrong


def _task_violations(
    found: Dump, now_us: int, task_id: str, task: dict[str, str], places: list[tuple[str, float]]
) -> list[str]:
    record = keys.record(int(task_id.split("-", maxsplit=1)[0]))
    if task["s"] == "TOMBSTONE":
        expected = task_id in found.zset(f"{record}:tombs") and not places
        return [] if expected else [f"{task_id}: a tombstone in {places}, or in no list of tombstones"]
    if set(task) - set(fields.FIELDS):
        return [f"{task_id}: unknown fields {set(task) - set(fields.FIELDS)}"]
    status, queue = Status[task["s"]], task["q"]
    name = queue.rpartition(":")[0]
    retention = task.get("rc") or task.get("lim", f"- - {DEFAULT_RETENTION_US}").split(" ")[2]
    own_set = (
        f"{record}:f:{name}:{status.name}:{retention}" if status in FINISHED else f"{record}:s:{queue}:{status.name}"
    )
    if [key for key, _ in places] != [own_set]:
        return [f"{task_id}: {status.name}, and stands in {places}"]
    if status in FINISHED:
        if places[0][1] != int(task[f"t{status.value}"]):
            return [f"{task_id}: ended at {task[f't{status.value}']}, and is listed at {places[0][1]}"]
        left = not {"x", "w", "h"} & set(task)
        return [] if left else [f"{task_id}: finished, with fields of a live task {task}"]
    if queue not in {**found.zset(f"{record}:due"), **found.zset(f"{record}:unvisited")}:
        return [f"{task_id}: {status.name}, and nobody finds {queue}"]
    score = places[0][1]
    ordering = found.list(f"{record}:o:{task['k']}") if "k" in task else []
    if "k" in task and task_id not in ordering:
        return [f"{task_id}: unfinished and not in the list of its ordering key"]
    if score == float("inf"):
        if "g" in task:
            parked = task_id in found.zset(f"{record}:g:{name}:{task['g']}")
            return [] if parked else [f"{task_id}: kept by gate {task['g']}, which does not know"]
        if "hd" in task:
            name = task["w"][1:]
            waits = found.zset(f"{record}:ticks:{name}").get(task_id) == 2
            return [] if waits else [f"{task_id}: kept for {name}, which does not know"]
        waits = status is Status.NEW and bool(ordering) and ordering[0] != task_id
        waits = waits or ("kc" in task and task_id in found.zset(f"{record}:line:{task['kc'].split(' ')[0]}"))
        return [] if waits else [f"{task_id}: waits for ever"]
    if ordering and ordering[0] != task_id:
        return [f"{task_id}: in the due index, and behind {ordering[0]}"]
    return _visit_violations(found, record, queue, task_id, status, max(score, now_us))


def _visit_violations(found: Dump, record: str, queue: str, task_id: str, status: Status, needed: float) -> list[str]:
    """Whether the upper level of the due index visits a queue in time for one of its tasks."""
    leased = status in {Status.CLAIMED, Status.PROCESSING}
    config = found.hash(f"{record}:l:{queue.rpartition(':')[0]}")
    held_back = config.get("paused") == "1" or "limit" not in config  # paused, or not known here
    visit = found.zset(f"{record}:due").get(queue)
    if held_back and not leased:
        return []
    if visit is None:
        return [f"{task_id}: {status.name}, and nobody will visit {queue}"]
    full = found.hash(f"{record}:q:{queue}").get("full") == "1"
    late = visit - needed
    permits = found.hash(f"{record}:p:{queue.rpartition(':')[0]}")
    if queue[-1] in permits.get("w", "") + permits.get("y", ""):
        return []  # it waits for its lambda's limits
    if late > (FULL_REVISIT_US if full else 0):
        return [f"{task_id}: {status.name}, to be looked at at {needed:.0f}, {queue} is visited {late:.0f} µs later"]
    return []


def tally(found: Dump, name: str) -> dict[Status, int]:
    """Tasks of a lambda per status, by their records."""
    held = Counter(
        Status[task["s"]]
        for task in found.tasks().values()
        if task["s"] != "TOMBSTONE" and task["q"].startswith(f"{name}:")
    )
    return {status: held[status] for status in Status}


# --- doing ------------------------------------------------------------------------------------------------------------


def labelled(**labels: str) -> str:
    """Labels as the frontend writes them."""
    return keys.labels(labels)


class World:
    """A store, its clock, and short ways to say what happens."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self.store = store
        self.clock = clock

    def task(
        self,
        name: str,
        *,
        partition: int = 0,
        lambda_name: str = LAMBDA,
        priority: int = 1,
        at_us: int | None = None,
        delay_us: int = 0,
        max_attempts: int = 3,
        max_losses: int = 3,
        retention_us: int = DEFAULT_RETENTION_US,
        ordering_key: str = "",
        spec: bytes = b"spec",
        digest: bytes = b"digest",
        concurrency: str = "",
        unique: str = "",
        affinity: str = "",
        labels: str = "",
        entries: str = "",
    ) -> NewTask:
        """A task to schedule; unless told otherwise, due now in partition 0."""
        return NewTask(
            name,
            partition,
            lambda_name,
            priority,
            spec,
            digest,
            at_us,
            delay_us,
            max_attempts,
            max_losses,
            retention_us,
            ordering_key,
            concurrency=concurrency,
            unique=unique,
            affinity=affinity,
            labels=labels,
            entries=entries,
        )

    async def schedule(self, *names: str, **options: Any) -> list[str]:
        """Schedules tasks and answers their stored ids. Stores that these tests open know LAMBDA; others are known from then on."""
        if (name := options.get("lambda_name", LAMBDA)) != LAMBDA:
            await know(self.store, name)
        made = await self.store.schedule([self.task(name, **options) for name in names])
        assert not any(each.conflict or each.existed for each in made)
        return [each.id for each in made]

    async def passes(self, partition: int = 0, believed_us: int = 0) -> tuple[int, int, int]:
        """Passes over a partition until nothing is left to do; answers how many were enqueued, enqueued again and lost."""
        enqueued = again = lost = 0
        while True:
            done = await self.store.enqueue(partition, believed_us)
            for record in done.outbox:
                await self.store.apply_outbox(record)
            enqueued, again, lost = enqueued + done.enqueued, again + done.enqueued_again, lost + done.lost
            if done.enqueued + done.enqueued_again + done.lost == 0 and not done.outbox and done.next_in_us != 0:
                return enqueued, again, lost

    async def pop(self, *queues: str, want: int = 256, partition: int = 0) -> list[str]:
        """Takes ids out of queues, and has them forgotten unless they are claimed."""
        return await pop_ids(self.store, partition, [queues or (QUEUE,)], want)

    async def take(self, *queues: str, want: int = 256, partition: int = 0) -> list[str]:
        """Claims from one group of queues; answers the ids."""
        found = await serve_queues(self.store, partition, [queues or (QUEUE,)], want)
        return [task_id for _, ids in found for task_id in ids]

    async def claim(self, *ids: str, owner: str = "executor-1", nonce: str = "") -> list[ClaimedTask]:
        """Claims ids, all of which must be free."""
        batch = await claim_ids(self.store, owner, nonce or fresh_nonce(), ids)
        assert not batch.lost
        assert not batch.deferred
        return batch.claims

    async def run(self, *names: str, started: bool = True, **options: Any) -> list[HeldClaim]:
        """Schedules tasks and brings them to PROCESSING (or CLAIMED)."""
        ids = await self.schedule(*names, **options)
        for partition in sorted({int(task_id.split("-")[0]) for task_id in ids}):
            await self.passes(partition)
            await self.pop(*{f"{options.get('lambda_name', LAMBDA)}:{options.get('priority', 1)}"}, partition=partition)
        claims = held(await self.claim(*ids))
        if started:
            await self.beat(*claims)
        return claims

    async def beat(
        self, *claims: HeldClaim, started: bool = True, progress: str = "", draining: bool = False
    ) -> list[Verdict]:
        beats = [ClaimRenewal(each, started, progress) for each in claims]
        return await self.store.heartbeat(beats, draining=draining)

    async def retentions(self, many: int) -> list[str]:
        """Cancelled tasks, each with another retention and an entry in the index."""
        tasks = [
            self.task(f"r{number}", retention_us=60 * US + number, entries=f"n={number} of=r") for number in range(many)
        ]
        ids = [each.id for each in await self.store.schedule(tasks)]
        await self.store.cancel_tasks(ids)
        return ids

    async def finish(self, outcome: Outcome, *claims: HeldClaim, **fields: Any) -> list[Verdict]:
        return await self.store.set_results([RunResult(each, outcome, **fields) for each in claims])

    async def fail(self, *claims: HeldClaim) -> list[Verdict]:
        """Fails, to be tried again after BACKOFF_US."""
        return await self.finish(Outcome.FAILED, *claims, error="it rained", retry_in_us=BACKOFF_US)

    async def get(self, task_id: str) -> TaskRecord:
        (record,) = await self.store.get_tasks([task_id])
        assert record is not None
        return record

    async def statuses(self, ids: Sequence[str]) -> list[str]:
        return [record.status.name if record else "" for record in await self.store.get_tasks(ids)]

    async def queued(self, queue: str = QUEUE, partition: int = 0) -> list[str]:
        """The ids that stand in a queue, front first."""
        return (await dump(self.store)).list(f"rq:queue:{keys.rq_name(partition, queue)}")

    async def cores(self) -> None:
        """A pool with cores and members, and one that has none any more."""
        for pool in ("gpu", ""):
            version = await self.store.set_capacity(pool, 0, b"state", deal_anew=True)
            found = await self.store.get_capacity(pool, here=["executor-1", "executor-2"], stay_us=60 * US)
            assert found is not None
            await self.store.set_capacity(pool, version, b"dealt", ([found.to_deal or []], found.membership))
        version = (await self.store.get_capacity("")).version  # type: ignore[union-attr]
        await self.store.set_capacity("", version, b"")
        await self.store.waiting(0, "", [LAMBDA])
        await self.store.list_capacity()
        for why_not in (STARTS, "shop.py line 3: SyntaxError", STARTS, ""):
            await self.store.serve("gpu", 60, "host-1", {LAMBDA: 5}, why_not=why_not)
            await self.store.list_hosts()
        await self.store.serve("gpu", 300, "host-2", why_not="shop.py line 3: SyntaxError")
        await self.store.renew_hosts("gpu", 300, ["host-1", "host-3"], [LAMBDA])
        await self.store.live_pools()
        await self.store.announce([LiveRole("hsc", "1.0", "one:7")], 30, ["maxmemory warn"])
        await self.store.live_roles()
        await self.store.served()
        await self.store.drain_host("host-1", drains=True, seconds=5)
        await self.store.drain_host("host-1", drains=False)
        await self.store.drain_host("host-1", drains=True)
        await self.store.register_lambdas([LambdaRecord("shop/gone", b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
        await self.store.delete_lambda("shop/gone")
        await self.store.get_status([LAMBDA], US)

    async def misfits(self, look: Callable[[], Awaitable[None]]) -> None:
        """A task that does not fit the executor that takes it, while another one may have a signature that fits."""
        name = "shop/unfit"
        await self.store.register_lambdas([LambdaRecord(name, b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
        await self.store.serve("", 60, "", None, [f"{name} {digest}" for digest in ("aaa", "bbb")])
        (claim,) = await self.run("unfit", lambda_name=name)
        await self.finish(Outcome.MISFIT, claim, error="no", signature="aaa", grace_us=US)
        await look()
        await self.passes()
        await look()
        await serve_queues(self.store, 0, [[f"{name}:1"]], 1, signatures={name: "bbb"})

    async def asks(self, look: Callable[[], Awaitable[object]] | None = None) -> None:
        """Two asks of a host share four tasks, three of which fit; one is repeated, and one is given up."""
        name = "shop/asked"
        await self.store.register_lambdas([LambdaRecord(name, b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
        ids = await self.schedule(*(f"asked{number}" for number in range(4)), lambda_name=name, spec=b"x" * 500)
        await self.passes()
        assert f"{name}:1" in await self.store.filled_queues(0)
        takers = [Taker("executor-1", "asked-1", 2), Taker("executor-2", "asked-2", 2)]
        taken = await self.store.next_claims(0, [[f"{name}:1"]], takers, want=4, max_bytes=2500)
        assert taken.served == {f"{name}:1": 3}
        assert await self.store.claims_of("executor-1", "asked-1") == taken.claims["asked-1"]
        if look is not None:
            await look()
        await self.store.give_up_asks(["asked-1"])
        again = await self.store.next_claims(0, [[f"{name}:1"]], takers, want=4)
        assert (again.claims["asked-2"], again.over) == (taken.claims["asked-2"], frozenset({"asked-1"}))
        await self.store.cancel_tasks(ids)
        await self.finish(Outcome.SUCCEEDED, *held(again.claims["asked-2"]))

    async def placed(self, look: Callable[[], Awaitable[None]]) -> None:
        """Tasks of two lambdas with a placement: some are left to another host."""
        for how in ("sticky", "spread"):
            settings = f"placement={how}"
            name = f"shop/{how}"
            await self.store.register_lambdas(
                [LambdaRecord(name, b"", 1000, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)]
            )
            for host in ("host-1", "host-2"):
                await self.store.serve("", 60, host, lambdas=[name])
                await self.schedule(f"{how}-{host}-1", f"{how}-{host}-2", lambda_name=name, affinity="a")
                await self.passes()
                await serve_queues(self.store, 0, [[f"{name}:1"]], 3, "", host)
                await look()

    async def first(self, task_id: str, key: str = "charge", seconds: float = 60, namespace: str = "shop") -> bool:
        """Whether a task is the first that asks for a key."""
        (first,) = await self.store.first_time([FirstTimeKey(task_id, namespace, key, round(seconds * US))])
        return first

    async def firsts(self) -> None:
        """Keys in both partitions, each asked for by two tasks; one has expired, and is swept."""
        asked = [FirstTimeKey(f"0-{task}", "shop", f"key {number}", US) for task in "ab" for number in range(8)]
        assert await self.store.first_time(asked) == [True] * 8 + [False] * 8
        assert await self.first("0-a", "short", 0.000001)
        self.clock.advance(0.000001)
        for partition in range(self.store.partitions):
            await self.store.sweep(partition, 1_000_000)

    async def stops(self) -> None:
        """Four keys that have stopped; one goes on with the task that stopped it, one without."""
        name = "shop/ordered"
        await self.store.register_lambdas(
            [LambdaRecord(name, b"", 6, ENQUEUE_TIMEOUT_US, paused=False, settings="stop=1")]
        )
        for key in ("key-0", "key-1", "key-2", "key-3"):
            partition = self.store.partition_for(key)
            claims = await self.run(key, ordering_key=key, partition=partition, lambda_name=name)
            await self.finish(Outcome.FAILED_FATAL, *claims, error="no")
        await self.store.list_keys(name, 3, "")
        await self.store.get_key(name, "key-0")
        await self.store.resume_key(name, "key-0")
        await self.store.skip_key(name, "key-1")

    async def windows(self) -> None:
        """Windows of unique keys as an import opens them, one of which has ended; and a key that stops again."""
        now, place = self.clock(), self.store.partition_for
        windows = [HeldUniqueKey(f"{LAMBDA}:u{n}", f"{place(f'u{n}')}-w{n}", now + (n - 1) * US) for n in range(9)]
        assert sum(await self.store.restore_unique_keys(windows)) == 7
        assert sum(await self.store.restore_unique_keys(windows)) == 0
        assert len([each async for each in self.store.list_unique_keys()]) >= 7
        await self.store.list_concurrency_keys(LAMBDA, 256, "")
        await self.store.get_concurrency_key(LAMBDA, "k")
        old = RestoredTask("stopper", LAMBDA, 1, b"spec", b"d", now, 0, "", "stuck", 1, 0, 1, 7, "no")
        assert await self.store.restore([old._replace(stopped_at_us=now)]) == [1]

    async def permits(self) -> None:
        """A lambda with limits in both partitions, one of which asks the other for permits."""
        few = LambdaRecord("shop/few", b"", 6, ENQUEUE_TIMEOUT_US, False, "running=1 rate=5")
        await self.store.register_lambdas([few])
        for partition in range(2):
            await self.schedule("f1", "f2", lambda_name=few.name, partition=partition)
        for _ in range(4):
            for partition in range(2):
                await self.passes(partition)
            self.clock.advance(0.2)

    def job(self, name: str, *, overlap: str = "queue", replace: ReplaceJob = ReplaceJob.NOT, **more: Any) -> NewJob:
        """A job to make; its description says nothing to the store."""
        now_us = self.clock()
        first_us, base_us = more.pop("first_us", now_us), more.pop("base_us", now_us)
        request_id, rhythm = more.pop("request_id", ""), more.pop("rhythm", "every day")
        return NewJob(name, request_id, replace, b"spec", overlap, first_us, base_us, rhythm, **more)

    async def jobs(self) -> None:
        """Everything that can happen to jobs: afterwards one has ended, two are paused with a tick, and one waits for its next tick."""
        names = ("shop/ends", "shop/paused", "shop/held", "shop/ticks", "shop/deleted")
        for name in names:
            await self.store.schedule_jobs([self.job(name, request_id="request")])
        await self.store.pause_job("shop/paused")
        for partition in range(self.store.partitions):
            for due in (await self.store.enqueue(partition, 0)).jobs:
                task = self.task(f"of-{due.name[5:]}", partition=partition, at_us=due.due_us)
                after = None if due.name == "shop/ends" else self.clock() + US
                tick = Tick(due.name, due.generation, due.due_us, after, 1, "misfire", US, due.due_us, task)
                assert await self.store.tick(partition, [tick]) == [True]
            await self.store.list_jobs("shop/", partition, "", 10)
            await self.store.list_jobs("shop/", partition, "", 10, with_tasks=True)
        await self.store.cancel_tasks(["0-of-ends", "1-of-ends"])
        await self.store.pause_job("shop/held")
        for name in ("shop/paused", "shop/deleted"):
            made = await self.store.run_job_now(name, self.task(f"beside-{name[5:]}"))
            assert made is not None
            if name == "shop/paused":
                await self.store.cancel_tasks([made.id])
        await self.store.delete_jobs(["shop/deleted"])
        await self.store.get_jobs(names)

    async def gate(self, action: str, amount: float = 1e-9, seconds: float = 0, **labels: str) -> int:
        """Sets a gate of LAMBDA in every partition, and answers its number."""
        gate = NewGate(
            LAMBDA, GateAction(action), labels, amount, for_us=round(seconds * US), who="ada", why="it rains"
        )
        answer = await self.store.set_gate(gate)
        assert answer is not None
        return answer.number

    async def lift(self, *actions: str, **labels: str) -> int:
        """Lifts gates of LAMBDA with these labels, and answers how many."""
        lifted = await self.store.lift_gate(LAMBDA, labels, [GateAction(each) for each in actions])
        assert lifted is not None
        return lifted

    async def gates(self, look: Callable[[], Awaitable[object]] | None = None) -> None:
        """Gates of every action, the tasks that they keep, what becomes of these, and the log; nothing of it is left but counts."""
        await self.schedule("g1", "g2", "g3", labels=labelled(team="web"))
        await self.gate("pause", team="web")
        await self.passes()
        assert (await self.store.list_gates(LAMBDA))[0].waiting == 3
        await self.lift("pause", team="web")
        await self.passes()
        number = await self.gate("delay", 5 * US)
        assert (await claim_ids(self.store, "executor-1", "n", await self.pop(want=3))).lost == [
            "0-g1",
            "0-g2",
            "0-g3",
        ]
        if look is not None:
            await look()
        await self.gate("drop", seconds=9)
        assert [each.number for each in await self.store.list_gates(LAMBDA)] == [number, number + 2]
        await self.store.cancel_tasks(["0-g3"])
        self.clock.advance(5)
        await self.passes()
        await self.lift("delay", "drop")
        await self.passes()
        assert await self.statuses(["0-g1", "0-g2", "0-g3"]) == ["CANCELLED"] * 3
        await self.store.add_audit([AuditEntry("redrive", LAMBDA, {}, "ada", "", "3 tasks")])
        await self.store.link.call("replace_audit", keys.record(0), [self.clock(), b'{"what":"redrive"}'])
        assert len(await self.store.list_audit(None, 10)) == 1
        await self.fails(look)

    async def fails(self, look: Callable[[], Awaitable[object]] | None = None) -> None:
        """A lambda fails until its automatic gate closes; then its tasks are redriven."""
        name = "shop/fails"
        record = LambdaRecord(name, b"", 100, ENQUEUE_TIMEOUT_US, paused=False, settings="fatal=0.5 version=7")
        await self.store.register_lambdas([record])
        claims = await self.run(*(f"fails{number}" for number in range(20)), lambda_name=name)
        await self.finish(Outcome.SUCCEEDED, *claims[:10])
        await self.finish(Outcome.FAILED_FATAL, *claims[10:])
        if look is not None:
            await look()
        assert [each.dead for each in (await self.store.list_failures(f"{name}:", 0, 1)).groups] == [10]
        assert (await self.store.enqueue(0, 0)).failing == [name]
        assert await self.store.judge(name)
        assert (await self.store.list_lambdas())[name].paused
        assert (await self.get("0-fails15")).failed_version == 7
        redriven = await self.store.redrive([("0-fails15", 0), ("0-fails1", 0)], self.clock.us)
        assert redriven == [True, False]
        await self.store.resume_lambda(name)
        await self.passes()

    async def items(self, batch: str, *numbers: int, **options: Any) -> list[bool]:
        """Stores items of a batch in its batch partition, whether each had been stored before."""
        terms = ItemTerms("shop/items", 1, max_attempts=2)
        terms = terms._replace(**{name: options.pop(name) for name in terms._fields if name in options})
        items = [NewItem(number, f"{number // 2:032x}", b"spec" * 20, **options) for number in numbers]
        return await self.store.schedule_items(self.store.batch_partition(batch), batch, terms, items)

    async def batches(self, look: Callable[[], Awaitable[object]] | None = None) -> None:
        """Everything that can happen to batches: one is cancelled, one deleted and forgotten, one waits for more, one is being deleted."""
        store = self.store
        await know(store, "shop/items")
        for name in ("cancelled", "deleted", "goes-on", "half-deleted"):
            assert (await store.open_batch(name, b"d", b"spec", "shop/items", US)).found is BatchAnswer.NEW
            slow = {"ordering_key": f"{name}.site", "pause_us": US} if name == "deleted" else {}
            assert await self.items(name, 0, 1, 2, trace=b"" if slow else b"trace", **slow) == [False] * 3
            assert await self.items(name, 1, 2) == [True] * 2
        await store.note_prefix("goes-on", 2)
        await store.note_error("goes-on", "no such lambda")
        await store.open_batch("unmade", b"d", b"spec", "shop/items", US, single_partition=True)
        await store.note_error("unmade", "shop/items: its payload is no JSON object", unmade=True)
        await store.cancel_batch("unmade")
        for name, total in (("cancelled", 4), ("deleted", 3), ("half-deleted", 3)):
            await store.close_batch(name, total)
        await self.deliver()
        claims: list[HeldClaim] = []
        for partition in range(store.partitions):
            await self.passes(partition)
            claims += held(await self.claim(*await self.pop("shop/items:1", partition=partition)))
        assert len(claims) == 10  # of the target only one
        more = [each for each in claims if "cancelled" in each.task_id]
        await self.finish(Outcome.FAILED_FATAL, *(each for each in claims if each not in more), error="no")
        await self.finish(Outcome.SUCCEEDED, more[0])
        await self.fail(more[1])
        await self.deliver()
        if look is not None:
            await look()
        await self.items("cancelled", 3)
        for name in ("deleted", "cancelled"):
            await store.cancel_batch(name)
        await self.deliver()
        assert (await store.reserve_items("goes-on", "request", 0, 2)).found is BatchAnswer.NEW
        assert await store.retry_batch("goes-on") is BatchCommandAnswer.DONE
        assert await store.delete_batch("deleted") is BatchCommandAnswer.DONE
        assert await store.delete_batch("half-deleted") is BatchCommandAnswer.DONE
        assert await store.retry_batch("deleted") is BatchCommandAnswer.MISSING
        if look is not None:
            await look()
        await self.deliver()
        assert await store.get_batch("deleted") is None
        assert (await store.get_batch("cancelled")) is not None
        await store.list_batches((await store.list_batches(None, 10))[0], 10)
        page = await store.list_batch_items("goes-on", 0, 10, statuses=[Status.NEW])
        assert [each.number for each in page.items] == [0, 1, 2]
        assert await store.get_batch_item("goes-on", page.items[0].work_item_id) is not None

    async def deliver(self) -> None:
        """Applies all outbox records of all partitions, however long it takes."""
        left = True
        while left:
            left = False
            for partition in range(self.store.partitions):
                for record in await list_outbox(self.store, partition):
                    ended = record.kind == "batch_ended"
                    await (self.store.acknowledge_outbox if ended else self.store.apply_outbox)(record)
                    left = True

    async def check(self) -> Dump:
        """Holds every invariant against what is in Redis, and the exact counts against the records."""
        found = await dump(self.store)
        assert violations(found, self.clock.us) == []
        for name in {task["q"].rpartition(":")[0] for task in found.tasks().values() if "q" in task}:
            assert await self.store.counts(name) == tally(found, name)
        return found


def to(settings: str) -> Callable[[LambdaRecord], str]:
    """What an operator sets, whatever is set already."""
    return lambda _: settings


def held(claims: Sequence[ClaimedTask]) -> list[HeldClaim]:
    """The tokens of claims."""
    return [HeldClaim(each.task_id, each.counter, each.nonce) for each in claims]
