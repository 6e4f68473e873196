"""`atf bench`: prints the figures. The measurements are atf/bench's part.

With --json the report goes to stdout and everything else to stderr.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import click

from atf.bench.measurements import BenchPlan
from atf.bench.run import BenchReport, bench as run_bench
from atf.cli.local.cluster_settings import ClusterSettings, executors_flag, own_cluster_flags
from atf.exits import EXIT_OK

from .json_values import print_json
from .options import as_json, no_header, read, wants_json
from .output import print_table
from .progress import view


@click.command()
@own_cluster_flags
@click.option(
    "--tasks",
    type=click.IntRange(100, 10_000_000),
    default=20_000,
    show_default=True,
    help="Of one round of throughput.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Of throughput; the median counts."
)
@executors_flag
@click.option(
    "--pending",
    type=click.IntRange(0, 10_000_000),
    default=0,
    show_default=True,
    help="Tasks due in a year that are scheduled first and wait meanwhile; removed at the end.",
)
@as_json
@no_header
def bench(tasks: int, rounds: int, executors: int, pending: int, **flags: Any) -> int:
    """Measure on your own store how many tasks a second go through, how late they start, and what they cost.

    Starts roles of its own and runs lambdas that do nothing, in a namespace of its own: what waits in the store already, throughput while tasks are being scheduled,
    CPU per task and process, for `def` and `async def` apart, the drain of a backlog, bytes of the store per waiting task,
    memory of each process, single calls by one caller and by 64, lateness of 1,500 tasks due at one instant and of 500 a second
    scheduled 1 to 10 s ahead, CPU while idle, and whether each task ran once. Roles of yours on the same store are left alone; what they do meanwhile is in
    the figures.

    The store is the one at --redis-url, taken as it is, else an embedded one in a temporary directory, which syncs once a second
    (appendfsync everysec) unless --durability disk is given. The output says which, and how the store is set.

    With --pending so many tasks wait while all that is measured; what a store has no memory for is refused.

    \b
    atf bench
    atf bench --pending 1000000
    atf bench --redis-url redis://store:6379/0 --tasks 200000 --executors 8 --json
    """
    settings = read(ClusterSettings, flags, "up")
    plan = BenchPlan(
        tasks=tasks,
        rounds=rounds,
        executors=executors,
        pending=pending,
        redis_url=settings.redis_url,
        settings={name: getattr(settings, name) for name in flags if name != "redis_url"},
    )
    with view() as shown:
        report = asyncio.run(run_bench(plan, shown, os.environ))
    if wants_json():
        print_json(report.as_json())
    else:
        _print(report)
    return EXIT_OK


def _print(report: BenchReport) -> None:
    rows = [
        [each.what if place == 0 else "", name.replace("_", " "), f"{value:,.10g}"]
        for each in report.measured
        for place, (name, value) in enumerate(each.figures.items())
    ]
    columns = ["measured", "figure", "value"]
    print()
    print_table(columns, rows)
