"""The lists that people look at tasks by, held against the tasks that there are: what stands in them, and what a caller is told.

While a seed runs, each sweep is a moment to look: no call of the store is under way then. At its end everything is asked for, page by page, and
last of all the store's memory runs full.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from atf.errors import AtfError
from atf.rpc import frontend_pb2 as f
from atf.rpc.task_pb2 import TaskSpec
from atf.sdk.work_items import ITEM_MARK
from atf.task import DEFAULT_RETENTION_US, FINISHED, Status

from .caller import PARTITIONS

if TYPE_CHECKING:
    from .store import State, StoreServer
    from .world import World

SHORT_S: Final = 12.0
"""The retention of some tasks: their records go while others are still at work."""
SEARCHED: Final = "fails"
"""The argument by which tasks are found."""
_EVERY: Final = 3
"""One task of so many has the short retention."""
_PAGE: Final = 7
COUNTED_EVERY_S: Final = 1.1
"""Seconds, and somewhat more, for which a frontend tells everybody the same counts."""
_LOOKS: Final = 9
"""Times that somebody looks who finds that something has changed meanwhile."""
_MOST_FINISHED: Final = 1_000_000
_FIRST_TO_GO: Final = ("SUCCESS", "CANCELLED", "FATAL_FAILURE")
"""Where memory runs out."""
_FINISHED: Final = tuple(sorted(each.name for each in FINISHED))
Field = Callable[[str, str], str | None]
Sets = dict[str, dict[str, int]]
"""By key: the tasks that stand there, and their scores."""


def options_of(number: int) -> dict[str, float]:
    """What a task is scheduled with."""
    return {"retention": SHORT_S} if number % _EVERY == 0 else {}


class ListTimes:
    """When each task was made and has ended, as the store did it.

    Attributes:
        made: by id, the instant of the store's clock.
        ended: the same of those that have ended, last.
    """

    def __init__(self) -> None:
        self.made: dict[str, int] = {}
        self.ended: dict[str, int] = {}
        self._over: dict[str, int] = {}

    def keep(self) -> tuple[dict[str, int], ...]:
        """What `forgot` takes."""
        return dict(self.made), dict(self.ended), dict(self._over)

    def forgot(self, kept: tuple[dict[str, int], ...]) -> None:
        """The store is as it was when these were kept."""
        self.made, self.ended, self._over = map(dict, kept or ({}, {}, {}))

    def moved(self, now_us: int, task_id: str, old: Status | None, new: Status, limits: str | None) -> None:
        """A task has another status from now on, by the store's clock. `limits`: its field of that name."""
        if old is None:
            self.made[task_id] = now_us
        if new in FINISHED:
            self.ended[task_id] = now_us
            self._over[task_id] = now_us + (int(limits.split()[2]) if limits else DEFAULT_RETENTION_US)

    def swept(self, now_us: int, task_id: str, status: str, *, early: bool) -> Iterator[str]:
        """What is wrong with the end of a record: the task had not finished, or its time was not over."""
        if Status[status] not in FINISHED:
            yield f"{task_id}: its record has gone, and it was {status}"
        elif self._over[task_id] > now_us and not early:
            yield f"{task_id}: its record has gone {self._over[task_id] - now_us} µs before its time"

    def standing(self, server: StoreServer) -> Iterator[str]:
        """What stands in the lists now and should not, or the other way round."""
        must, has = self._expected(server.tasks(), server.field), _listed(server.sets((":n:", ":f:", ":x:")))
        for key in sorted(must.keys() | has.keys()):
            there, found = must.get(key, {}), has.get(key, {})
            for task_id in sorted(there.keys() | found.keys()):
                if there.get(task_id) != found.get(task_id):
                    yield f"{task_id}: in {key} at {found.get(task_id)}, and should be at {there.get(task_id)}"
        for task_id, field in sorted(server.apart()):
            if field not in (server.field(task_id, "ap") or "").split():
                yield f"{task_id}: its {field} lies apart, and no record has it"

    def _expected(self, tasks: Mapping[str, State], field: Field) -> Sets:
        found: Sets = defaultdict(dict)
        for task_id, (status, *_) in tasks.items():
            record, name = f"atf:{{{task_id.split('-', 1)[0]}}}", lambda_of(task_id, field)
            found[f"{record}:n:{name}"][task_id] = self.made[task_id]
            if Status[status] in FINISHED:
                found[f"{record}:f:{name}:{status}"][task_id] = self.ended[task_id]
            for entry in (field(task_id, "ix") or "").split():
                found[f"{record}:x:{name}:{entry}"][task_id] = (self.ended if entry[0] == "!" else self.made)[task_id]
        return found

    def in_order(self, tasks: Mapping[str, State], status: str = "") -> list[str]:
        """Ids of tasks, newest first: by when they were made; those of a status that ends them by when they ended."""
        at = self.ended if status else self.made
        found = [(at[each], each) for each, state in tasks.items() if status in {"", state[0]}]
        return [each for _, each in sorted(found, reverse=True)]

    def make_room(self, server: StoreServer) -> Iterator[str]:
        """What is wrong where the store is too full: of the finished tasks of a partition that go first, half have to."""
        for partition in range(PARTITIONS):
            record, now_us = f"atf:{{{partition}}}", server.now_us()
            while server.execute("sweep", record, [now_us, _MOST_FINISHED, 256, 0], server=False):
                pass  # what goes anyway
            here = {
                each: state
                for each, state in server.tasks().items()
                if each.startswith(f"{partition}-") and ITEM_MARK not in each
            }
            order = [each for status in _FIRST_TO_GO for each in reversed(self.in_order(here, status))]
            must = set(order[: len(order) // 2])
            if must:
                server.execute("sweep", record, [now_us, _MOST_FINISHED, len(must), 1], server=False)
            if (gone := here.keys() - server.tasks().keys()) != must:
                yield f"in {record} the first to make room are {sorted(must)}, and {sorted(gone)} went"
        yield from self.standing(server)


def lambda_of(task_id: str, field: Field) -> str:
    """Of a task, by its record."""
    return (field(task_id, "q") or "").rpartition(":")[0]


def _listed(sets: Sets) -> Sets:
    """What stands in the lists; those of one lambda and status are one, whatever the retention."""
    found: Sets = {}
    for key, scores in sets.items():
        name = key.rpartition(":")[0] if ":f:" in key else key
        found[name] = found.get(name, {}) | scores
    return found


# --- what a caller is told, when nothing moves any more ---------------------------------------------------------------


async def judge(world: World) -> None:
    """Asks for all there is, and has the answers judged."""
    for _ in range(_LOOKS):
        look = _Look(world)
        await asyncio.sleep(COUNTED_EVERY_S)
        wrong = await look.wrong()
        if world.server.tasks() == look.tasks:
            world.chronicle.odd += wrong
            return
    world.chronicle.odd.append("the tasks were never still, although nothing has disturbed them for long")


class _Look:
    """One look at everything.

    Attributes:
        tasks: those that there were when it began.
    """

    def __init__(self, world: World) -> None:
        self.tasks = world.server.tasks()
        self._world = world
        self._lists = world.server.lists
        self._field = world.server.field
        self._frontend = world.wire_frontend()
        self._found: list[str] = []

    async def wrong(self) -> list[str]:
        """What callers were told that is not so."""
        seed, every = self._world.seed, self._lists.in_order(self.tasks)
        await self._judge_list("of all tasks", every, f.TaskFilter(), oldest=seed % 2 == 0, counted=True)
        status = _FINISHED[seed % 3]
        ended = self._lists.in_order(self.tasks, status)
        await self._judge_list(status, ended, f.TaskFilter(statuses=[status]), oldest=seed % 2 == 1, counted=True)
        labelled = [each for each in every if "team=web" in (self._field(each, "lb") or "").split()]
        await self._judge_list("of a label", labelled, f.TaskFilter(labels={"team": "web"}))
        searched = [each for each in every if self._argument(each) == "1"]
        await self._judge_list("of an argument", searched, f.TaskFilter(search={SEARCHED: "1"}))
        await self._judge_groups()
        await self._judge_counts()
        await self._judge_logs()
        return self._found

    def _argument(self, task_id: str) -> str:
        """The value of the searched argument; "": it has none."""
        from .lambdas import steps_of

        steps = steps_of(self._world.seed)
        if lambda_of(task_id, self._field) != steps.name:
            return ""
        spec = TaskSpec.FromString((self._field(task_id, "spec") or "").encode("latin-1"))
        return str(steps.decode(spec.payload, spec.encoding)[SEARCHED])

    async def _judge_list(
        self, what: str, expected: Sequence[str], asked: f.TaskFilter, *, oldest: bool = False, counted: bool = False
    ) -> None:
        request = f.ListTasksRequest(filter=asked, page_size=_PAGE, oldest_first=oldest)
        told: list[str] = []
        while True:
            reply = await self._ask("list", self._frontend.list_tasks, request)
            told += [each.id for each in reply.tasks]
            if counted and reply.of != len(expected):
                self._found.append(f"the list {what} is said to be of {reply.of} tasks, and there are {len(expected)}")
            request.page_token = reply.next_page_token
            if not request.page_token:
                break
        if told != (must := [*reversed(expected)] if oldest else [*expected]):
            self._found.append(f"the list {what} is {told}, and should be {must}")

    async def _judge_groups(self) -> None:
        """Each dead letter is of one group, which says how many it has, since when, and which of them."""
        groups: dict[str, list[str]] = defaultdict(list)
        for task_id in self._lists.in_order(self.tasks, "FATAL_FAILURE"):
            for group in (each for each in (self._field(task_id, "ix") or "").split() if each[0] == "!"):
                groups[group[1:]].append(
                    task_id
                )  # of none where its record has gone meanwhile: then the look is repeated
        at = self._lists.ended
        expected = [
            (group, lambda_of(ids[0], self._field), len(ids), at[ids[-1]], at[ids[0]], ids[0])
            for group, ids in groups.items()
        ]
        request, told = f.ListFailuresRequest(page_size=1), []
        while True:
            reply = await self._ask("failures", self._frontend.list_failures, request)
            told += [
                (each.id, getattr(each, "lambda"), each.count, each.first_at_us, each.last_at_us, each.task_id)
                for each in reply.groups
            ]
            request.page_token = reply.next_page_token
            if not request.page_token:
                break
        if sorted(told) != sorted(expected):
            self._found.append(f"the failures are told to be {sorted(told)}, and are {sorted(expected)}")
        for group, ids in groups.items():
            await self._judge_list(f"of the group {group}", ids, f.TaskFilter(failure_group=group))

    async def _judge_counts(self) -> None:
        expected: dict[str, Counter[str]] = defaultdict(Counter)
        for task_id, (status, *_) in self.tasks.items():
            expected[lambda_of(task_id, self._field)][status] += 1
        lambdas = await self._ask("lambdas", self._frontend.list_lambdas, f.ListLambdasRequest())
        counts = await self._ask("counts", self._frontend.count_tasks, f.CountTasksRequest())
        for told in (
            {each.spec.name: each.counts for each in lambdas.lambdas},
            {getattr(each, "lambda"): each.counts for each in counts.lambdas},
        ):
            some = {name: {status: n for status, n in sorted(each.items()) if n} for name, each in told.items()}
            if wrong := {name: each for name, each in some.items() if each != expected.get(name, {})}:
                self._found.append(f"lambdas are told to have {wrong}, and have {dict(expected)}")

    async def _judge_logs(self) -> None:
        """What the runs of a dead letter have said last is kept with it, where its executor has told of its end."""
        from .lambdas import last_words

        for task_id in self._lists.in_order(self.tasks, "FATAL_FAILURE"):
            ended = (self._field(task_id, "R") or "").splitlines()
            if not ended or not ended[-1].rpartition("\t")[2].startswith("failed_fatal"):
                continue
            reply = await self._ask("log", self._frontend.get_log, f.GetLogRequest(id=task_id))
            run = int(self._field(task_id, "r") or 1)
            if not reply.runs or last_words(task_id, run) not in reply.runs[-1].text:
                self._found.append(f"{task_id}: its run {run} has failed for good, and its log is {reply}")

    async def _ask(self, what: str, call: Callable[..., Any], request: Any) -> Any:
        while True:
            try:
                return await call(request, timeout=10)
            except AtfError as error:
                self._world.chronicle.say(f"{what} failed: {error}")
                await asyncio.sleep(1)
