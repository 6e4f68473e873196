"""Runs `atf bench`: roles of its own on a store, then one measurement after the other.

Every figure is taken as a user of the SDK would: rates from the first call until the last task's end, and lateness, from the records of
the tasks themselves, which hold the store's instants: asking the store all the time whether it is done would disturb what is measured.
CPU is what /proc says of each process; of a store that was not started here, what the store says.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.workplace import workplace
from atf.cli.progress import View
from atf.client import AsyncClient
from atf.config.loading import load
from atf.config.settings import StoreSettings
from atf.errors import AtfError
from atf.runtime import SystemRuntime, new_id

from . import pending, proc
from .lambdas import LATER, NAMESPACE, RETENTION_S
from .measurements import CALL_S, BenchPlan, Measurement, Measurements
from .store import MeasuredStore, TaskStore
from .versions import commit, versions

APP: Final = "atf.bench.lambdas:app"
PRIVATE_DURABILITY: Final = "relaxed"
"""Of the store that is started here, unless it is given: everysec, as the benchmarks of the repository have."""


@dataclass(frozen=True)
class BenchReport:
    """What it ends with."""

    plan: BenchPlan
    store: str
    namespace: str
    measured: list[Measurement]
    durability: str
    found: MeasuredStore
    versions: Mapping[str, str]
    commit: str

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "measured": {each.name: each.figures for each in self.measured},
            "store": self.store,
            "appendonly": self.found.appendonly,
            "appendfsync": self.found.appendfsync,
            "durability": self.durability,
            "versions": dict(self.versions),
            "commit": self.commit,
            "namespace": self.namespace,
            "executors": self.plan.executors,
            "pending": self.plan.pending,
            "tasks": self.plan.tasks,
            "rounds": self.plan.rounds,
            "cores": len(os.sched_getaffinity(0)),
            "processor": proc.cpu_model(),
        }


async def bench(plan: BenchPlan, view: View, env: Mapping[str, str]) -> BenchReport:
    """Measures. What the roles said is kept where it fails.

    Raises:
        AtfError: a role can't start, or the store does not answer.
    """
    with workplace("atf-bench-", view) as (directory, say):
        report = await _measure(plan, directory, view, env, say)
    shutil.rmtree(directory, ignore_errors=True)
    return report


async def _measure(
    plan: BenchPlan, directory: Path, view: View, env: Mapping[str, str], say: Callable[[str, str], None]
) -> BenchReport:
    namespace = f"bench-{new_id(SystemRuntime().random, 32)}"
    settings = cluster_settings(plan, directory)
    ours = {"ATF_LOG_FORMAT": "console", **env, NAMESPACE: namespace}
    view.say("starting the roles")
    async with Cluster(settings, [APP], env=ours, say=say) as cluster:
        view.say(f"task store: {cluster.store}; namespace {namespace}")
        async with (
            contextlib.aclosing(TaskStore(cluster.redis_url)) as store,
            AsyncClient(cluster.frontend_address, timeout=CALL_S) as client,
        ):
            found = await store.found()
            durability = settings.durability or load(StoreSettings, env=ours).durability
            whose = "taken as it is" if plan.redis_url else "started for this"
            view.say(f"{found.in_words()}, {whose}; the roles' durability is {durability}")
            await pending.check_room(store, plan.pending)
            course = Measurements(plan, namespace, cluster, client, store)
            measured = [await course.before()]  # what others have in it: before it holds anything of ours
            view.say(in_words(measured[0]))
            await course.tasks.warm_up(plan.executors)
            try:
                for question in (
                    *([course.pending] if plan.pending else []),
                    course.idle,
                    course.drain,  # before the others leave records, whose expiry would be missing from its bytes
                    course.end_to_end,
                    course.kinds,
                    course.memory,
                    course.one_caller,
                    course.callers,
                    course.due_at_once,
                    course.ahead,
                ):
                    measured.append(await question())
                    view.say(in_words(measured[-1]))
            finally:
                if plan.pending and plan.redis_url:  # an embedded store goes as a whole
                    view.say(f"cancelling the {plan.pending:,} tasks that waited")
                    await _remove_pending(cluster, namespace, view)
    if plan.redis_url:
        view.say(
            f"in the store stay the records of the finished tasks of {namespace}, for {RETENTION_S / 60:.0f} minutes, and the names of"
            " its three lambdas"
        )
    return BenchReport(
        plan,
        cluster.store,
        namespace,
        measured,
        durability,
        found,
        versions(found.server),
        await asyncio.to_thread(commit),
    )


async def _remove_pending(cluster: Cluster, namespace: str, view: View) -> None:
    name = f"{namespace}/{LATER}"
    try:
        await pending.remove(cluster.frontend_address, name)
    except AtfError as error:
        view.say(f"tasks of {name} stay in the store, due in {pending.AHEAD.days} days: {error}")


def cluster_settings(plan: BenchPlan, directory: Path) -> ClusterSettings:
    """Of the roles; and of the store, where that is started here.

    Args:
        plan: what was asked for.
        directory: for that store's files.
    """
    more: dict[str, Any] = {"data_dir": str(directory / "store"), "free_ports": True, **plan.settings}
    if not plan.redis_url:
        more["durability"] = more.get("durability") or PRIVATE_DURABILITY
    return ClusterSettings(redis_url=plan.redis_url, executors=plan.executors, **more)


def in_words(measured: Measurement) -> str:
    """A measurement as a line."""
    figures = ", ".join(f"{name.replace('_', ' ')} {value:,.10g}" for name, value in measured.figures.items())
    return f"{measured.what}: {figures}"
