"""A frontend that writes every request down and answers each with something that fits, for tests of what calls send."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from atf.errors import NotFound
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.rpc.stub import snake_case

LAMBDA = "photos/thumbnail"
SERVICE = f.DESCRIPTOR.services_by_name["Frontend"]
_OF: dict[str, Any] = {"lambda": LAMBDA}


class Recorder:
    """Every RPC of the frontend, by its name; `asked` has what came, in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bytes]] = []

    def note(self, name: str, request: Message) -> int:
        """Writes a request down; how many of its name came before."""
        self.asked.append((name, request.SerializeToString(deterministic=True)))
        return sum(each == name for each, _ in self.asked) - 1


def _answering(method: MethodDescriptor) -> Callable[..., Any]:
    def empty(_request: Any, _before: int) -> Message:
        return GetMessageClass(method.output_type)()

    answer = ANSWERS.get(method.name, empty)

    async def unary(self: Recorder, request: Any, *, timeout: float = 10) -> Any:
        return answer(request, self.note(method.name, request))

    async def gathering(self: Recorder, requests: AsyncIterator[Any], *, timeout: float = 10) -> Any:
        async for each in requests:
            self.note(method.name, each)
        return empty(None, 0)

    async def streaming(self: Recorder, request: Any, *, timeout: float = 10) -> AsyncGenerator[Any, None]:
        yield answer(request, self.note(method.name, request))

    return gathering if method.client_streaming else streaming if method.server_streaming else unary


def _batch(request: Any, _before: int) -> b.Batch:
    """One that has ended; there is none that is called "new" or "fixed"."""
    if request.id in {"new", "fixed"} and not isinstance(request, b.WatchBatchRequest):
        raise NotFound("there is no batch of this name")
    counts: dict[str, Any] = {
        "items": 1,
        "permanently_failed": 1,
        "sealed": True,
        "ended_at_us": 9,
        "round": 1,
        "now_us": 10,
    }
    return b.Batch(id=request.id, status=b.BATCH_DONE_WITH_FAILURES, created_at_us=1, **_OF, **counts)


def _items(request: b.ListBatchItemsRequest, before: int) -> b.ListBatchItemsReply:
    """An item that runs when it is looked at first, and has failed for good then."""
    if request.first:
        return b.ListBatchItemsReply()
    status = b.ITEM_PERMANENTLY_FAILED if before else b.ITEM_IN_PROGRESS
    return b.ListBatchItemsReply(
        items=[b.Item(number=n, task_id="0-a", status=status, error="it rained") for n in range(2)]
    )


def _task(task_id: str) -> t.Task:
    return t.Task(id=task_id, status=t.SUCCESS, result=b"1", **_OF)


def _lambda(_request: Any, _before: int) -> f.LambdaInfo:
    spec = f.LambdaSpec(name=LAMBDA, signature="(path, size=1)")
    return f.LambdaInfo(spec=spec, in_force=spec)


ANSWERS: dict[str, Callable[[Any, int], Message]] = {
    "Schedule": lambda request, _: f.ScheduleReply(id=f"0-{request.id}", scheduled_at_us=5),
    "ScheduleMany": lambda request, _: f.ScheduleManyReply(
        results=[f.ScheduleResult(reply=f.ScheduleReply(id=f"0-{each.id}")) for each in request.requests]
    ),
    "ScheduleJobs": lambda request, _: f.ScheduleJobsReply(
        results=[f.ScheduleJobResult(job=j.Job(spec=each.job)) for each in request.requests]
    ),
    "GetTask": lambda request, _: _task(request.id),
    "ListTasks": lambda _request, _: f.ListTasksReply(tasks=[_task("0-a")]),
    "WaitTasks": lambda request, _: f.WaitTasksReply(tasks=[_task(each) for each in request.ids]),
    "CancelTasks": lambda request, _: f.CancelTasksReply(
        results=[f.CancelResult(id=each, status=t.CANCELLED, cancelled=True) for each in request.ids]
    ),
    "CountTasks": lambda _request, _: f.CountTasksReply(lambdas=[f.LambdaCounts(counts={"NEW": 3})]),
    "CancelMatching": lambda request, _: f.CancelMatchingReply(
        matched=2, cancelled=0 if request.dry_run else 2, looked_at=2, of=2, ids=["0-a"]
    ),
    "RetryTasks": lambda request, _: f.RetryTasksReply(
        results=[f.RetryResult(id=each, status=t.NEW, retried=True) for each in request.ids]
    ),
    "ListLambdas": lambda request, before: f.ListLambdasReply(lambdas=[_lambda(request, before)]),
    "SetLambda": _lambda,
    "LiftGate": lambda _request, _: f.LiftGateReply(lifted=1),
    "ListKeys": lambda _request, _: f.ListKeysReply(keys=[f.KeyInfo(key="anna", stopped=True, task_id="0-a")]),
    "ExplainTask": lambda request, _: f.ExplainTaskReply(task=_task(request.id), sentence="It is due."),
    "ListJobs": lambda request, _: f.ListJobsReply(
        jobs=[j.Job(spec=j.JobSpec(name="flagged/left", code="abc"))] if request.prefix == "flagged/" else []
    ),
    "DeleteLambda": lambda _request, _: f.DeleteLambdaReply(deleted=True, waiting=2),
    "SetCapacity": lambda _request, _: f.Capacity(cores=[f.Core()], groups=[f.CoreGroup()]),
    "GetCapacity": lambda _request, _: f.Capacity(cores=[f.Core()], groups=[f.CoreGroup()]),
    "GetBatch": _batch,
    "WatchBatch": _batch,
    "CancelBatch": _batch,
    "RetryBatch": _batch,
    "ListBatchItems": _items,
}

for each in SERVICE.methods:
    setattr(Recorder, snake_case(each.name), _answering(each))
