"""A year of jobs that tick once a day, in five zones under each policy for changes of the clocks: the whole pipeline, by a simulated clock.

python -m tests.schedule.year, or `make chaos ROW=daily-year`, which records it

It takes some minutes: every tick is a task that runs. What is expected is worked out from zoneinfo alone.
"""

from __future__ import annotations

import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import atf
from atf.testing import Harness

from .clocks import POLICIES, ZONES, daily

YEAR = 2026
"""In which the harness begins."""
TIMES = {"@daily": (0, 0), "0 30 2 * * *": (2, 30)}
STEP = timedelta(days=30)

app = atf.App("year")
ran: dict[str, list[datetime]] = defaultdict(list)


@app.task
def tick(ctx: atf.Context) -> None:
    ran[ctx.job].append(ctx.scheduled_at)


def jobs() -> Iterator[tuple[str, str, str, str, str]]:
    for schedule in TIMES:
        for zone in ZONES:
            for gap, fold in POLICIES:
                name = f"year/{schedule} {zone} {gap} {fold}".replace("/", "-").replace("year-", "year/", 1)
                yield name.replace("*", "x"), schedule, zone, gap, fold


def main() -> int:
    began = time.perf_counter()
    differing = []
    with Harness(app) as h:
        for name, schedule, zone, gap, fold in jobs():
            h.client.schedule_job(name, tick.prepare(), schedule, tz=zone, gap=gap, fold=fold)
        made, end = h.now, datetime(YEAR + 1, 1, 1, tzinfo=UTC)
        while h.now < end:
            h.advance(min(STEP, end - h.now))
            print(f"{h.now:%Y-%m-%d}", file=sys.stderr, flush=True)
        for name, schedule, zone, gap, fold in jobs():
            there = (daily(ZoneInfo(zone), year, *TIMES[schedule], gap, fold) for year in (YEAR, YEAR + 1))
            expected = [at for year in there for at in year if made < at <= end]
            if ran[name] != expected:
                differing.append({"job": name, "ran": len(ran[name]), "expected": len(expected)})
    ticks = sum(map(len, ran.values()))
    told = {"what": "a year of daily jobs", "jobs": len(list(jobs())), "ticks": ticks, "differing": differing}
    print(json.dumps(told | {"seconds": round(time.perf_counter() - began, 1)}))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
