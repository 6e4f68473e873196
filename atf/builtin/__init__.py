"""Lambdas that come with ATF: every executor runs them beside its user's, in the namespace "atf", which is theirs alone.

A handler imports what it needs when it runs: most executors never use one, and start no slower for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from atf.config.settings import ExecutorSettings
from atf.errors import ConfigError
from atf.runtime import SystemRuntime
from atf.sdk.app import App
from atf.sdk.lambdas import Lambda

from .command import add_command
from .dapr import add_dapr_job
from .http import add_http, http_request

__all__ = ["NAMESPACE", "http_request", "with_builtins"]

NAMESPACE: Final = "atf"


def with_builtins(lambdas: Mapping[str, Lambda[..., Any]], settings: ExecutorSettings) -> dict[str, Lambda[..., Any]]:
    """A user's lambdas and ours, by name.

    Raises:
        ConfigError: a lambda of the user's lies in our namespace.
    """
    for name in lambdas:
        if name.startswith(f"{NAMESPACE}/"):
            raise ConfigError(f"lambda {name}: the namespace {NAMESPACE!r} is ATF's own; give the app another one")
    app = App(NAMESPACE)
    add_http(app, settings.allowed_hosts, SystemRuntime())
    add_dapr_job(app, settings)
    add_command(app, settings.allowed_programs)
    return dict(sorted({**lambdas, **app.lambdas}.items()))
