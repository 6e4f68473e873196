"""`make lists [TASKS=10000000]`: fills a store with so many tasks, and measures every list and filter over it.

The server is started apart and goes on when this is ended, so that a fill goes on where it was; `--stop` ends it. `--keep` writes what was filled
to disk, in .build/lists/: then the store is there again at the next call, also after `--stop` or on another day. Questions that were measured of
this code are not asked again until all are.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import redis

from atf.bench import proc
from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store.store import Store
from proof.chaos import frame

from . import ask, fill

_ROOT: Final = Path(__file__).parents[2]
_WORK: Final = _ROOT / ".build" / "lists"
_RESULTS: Final = _ROOT / "proof" / "results" / "lists"
_TABS_SHARE: Final = 0.02
_STARTS_S: Final = 20.0
_LOADS_S: Final = 900.0
"""For a store of ten million tasks on disk."""
_SLOW_US: Final = 200
"""The slow log has calls from here on."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make lists", description="Measures lists over very many tasks.")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=100, help="how often each question is asked")
    parser.add_argument("--seconds", type=float, default=60, help="for which twenty tabs are open")
    parser.add_argument("--server", default="redis-server", help="the program; it runs with its default settings")
    parser.add_argument("--partitions", type=int, default=1, help="of the store, all on one server")
    parser.add_argument("--fill-only", action="store_true", help="measure nothing")
    parser.add_argument("--keep", action="store_true", help="write the filled store to disk")
    parser.add_argument(
        "--stop", action="store_true", help="end the server, and with it what of the store is not on disk"
    )
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    size = f"{given.tasks}" + (f"x{given.partitions}" if given.partitions > 1 else "")
    folder = _WORK / size
    folder.mkdir(parents=True, exist_ok=True)
    client = redis.Redis(unix_socket_path=str(folder / "s"), socket_timeout=_LOADS_S)
    if given.stop:
        client.shutdown(nosave=True)
        return 0
    _start(given.server, folder, client)
    return asyncio.run(_run(given, size, folder, client))


def _start(server: str, folder: Path, client: redis.Redis) -> None:
    """Starts the server, unless it runs: with default settings, but for where it listens, and it writes nothing to disk by itself."""
    command = [server, "--port", "0", "--unixsocket", str(folder / "s"), "--dir", str(folder), "--save", ""]
    if not _answers(client):
        subprocess.run(
            [*command, "--daemonize", "yes", "--logfile", str(folder / "log")], check=True, stdout=subprocess.DEVNULL
        )
        until = time.monotonic() + (_LOADS_S if (folder / "dump.rdb").exists() else _STARTS_S)
        while not _answers(client):
            if time.monotonic() > until:
                raise SystemExit(f"{server} does not start: {folder / 'log'} says why")
            time.sleep(0.1)
    client.config_set("slowlog-log-slower-than", _SLOW_US)


def _answers(client: redis.Redis) -> bool:
    try:
        return bool(client.ping())
    except redis.ConnectionError:
        return False


async def _run(given: argparse.Namespace, size: str, folder: Path, client: redis.Redis) -> int:
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    settings = StoreSettings(redis_url=f"unix://{folder / 's'}", partitions=given.partitions)
    store = await Store.open(settings, Timing(), SystemRuntime())
    await fill.fill(store, client, given.tasks, say)
    say(f"there are {given.tasks:,} tasks")
    if given.keep:
        client.save()
        say(f"they are kept in {folder / 'dump.rdb'}")
    if given.fill_only:
        await store.close()
        return 0
    pieces = _Pieces(folder / "measured.json")
    result = await _measured(given, store, client, pieces, say)
    await store.close()
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-lists-{size}-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    pieces.forget()
    say(f"{result['status']}: {path}")
    return 0 if result["status"] == "ok" else 1


class _Pieces:
    """What has been measured of this code, on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        known = json.loads(path.read_text()) if path.exists() else {}
        self._found: dict[str, Any] = known.get("found", {}) if known.get("code") == frame.code() else {}

    async def get(self, name: str, measure: Callable[[], Awaitable[dict[str, Any]]]) -> dict[str, Any]:
        """Measures, unless that was done."""
        if name not in self._found:
            load = os.getloadavg()[0]
            self._found[name] = {**await measure(), "load": round(max(load, os.getloadavg()[0]), 1)}
            self._path.write_text(json.dumps({"code": frame.code(), "found": self._found}))
        found: dict[str, Any] = self._found[name]
        return found

    def forget(self) -> None:
        """Has all be measured anew."""
        self._path.unlink(missing_ok=True)


async def _measured(
    given: argparse.Namespace, store: Store, client: redis.Redis, pieces: _Pieces, say: Callable[[str], None]
) -> dict[str, Any]:
    """Asks everything; the result, as it is written."""
    told: Any = client.info()
    service, found, failed = ask.service_of(store), {}, []
    async with ask.open_pages(service) as get:
        for each in [*ask.questions(service, fill.filled_until_us(client)), *ask.pages(get)]:

            async def measure(each: ask.Asked = each) -> dict[str, Any]:
                figures = await ask.measure(each, client, given.times)
                say(f"{each.name:<34} {figures}{'' if figures.p95_ms <= each.at_most_ms else '  TOO SLOW'}")
                return figures._asdict() | {"at_most_ms": each.at_most_ms}

            found[each.name] = await pieces.get(each.name, measure)
            failed += [each.name] * (found[each.name]["p95_ms"] > each.at_most_ms)

        async def measure_tabs() -> dict[str, Any]:
            share, here = await ask.tabs(get, client, given.seconds)
            say(
                f"twenty open tabs take {share:.1%} of a core of the store, and {here:.1%} of one for the pages and the frontend"
            )
            return {"store": round(share, 4), "here": round(here, 4)}

        tabs = await pieces.get("twenty tabs", measure_tabs)
        failed += ["twenty tabs"] * (tabs["store"] > _TABS_SHARE)
    return {
        "status": "failed: " + ", ".join(failed) if failed else "ok",
        "tasks": given.tasks,
        "partitions": given.partitions,
        "times": given.times,
        "server": told["redis_version"],
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "load": max(each["load"] for each in (tabs, *found.values())),
        "code": frame.code(),
        "used_memory": told["used_memory"],
        "bytes_per_task": round(told["used_memory"] / given.tasks),
        "tabs": tabs,
        "questions": found,
    }


if __name__ == "__main__":
    sys.exit(main())
