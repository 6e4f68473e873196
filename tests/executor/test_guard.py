"""What a guard decides: when its worker drains, when it is killed, and whether its end was ordered. The time and the worker are the test's."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from atf.config.settings import ExecutorSettings, Timing
from atf.errors import ConfigError
from atf.executor.guarding.guard import Guard, KillReason
from atf.executor.guarding.start_notes import StartNotes
from atf.executor.guarding.worker_end import WorkerEnd, death
from atf.executor.table import SlotState, Stage, Table
from atf.exits import EXIT_NO_HEARTBEAT, EXIT_OVERRUN
from atf.process.stops import AT_ONCE, DRAIN

MIB = 1 << 20


class Clock:
    """A Runtime as far as a guard needs one."""

    now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def boottime_us(self) -> int:
        return round(self.now * 1_000_000)


class Worker:
    """A guard and what it watches. The worker holds one task that has started, one that has not, and one past its timeout."""

    def __init__(self, **settings: Any) -> None:
        self.clock = Clock()
        self.table = Table.in_memory(8)
        for slot, state in enumerate((SlotState.STARTED, SlotState.HELD)):
            self.table.fill(slot, f"0-{slot}", 1, "n", suspect=True)
            self.table.mark(slot, state)
        self.table.fill(2, "0-2", 1, "n")
        self.table.overrun(2, SlotState.TIMED_OUT, "timed out", 5)
        self.memory_mib = 100
        self.let_go = 0
        self.drains: list[tuple[str, int]] = []
        self.slow: list[str] = []
        self.notes = StartNotes.new()
        self.guard = Guard(
            self,  # type: ignore[arg-type]
            self.table,
            self._let_go,
            drains=lambda why, started: self.drains.append((why, started)),
            notes=self.notes,
            slow=self.slow.append,
            settings=ExecutorSettings(**settings),
            timing=Timing(),
            clocks=self.clock,  # type: ignore[arg-type]
        )

    def memory_bytes(self) -> int:
        return self.memory_mib * MIB

    def _let_go(self) -> None:
        self.let_go += 1

    def after(self, seconds: float) -> KillReason | None:
        self.clock.now += seconds
        return self.guard.look()

    def dies(self, verdict: KillReason | None = None, code: int = 137) -> dict[str, list[str]]:
        """What the guard's account says of its tasks."""
        event = json.loads(json.dumps(death("e", 1, self.guard.ended(code, verdict), self.table)))
        return {name: [claim[0] for claim in event[name]] for name in ("held", "cut", "started", "timed_out")}


LOST = {"held": ["0-1"], "cut": [], "started": ["0-0"], "timed_out": ["0-2"]}
CUT = {"held": ["0-1"], "cut": ["0-0"], "started": [], "timed_out": ["0-2"]}


@pytest.fixture
def w() -> Worker:
    return Worker()


@pytest.mark.parametrize("order", ["word first", "signal first"])
def test_a_controller_s_word_and_a_manager_s_signal_are_one_stop(w: Worker, order: str) -> None:
    for what in (order, {"word first": "signal first", "signal first": "word first"}[order]):
        asked = w.guard.told(DRAIN) if what == "word first" else w.guard.signalled(signal.SIGTERM)
        assert asked is None
        w.clock.now += 2
    assert w.guard.told(b"") is None, "and so is the controller's end"
    assert w.let_go == 1
    assert len(w.drains) == 1


def test_signals_within_a_second_are_one(w: Worker) -> None:
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM):
        assert w.guard.signalled(number) is None
        w.clock.now += 0.49
    assert w.guard.signalled(signal.SIGTERM) == KillReason("asked twice to end", ordered=True)


def test_a_closed_terminal_never_asks_twice(w: Worker) -> None:
    for _ in range(3):
        assert w.guard.signalled(signal.SIGHUP) is None
        w.clock.now += 5
    assert w.guard.signalled(signal.SIGTERM) is None, "the first of those that count"


def test_a_controller_that_was_asked_twice_ends_its_executors_at_once(w: Worker) -> None:
    assert w.guard.told(DRAIN) is None
    verdict = w.guard.told(AT_ONCE)
    assert verdict is not None
    assert w.dies(verdict) == CUT


def test_what_asks_twice_cut_counts_nothing(w: Worker) -> None:
    w.guard.signalled(signal.SIGINT)
    w.clock.now += 1
    assert w.dies(w.guard.signalled(signal.SIGINT)) == CUT


def test_a_worker_that_drains_by_itself_is_given_no_longer_than_one_that_was_told(w: Worker) -> None:
    """It was signalled itself, or one of its lambdas does not end."""
    assert w.after(100) is None
    w.table.stage = Stage.DRAINS
    assert w.after(0.5) is None
    assert w.drains == [("it drains by itself", 2)]
    assert w.after(31.9) is None
    verdict = w.after(0.2)
    assert verdict == KillReason("it did not drain within 30 s", ordered=True)
    assert w.dies(verdict) == CUT


@pytest.mark.parametrize("code", [EXIT_OVERRUN, EXIT_NO_HEARTBEAT, 143])
def test_a_worker_that_says_that_it_cuts_what_runs_has_lost_nothing(w: Worker, code: int) -> None:
    w.table.stage = Stage.CUTS
    assert w.dies(code=code) == CUT


@pytest.mark.parametrize("code", [139, 137, 1, EXIT_OVERRUN, EXIT_NO_HEARTBEAT])
def test_a_crash_in_a_drain_counts(w: Worker, code: int) -> None:
    w.guard.signalled(signal.SIGTERM)
    w.table.stage = Stage.DRAINS
    assert w.dies(code=code) == LOST


def test_a_worker_that_stands_still_in_a_drain_has_lost_what_it_ran(w: Worker) -> None:
    w.table.oldest_lease_us = w.clock.boottime_us()
    w.guard.signalled(signal.SIGTERM)
    verdict = w.after(15)
    assert verdict is not None
    assert w.dies(verdict) == LOST


def test_memory_has_two_bounds() -> None:
    w = Worker(max_rss_mib=200)
    assert w.after(1) is None
    w.memory_mib = 200
    assert w.after(1) is None
    assert w.after(1) is None
    assert w.drains == [("it took 200 MiB of memory; max_rss_mib is 200", 2)], "once"
    w.memory_mib = 299
    assert w.after(1) is None
    w.memory_mib = 300
    verdict = w.after(1)
    assert verdict == KillReason("it took 300 MiB of memory; max_rss_kill_mib is 300")
    assert w.dies(verdict) == LOST


def test_a_renewal_for_memory_that_is_not_done_in_time_counts_nothing() -> None:
    w = Worker(max_rss_mib=200, drain_timeout=5)
    w.memory_mib = 250
    assert w.after(1) is None
    assert w.dies(w.after(8)) == CUT


@pytest.mark.parametrize(("first", "second", "kills_at"), [(0, 0, 0), (200, 0, 300), (200, 500, 500), (0, 500, 500)])
def test_the_second_bound_is_half_as_much_again_unless_it_is_set(first: int, second: int, kills_at: int) -> None:
    assert ExecutorSettings(max_rss_mib=first, max_rss_kill_mib=second).rss_kill_mib == kills_at


def test_a_second_bound_below_the_first_is_refused() -> None:
    with pytest.raises(ConfigError, match="max_rss_kill_mib = 100: less than max_rss_mib, 200"):
        ExecutorSettings(max_rss_mib=200, max_rss_kill_mib=100)


def test_why_it_ended_says_that_it_cut(w: Worker) -> None:
    assert w.guard.ended(EXIT_OVERRUN, None) == WorkerEnd(
        EXIT_OVERRUN, "a lambda did not end when it had to", ordered=False
    )
    w.table.stage = Stage.CUTS
    assert w.guard.ended(EXIT_OVERRUN, None).why == "a lambda did not end when it had to, and cut what still ran"


def test_a_worker_that_ends_its_process_with_code_0_unasked_has_not_drained(w: Worker) -> None:
    """A lambda called os._exit(0)."""
    assert w.guard.ended(0, None) == WorkerEnd(1, "ended with exit code 0 without being asked to", ordered=False)
    assert w.dies(code=0) == LOST


@pytest.mark.parametrize("by", ["guard", "itself"])
def test_a_worker_that_was_asked_to_drain_and_ends_with_code_0_has_drained(w: Worker, by: str) -> None:
    if by == "guard":
        w.guard.signalled(signal.SIGTERM)
    else:
        w.table.stage = Stage.DRAINS  # it ended before its guard looked
    assert w.guard.ended(0, None) == WorkerEnd(0, "drained", ordered=False)


# --- starts --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def starting(w: Worker) -> Worker:
    """It imports its apps, and holds nothing."""
    for slot in range(3):
        w.table.free(slot)
    w.table.stage = Stage.IMPORTS
    w.notes.doing("importing shop:app")
    return w


def failed(w: Worker, code: int, verdict: KillReason | None = None) -> str:
    return w.guard.ended(code, verdict).failed_start


@pytest.mark.parametrize("stage", [Stage.IMPORTS, Stage.JOINS])
def test_a_worker_that_notes_its_error_has_failed_to_start_for_that(starting: Worker, stage: Stage) -> None:
    starting.table.stage = stage
    starting.notes.failed(ConfigError("app shop:app: SyntaxError"))
    assert starting.guard.ended(2, None) == WorkerEnd(
        2, "app shop:app: SyntaxError", ordered=False, failed_start="app shop:app: SyntaxError"
    )


def test_a_worker_that_ends_without_a_word_is_said_to_have_ended_while_it_did_so(starting: Worker) -> None:
    assert failed(starting, 7) == "ended with exit code 7 while importing shop:app"
    assert failed(starting, 139) == "killed by SIGSEGV while importing shop:app"
    assert failed(starting, 137).startswith(
        "killed by SIGKILL while importing shop:app. Where nobody did that, the kernel has"
    )


@pytest.mark.parametrize("code", [1, 4])
def test_an_error_that_ends_a_worker_later_or_in_a_drain_is_why_it_ended(w: Worker, code: int) -> None:
    w.notes.failed(ConfigError("the sentence"))
    w.guard.signalled(signal.SIGTERM)
    assert w.guard.ended(code, None) == WorkerEnd(code, "the sentence", ordered=False)
    assert w.guard.ended(EXIT_OVERRUN, None).why == "a lambda did not end when it had to"


@pytest.mark.parametrize("code", [2, 4])
def test_a_worker_whose_notes_are_lost_may_have_said_why_in_its_log(starting: Worker, code: int) -> None:
    """User code has closed them."""
    assert failed(starting, code) == f"ended with exit code {code} while importing shop:app; its own lines may say why"


def test_an_import_that_ends_the_process_with_code_0_has_failed_all_the_same(starting: Worker) -> None:
    ended = starting.guard.ended(0, None)
    assert (ended.code, ended.failed_start) == (1, "ended with exit code 0 while importing shop:app")


def test_an_import_may_take_start_timeout_and_is_spoken_of_meanwhile(starting: Worker) -> None:
    assert starting.after(29.9) is None
    assert starting.slow == []
    for _ in range(9):
        assert starting.after(30) is None
    assert starting.slow[0] == "it is still importing shop:app, 60 s after its start"
    assert len(starting.slow) == 9
    verdict = starting.after(0.2)
    assert verdict == KillReason("importing its apps took longer than 300 s (start_timeout)")
    assert failed(starting, 137, verdict) == "killed: importing its apps took longer than 300 s (start_timeout)"


def test_without_start_timeout_an_import_takes_as_long_as_it_takes() -> None:
    w = Worker(start_timeout=0)
    w.table.stage = Stage.IMPORTS
    w.table.oldest_lease_us = 0
    assert w.after(1e6) is None


def test_a_worker_that_waits_for_the_frontend_is_not_killed(starting: Worker) -> None:
    starting.table.stage = Stage.JOINS
    starting.notes.doing("registering its lambdas with the frontend at front:7401")
    assert starting.after(3_600) is None
    assert starting.slow == [
        "it is still registering its lambdas with the frontend at front:7401, 3600 s after its start"
    ]


def test_a_worker_that_is_asked_to_end_while_it_imports_is_killed_and_has_not_failed(starting: Worker) -> None:
    assert starting.guard.signalled(signal.SIGTERM) is None
    verdict = starting.after(0)
    assert verdict is not None
    assert starting.guard.ended(137, verdict) == WorkerEnd(0, verdict.why, ordered=True)


def test_a_worker_that_works_has_started_however_it_ends(w: Worker) -> None:
    for code in (0, 1, 137, 139, EXIT_OVERRUN):
        assert failed(w, code) == ""


def test_a_worker_that_the_others_refuse_once_it_works_has_failed_to_start(w: Worker) -> None:
    w.notes.failed(ConfigError("it runs on another host than its controller"))
    assert failed(w, 4) == "it runs on another host than its controller"
