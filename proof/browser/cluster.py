"""Starts a cluster with pages for a row, fills it, and ends it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from .proxy import NAME, PATH, proxy_of

ROOT: Final = Path(__file__).parents[2]
ATF: Final = (str(ROOT / ".venv" / "bin" / "python"), "-P", "-m")
"""Runs modules in ATF's own environment; this one has the browser."""
APPS: Final = {"full": "shop", "many": "many", "empty": "nothing", "pictured": "pictured"}
"""The module of lambdas of each variant."""
UP_S: Final = 90
_TOML: Final = "".join(
    f'[{name}]\nlisten = "127.0.0.1:0"\n' for name in ("frontend", "hsc", "store_consumer", "controller", "ui")
)


@dataclass(frozen=True)
class Filled:
    """A cluster with tasks.

    Attributes:
        pages: the address of pages that act.
        only_look: the address of pages with --read-only.
        proxied: the address of pages that act, behind a proxy.
        ids: of what was made, by what it is.
        actions: the names of all actions that pages offer.
    """

    pages: str
    only_look: str
    proxied: str
    ids: dict[str, str]
    actions: list[str]


@contextlib.contextmanager
def filled(variant: str) -> Iterator[Filled]:
    """A cluster of its own on free ports, filled, with two processes that serve its pages."""
    with tempfile.TemporaryDirectory(prefix="atf-browser-") as folder, contextlib.ExitStack() as ends:
        Path(folder, "atf.toml").write_text(_TOML, encoding="utf-8")
        up = _started(ends, folder, "up", f"proof.browser.{APPS[variant]}:app", "--json")
        where = _said(up, "ui", folder)
        frontend = where["roles"]["frontend"]
        ui = _started(
            ends, folder, "ui", "--frontend", frontend, "--read-only", "true", "--log-format", "json", err=True
        )
        only_look = _said(ui, "address", folder)["address"]
        below = ("--base-path", PATH, "--public-hosts", NAME)
        behind = _started(
            ends, folder, "ui", "--frontend", frontend, *below, "--log-format", "json", err=True, name="behind"
        )
        proxied = ends.enter_context(proxy_of(_said(behind, "address", folder)["address"]))
        fill = subprocess.run(
            [*ATF, "proof.browser.fill", frontend, variant],
            cwd=ROOT,
            env=_env(),
            capture_output=True,
            text=True,
            check=False,
        )
        if fill.returncode:
            raise RuntimeError(f"filling the cluster failed: {fill.stderr[-2_000:]}")
        made = json.loads(fill.stdout)
        yield Filled(f"http://{where['ui']}", f"http://{only_look}", proxied, made["ids"], made["actions"])


@dataclass(frozen=True)
class Guarded:
    """A cluster whose pages ask for a token, over encrypted tasks.

    Attributes:
        pages: their address.
        tokens: by their holders, as guarded.py has them.
        ids: of tasks, by what became of them.
        revoke: the words of the command that revokes the operator's token.
    """

    pages: str
    tokens: dict[str, str]
    ids: dict[str, str]
    revoke: list[str]


@contextlib.contextmanager
def guarded() -> Iterator[Guarded]:
    """Such a cluster, on free ports."""
    with tempfile.TemporaryDirectory(prefix="atf-browser-") as folder, contextlib.ExitStack() as ends:
        child = _started(ends, folder, folder, module="proof.browser.guarded", name="guarded")
        said = _said(child, "ui", folder)
        yield Guarded(f"http://{said['ui']}", said["tokens"], said["ids"], said["revoke"])


def atf(*words: str) -> None:
    """Runs a command of atf."""
    subprocess.run([*ATF, "atf.cli", *words], cwd=ROOT, env=_env(), check=True, capture_output=True)


def _env() -> dict[str, str]:
    left = {name: value for name, value in os.environ.items() if not name.startswith(("ATF_", "PYTHON"))}
    return {**left, "PYTHONPATH": str(ROOT), "TZ": "UTC"}


def end_in_order() -> None:
    """Has a signal that asks this process to end unwind it, so that clusters end with it. They are in sessions of their own, and would stay."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))


def _started(
    ends: contextlib.ExitStack, folder: str, *words: str, err: bool = False, name: str = "", module: str = "atf.cli"
) -> subprocess.Popen[str]:
    """A command of atf, or another module, whose lines go to a file of its name."""
    name = name or words[0]
    out = Path(folder, f"{name}.out")
    with out.open("w", encoding="utf-8") as file, Path(folder, f"{name}.err").open("w", encoding="utf-8") as other:
        child = subprocess.Popen(
            [*ATF, module, *words],
            cwd=folder, env=_env(), stdout=other if err else file, stderr=file if err else other, text=True, start_new_session=True,
        )  # fmt: skip
    child.args = [str(out)]
    ends.callback(_end, child)
    return child


def _said(child: subprocess.Popen[str], field: str, folder: str) -> dict[str, Any]:
    """The first line of JSON with this field."""
    (path,) = child.args  # type: ignore[misc]
    end = time.monotonic() + UP_S
    while time.monotonic() < end and child.poll() is None:
        for line in Path(str(path)).read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValueError):
                found = json.loads(line)
                if isinstance(found, dict) and found.get(field):
                    return found
        time.sleep(0.2)
    said = "".join(each.read_text(encoding="utf-8")[-1_500:] for each in Path(folder).glob("*.err"))
    raise RuntimeError(f"not up after {UP_S} s: {said}")


def _end(child: subprocess.Popen[str]) -> None:
    """Asks it to end, and once more: then it ends at once what its tasks still run."""
    for seconds in (2, 20):
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(seconds)
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
