"""Sets a demo up and takes it down: a cluster of its own in a temporary directory, the files, the verdict."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.role_process import Say
from atf.cli.local.workplace import workplace
from atf.cli.progress import View
from atf.client import AsyncClient
from atf.errors import InvalidArgument

from .files import KnownFile, read_files
from .flow import Flow, plan
from .record import DIRECTORY, DemoRecord
from .report import DemoReport, judge

APP: Final = "atf.demo.lambdas:app"
_STOP_S: Final = 5.0


async def run_demo(roots: Sequence[Path], *, tasks: int, executors: int, view: View) -> DemoReport:
    """Runs one demo in a directory of its own, which is kept if the demo fails.

    Raises:
        InvalidArgument: there is no regular file to hash.
        AtfError: a role could not start.
    """
    with workplace("atf-demo-", view) as (directory, say):
        view.say("reading " + ", ".join(map(str, roots)))
        files = await asyncio.to_thread(lambda: list(read_files(roots, tasks)))
        if not files:
            raise InvalidArgument(f"{', '.join(map(str, roots))}: no regular file to hash; give a directory with some")
        view.say(f"{len(files):,} files, {sum(each.size for each in files) / (1 << 20):,.1f} MiB; starting the roles")
        report = await _on_cluster(directory, say, files, tasks, executors, view)
    if report.passed:
        shutil.rmtree(directory, ignore_errors=True)
    else:
        view.say(f"the lambda's record and what the roles said are in {directory}")
    return report


async def _on_cluster(
    directory: Path, say: Say, files: list[KnownFile], tasks: int, executors: int, view: View
) -> DemoReport:
    record = DemoRecord(directory / "record")
    record.directory.mkdir()
    settings = ClusterSettings(executors=executors, data_dir=str(directory / "store"), free_ports=True)
    cluster = Cluster(settings, [APP], env=_environment(directory, record), say=say)
    try:
        await cluster.start()
        async with AsyncClient(cluster.frontend_address) as client:
            flow = Flow(client, record, lambda: [each.worker for each in cluster.executors()], view)
            await flow.warm_up(executors)
            view.say(f"{_processes(cluster)}; task store: {cluster.store}")
            await flow.run(list(plan(files, tasks)))
    finally:
        await cluster.stop(_STOP_S)
    record.poll()
    return judge(flow.accepted, flow.results, record, flow.kill)


def _environment(directory: Path, record: DemoRecord) -> dict[str, str]:
    """Ours without settings of ATF: the demo shows roles as they come, not as the caller's own are set."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    return {**ours, "ATF_CONFIG": str(directory / "atf.toml"), DIRECTORY: str(record.directory)}


def _processes(cluster: Cluster) -> str:
    pids = {name: cluster.pid(name) for name in cluster.names if name != "store"}
    workers = [str(each.worker) for each in cluster.executors()]
    roles = ", ".join(f"{name} {pid}" for name, pid in pids.items())
    return f"processes: {roles}, executors {' '.join(workers)}"
