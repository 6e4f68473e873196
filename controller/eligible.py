"""Decides whether an executor is asked for now, and for what.

All that keeps tasks from a host comes together here:

    an operator has the host drain        nothing is asked for
    the host is quarantined               nothing is asked for
    a lambda is quarantined               it is asked for without that lambda
    a lambda or the host is on trial      one call at a time asks for it; of what that brings, one task is kept

When one of these changes, the calls that are open learn it at once and ask anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from atf.rpc import task_pb2 as t
from atf.rpc.stored_spec import lambda_of
from atf.runtime import Runtime

from .calls import OpenCall
from .quarantine import EVERYTHING, Quarantine

_NONE: Final[frozenset[str]] = frozenset()


class Terms(NamedTuple):
    """What a call may ask for now."""

    room: int
    without: frozenset[str] = _NONE  # lambdas of its set


class Eligible:
    """What the executors of one host may be given.

    Attributes:
        drains: whether an operator has the host drain; call `changed` after a change.
        news: called when something is tried, which others shall know.
    """

    def __init__(self, quarantine: Quarantine, runtime: Runtime) -> None:
        self.drains = False
        self.news: Callable[[], None] = lambda: None
        self._quarantine = quarantine
        self._runtime = runtime
        self._open: dict[OpenCall, Terms | None] = {}
        self._trials: dict[str, OpenCall] = {}
        """Which call asks for what is on trial."""

    def terms(self, call: OpenCall) -> Terms | None:
        """What a call may ask for now; None: nothing. It learns of changes until `left`."""
        found = self._open[call] = self._terms(call)
        return found

    def left(self, call: OpenCall) -> None:
        """A call asks no more."""
        self._open.pop(call, None)
        held = [name for name, each in self._trials.items() if each is call]
        for name in held:
            del self._trials[name]
        if held:
            self.changed()  # another one's turn

    def changed(self) -> None:
        """What decides has changed: stirs the calls to which it makes a difference."""
        for call, before in list(self._open.items()):
            if self._terms(call) != before:
                call.stir()

    def admit(self, executor_id: str, claims: Sequence[t.Claim]) -> list[t.Claim]:
        """Those of the claims that may run now; they count as given to the executor."""
        now = self._runtime.monotonic()
        lambdas = {each.task_id: lambda_of(each.spec) for each in claims}
        refused, tries = self._quarantine.admit(lambdas, now)
        if refused:
            lambdas = {task_id: name for task_id, name in lambdas.items() if task_id not in refused}
        if lambdas:
            self._quarantine.handed(executor_id, lambdas, now)
        if tries:
            self.news()
        return [each for each in claims if each.task_id not in refused] if refused else list(claims)

    def _terms(self, call: OpenCall) -> Terms | None:
        if self.drains:
            return None
        if not self._quarantine:
            return Terms(call.room)
        now = self._runtime.monotonic()
        blocked = self._quarantine.blocked(now)
        for name in self._quarantine.untried(now) & {*call.runs.lambdas, EVERYTHING}:
            if self._trials.setdefault(name, call) is not call:
                blocked.add(name)
        if EVERYTHING in blocked or call.runs.lambdas <= blocked:
            return None
        tried = self._trials.get(EVERYTHING) is call
        return Terms(1 if tried else call.room, call.runs.lambdas & blocked)
