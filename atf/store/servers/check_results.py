"""What a check of the task store found: one value per check, for the roles' log lines and for `atf doctor`."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How much a check result matters."""

    OK = "ok"
    WARN = "warn"
    """Tasks may be lost or slow in some event; roles say so and work."""
    REFUSE = "refuse"
    """Roles do not work with it; most of them wait until it is mended."""


@dataclass(frozen=True)
class CheckResult:
    """One line of `atf doctor`."""

    check: str
    """What was looked at; stays the same between releases."""
    state: State
    value: str
    """What is there, in a word or two."""
    text: str
    """What that means; a sentence without its full stop."""
    mend: str = ""
    """What to do about it, with the exact command where there is one."""
    where: str = ""
    """The server, for people; empty: the whole store, or this host."""

    @property
    def name(self) -> str:
        """By which processes know that they have found the same. Clocks differ from host to host."""
        here = platform.node() if self.check == "clock" else ""
        return f"{self.check} {self.state} {self.where} {here}"

    @property
    def sentence(self) -> str:
        """All of it, for a log line or an error."""
        place = f"the task store at {self.where}: " if self.where else ""
        return f"{place}{self.text}" + (f". Mend it: {self.mend}" if self.mend else "")


def ok(check: str, value: str, text: str) -> CheckResult:
    """A check result that is as it should be."""
    return CheckResult(check, State.OK, value, text)


def warn(check: str, value: str, text: str, mend: str = "") -> CheckResult:
    """A check result that roles work with."""
    return CheckResult(check, State.WARN, value, text, mend)


def refuse(check: str, value: str, text: str, mend: str = "") -> CheckResult:
    """A check result that roles do not work with."""
    return CheckResult(check, State.REFUSE, value, text, mend)


def worst(results: Sequence[CheckResult]) -> State:
    """The state that counts for all of them."""
    states = {each.state for each in results}
    return next((each for each in (State.REFUSE, State.WARN) if each in states), State.OK)


class ResultChanges:
    """Which results are news, for somebody who looks again and again."""

    def __init__(self, known: Sequence[CheckResult] = ()) -> None:
        self._known = {each.name: each for each in known if each.state is not State.OK}

    @property
    def known(self) -> list[CheckResult]:
        """What is wrong now."""
        return list(self._known.values())

    def news(self, results: Sequence[CheckResult]) -> tuple[list[CheckResult], list[CheckResult]]:
        """(what is wrong now and was not before, what was wrong and is not any more)."""
        bad = {each.name: each for each in results if each.state is not State.OK}
        came = [each for key, each in bad.items() if key not in self._known]
        went = [each for key, each in self._known.items() if key not in bad]
        self._known = bad
        return came, went
