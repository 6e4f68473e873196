"""The shop that drills are about: its lambdas, in two releases, of which the newer one is bad; and the load on it.

`DRILL_WORLD` names a folder that stands for what is outside of ATF: a file `payments.down` there means that payments does not answer.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import atf

GOOD, BAD = 41, 42
"""Releases: the one that runs, and the one whose mails fail for every other customer."""
_APP: Final = """
import ctypes, os, random, time
from pathlib import Path
import atf

WORLD = Path(os.environ["DRILL_WORLD"])
app = atf.App("shop")

@app.task
def thumbnail(path: str) -> None:
    time.sleep(0.2)
    if path.endswith(".webp2"):
        ctypes.string_at(0)

@app.task(max_attempts=2, backoff=atf.Backoff(1, factor=1))
def mail(customer: int) -> None:
    time.sleep(0.1)
    template = TEMPLATES[customer % 2]

@app.task(max_attempts=100, backoff=atf.Backoff(2, factor=1))
def charge(order: int) -> None:
    time.sleep(0.1)
    if (WORLD / "payments.down").exists():
        raise TimeoutError("payments.example did not answer")

@app.task(slo="1s 99%", owner="dana", max_running=50)
def bill(order: int) -> None:
    time.sleep(0.5)

@app.task
def search(words: str) -> int:
    time.sleep(0.4)
    return len(words)

@app.task(retention="7d", owner="finance")
def export(year: int) -> str:
    return random.randbytes(30_000).hex()

@app.task
def report(day: str = "") -> None:
    with (WORLD / "reports").open("a") as made:
        made.write("made\\n")

TEMPLATES = {templates}
"""
_TEMPLATES: Final = {GOOD: '["dear", "hello"]', BAD: '{0: "dear"}'}
PER_SECOND: Final = {"shop/thumbnail": 4.0, "shop/mail": 3.0, "shop/charge": 3.0, "shop/bill": 3.0, "shop/search": 2.0}


def write_releases(folder: Path) -> None:
    """Each release is a folder with the module `shop`."""
    for release, templates in _TEMPLATES.items():
        (folder / str(release)).mkdir(parents=True)
        (folder / str(release) / "shop.py").write_text(_APP.replace("{templates}", templates), "utf-8")


class SteadyLoad:
    """Schedules tasks of every lambda until it is stopped, and counts what is refused."""

    def __init__(self, client: atf.AsyncClient) -> None:
        self._client = client
        self._tasks = [asyncio.create_task(self._run(name, rate)) for name, rate in PER_SECOND.items()]
        self.refused = 0

    async def stop(self) -> None:
        for each in self._tasks:
            each.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self, name: str, rate: float) -> None:
        while True:
            await asyncio.sleep(random.expovariate(rate))
            with contextlib.suppress(atf.AtfError):
                self.refused += 1
                await self._client.schedule(name, _arguments(name))
                self.refused -= 1


def _arguments(name: str) -> Mapping[str, Any]:
    number = random.randrange(100_000)
    values: dict[str, dict[str, Any]] = {
        "thumbnail": {"path": f"{number}.png"},
        "search": {"words": f"lamp {number}"},
        "mail": {"customer": number},
    }
    return values.get(name.partition("/")[2], {"order": number})
