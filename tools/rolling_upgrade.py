"""Upgrades a running system role by role, from a copy of this tree to this tree, and back again, under load; then judges it.

    python tools/rolling_upgrade.py [--rate TASKS_PER_SECOND] [--seconds PER_STEP] [--compact]

The copy's function library has another digest, so that both stand side by side in the store. Every role is a process with a port of its
own; a role is replaced as in any deployment: asked to end, and started anew from the other tree. Every task must succeed with its first
attempt, whatever runs beside whatever.

The result goes to proof/results/reliability/ as JSON, also where it broke down: then it has failed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

import atf
from atf.config.settings import StoreSettings, Timing
from atf.embedded import DataDir, EmbeddedStore, find_binary
from atf.runtime import SystemRuntime
from atf.store.backup.contents import libraries
from atf.store.store import Store

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the frame of results is not installed

from proof.chaos import frame  # noqa: E402

SUITE: Final = "tools/rolling_upgrade.py"
"""What tries and judges: this file alone."""
ALSO: Final = ()
PACKAGE: Final = ("atf", "frontend", "store_consumer", "controller", "executor", "hsc")
"""What a release is made of; a role's folder is linked into `atf`."""
ROLES: Final = ("store-consumer", "hsc", "frontend", "controller")
"""In the order in which they are replaced."""
FEW: Final = ("server", "worker")
"""The same of `atf server` and `atf worker`."""
WORKERS: Final = ("controller", "worker")
"""Those that know no task store."""
PARTITIONS: Final = "2"
APP: Final = """
import time
import atf

app = atf.App("up")

@app.task
def note(number: int, seconds: float = 0.0) -> int:
    time.sleep(seconds)
    return number
"""


class Role:
    """A role's process, of one release or the other."""

    def __init__(self, name: str, port: int, arguments: list[str], folder: Path) -> None:
        self.name = name
        self.address = f"127.0.0.1:{port}"
        self.arguments = arguments
        self.folder = folder
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, release: Path) -> None:
        command = [sys.executable, "-P", "-m", "atf.cli", self.name, *self.arguments, "--listen", self.address]
        with (self.folder / f"{self.name}.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--log-format", "json"],
                env={**os.environ, "PYTHONPATH": f"{release}{os.pathsep}{self.folder}"},
                cwd=self.folder,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )

    async def stop(self) -> int:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.to_thread(self.process.wait, 30)

    def kill(self) -> None:
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def copied(folder: Path) -> Path:
    """A copy of this tree, whose function library has another digest."""
    for each in PACKAGE:
        shutil.copytree(ROOT / each, folder / each, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    with (folder / "atf" / "store" / "lua" / "shared" / "basics.lua").open("a", encoding="utf-8") as file:
        file.write("-- of another release\n")
    return folder


class UpgradeLoad:
    """Schedules at a steady rate, and remembers what was accepted."""

    def __init__(self, client: atf.Client, rate: float) -> None:
        self.handles: list[Any] = []
        self._client = client
        self._rate = rate

    async def run(self, note: Any) -> None:
        number, begun = 0, time.monotonic()
        while True:
            number += 1
            seconds = 2.0 if number % 50 == 0 else 0.0
            prepared = note.options(delay=number % 3).prepare(number, seconds)
            self.handles.append(await self._client.schedule_async(prepared))
            await asyncio.sleep(max(begun + number / self._rate - time.monotonic(), 0))


@contextlib.asynccontextmanager
async def roles(folder: Path, url: str, names: tuple[str, ...]) -> AsyncIterator[dict[str, Role]]:
    ports = {name: free_port() for name in names}
    store = ["--redis-url", url, "--partitions", PARTITIONS]
    at = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
    works = ["shop_app:app", "--executors", "2"]
    more = {
        "controller": [*works, "--hsc", at.get("hsc", ""), "--frontend", at.get("frontend", "")],
        "server": ["--ui-listen", "none"],
        "worker": [*works, "--server", at.get("server", "")],
    }
    made = {
        name: Role(name, ports[name], [*more.get(name, []), *([] if name in WORKERS else store)], folder)
        for name in names
    }
    try:
        yield made
    finally:
        for each in made.values():
            each.kill()


async def main() -> None:
    parser = argparse.ArgumentParser(description="A rolling upgrade under load, and back.")
    parser.add_argument("--rate", type=float, default=50)
    parser.add_argument("--seconds", type=float, default=4, help="of load after each step")
    parser.add_argument("--compact", action="store_true", help="replace `atf server` and `atf worker`")
    parser.add_argument("--results", type=Path, default=frame.RESULTS)
    args = parser.parse_args()
    where = frame.circumstances(*ALSO, harness=SUITE)
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="atf-upgrade-") as scratch:
        folder = Path(scratch)
        old = copied(folder / "old")
        (folder / "shop_app.py").write_text(APP, encoding="utf-8")
        sys.path.append(scratch)
        data = DataDir(folder / "data")
        data.lock()
        async with (
            EmbeddedStore(find_binary(), data) as store,
            roles(folder, store.url, FEW if args.compact else ROLES) as made,
        ):
            try:
                facts = await play(made, old, args.rate, args.seconds)
                failures = judged(facts, await library_names(store.url))
            except Exception as error:  # noqa: BLE001  what could not be judged did not hold
                failures = [f"it broke down: {type(error).__name__}: {error}"]
            if failures:
                show_logs(folder)
        data.release()
    if frame.proof(*ALSO, harness=SUITE) != where["proof"]:
        sys.exit(f"{frame.CHANGED}: there is no result")
    asked = {"from": "a copy of it", "processes": [*made], "rate": args.rate, "seconds_per_step": args.seconds}
    row = {"row": "upgrade-compact"} if args.compact else {}
    frame.write(result(facts, failures) | row | asked | where, args.results)
    print("\n".join(failures) or "ok")
    sys.exit(bool(failures))


def show_logs(folder: Path) -> None:
    """The last lines of every role that was started."""
    for log in sorted(folder.glob("*.log")):
        print(log.read_text("utf-8")[-2000:], file=sys.stderr)


def judged(facts: Mapping[str, Any], libraries: str) -> list[str]:
    """What is wrong, a sentence each.

    Args:
        facts: what `play` returned.
        libraries: the names of the function libraries in the store.
    """
    looked_at = [
        (not facts["accepted"], "no task was accepted"),
        (facts["failed"], f"{facts['failed']} tasks failed: {'; '.join(facts['errors'])}"),
        (
            facts["first_attempt"] != facts["accepted"],
            f"only {facts['first_attempt']} of {facts['accepted']} tasks took one attempt",
        ),
        (facts["losses"], f"{facts['losses']} losses were counted"),
        (any(facts["exit_codes"]), f"roles ended with {facts['exit_codes']}"),
        (libraries.count("atf_") < 2, f"not two releases have used the store: {libraries}"),
    ]
    return [said for wrong, said in looked_at if wrong]


def result(facts: Mapping[str, Any], failures: list[str]) -> dict[str, Any]:
    """The result, but for what was asked for, when and where."""
    return {
        "row": "upgrade",
        "bar": "every task succeeds with its first attempt, no loss is counted, every role ends in order, and both releases have used the store",
        "status": "failed" if failures else "ok",
        "asked": 1,
        "done": 1,
        "full": 1,
        "figures": dict(facts),
        "failures": failures,
    }


async def play(made: dict[str, Role], old: Path, rate: float, seconds: float) -> dict[str, Any]:
    """Replaces every role and goes back; returns what became of the tasks and of the roles."""
    import shop_app  # type: ignore[import-not-found]

    for each in made.values():
        each.start(old)
    steps = [(name, ROOT, "to this tree") for name in made] + [(name, old, "back again") for name in reversed(made)]
    with atf.Client((made.get("frontend") or made["server"]).address) as client:
        await registered(client)
        load = UpgradeLoad(client, rate)
        task = asyncio.create_task(load.run(shop_app.note))
        await asyncio.sleep(seconds)
        codes = []
        for name, release, words in steps:
            print(f"{len(load.handles):6} tasks accepted; {name} {words}", flush=True)
            codes.append(await made[name].stop())
            made[name].start(release)
            await asyncio.sleep(seconds)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        results = await asyncio.gather(
            *(each.result_async(timeout=60) for each in load.handles), return_exceptions=True
        )
        found = [client.get(each.id) for each in load.handles]
    failed = [repr(each) for each in results if isinstance(each, BaseException)]
    facts = {
        "accepted": len(found),
        "failed": len(failed),
        "errors": failed[:3],
        "first_attempt": sum(each.attempts == 1 for each in found),
        "runs": dict(Counter(each.runs for each in found)),
        "losses": sum(each.losses for each in found),
        "exit_codes": codes,
    }
    print(json.dumps(facts))
    return facts


async def registered(client: atf.Client) -> None:
    """Waits until the executors have made their lambda known."""
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(atf.AtfError):
                if await asyncio.to_thread(client.lambdas):
                    return
            await asyncio.sleep(0.1)


async def library_names(url: str) -> str:
    """The function libraries of the store: where two releases have really used it, two."""
    settings = StoreSettings(redis_url=url, partitions=int(PARTITIONS))
    store = await Store.open(settings, Timing(), SystemRuntime())
    try:
        result = await libraries(store.link)
    finally:
        await store.close()
    print(f"function libraries: {result.value}")
    return result.value


if __name__ == "__main__":
    asyncio.run(main())
