"""Lambdas of two namespaces. They say, hold, and hand out what their process shows to the roles."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import atf
from atf.rpc.caller_security import own

PHRASE = "plain words of a payload"
own_app = atf.App("own")
other_app = atf.App("other")


def say(word: str) -> str:
    print("said", word)
    return word


def fail(word: str) -> None:
    secret = own()
    raise RuntimeError(f"no {word}: {secret!r}")


def hold(ctx: atf.Context, seconds: float) -> None:
    ctx.progress(f"at {PHRASE}")
    time.sleep(seconds)


def show() -> str:
    """The credential that any lambda can read in its own process."""
    shown = own().metadata()
    return shown[0][1].rpartition(" ")[2] if shown else ""


def pry(path: str) -> dict[str, str]:
    """Who runs this, and what comes of reading a file and of signalling the guard and the controller."""
    guard = os.getppid()
    controller = int(Path(f"/proc/{guard}/stat").read_text().rpartition(")")[2].split()[1])
    return {
        "uid": str(os.getuid()),
        "environment": " ".join(os.environ),
        "file": _outcome(lambda: Path(path).read_bytes()),
        "guard": _outcome(lambda: os.kill(guard, 0)),
        "controller": _outcome(lambda: os.kill(controller, 0)),
    }


def _outcome(do: Callable[[], object]) -> str:
    try:
        do()
    except OSError as error:
        return type(error).__name__
    return "done"


for app in (own_app, other_app):
    app.task(logs="all")(say)
    app.task(fail)
    app.task(hold)
    app.task(pry)
    app.task(show)
