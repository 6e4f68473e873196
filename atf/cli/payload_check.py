"""Finds for `atf lambda check --against` the tasks, jobs and callbacks of a cluster whose payloads a release's code can't read.

Reads alone; it decides nothing. What runs is looked at, too, since it may fail and run again.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from atf.client.paging import pages
from atf.client.registration import every_lambda
from atf.codec.cipher import Cipher
from atf.errors import AtfError, NotDecrypted
from atf.rpc import api, batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.messages import of_lambda
from atf.sdk.sealed import is_sealed
from atf.task import LIVE, MAX_BATCH

_ENDED: Final = frozenset({b.BATCH_DONE, b.BATCH_DONE_WITH_FAILURES, b.BATCH_CANCELLED, b.BATCH_DELETED})


class DecodingLambda(Protocol):
    """A lambda as a release has it; atf.sdk.lambdas.Lambda is one."""

    def decode(self, payload: bytes, encoding: int) -> dict[str, Any]: ...
    def decode_without(self, parameter: str, payload: bytes) -> None: ...


class Unfit(NamedTuple):
    """Payloads of one lambda that the code can't read, all for the same reason."""

    lambda_name: str
    what: str
    """tasks, jobs or callbacks."""
    number: int
    example: str
    """The id of a task, the name of a job, or the id of a batch."""
    why: str


class UnfitPayloads:
    """What was looked at so far, and what did not fit.

    Attributes:
        looked_at: payloads.
    """

    def __init__(
        self, code: Mapping[str, DecodingLambda], progress: Callable[[str], None], cipher: Cipher | None = None
    ) -> None:
        self.looked_at = 0
        self._cipher = cipher
        self._code = code
        self._progress = progress
        self._unfit: dict[tuple[str, str, str], tuple[int, str]] = {}

    def payload(self, what: str, example: str, spec: t.TaskSpec, without: str = "") -> None:
        """Looks at a payload; `without`: the parameter whose argument comes later."""
        name, why = getattr(spec, "lambda"), ""
        self.looked_at += 1
        code = self._code.get(name)
        try:
            payload, encoding = self._decrypted(what, spec)
            if code is None:
                why = "the code has no such lambda"
            elif without:
                code.decode_without(without, payload)
            else:
                code.decode(payload, encoding)
        except AtfError as error:
            why = str(error)
        except Exception as error:  # noqa: BLE001  code of the user's types
            why = f"{name}: {type(error).__name__}: {error}"
        if why:
            count, first = self._unfit.get((name, what, why), (0, example))
            self._unfit[name, what, why] = count + 1, first
        if self.looked_at % MAX_BATCH == 0:
            self.say()

    def _decrypted(self, what: str, spec: t.TaskSpec) -> tuple[bytes, int]:
        """Arguments as their lambda gets them. Where they belong its executor checks."""
        if not is_sealed(spec.payload):
            return spec.payload, spec.encoding
        if self._cipher is None:
            raise NotDecrypted(f"encrypted {what} can't be looked at without their key file: give --codec-keys")
        from atf.codec.values import open_value, value_under_mark

        return open_value(self._cipher, value_under_mark(spec.payload), lambda _: True)

    def say(self) -> None:
        """Tells where it stands."""
        self._progress(f"{self.looked_at} payloads read, {sum(count for count, _ in self._unfit.values())} do not fit")

    def unfit(self) -> list[Unfit]:
        """What did not fit, by lambda; the most of it first."""
        found = [Unfit(name, what, count, example, why) for (name, what, why), (count, example) in self._unfit.items()]
        return sorted(found, key=lambda each: (each.lambda_name, each.what, -each.number))


async def check_payloads(
    stub: api.Frontend,
    code: Mapping[str, DecodingLambda],
    progress: Callable[[str], None],
    cipher: Cipher | None = None,
) -> UnfitPayloads:
    """Holds all that waits on a cluster against a release's code.

    Args:
        stub: the cluster's frontend.
        code: its lambdas by name. Of the namespaces of these all lambdas are looked at: one that the code lacks was renamed or removed.
        progress: takes a line now and then.
        cipher: decrypts what is encrypted; None: that can't be looked at, which counts as unfit.
    """
    found = UnfitPayloads(code, progress, cipher)
    namespaces = {name.partition("/")[0] for name in code}
    for info in await every_lambda(stub):
        if info.spec.name.partition("/")[0] not in namespaces:
            continue
        async for task in _tasks(stub, info):
            found.payload("tasks", task.id, task.spec)
    async for page in pages(stub.list_jobs, f.ListJobsRequest(unredacted=True)):
        for job in page.jobs:
            if job.next_tick_at_us and _is_of(job.spec.task, namespaces):
                found.payload("jobs", job.spec.name, job.spec.task)
    async for batch in _batches(stub):
        for callback in _all(batch.spec.callbacks):
            if _is_of(callback.task, namespaces):
                gives = "" if callback.gives == b.Callback.NOTHING else callback.parameter or "batch"
                found.payload("callbacks", batch.id, callback.task, gives)
    found.say()
    return found


def on_terminal(line: str) -> None:
    """Shows progress where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r{line} ", end="", file=sys.stderr, flush=True)


def _is_of(spec: t.TaskSpec, namespaces: Iterable[str]) -> bool:
    return getattr(spec, "lambda").partition("/")[0] in namespaces


def _all(callbacks: Iterable[b.Callback]) -> list[b.Callback]:
    """Callbacks, and those of the batches that they become."""
    found: list[b.Callback] = []
    left = list(callbacks)
    while left:
        each = left.pop()
        found.append(each)
        left += each.then
    return found


async def _tasks(stub: api.Frontend, info: f.LambdaInfo) -> AsyncIterator[t.Task]:
    """The unfinished tasks of a lambda with their payloads, items of batches among them. One that moves meanwhile may be met twice."""
    if not any(info.counts.get(status.name) for status in LIVE):
        return
    seen: set[str] = set()
    # In the order in which a task goes through them, also where none had one when they were counted.
    for status in sorted(LIVE):
        asked = f.TaskFilter(statuses=[status.name], **of_lambda(info.spec.name))
        request = f.ListTasksRequest(filter=asked, with_spec=True, unredacted=True, oldest_first=True)
        async for page in pages(stub.list_tasks, request):
            for task in page.tasks:
                if task.id not in seen and task.HasField("spec"):
                    seen.add(task.id)
                    yield task


async def _batches(stub: api.Frontend) -> AsyncIterator[b.Batch]:
    """The batches that have not ended, with their descriptions."""
    async for page in pages(stub.list_batches, b.ListBatchesRequest()):
        for batch in page.batches:
            if batch.status not in _ENDED:
                yield await stub.get_batch(b.GetBatchRequest(id=batch.id, with_spec=True, unredacted=True))
