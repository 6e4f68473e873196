"""Lambdas of two namespaces. They say, hold, and hand out what their process shows to the roles."""

from __future__ import annotations

import time

import atf
from atf.rpc.caller_security import own

PHRASE = "plain words of a payload"
own_app = atf.App("own")
other_app = atf.App("other")


def say(word: str) -> str:
    print("said", word)
    return word


def hold(ctx: atf.Context, seconds: float) -> None:
    ctx.progress(f"at {PHRASE}")
    time.sleep(seconds)


def show() -> str:
    """The credential that any lambda can read in its own process."""
    shown = own().metadata()
    return shown[0][1].rpartition(" ")[2] if shown else ""


for app in (own_app, other_app):
    app.task(logs="all")(say)
    app.task(hold)
    app.task(show)
