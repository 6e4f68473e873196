"""`atf verify`: prints what happens and the verdict. The proof itself is atf/verify's part.

With --json the report goes to stdout and everything else to stderr.
"""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import click

from atf.cli.local.cluster_settings import ClusterSettings, executors_flag, own_cluster_flags
from atf.exits import EXIT_FAILED, EXIT_OK
from atf.verify.outcome import times
from atf.verify.run import VerifyPlan, VerifyReport, kinds, verify as run_verify
from atf.verify.strikes import ROLES, STORE

from .json_values import print_json
from .options import as_json, no_header, read, wants_json
from .output import print_fields, print_table
from .progress import view


@click.command()
@own_cluster_flags
@click.option(
    "--rate", type=click.FloatRange(0.1, 5_000), default=200, show_default=True, help="Tasks scheduled in a second."
)
@click.option(
    "--seconds", type=click.FloatRange(1, 86_400), default=30, show_default=True, help="How long the load lasts."
)
@click.option(
    "--strikes", type=click.IntRange(0, 100_000), default=8, show_default=True, help="How many kills and freezes."
)
@click.option(
    "--role",
    "roles",
    multiple=True,
    type=click.Choice([*ROLES, STORE]),
    help="Strike only at this role; may be given again.  [default: every role, and the store if it is an embedded one]",
)
@click.option("--seed", type=int, help="Of the load and the strikes.  [default: by chance; it is said]")
@executors_flag
@as_json
@no_header
def verify(
    rate: float,
    seconds: float,
    strikes: int,
    roles: tuple[str, ...],
    seed: int | None,
    executors: int,
    **flags: Any,
) -> int:
    """Prove on your own store that nothing is lost, nothing runs twice at once, nothing starts early.

    Starts roles of its own, schedules a known load in a namespace of its own, and kills (SIGKILL) and freezes (SIGSTOP) those
    roles, by a plan that the seed makes. Then it waits until all is quiet, and judges by what the load's lambdas wrote down
    themselves whenever they ran. Roles of yours on the same store are left alone.

    The store is the one at --redis-url, else an embedded one as of `atf up`, in a temporary directory. Exit code 0 only if every
    promise was kept; 1 if one was broken.

    \b
    atf verify
    atf verify --redis-url redis://store:6379/0 --seconds 120 --strikes 40 --rate 500
    atf verify --role executor --role hsc --seed 7 --json
    """
    settings = read(ClusterSettings, flags, "up")
    course = VerifyPlan(
        rate=rate,
        seconds=seconds,
        strikes=strikes,
        roles=roles,
        seed=random.getrandbits(32) if seed is None else seed,
        executors=executors,
        redis_url=settings.redis_url,
        settings={name: getattr(settings, name) for name in flags if name != "redis_url"},
    )
    with view() as shown:
        report = asyncio.run(run_verify(course, shown, os.environ))
    if wants_json():
        print_json(report.as_json())
    else:
        print_report(report)
    return EXIT_FAILED if report.failures else EXIT_OK


def print_report(report: VerifyReport) -> None:
    """Prints what was found."""
    outcome, refused = report.outcome, times(report.outcome.refused)
    print()
    print_fields(
        [
            ("attempted", f"{outcome.attempted:,} tasks"),
            ("acknowledged", f"{outcome.acknowledged:,}"),
            *outcome.breaches.items(),
            ("wrong", f"{outcome.wrong} (ended otherwise than planned)"),
            ("recovered", f"{outcome.recovered} (stored, though no answer had come)"),
            ("duplicated", f"{outcome.duplicated} (ran to the end twice, one after the other: at least once)"),
            ("repeated", f"{outcome.repeated} (runs beyond the first, planned failures among them)"),
            ("dead", f"{outcome.dead} (dead letters: each lost as many executors as it may)" if outcome.dead else ""),
            ("excused", f"{outcome.excused} (overlaps that no timeout prevents)" if outcome.excused else ""),
            ("refused", f"{refused} (calls of Schedule that failed, and were repeated)" if refused else ""),
        ]
    )
    print()
    if rows := kinds(outcome.recoveries):
        columns = ["strike", "times", "resumed p50", "resumed max", "rescued max", "worst"]
        shown = [
            [each.strike, each.times, *("-" if value is None else f"{value:.2f}" for value in each[2:])]
            for each in rows
        ]
        print_table(columns, shown)
        print(
            "\nseconds until a task asked for after the strike started (resumed), until what it had cut off ran again (rescued),"
            "\nuntil everything that waited or was cut off had started (worst)\n"
        )
    for finding in outcome.findings:
        print(finding)
    for failure in report.failures:
        print(f"BROKEN: {failure}")
    if not report.failures:
        print(
            f"kept: nothing lost, nothing twice at once, nothing early, through {report.struck} strikes (seed {report.course.seed})"
        )
