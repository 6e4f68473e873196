"""Says how a worker ended, and what it held then."""

from __future__ import annotations

import signal
from typing import Any, Final, NamedTuple

from atf.executor.table import SlotState, Table
from atf.exits import EXIT_FORKED, EXIT_NO_HEARTBEAT, EXIT_OK, EXIT_OVERRUN

CRASHES: Final = frozenset(
    128 + each for each in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
)
"""Exit codes of crashes, of which faulthandler notes the line."""
_WHY: Final = {
    EXIT_OK: "drained",
    EXIT_FORKED: "came back from a fork within a lambda",
    EXIT_NO_HEARTBEAT: "could not keep its leases",
    EXIT_OVERRUN: "a lambda did not end when it had to",
}
DEATH_CLAIMS: Final = ("held", "cut", "started", "timed_out", "stopped")
"""What the account of a dead worker says of its claims; `started` is lost."""


class WorkerEnd(NamedTuple):
    """How a worker ended."""

    code: int
    """Its exit code, 128 + n for signal n."""
    why: str
    ordered: bool
    """Whether a stop cut short what still ran: a drain that was over, or somebody who asked twice. Then that counts nothing."""
    failed_start: str = ""
    """Why it never came to work; empty: it did, or was asked to end."""


def death(executor_id: str, pid: int, ended: WorkerEnd, table: Table) -> dict[str, Any]:
    """The event that says what a dead worker held. What had started is `cut` where its end was ordered, else it is lost: `started`."""
    claims: dict[SlotState, list[list[Any]]] = {state: [] for state in SlotState}
    suspects = []
    for entry in table.entries():
        claim: list[Any] = [entry.task_id, entry.counter, entry.nonce]
        if entry.state is SlotState.TIMED_OUT:
            claim += [entry.retry_in_us, entry.error]
        claims[entry.state].append(claim)
        if entry.suspect and entry.state is SlotState.STARTED:
            suspects.append(entry.task_id)
    started = claims[SlotState.STARTED]
    return {
        "event": "dead",
        "executor": executor_id,
        "pid": pid,
        "code": ended.code,
        "why": ended.why,
        "ordered": ended.ordered,
        "failed_start": ended.failed_start,
        "held": claims[SlotState.HELD],
        "cut": started if ended.ordered else [],
        "started": [] if ended.ordered else started,
        "suspects": [] if ended.ordered else suspects,
        "timed_out": claims[SlotState.TIMED_OUT],
        "stopped": claims[SlotState.STOPPED],
    }


def reason_of(code: int) -> str:
    """An exit code in words."""
    if code > 128:
        name = signal.Signals(code - 128).name if code - 128 in list(signal.Signals) else f"signal {code - 128}"
        return f"killed by {name}"
    return _WHY.get(code, f"ended with exit code {code}")
