"""Row: the units of deploy/systemd in a booted machine: stops, restarts and upgrades of services, as an operator has them, under load.

A server and a worker host run there, and a store. Trials go round:
1. `systemctl stop` of the worker, then `start`
2. `systemctl restart` of the server; in every second of these, of the worker
3. an upgrade: /opt/atf becomes another version, then `systemctl restart atf.target`
"""

from __future__ import annotations

import asyncio
import itertools
import random
import shutil
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from atf.verify.events import Began, Ended, Event
from atf.verify.lambdas import NAMESPACE
from atf.verify.load import Load
from atf.verify.record import DIRECTORY, VerifyRecord, events
from proof.chaos import booted
from proof.chaos.bench import environment
from proof.chaos.booted import BootedMachine
from proof.chaos.frame import Figures, Progress, Row, Trial
from proof.chaos.scene import concluded, judged, start_load

LOAD: Final = Load(rate=100, long_s=5.0, long_share=0.01, failing_share=0)
"""All of it fits the default drain_timeout."""
STOP_S: Final = 45.0
"""TimeoutStopSec of the units."""
SERVER: Final = "atf-server.service"
WORKER: Final = "atf-worker@atf.verify.lambdas:app.service"
ALL: Final = "atf.target"
_STORE, _GRPC, _PAGES, _LOCAL = 17390, 17401, 17481, 17403
_SETTINGS: Final = f"""\
redis_url = "redis://127.0.0.1:{_STORE}"
[server]
listen = "127.0.0.1:{_GRPC}"
ui_listen = "127.0.0.1:{_PAGES}"
[worker]
server = "127.0.0.1:{_GRPC}"
[controller]
listen = "127.0.0.1:{_LOCAL}"
executors = 2
"""
_STORE_UNIT: Final = f"""\
[Service]
ExecStart={{redis}} --port {_STORE} --appendonly yes --maxmemory-policy noeviction --dir /var/lib
"""
_UPGRADE: Final = "upgrade"
_DEEDS: Final = (
    ("stop", WORKER),
    ("restart", SERVER),
    (_UPGRADE, ALL),
    ("stop", WORKER),
    ("restart", WORKER),
    (_UPGRADE, ALL),
)
_SETTLE_S: Final = (1.0, 3.0)


def _available() -> str:
    return booted.available() or (
        "" if shutil.which("redis-server") else "no redis-server that is installed for all users"
    )


async def _run(n: int, progress: Progress) -> Sequence[Trial]:
    folder = Path(tempfile.mkdtemp(prefix="atf-units-"))
    async with BootedMachine(folder) as machine:
        record = await _begin(machine, progress)
        env = environment(
            folder, ATF_FRONTEND=f"127.0.0.1:{_GRPC}", **{NAMESPACE: "units", DIRECTORY: str(record.directory)}
        )
        loads = {"units": start_load(folder, "units", LOAD, env)}
        versions, trials = itertools.cycle("ba"), list[Trial]()
        async for number in progress.trials(n):
            await asyncio.sleep(random.uniform(*_SETTLE_S))
            trials.append(await _do(machine, *_DEEDS[number % len(_DEEDS)], versions))
        await concluded(loads)
        record.poll()
        runs: list[Event] = [each for each in events(record) if isinstance(each, Began | Ended)]
        outcome = judged(loads, runs)
        if not trials:
            return []
        broken = [*outcome.failures, *(said for each in trials for said in each["failures"])]
        if broken:
            progress.say(f"BROKEN: {'; '.join(broken)}; the journal is in {folder}")
            (folder / "journal").write_text(await machine.journal(), "utf-8")
        trials[0] = {**outcome.figures(), **trials[0], "failures": [*outcome.failures, *trials[0]["failures"]]}
    if not broken:
        shutil.rmtree(folder, ignore_errors=True)
    return trials


async def _begin(machine: BootedMachine, progress: Progress) -> VerifyRecord:
    """Boots it, with two versions of ATF of which /opt/atf is the first; returns once all works."""
    machine.install("a")
    machine.copy("a", "b")
    machine.link("opt/atf", "a")
    machine.write("etc/atf/atf.toml", _SETTINGS)
    machine.write("etc/atf/environment", f"{DIRECTORY}=/out/record\n{NAMESPACE}=units\n")
    machine.write("etc/systemd/system/store.service", _STORE_UNIT.format(redis=shutil.which("redis-server")))
    machine.write(f"etc/systemd/system/{WORKER}.d/record.conf", "[Service]\nReadWritePaths=/out\n")
    directory = machine.out / "record"
    directory.mkdir()
    directory.chmod(0o777)
    await machine.boot()
    await machine.systemctl("start", "store.service")
    await machine.systemctl("enable", "--now", ALL, SERVER, WORKER)
    progress.say("the machine has booted, and its services work")
    return VerifyRecord(directory)


async def _do(machine: BootedMachine, deed: str, unit: str, versions: Any) -> Trial:
    began = time.monotonic()
    if deed == _UPGRADE:
        await machine.inside("ln", "-sfn", f"/opt/{next(versions)}", "/opt/atf")
    await machine.systemctl("stop" if deed == "stop" else "restart", unit)
    took = round(time.monotonic() - began, 3)
    ended = await machine.systemctl("show", "-P", "Result", SERVER, WORKER)
    if deed == "stop":
        await asyncio.sleep(random.uniform(0, 1))
        await machine.systemctl("start", unit)
    active = await machine.systemctl("show", "-P", "ActiveState", SERVER, WORKER)
    failures = [f"{deed} of {unit}: {ended.split()}, then {active.split()}"]
    good = ended.split() == ["success"] * 2 and active.split() == ["active"] * 2
    late = [f"{deed} of {unit} took {took} s, more than its TimeoutStopSec"] if took > STOP_S else []
    return {"failures": [] if good else failures, "late": late, f"{deed}_s": took}


def _nothing_counted(figures: Figures) -> list[str]:
    names = {"losses": "runs were counted as lost", "spent": "attempts were used up"}
    return [f"{figures[name]} {words}" for name, words in names.items() if figures.get(name)]


ROWS: Final = [
    Row(
        name="units",
        what="systemctl stop, restart and an upgrade, in turns, of server and worker in a booted machine, under 100 tasks/s of 5 s at most",
        bar="lost 0, no loss counted, no attempt used up, each within the unit's TimeoutStopSec",
        full=60,
        batch=20,
        run=_run,
        available=_available,
        also=("deploy/systemd", "requirements/dev.txt"),
        verdict=_nothing_counted,
    )
]
