"""Runs `atf verify`: roles of its own on a store, a load, strikes by a seed, the end of it all, and the report."""

from __future__ import annotations

import asyncio
import math
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from atf.cli.local.role_process import Say
from atf.cli.local.workplace import workplace
from atf.cli.progress import View
from atf.config.loading import load
from atf.config.settings import StoreConsumerSettings, StoreSettings, Timing
from atf.errors import AtfError, InvalidArgument, Unavailable

from .bench import LoadedCluster, drain_s
from .load import Load
from .outcome import LoadOutcome, Recovery, percentile, times
from .strikes import ROLES, STORE, carry_out, plan
from .view import VerifyProgress

_LOOK_S: Final = 0.2
_JUDGE_S: Final = 3600.0
"""Seconds that reading every task may take at the end, with a great reserve."""
_LAMBDAS: Final = 2
"""Of the load; each task is of one by chance."""
_SIGMAS: Final = 6
_CLEAR_S: Final = 20.0
"""Seconds that cancelling what is left may take."""


@dataclass(frozen=True, kw_only=True)
class VerifyPlan:
    """What `atf verify` is to do.

    Attributes:
        rate: tasks in a second.
        seconds: that the load lasts.
        strikes: how many kills and freezes.
        roles: at whom; none: at all, and at the store if it is an embedded one.
        seed: of the load and the strikes.
        executors: executor processes.
        redis_url: the store; "": an embedded one, in a temporary directory.
        settings: more of ClusterSettings by name.
    """

    rate: float
    seconds: float
    strikes: int
    roles: Sequence[str]
    seed: int
    executors: int
    redis_url: str
    settings: Mapping[str, Any]

    def targets(self) -> list[str]:
        """The roles to strike.

        Raises:
            InvalidArgument: the store is among them, and it is not ours.
        """
        if self.redis_url and STORE in self.roles:
            raise InvalidArgument(f"--role {STORE}: the store at --redis-url was not started here, so it is not killed")
        return list(dict.fromkeys(self.roles)) or [*ROLES, *([] if self.redis_url else [STORE])]

    def partitions(self, env: Mapping[str, str]) -> int:
        """Of the store that the roles will have; 1 where nothing is set: one at --redis-url may have more on record, not fewer."""
        return int(self.settings.get("partitions") or load(StoreSettings, env=env).partitions or 1)

    def retention_s(self, timing: Timing) -> float:
        """Seconds that the record of a finished task must stay, so that it is there at the end, whenever it finished."""
        return math.ceil(self.seconds + 2 * drain_s(timing) + _JUDGE_S)

    def check(self, max_finished: int, partitions: int) -> None:
        """Sees whether all of the load's records can stay until the end.

        Args:
            max_finished: finished tasks that the store keeps of a lambda in one partition.
            partitions: of the store.

        Raises:
            InvalidArgument: they can't: the first ones would be gone at the end, and count as lost.
        """
        tasks = self.rate * self.seconds
        each = tasks / (_LAMBDAS * partitions)  # by chance, and hence a few more
        if each + _SIGMAS * math.sqrt(each) > max_finished:
            raise InvalidArgument(
                f"--rate {self.rate:g} × --seconds {self.seconds:g} are {tasks:,.0f} tasks of {_LAMBDAS} lambdas in {partitions}"
                f" partitions, and the store keeps the records of {max_finished:,} finished tasks of a lambda and partition:"
                " the first ones would be gone at the end. Give fewer --seconds or a lower --rate, or set max_finished"
                f" (ATF_MAX_FINISHED) higher{', for every store consumer of that store' if self.redis_url else ''}"
            )


@dataclass(frozen=True)
class VerifyReport:
    """What it ends with."""

    course: VerifyPlan
    outcome: LoadOutcome
    struck: int
    namespace: str
    store: str
    heartbeat_timeout: float

    @property
    def failures(self) -> list[str]:
        """The broken promises; none: all were kept."""
        return self.outcome.failures

    def as_json(self) -> dict[str, Any]:
        """For programs; times in seconds."""
        return {
            "kept": not self.failures,
            "failures": self.failures,
            **self.outcome.figures(),
            "strikes": self.struck,
            "recovery": [each._asdict() for each in kinds(self.outcome.recoveries)],
            "findings": self.outcome.findings,
            "seed": self.course.seed,
            "rate": self.course.rate,
            "seconds": self.course.seconds,
            "namespace": self.namespace,
            "store": self.store,
            "heartbeat_timeout_s": self.heartbeat_timeout,
        }


class RecoveryRow(NamedTuple):
    """The recoveries from one kind of strike, in seconds; None: none of them had that."""

    strike: str
    times: int
    resumed_p50_s: float | None
    resumed_max_s: float | None
    rescued_max_s: float | None
    worst_s: float | None


def kinds(recoveries: Sequence[Recovery]) -> list[RecoveryRow]:
    """A row per kind of strike."""
    found: dict[str, list[Recovery]] = {}
    for each in recoveries:
        found.setdefault(each.strike.kind, []).append(each)
    rows = []
    for kind, those in sorted(found.items()):
        resumed = [each.resumed_s for each in those if each.resumed_s is not None]
        rescued = [each.rescued_s for each in those if each.rescued_s is not None]
        worst = [each.worst_s for each in those if each.worst_s is not None]
        median = percentile(resumed, 50) if resumed else None
        most = (max(each, default=None) for each in (resumed, rescued, worst))
        rows.append(RecoveryRow(kind, len(those), median, *most))
    return rows


async def verify(course: VerifyPlan, view: View, env: Mapping[str, str]) -> VerifyReport:
    """Runs it. What it wrote to disk is kept if a promise was broken.

    Raises:
        InvalidArgument: the course contradicts itself.
        AtfError: a role can't start, or the store does not answer.
    """
    targets = course.targets()
    course.check(load(StoreConsumerSettings, table="store_consumer", env=env).max_finished, course.partitions(env))
    with workplace("atf-verify-", view) as (directory, say):
        report = await _on_bench(course, targets, directory, view, env, say)
    if report.failures:
        view.say(f"the lambdas' record and what the roles said are in {directory}")
    else:
        shutil.rmtree(directory, ignore_errors=True)
    return report


async def _on_bench(
    course: VerifyPlan, targets: Sequence[str], directory: Path, view: View, env: Mapping[str, str], say: Say
) -> VerifyReport:
    view.say("starting the roles")
    async with LoadedCluster(
        directory,
        redis_url=course.redis_url,
        seed=course.seed,
        load=Load(rate=course.rate),
        executors=course.executors,
        retention=course.retention_s(load(Timing, env=env)),
        env={"ATF_LOG_FORMAT": "console", **env},
        settings=course.settings,
        say=say,
    ) as bench:
        view.say(f"task store: {bench.cluster.store}; namespace {bench.namespace}; seed {course.seed}")
        showing = asyncio.create_task(_show(bench, course, view))
        try:
            struck, outcome = await _under_load(bench, course, targets, view)
        except asyncio.CancelledError:
            await _clear(bench, course, view)
            raise
        finally:
            showing.cancel()
        if outcome.breaches.get("stuck"):
            await _clear(bench, course, view)
        if not outcome.acknowledged:
            calls = times(bench.stream.refused) or "no call was answered"
            raise Unavailable(
                f"not a single task was accepted ({calls}). What the roles said above tells why; `atf doctor` looks at the task store"
            )
        if course.redis_url:
            view.say(
                f"in the store stay the records of {outcome.acknowledged:,} finished tasks of {bench.namespace}, for"
                f" {course.retention_s(bench.timing) / 60:.0f} minutes, and the names of its two lambdas"
            )
        return VerifyReport(
            course, outcome, struck, bench.namespace, bench.cluster.store, bench.timing.heartbeat_timeout
        )


async def _under_load(
    bench: LoadedCluster, course: VerifyPlan, targets: Sequence[str], view: View
) -> tuple[int, LoadOutcome]:
    strikes = plan(course.seed, course.strikes, course.seconds, targets, bench.timing.heartbeat_timeout)
    bench.start()
    struck, _ = await asyncio.gather(carry_out(bench, strikes, view.say), asyncio.sleep(course.seconds))
    view.say("no more tasks; waiting for the ends of all")
    return struck, await bench.drain()


async def _clear(bench: LoadedCluster, course: VerifyPlan, view: View) -> None:
    """Cancels what is left in a store that is not ours."""
    if not course.redis_url:
        return
    try:
        async with asyncio.timeout(_CLEAR_S):
            bench.stop_load()
            count = await bench.stored.cancel_all()
        view.say(f"cancelled the {count} tasks of {bench.namespace} that had not finished")
    except (AtfError, TimeoutError):
        view.say(f"tasks of {bench.namespace} are left in the store: cancel them (atf ls {bench.namespace}/work)")


async def _show(bench: LoadedCluster, course: VerifyPlan, view: View) -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()
    while True:
        seconds = loop.time() - began
        view.show(
            VerifyProgress(
                phase="load " if seconds < course.seconds else "drain",
                seconds=seconds,
                total_s=course.seconds,
                called=len(bench.stream.called),
                accepted=len(bench.stream.accepted),
                runs=bench.done,
                running=sum(map(len, bench.record.running.values())),
                strikes=len(bench.strikes),
            )
        )
        await asyncio.sleep(_LOOK_S)
