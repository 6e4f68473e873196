"""Tasks that the store's own functions bring to where they stand, one of each kind and lambda: the models of which copies.lua makes millions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from typing import Final, NamedTuple

from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.stored_spec import front
from atf.runtime import new_id
from atf.store import keys
from atf.store.store import Store
from atf.store.values.claims import HeldClaim, Outcome, RunResult, Taker
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.tasks import NewTask
from atf.task import DEFAULT_RETENTION_US, MAX_BATCH, US

LAMBDAS: Final = 200
_HOUR_US: Final = 3_600 * US
NAMES: Final = [f"{'photos' if rank % 4 == 1 else 'shop'}/task-{rank:03}" for rank in range(LAMBDAS)]
"""The most frequent one first."""
ERRORS: Final = ("TimeoutError", "ConnectionError", "ValueError", "KeyError", "DecodeError")
RARE: Final = "RareError"
SEARCH_VALUES: Final = 10
_CHANCE: Final = random.Random()
OWNER: Final = "worker-07.example.net:21187:3"
_TRACE: Final = (
    "\nTraceback (most recent call last):\n"
    + '  File "/srv/app/orders.py", line 42, in charge\n    answer = call(order)\n' * 6
)


class TaskKind(NamedTuple):
    """Of tasks: how they went, and what they have."""

    name: str
    share: float  # of the tasks of its lambda
    end: str = "SUCCESS"
    label: str = ""
    key: str = ""
    error: str = ""
    entry: str = ""
    priority: int = 1


def kinds(rank: int) -> list[TaskKind]:
    """The kinds of a lambda's tasks; their shares come to 1."""
    found = [
        TaskKind("label", 0.05, label="team=web"),
        TaskKind("key", 0.04, key="customer-7"),
        TaskKind("urgent", 0.02, priority=0),
        TaskKind("cancelled", 0.005, end="CANCELLED"),
        TaskKind("dead", 0.005, end="FATAL_FAILURE", error=ERRORS[rank % 5]),
        TaskKind("dead-2", 0.004, end="FATAL_FAILURE", error=ERRORS[(rank + 1) % 5]),
        TaskKind("later", 0.095, end="NEW"),
        TaskKind("retry", 0.005, end="RETRIABLE_FAILURE", error=ERRORS[(rank + 2) % 5]),
    ]
    if rank == LAMBDAS - 1:
        found.append(TaskKind("rare", 0.001, end="FATAL_FAILURE", error=RARE))
    if rank == 1:
        found += [TaskKind(f"order-{n}", 0.001, entry=keys.entry("order_id", str(n))) for n in range(SEARCH_VALUES)]
    return [TaskKind("done", 1 - sum(each.share for each in found)), *found]


class Model(NamedTuple):
    """A task to be copied."""

    task: str
    share: float  # of all tasks


def weight(rank: int) -> float:
    """The share that a lambda has of all tasks: the second most frequent one half of the first, and so on."""
    return 1 / (rank + 1) / sum(1 / (each + 1) for each in range(LAMBDAS))


async def register(store: Store) -> None:
    """Makes the lambdas known."""
    specs = []
    for name in NAMES:
        spec = f.LambdaSpec(name=name, search=["order_id"] if name == NAMES[1] else [])
        specs.append(LambdaRecord(name, spec.SerializeToString(), 10_000, 10 * US, paused=False))
    for start in range(0, len(specs), 100):
        await store.register_lambdas(specs[start : start + 100])


def new_task(rank: int, kind: TaskKind, task_id: str, at_us: int | None = None, partition: int = 0) -> NewTask:
    """As the frontend would hand it to the store."""
    name, rest = NAMES[rank], t.TaskSpec(payload=b'{"order":"%07d"}' % rank)
    if kind.label:
        label, _, value = kind.label.partition("=")
        rest.labels[label] = value
    rest.ordering_key = kind.key
    options = t.TaskOptions(
        priority=kind.priority,
        max_attempts=10,
        max_losses=3,
        timeout_us=0,
        backoff=t.Backoff(base_us=US, factor=2, max_us=600 * US, jitter=0.1),
        retention_us=DEFAULT_RETENTION_US,
    )
    spec = front(name, options) + rest.SerializeToString(deterministic=True)
    digest = (b"digest" + task_id.encode())[-8:]
    task = NewTask(
        task_id, partition, name, kind.priority, spec, digest, at_us, 0, 10, 3, DEFAULT_RETENTION_US, kind.key
    )
    return task._replace(labels=kind.label, entries=kind.entry)


async def run(store: Store, tasks: Sequence[NewTask], kind_of: dict[str, TaskKind], nonce: str = "") -> None:
    """Brings tasks of one partition to where their kinds say, by the functions of a task's life."""
    partition = tasks[0].partition
    await store.schedule(tasks)
    await store.cancel_tasks([each.stored_id for each in tasks if kind_of[each.stored_id].end == "CANCELLED"])
    running = [each for each in tasks if kind_of[each.stored_id].end not in {"CANCELLED", "NEW"}]
    queues = sorted({keys.queue(each.lambda_name, each.priority) for each in running})
    left = len(running)
    while left:
        assert (await store.enqueue(partition, 0)).enqueued or left
        taker = Taker(OWNER, nonce or new_id(_CHANCE), MAX_BATCH)
        claims = (await store.next_claims(partition, [queues], [taker], want=MAX_BATCH)).claims[taker.nonce]
        await store.set_results(
            [_ended(HeldClaim(each.task_id, each.counter, each.nonce), kind_of[each.task_id]) for each in claims]
        )
        left -= len(claims)


def _ended(held: HeldClaim, kind: TaskKind) -> RunResult:
    if kind.end == "SUCCESS":
        return RunResult(held, Outcome.SUCCEEDED, b'{"charged":true}', 0, ran_us=1_234)
    outcome = Outcome.FAILED_FATAL if kind.end == "FATAL_FAILURE" else Outcome.FAILED
    error = f"{kind.error}: the service has answered 503{_TRACE}"
    return RunResult(held, outcome, error=error, retry_in_us=30 * _HOUR_US, ran_us=1_234)


async def make(store: Store) -> list[Model]:
    """One task of each kind, lambda and partition, all gone their way within some seconds from the store's instant `now` on."""
    await register(store)
    models: list[Model] = []
    numbers = itertools.count()
    for rank, partition in itertools.product(range(LAMBDAS), range(store.partitions)):
        assert store.now is not None
        due = store.now() + 24 * _HOUR_US
        tasks, kind_of = [], {}
        for kind in kinds(rank):
            task = new_task(rank, kind, f"m{next(numbers):023x}", due if kind.end == "NEW" else None, partition)
            tasks.append(task)
            kind_of[task.stored_id] = kind
            models.append(Model(task.stored_id, weight(rank) * kind.share / store.partitions))
        await run(store, tasks, kind_of)
    return models
