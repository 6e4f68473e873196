"""Rows: Dapr's own SDK, unmodified, of two releases, in an environment of its own each, against real roles.

A trial starts every role on an embedded store, an application made of that release's package (proof/dapr/application.py), and its client
(proof/dapr/client.py), and judges by what these two say. Then the application is ended and started at another address, the frontend started
anew with that one, and the job that was made before must find it there.
"""

from __future__ import annotations

import asyncio
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from google.protobuf.struct_pb2 import Value
from google.protobuf.wrappers_pb2 import StringValue

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.embedded.child import Child
from proof.chaos.bench import environment
from proof.chaos.frame import ROOT, Progress, Row, Trial

RELEASES: Final = ("1.16", "1.19")
HERE: Final = ROOT / "proof" / "dapr"
APP_ID: Final = "orders"
WITHIN_S: Final = 60.0
TICKS_AFTER: Final = 2

_APP = """
import atf

app = atf.App("mine")

@app.task
def nothing() -> None: ...
"""


def python_of(release: str) -> Path:
    """The interpreter of a release's environment."""
    return ROOT / ".build" / f"dapr-{release}" / "bin" / "python"


def _available(release: str) -> str:
    return "" if python_of(release).exists() else "make dapr makes the environment of Dapr's package; it is not there"


class Application:
    """The application, at one address after the other."""

    def __init__(self, release: str, folder: Path, lines: list[str]) -> None:
        self._python, self._ledger, self._lines = python_of(release), folder / "ledger", lines
        self._child: Child | None = None
        self.port = 0

    def start(self, port: int) -> None:
        self.port = port
        command = [str(self._python), "-P", str(HERE / "application.py"), str(port), str(self._ledger)]
        self._child = Child(command, env=_bare(), on_line=lambda line: self._lines.append(f"application | {line}"))

    async def stop(self) -> None:
        if self._child is not None:
            await self._child.stop(5)

    def heard(self) -> list[dict[str, Any]]:
        """The events so far."""
        with suppress(FileNotFoundError):
            return [json.loads(line) for line in self._ledger.read_text(encoding="utf-8").splitlines()]
        return []


def _bare() -> dict[str, str]:
    """Our environment without what leads to ATF's own packages."""
    return {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "PYTHONHOME"}}


async def _run(release: str, n: int, progress: Progress) -> Sequence[Trial]:
    return [await _try(release, progress) async for _ in progress.trials(n)]


async def _try(release: str, progress: Progress) -> Trial:
    lines: list[str] = []
    with tempfile.TemporaryDirectory(prefix="atf-dapr-") as name:
        folder = Path(name)
        (folder / "mine.py").write_text(_APP, encoding="utf-8")
        app = Application(release, folder, lines)
        ports = _free_ports(2)
        env = environment(folder, ATF_CONFIG=str(folder / "atf.toml"))
        env["PYTHONPATH"] += os.pathsep + str(folder)
        _configure(folder, ports[0])
        app.start(ports[0])
        try:
            settings = ClusterSettings(data_dir=str(folder / "data"), free_ports=True)
            say = lambda name, line: lines.append(f"{name} | {line}")  # noqa: E731
            async with Cluster(settings, ["mine:app"], env=env, say=say) as cluster:
                trial = await _story(release, cluster, app, folder, ports[1])
        except BaseException:
            print("\n".join(lines[-200:]), file=sys.stderr)
            raise
        finally:
            await app.stop()
        if trial["failures"]:
            progress.say("\n".join(lines[-60:]))
        return trial


async def _story(release: str, cluster: Cluster, app: Application, folder: Path, elsewhere: int) -> Trial:
    where = {"DAPR_GRPC_ENDPOINT": cluster.frontend_address, "DAPR_HTTP_ENDPOINT": f"http://{cluster.dapr_http}"}
    command = [str(python_of(release)), "-P", str(HERE / "client.py")]
    done = await asyncio.to_thread(
        subprocess.run, command, env=_bare() | where, capture_output=True, text=True, timeout=WITHIN_S, check=False
    )
    if done.returncode:
        return {"failures": [f"the client ended with {done.returncode}: {done.stderr[-2000:]}"]}
    said = json.loads(done.stdout.splitlines()[-1])
    failures = [f"{what}: {wrong}" for what, wrong in said["checks"].items() if wrong]
    failures += await _ticked(app)
    await app.stop()
    _configure(folder, elsewhere)
    await cluster.halt("frontend")
    await cluster.resume("frontend")
    app.start(elsewhere)
    moved_at = time.monotonic()
    found_again = await _until(lambda: _count(app, "steady", port=elsewhere) >= TICKS_AFTER)
    failures += [] if found_again else ["steady: the application was not found at its new address"]
    return {
        "failures": failures,
        "checks": len(said["checks"]),
        "events": len(app.heard()),
        "found again_s": round(time.monotonic() - moved_at, 3),
    }


async def _ticked(app: Application) -> list[str]:
    """What is wrong with the events of the jobs that tick."""
    wanted = {"once": 1, "thrice": 3, "fails-twice": 3, "by-http": 1}
    await _until(lambda: all(_count(app, name) >= count for name, count in wanted.items()))
    await asyncio.sleep(2)  # whether there are more than there should be
    wrong = [
        f"{name}: {_count(app, name)} events, {count} were due"
        for name, count in wanted.items()
        if _count(app, name) != count
    ]
    failed = [each["failed"] for each in app.heard() if each["name"] == "fails-twice"]
    if failed != [True, True, False]:
        wrong.append(f"fails-twice: {failed}, where it should fail, fail and succeed")
    return wrong + [found for event in app.heard() for found in _wrong_with(event)]


def _wrong_with(event: Mapping[str, Any]) -> list[str]:
    """What an event should not have said."""
    name, by_http = event["name"], event["name"] == "by-http"
    sent = Value(string_value="web") if by_http else StringValue(value=f"of {name}")
    due: dict[str, Any] = {"data": sent.SerializeToString().hex()}
    if event["way"] == "stubs":
        url = f"type.googleapis.com/{sent.DESCRIPTOR.full_name}"
        due |= {"method": f"job/{name}", "content_type": url, "type_url": url, "verb": 3}
    return [f"{name}: {field} {event[field]!r}, not {value!r}" for field, value in due.items() if event[field] != value]


def _count(app: Application, name: str, **fields: Any) -> int:
    return sum(
        each["name"] == name and all(each[field] == value for field, value in fields.items()) for each in app.heard()
    )


async def _until(holds: Any) -> bool:
    until = time.monotonic() + WITHIN_S
    while not holds():
        if time.monotonic() > until:
            return False
        await asyncio.sleep(0.1)
    return True


def _configure(folder: Path, port: int) -> None:
    """What the frontend reads when it starts."""
    settings = f'dapr_app = "{APP_ID}=127.0.0.1:{port}"\ndapr_app_id = "{APP_ID}"\ndapr_http = "127.0.0.1:0"\n'
    (folder / "atf.toml").write_text(f"[frontend]\n{settings}", encoding="utf-8")


def _free_ports(count: int) -> list[int]:
    """Ports on which nobody listens just now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


ROWS: Final = [
    Row(
        name=f"dapr-{release}",
        what=f"Dapr's own Python SDK {release}, unmodified, makes, reads, replaces and deletes jobs by gRPC and HTTP; an application made"
        " of it takes their ticks, fails some, and moves to another address",
        bar="every call answers as Dapr's documents say; every tick arrives once, with its data; two failures are tried again;"
        " the application is found where it moved",
        full=3,
        batch=1,
        run=functools.partial(_run, release),
        available=functools.partial(_available, release),
        also=("proof/dapr", "requirements/dapr"),
    )
    for release in RELEASES
]
