"""Says to the HSC what an executor held when it is certainly dead.

Its guard read the tables of what it held, after the last process of its group was gone:

    held, never started       hand back: counts nothing
    started                   a loss; but of several suspects (tasks that had been lost before) none can be blamed
    cut                       started, and its end was ordered: a drain was over, or somebody asked twice. It counts nothing and runs again
    timed out, not ended      the timeout is now certain: an attempt
    stopped, not ended        cancelled
    in an answer that was not acknowledged, in no table       it never arrived: hand back
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from atf.log import get_logger
from atf.rpc import hsc_pb2 as h, task_pb2 as t
from atf.task import MAX_AHEAD_US, check_name, clip

from .reports import Reports

_log = get_logger(duty="report")


class TimedOutRun(NamedTuple):
    """A run that was still going on after its timeout."""

    claim: t.ClaimRef
    retry_in_us: int
    error: str


class Death(NamedTuple):
    """The end of an executor, as its guard tells it."""

    executor_id: str
    code: int
    why: str
    ordered: bool  # whether a stop, or its own decision, ended it
    held: list[t.ClaimRef]
    cut: list[t.ClaimRef]
    started: list[t.ClaimRef]
    suspects: frozenset[str]  # ids of those started that had been lost before
    timed_out: list[TimedOutRun]
    stopped: list[t.ClaimRef]
    failed_start: str = ""  # why it never came to work; empty: it did, or was asked to end

    @property
    def claims(self) -> list[t.ClaimRef]:
        """All that it held."""
        return [*self.held, *self.cut, *self.started, *(each.claim for each in self.timed_out), *self.stopped]


def parse_death(event: Mapping[str, Any]) -> Death:
    """Reads a guard's "dead" event.

    Raises:
        ValueError, TypeError, LookupError, OverflowError: it has another form.
    """
    return Death(
        executor_id=check_name(str(event["executor"]), "executor"),
        code=int(event["code"]),
        why=clip(str(event.get("why") or "")),
        ordered=event.get("ordered") is True,
        held=[_claim(each) for each in event.get("held", ())],
        cut=[_claim(each) for each in event.get("cut", ())],
        started=[_claim(each) for each in event.get("started", ())],
        suspects=frozenset(str(each) for each in event.get("suspects", ())),
        timed_out=[
            TimedOutRun(_claim(each[:3]), _wait(each[3]), clip(str(each[4]))) for each in event.get("timed_out", ())
        ],
        stopped=[_claim(each) for each in event.get("stopped", ())],
        failed_start=clip(str(event.get("failed_start") or "")),
    )


def report_death(death: Death, unacknowledged: Sequence[t.ClaimRef], reports: Reports) -> None:
    """Sends each claim of a dead executor on the way that its state asks for.

    Args:
        death: what the guard said.
        unacknowledged: the claims of the executor's last answer, if it did not acknowledge that.
        reports: takes what the HSC has to know.
    """
    known = {each.task_id for each in death.claims}
    why = death.why or f"executor ended with code {death.code}"
    undelivered = [each for each in unacknowledged if each.task_id not in known]
    results = [
        h.Result(claim=each.claim, outcome=t.TIMED_OUT, error=each.error, retry_in_us=each.retry_in_us)
        for each in death.timed_out
    ]
    results += [h.Result(claim=each, outcome=t.STOPPED) for each in death.stopped]
    results += [h.Result(claim=each, outcome=t.HANDED_BACK, error=clip(f"cut: {why}")) for each in death.cut]
    reports.hand_back(death.executor_id, [*death.held, *undelivered])
    shared = [each for each in death.started if each.task_id in death.suspects]
    if len(shared) == 1:
        shared = []  # the only suspect is to blame
    counted = [each for each in death.started if each not in shared]
    reports.report_loss(death.executor_id, counted, why)
    reports.report_loss(death.executor_id, shared, why, shared=True)
    reports.set_results(death.executor_id, results)
    if known or undelivered:
        _log.info(
            "executor dead",
            executor=death.executor_id,
            why=death.why,
            handed_back=len(death.held) + len(undelivered),
            cut=len(death.cut),
            lost=len(death.started),
            timed_out=len(death.timed_out),
            stopped=len(death.stopped),
        )


def _wait(us: Any) -> int:
    return min(max(int(us), 0), MAX_AHEAD_US)


def _claim(fields: Sequence[Any]) -> t.ClaimRef:
    task_id, counter, nonce = fields
    return t.ClaimRef(task_id=str(task_id), token=t.Token(counter=int(counter), nonce=str(nonce)))
