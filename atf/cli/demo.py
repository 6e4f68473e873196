"""`atf demo`: prints what happens and how it ends. The demo itself is atf/demo's part.

With --json the report goes to stdout and everything else to stderr.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from atf.cli.local.cluster_settings import executors_flag
from atf.demo.files import directories
from atf.demo.report import DemoReport
from atf.demo.run import run_demo
from atf.exits import EXIT_FAILED, EXIT_OK

from .json_values import print_json
from .options import as_json, wants_json
from .output import print_fields
from .progress import view


@click.command()
@click.argument("directory", metavar="[DIR]", required=False, type=click.Path(path_type=Path))
@click.option(
    "--tasks", type=click.IntRange(1, 10_000_000), default=20_000, show_default=True, help="How many tasks to run."
)
@executors_flag
@as_json
def demo(directory: Path | None, tasks: int, executors: int) -> int:
    """Hash real files through every role, kill an executor half-way, and check that nothing was lost or run twice at once.

    One task per regular file under DIR, over again until there are enough; by default those of the running Python's standard
    library and installed packages. Each computes the Dropbox content hash of its file. 1 in 50 fails on its first attempt, and
    1 in 200 is delayed. Half-way, one executor that has started tasks is killed with SIGKILL.

    The lambda keeps a record of its own of every start and end. From it, and from hashes that the demo computes itself, the demo
    judges: exit code 0 only if no task was lost, none ran twice at once, all hashes are right, and what the killed executor had
    started was rescued; else 1.

    \b
    atf demo
    atf demo ~/Pictures --tasks 5000 --executors 4
    """
    roots = directories(directory)
    with view() as shown:
        report = asyncio.run(run_demo(roots, tasks=tasks, executors=executors, view=shown))
    if wants_json():
        print_json(report.as_json())
    else:
        _print(report)
    return EXIT_OK if report.passed else EXIT_FAILED


def _print(report: DemoReport) -> None:
    print()
    delays = (report.start_delay_p50_ms, report.start_delay_p95_ms, report.start_delay_p99_ms)
    rescue = "-" if report.rescue_seconds is None else f"{report.rescue_seconds:.2f} s"
    print_fields(
        [
            ("tasks", f"{report.tasks:,}"),
            ("succeeded", f"{report.succeeded:,}"),
            ("lost", report.lost),
            ("run twice at once", report.concurrent),
            ("started early", report.early),
            ("wrong hashes", report.wrong_hashes),
            ("files changed meanwhile", report.files_changed or ""),
            (
                "retried after the kill",
                f"{report.retried_after_kill} ({report.rescued} of them cut off while they ran)",
            ),
            ("kill to last restart", rescue),
            (
                "start delay p50/p95/p99",
                " / ".join(f"{each:,.0f}" for each in delays) + " ms, time in the queue included",
            ),
            ("tasks per second", f"{report.tasks_per_second:,.0f} (median of 1 s)"),
            ("MiB per second", f"{report.mib_per_second:,.1f}"),
        ]
    )
    print()
    for failure in report.failures:
        print(f"FAILED: {failure}")
    if report.passed:
        print("passed: nothing lost, nothing run twice at once, every hash right")
