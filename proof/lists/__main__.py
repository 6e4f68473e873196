"""`make lists [TASKS=10000000]`: fills a store with so many tasks, and measures every list and filter over it.

The server is started apart and goes on when this is ended, so that a fill goes on where it was; `--stop` ends it.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
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
_SLOW_US: Final = 200
"""The slow log has calls from here on."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="make lists", description="Measures lists over very many tasks.")
    parser.add_argument("--tasks", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=100, help="how often each question is asked")
    parser.add_argument("--seconds", type=float, default=60, help="for which twenty tabs are open")
    parser.add_argument("--server", default="redis-server", help="the program; it runs with its default settings")
    parser.add_argument("--fill-only", action="store_true", help="measure nothing")
    parser.add_argument("--stop", action="store_true", help="end the server, and with it the store")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    given = parser.parse_args()
    folder = _WORK / str(given.tasks)
    folder.mkdir(parents=True, exist_ok=True)
    client = redis.Redis(unix_socket_path=str(folder / "s"), socket_timeout=60)
    if given.stop:
        client.shutdown(nosave=True)
        return 0
    _start(given.server, folder, client)
    return asyncio.run(_run(given, folder, client))


def _start(server: str, folder: Path, client: redis.Redis) -> None:
    """Starts the server, unless it runs: with default settings, but for where it listens, and nothing is written to disk."""
    command = [server, "--port", "0", "--unixsocket", str(folder / "s"), "--dir", str(folder), "--save", ""]
    if not _answers(client):
        subprocess.run(
            [*command, "--daemonize", "yes", "--logfile", str(folder / "log")], check=True, stdout=subprocess.DEVNULL
        )
        until = time.monotonic() + _STARTS_S
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


async def _run(given: argparse.Namespace, folder: Path, client: redis.Redis) -> int:
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    settings = StoreSettings(redis_url=f"unix://{folder / 's'}", partitions=1)
    store = await Store.open(settings, Timing(), SystemRuntime())
    await fill.fill(store, client, given.tasks, say)
    say(f"there are {given.tasks:,} tasks")
    result = {} if given.fill_only else await _measured(given, store, client, say)
    await store.close()
    if given.fill_only:
        return 0
    given.results.mkdir(parents=True, exist_ok=True)
    path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-lists-{given.tasks}-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    say(f"{result['status']}: {path}")
    return 0 if result["status"] == "ok" else 1


async def _measured(
    given: argparse.Namespace, store: Store, client: redis.Redis, say: Callable[[str], None]
) -> dict[str, Any]:
    """Asks everything; the result, as it is written."""
    told: Any = client.info()
    service, found, failed = ask.service_of(store), {}, []
    for each in ask.questions(service):
        figures = await ask.measure(each, client, given.times)
        good = figures.p95_ms <= each.at_most_ms
        failed += [each.name] * (not good)
        found[each.name] = figures._asdict() | {"at_most_ms": each.at_most_ms}
        say(f"{each.name:<34} {figures}{'' if good else '  TOO SLOW'}")
    share = await ask.tabs(service, client, given.seconds)
    say(f"twenty open tabs take {share:.1%} of a core of the store")
    failed += ["twenty tabs"] * (share > _TABS_SHARE)
    return {
        "status": "failed: " + ", ".join(failed) if failed else "ok",
        "tasks": given.tasks,
        "times": given.times,
        "server": told["redis_version"],
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "code": frame.code(),
        "used_memory": told["used_memory"],
        "bytes_per_task": round(told["used_memory"] / given.tasks),
        "tabs_core": round(share, 4),
        "questions": found,
    }


if __name__ == "__main__":
    sys.exit(main())
