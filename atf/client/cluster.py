"""Shows a client the whole cluster, and does what an operator does to hosts and to lambdas that nobody has any more."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from atf.errors import FailedPrecondition
from atf.rpc import frontend_pb2 as f
from atf.sdk.messages import of_lambda, value_of
from atf.sdk.options import Duration, duration_us, from_us
from atf.task import US
from atf.times import length

from .judge import judge
from .whoami import signed

if TYPE_CHECKING:
    from .calls import Calls


@dataclass(frozen=True)
class HostInfo:
    """A live worker host."""

    name: str
    """Of its controller: the machine and the port."""
    pool: str
    quarantined: dict[str, datetime | None]
    """The lambdas that it quarantines, since executors died there one after the other ("*": all): until when; None: one task is tried."""
    executors: int = 0
    """That run there."""
    draining: bool = False
    """It takes no more tasks, and its executors end once they have finished theirs."""
    drain_until: datetime | None = None
    """None: until somebody resumes it, or it does not drain."""
    starting: bool = False
    """Its executors start, and none has asked for work yet."""
    why_not: str = ""
    """Why no executor can start there; empty: they can, or nobody knows yet."""

    @classmethod
    def from_proto(cls, host: f.WorkerHost, now_us: int) -> HostInfo:
        """Reads what the frontend answered."""
        quarantined = {
            getattr(each, "lambda"): from_us(each.until_us) if each.until_us > now_us else None
            for each in host.quarantined
        }
        return value_of(cls, host, quarantined=quarantined)


@dataclass(frozen=True)
class LambdaStatus:
    """How the tasks of a lambda stand."""

    name: str
    paused: bool
    gated: bool
    served: bool
    """Live workers of its pool run it, or do not say what they run."""
    waiting: int
    """Tasks that are due."""
    later: int
    """Due in the future."""
    running: int
    due_since: datetime | None
    """Since when the first of those that wait is due; None: none waits."""
    dead: int
    """Dead letters."""
    failed_recently: int
    """Of those."""
    failed_id: str
    """The newest of them; empty: there is none."""
    retrying: int
    """Tasks that failed and wait for their next attempt."""
    kept_by: str
    """Where it is paused or has a gate, and tasks are due: who set that, and why."""


@dataclass(frozen=True)
class ClusterStatus:
    """How the whole cluster stands at one instant: what `atf status` shows."""

    at: datetime | None
    wrong: tuple[str, ...]
    """A sentence for each thing that is wrong, as `atf status` judges; empty: all is well."""
    memory: Mapping[str, tuple[int, int]]
    """By server of the store: bytes used, and the most that it may use; 0: there is no bound."""
    claims_in: float
    """Seconds for which no task starts, at least, such as after a failover; 0: tasks start."""
    partitions_away: int
    """Of the store, that can't be reached."""
    roles: Mapping[str, Mapping[str, int]]
    """Live processes by role and version of ATF; executors are not among them."""
    hosts: tuple[HostInfo, ...]
    lambdas: tuple[LambdaStatus, ...]
    """By name: those that are paused, or have a gate, unfinished tasks or dead letters."""
    lambdas_known: int
    """Registered."""
    jobs_without_code: Mapping[str, str]
    """By name of a job that nobody runs, or whose code is gone: why."""

    @classmethod
    def from_proto(cls, reply: f.GetStatusReply, late_us: int, recent_us: int) -> ClusterStatus:
        """Reads what the frontend answered.

        Args:
            reply: that.
            late_us: microseconds for which a task that is due may wait.
            recent_us: microseconds for which a failure counts as recent, as the frontend was asked.
        """
        roles: dict[str, dict[str, int]] = {}
        for each in reply.roles:
            roles.setdefault(each.role, {})[each.version] = each.processes
        sections = judge(reply, late_us, length(recent_us)).values()
        return cls(
            at=from_us(reply.now_us),
            wrong=tuple(str(line) for lines in sections for line in lines if line.wrong),
            memory={each.where: (each.used_bytes, each.max_bytes) for each in reply.memory},
            claims_in=reply.claims_in_us / US,
            partitions_away=reply.partitions_away,
            roles=roles,
            hosts=tuple(HostInfo.from_proto(each, reply.now_us) for each in reply.hosts),
            lambdas=tuple(value_of(LambdaStatus, each, name=getattr(each, "lambda")) for each in reply.lambdas),
            lambdas_known=reply.lambdas_known,
            jobs_without_code={each.name: each.why for each in reply.jobs},
        )


class ClusterCalls:
    """The calls of AsyncClient about the cluster."""

    _calls: Calls

    async def status(self, *, late: Duration = 300, recent: Duration = 3_600) -> ClusterStatus:
        """How the whole cluster stands, and what is wrong; as `atf status`.

        Args:
            late: how long a task that is due may wait until that is wrong: seconds, a timedelta or text such as "5m".
            recent: how long ago a failure counts as wrong; likewise, at most ten years; 0: none does.
        """
        late_us, recent_us = duration_us(late, "late"), duration_us(recent, "recent")
        reply = await self._calls.get_status(f.GetStatusRequest(recent_us=recent_us))
        return ClusterStatus.from_proto(reply, late_us, recent_us)

    async def hosts(self) -> builtins.list[HostInfo]:
        """The worker hosts that are alive, by name: at most 1,024."""
        reply = await self._calls.list_hosts(f.ListHostsRequest())
        return [HostInfo.from_proto(each, reply.now_us) for each in reply.hosts]

    async def drain_host(self, host: str, *, until: Duration | None = None, why: str = "", who: str = "") -> None:
        """Has a worker host take no more tasks: its executors finish what they have started, and end. It holds whatever restarts.

        Args:
            host: its name, as `hosts` has it.
            until: seconds, a timedelta or text such as "5m" from now, after which it takes tasks again; None: until `resume_host`.
            why, who: for the audit log.

        Raises:
            NotFound: no host of this name is alive.
        """
        request = f.DrainHostRequest(host=host, **signed(who, why))
        if until is not None:
            request.for_us = duration_us(until, "until")
        await self._calls.drain_host(request)

    async def resume_host(self, host: str, *, why: str = "", who: str = "") -> None:
        """Has a host that drains take tasks again.

        Raises:
            NotFound: no host of this name is alive or drains.
        """
        await self._calls.drain_host(f.DrainHostRequest(host=host, resume=True, **signed(who, why)))

    async def delete_lambda(
        self, lambda_name: str, *, cancel_waiting: bool = False, why: str = "", who: str = ""
    ) -> int:
        """Forgets a lambda that no code has any more. Its dead letters stay until their retention is over.

        Args:
            lambda_name: "namespace/name".
            cancel_waiting: cancel its tasks that wait.
            why, who: for the audit log.

        Returns:
            how many tasks were cancelled.

        Raises:
            UnknownLambda: no such lambda is registered.
            FailedPrecondition: live workers run it, tasks of it wait or run, or a job names it.
        """
        request = f.DeleteLambdaRequest(cancel_waiting=cancel_waiting, **signed(who, why), **of_lambda(lambda_name))
        return await delete_lambda(self._calls.delete_lambda, request)


async def delete_lambda(
    call: Callable[[f.DeleteLambdaRequest], Awaitable[f.DeleteLambdaReply]], request: f.DeleteLambdaRequest
) -> int:
    """Repeats the call, which cancels some thousands of waiting tasks each time, until the lambda is deleted.

    Returns:
        how many tasks were cancelled.

    Raises:
        FailedPrecondition: tasks wait, and none of them could be cancelled.
    """
    cancelled = 0
    while True:
        reply = await call(request)
        cancelled += reply.cancelled
        if reply.deleted:
            return cancelled
        if not reply.cancelled:
            raise FailedPrecondition(f"{reply.waiting} tasks wait, and none could be cancelled; try again")
