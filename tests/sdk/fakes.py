"""A frontend without a store, for tests of the client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast

from atf.client import AsyncClient
from atf.errors import AtfError, TaskNotFound
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.api import Frontend
from atf.sdk.messages import of_lambda
from atf.testing.runtime import VirtualRuntime

ROUND_TRIP = 0.01
"""Seconds that a call takes, of virtual time."""


@dataclass
class FakeFrontend:
    """Keeps what it is sent, and fails as it is told."""

    failures: list[AtfError] = field(default_factory=list)
    """Raised by the next calls, one each."""
    lose_answer: bool = False
    """The next ScheduleMany is carried out, but its answer never comes."""
    calls: list[list[str]] = field(default_factory=list)
    cancelling: list[f.CancelMatchingRequest] = field(default_factory=list)
    gates: list[f.SetGateRequest | f.LiftGateRequest] = field(default_factory=list)
    operated: list[f.DrainHostRequest | f.DeleteLambdaRequest | f.GetStatusRequest] = field(default_factory=list)
    """The ids in each ScheduleMany, the names in each ScheduleJobs."""
    capacity: f.SetCapacityRequest | None = None
    requests: dict[str, f.ScheduleRequest] = field(default_factory=dict)
    """By stored id."""
    refused: dict[str, f.Error] = field(default_factory=dict)
    """By client id."""
    tasks: dict[str, t.Task] = field(default_factory=dict)
    polls: list[f.WaitTasksRequest] = field(default_factory=list)
    timeouts: list[float] = field(default_factory=list)

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        self.calls.append([each.id for each in request.requests])
        self.timeouts.append(timeout)
        await self._travel()
        results = [self._schedule(each) for each in request.requests]
        if self.lose_answer:
            self.lose_answer = False
            await asyncio.Event().wait()
        return f.ScheduleManyReply(results=results)

    def _schedule(self, request: f.ScheduleRequest) -> f.ScheduleResult:
        if request.id in self.refused:
            return f.ScheduleResult(error=self.refused[request.id])
        stored = f"3-{request.id}"
        existed = stored in self.requests
        self.requests[stored] = request
        return f.ScheduleResult(reply=f.ScheduleReply(id=stored, existed=existed, durability=request.durability))

    async def schedule_jobs(self, request: f.ScheduleJobsRequest, *, timeout: float = 10) -> f.ScheduleJobsReply:
        self.calls.append([each.job.name for each in request.requests])
        await self._travel()
        reply = f.ScheduleJobsReply()
        for each in request.requests:
            result = reply.results.add()
            if each.job.name in self.refused:
                result.error.CopyFrom(self.refused[each.job.name])
            else:
                result.job.spec.CopyFrom(each.job)
        return reply

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        await self._travel()
        if request.id not in self.tasks:
            raise TaskNotFound(f"no task {request.id}")
        return self.tasks[request.id]

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        self.polls.append(request)
        await self._travel()
        await asyncio.sleep(request.timeout_us / 1e6)
        return f.WaitTasksReply(tasks=[self.tasks[each] for each in request.ids if each in self.tasks])

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        found = [self.tasks.get(each, t.Task()) for each in request.ids]
        results = [f.CancelResult(id=each.id, status=each.status, cancelled=each.status == t.NEW) for each in found]
        return f.CancelTasksReply(results=results)

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        found = [self.tasks.get(each, t.Task()) for each in request.ids]
        results = [
            f.RetryResult(
                id=each.id,
                status=each.status,
                retried=each.status == t.CANCELLED and not each.owner,
                held_by="0-other" if each.owner else "",
            )
            for each in found
        ]
        return f.RetryTasksReply(results=results)

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        begin = int(request.page_token or 0)
        end = begin + min(request.page_size, 2)  # pages may be shorter than asked for
        ids = sorted(self.tasks)
        token = str(end) if end < len(ids) else ""
        return f.ListTasksReply(tasks=[self.tasks[each] for each in ids[begin:end]], next_page_token=token)

    async def _travel(self) -> None:
        await asyncio.sleep(ROUND_TRIP)
        if self.failures:
            raise self.failures.pop(0)

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        raise AssertionError("the client schedules by ScheduleMany")

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        raise AssertionError("executors register, clients do not")

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        info = f.LambdaInfo(spec=f.LambdaSpec(name="photos/thumbnail", signature="(path)"), counts={"NEW": 3})
        return f.ListLambdasReply(lambdas=[info])

    async def pause_lambda(self, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        self.calls.append(["pause", getattr(request, "lambda")])
        return f.PauseLambdaReply()

    async def resume_lambda(self, request: f.ResumeLambdaRequest, *, timeout: float = 10) -> f.ResumeLambdaReply:
        self.calls.append(["resume", getattr(request, "lambda")])
        return f.ResumeLambdaReply()

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        self.calls.append(["set", getattr(request, "lambda"), *sorted(request.unset)])
        spec = f.LambdaSpec(name="photos/thumbnail", owner="web team", shares={2: 0.1})
        held = f.LambdaSpec(name="photos/thumbnail", owner="web team", shares={2: 0.1}, rate=5, placement=f.STICKY)
        return f.LambdaInfo(spec=spec, in_force=held, overrides=request.set)

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        anna, bob = (
            f.ConcurrencyKeyInfo(key="anna", taken=3, limit=3, waiting=7),
            f.ConcurrencyKeyInfo(key="bob", taken=1),
        )
        if request.key:
            return f.ListConcurrencyKeysReply(keys=[f.ConcurrencyKeyInfo(key=request.key)])
        if not request.page_token:
            return f.ListConcurrencyKeysReply(keys=[anna], next_page_token="1")
        return f.ListConcurrencyKeysReply(keys=[anna, bob])

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        self.capacity = request
        return await self.get_capacity(f.GetCapacityRequest(pool=request.pool))

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        core = f.Core(state=f.OCCUPIED, **_of("photos/thumbnail"), reserved=True, until_us=7)
        return f.Capacity(
            pool=request.pool,
            cores=[core],
            groups=[f.CoreGroup(executors=["e1"])],
            queue=[f.CoreClaim(**_of("shop/mail"), core=0)],
            rotation=3,
            max_retries=2,
            hand_over_us=1_500_000,
            reserved_timeout_us=60_000_000,
            multiplexed_timeout_us=1_000_000,
            rotation_us=10_000_000,
            dropped=4,
            timed_out=5,
        )

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        return f.ListCapacityReply(pools=["", "gpu"])

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        one = f.WorkerHost(name="one:7403", quarantined=[f.QuarantinedLambda(until_us=12_500_000, **_of("shop/mail"))])
        two = f.WorkerHost(name="two:7403", pool="gpu", quarantined=[f.QuarantinedLambda(**_of("*"))])
        return f.ListHostsReply(hosts=[one, two], now_us=10_000_000)

    async def drain_host(self, request: f.DrainHostRequest, *, timeout: float = 10) -> f.DrainHostReply:
        self.operated.append(request)
        return f.DrainHostReply()

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        self.operated.append(f.DeleteLambdaRequest.FromString(request.SerializeToString()))
        first = request.cancel_waiting and self.operated.count(request) == 1
        return f.DeleteLambdaReply(waiting=5, cancelled=5) if first else f.DeleteLambdaReply(deleted=True)

    async def get_status(self, request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        self.operated.append(request)
        hosts = await self.list_hosts(f.ListHostsRequest())
        hosts.hosts[0].executors = 2
        return f.GetStatusReply(
            now_us=10_000_000,
            memory=[f.StoreMemory(where="store:6379", used_bytes=5, max_bytes=100)],
            roles=[
                f.RoleCount(role=role, version=version, processes=1)
                for role in ("frontend", "store-consumer", "hsc", "controller")
                for version in ("1.0", "1.1")
            ],
            hosts=hosts.hosts,
            lambdas=[f.LambdaStatus(waiting=3, due_since_us=4_000_000, served=True, **_of("shop/mail"))],
            lambdas_known=7,
            jobs=[f.JobWithoutCode(name="shop/nightly", why="no live worker runs its lambda")],
        )

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        self.gates.append(request)
        gate = f.Gate(
            labels=request.labels, action=request.action, delay_us=request.delay_us, until_at_us=request.until_at_us
        )
        setattr(gate, "lambda", getattr(request, "lambda"))
        return gate

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        self.gates.append(request)
        return f.LiftGateReply(lifted=1)

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        return f.ListGatesReply(gates=[f.Gate(action=f.Gate.ADMIT, share=0.5, who="ada", waiting=3)])

    async def count_tasks(self, request: f.CountTasksRequest, *, timeout: float = 10) -> f.CountTasksReply:
        return f.CountTasksReply(lambdas=[f.LambdaCounts(counts={"NEW": 2}, **of_lambda("c/echo"))])

    async def cancel_matching(self, request: f.CancelMatchingRequest, *, timeout: float = 10) -> f.CancelMatchingReply:
        self.cancelling.append(request)
        done = not request.dry_run
        token = "" if request.page_token == "2" else "2"
        return f.CancelMatchingReply(
            matched=3, cancelled=2 * done, requested=int(done), looked_at=5, ids=["0-a"], next_page_token=token
        )

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        last = request.page_token == "2"
        token = "" if last else "2"
        return f.RedriveReply(
            matched=2,
            redriven=0 if request.dry_run else 2,
            looked_at=3,
            errors={"x": 2},
            ids=["0-a"],
            next_page_token=token,
        )

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        first = request.before or 6
        entries = [f.AuditEntry(number=each, who="ada") for each in range(first - 1, max(first - 3, 0), -1)]
        del entries[request.page_size or 100 :]
        return f.ListAuditReply(entries=entries, before=entries[-1].number if entries[-1].number > 1 else 0)

    async def list_failures(self, request: f.ListFailuresRequest, *, timeout: float = 10) -> f.ListFailuresReply:
        token = "" if request.page_token else "2"
        return f.ListFailuresReply(groups=[f.FailureGroup(id=request.page_token, count=2)], next_page_token=token)

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        task = t.Task(id=request.id, status=t.ENQUEUED)
        return f.ExplainTaskReply(task=task, reason="queued", sentence="it is the first", position=0)


def _of(name: str) -> dict[str, Any]:
    """The field whose name is a keyword."""
    return {"lambda": name}


def faked(frontend: FakeFrontend) -> Frontend:
    """For a client; nothing about jobs is asked of it: tests/fundamentals/test_jobs.py has those on a real one."""
    return cast("Frontend", frontend)


@dataclass
class World:
    """A client and the frontend that it talks to, on one virtual clock."""

    client: AsyncClient
    frontend: FakeFrontend
    runtime: VirtualRuntime


@asynccontextmanager
async def world(runtime: VirtualRuntime) -> AsyncIterator[World]:
    frontend = FakeFrontend()
    async with AsyncClient(timeout=10, frontend=faked(frontend), runtime=runtime) as client:
        yield World(client, frontend, runtime)
