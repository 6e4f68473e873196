"""What each task's runs must have counted: attempts, losses, and whether it runs alone. Reckoned from the calls of the store, and from what
really became of each run, and compared exactly after every move.

The numbers of docs/reference/lifecycle.md stand here once more: whoever changes them in the store changes a promise.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from atf.store.values.claims import Outcome
from atf.task import FINISHED

DRAINING_IN_A_ROW: Final = 3
UNSTARTED_IN_A_ROW: Final = 2
_HELD: Final = ("CLAIMED", "PROCESSING")
_RESTING: Final = frozenset(each.name for each in FINISHED)
_RETRIES: Final = {"retry_tasks", "redrive"}
_FINISH, _LOSE, _BEAT = 11, 3, 6
"""Arguments of one run, one claim, one beat."""
Token = tuple[str, int, str]
"""A task's id, and the counter and the nonce of a claim of it."""
CRASHES: Final = re.compile(r"is killed|poisoned .*|crashes.*|is killed by its guard: its leases .*")
"""Why a process is gone which something has killed; its guard has seen it."""
STOPS: Final = re.compile(r"ends by itself \((0|76)\)|is killed by its guard: it did not drain .*")
"""And why one is gone that was asked to end: all was done, or its drain was over. With the exit code, where it ended by itself."""


@dataclass
class Tally:
    """What one task's record must say."""

    attempts: int = 0
    losses: int = 0
    alone: bool = False
    draining: int = 0  # ends in a row of leases whose executors had said that they drain
    unstarted: int = 0  # and of those whose runs had not said that they started
    marked: int = 0  # the counter of the newest claim whose executor has said that it drains

    def ends(self) -> None:
        """A run has ended otherwise."""
        self.draining = self.unstarted = 0

    def lapses(self, status: str, counter: int) -> None:
        """A lease has expired."""
        if status == "PROCESSING":
            self.unstarted = 0
        if self.marked == counter:
            self.draining += 1
            forgiven = self.draining <= DRAINING_IN_A_ROW
        elif status == "CLAIMED":
            self.unstarted += 1
            forgiven = self.unstarted <= UNSTARTED_IN_A_ROW
            self.alone = self.alone or not forgiven
        else:
            forgiven = False
        if not forgiven:
            self.losses += 1
            self.ends()


class Counts:
    """The tallies of a seed's tasks.

    Attributes:
        tallies: by task, as far as the store knows them.
    """

    def __init__(self) -> None:
        self.tallies: dict[str, Tally] = {}
        self._ran_in: dict[Token, str] = {}
        self._open: set[Token] = set()
        self._gone: dict[str, str] = {}

    # --- what really happened -----------------------------------------------------------------------------------------

    def began(self, token: Token, process: str) -> None:
        """The body of a run has begun in a process."""
        self._ran_in[token] = process
        self._open.add(token)

    def ended(self, token: Token) -> None:
        """It has ended, in whatever way."""
        self._open.discard(token)

    def gone(self, process: str, code: int, why: str) -> None:
        """A process has ended."""
        self._gone[process] = f"{why} ({code})" if why == "ends by itself" else why

    # --- what the store was told and what it made of it ---------------------------------------------------------------

    def keep(self) -> dict[str, Tally]:
        """What `forgot` takes."""
        return copy.deepcopy(self.tallies)

    def forgot(self, kept: Mapping[str, Tally]) -> None:
        """The store is as it was when these were kept."""
        self.tallies = copy.deepcopy(dict(kept))

    def look(
        self,
        verb: str,
        args: Sequence[Any],
        reply: Any,
        before: Mapping[str, tuple[str, int]],
        after: Mapping[str, tuple[str, int]],
        field: Callable[[str, str], str | None],
    ) -> Iterator[str]:
        """What is odd about a call: it should have been another one, or the store has counted otherwise.

        Args:
            verb: of the store.
            args: those of the call, behind the partition's record.
            reply: its answer.
            before: status and counter of each task that the call has written to, as they were.
            after: as they are.
            field: reads a field of a task.
        """
        for task_id in before.keys() - after.keys():
            self.tallies.pop(task_id, None)
        for task_id, (status, _) in after.items():
            was = before.get(task_id, ("",))[0]
            if task_id not in before or (was in _RESTING and (was != status or verb in _RETRIES)):
                self.tallies[task_id] = Tally()
        match verb:
            case "heartbeat" if str(args[3]) == "1" and reply[0] != b"unlisted":
                for verdict, each in zip(reply[:-1], _runs(args[4:], _BEAT), strict=True):
                    if verdict != Outcome.FAILED:  # 2: lost
                        self.tallies[each[0]].marked = int(each[1])
            case "set_results":
                yield from self._finished(args[1:], reply, before)
            case "report_loss":
                yield from self._lost(args[3:], reply, before, shared=str(args[2]) == "1")
            case "enqueue":
                for task_id, (status, counter) in before.items():
                    if status in _HELD and after.get(task_id, ("", 0))[0] != status:
                        self.tallies[task_id].lapses(status, counter)
                    elif field(task_id, "mf") and int(field(task_id, "a") or 0) == self.tallies[task_id].attempts + 1:
                        self.tallies[task_id].attempts += 1  # it fitted nobody for too long: judged by deploys.py
        for task_id, (status, _) in after.items():
            yield from self._compared(verb, task_id, field, live=status not in _RESTING)

    def _finished(self, args: Sequence[Any], reply: Sequence[int], before: Mapping[str, Any]) -> Iterator[str]:
        told = set()
        runs = _runs(args, _FINISH)
        for verdict, each in zip(reply[: len(runs)], runs, strict=True):  # behind them stands how many tasks ended
            task_id = each[0]
            if verdict != 1 or task_id in told or before.get(task_id, ("",))[0] not in _HELD:
                continue
            told.add(task_id)
            token, outcome, began = (task_id, int(each[1]), each[2]), Outcome(int(each[3])), str(each[8]) != ""
            self.tallies[task_id].attempts += began and outcome not in {Outcome.HANDED_BACK, Outcome.MISFIT}
            self.tallies[task_id].ends()
            if outcome is Outcome.STOPPED and began is not (token in self._ran_in):
                said = "ended" if began else "never began"
                yield f"{task_id}: claim {token[1]} was said to be a run that {said}, and that is not so"
            if outcome is Outcome.HANDED_BACK and token in self._open and CRASHES.fullmatch(why := self._end_of(token)):
                yield f"{task_id}: claim {token[1]} was handed back, and its process {why}"

    def _lost(
        self, args: Sequence[Any], reply: Sequence[int], before: Mapping[str, Any], *, shared: bool
    ) -> Iterator[str]:
        told = set()
        for verdict, each in zip(reply, _runs(args, _LOSE), strict=True):
            task_id = each[0]
            if verdict != 1 or task_id in told or before.get(task_id, ("",))[0] not in _HELD:
                continue
            told.add(task_id)
            tally, token = self.tallies[task_id], (task_id, int(each[1]), each[2])
            if shared and tally.losses:
                tally.alone = True
            else:
                tally.losses += 1
            tally.ends()
            if STOPS.fullmatch(why := self._end_of(token)):
                yield f"{task_id}: claim {token[1]} was reported as lost, and its process {why}"

    def _end_of(self, token: Token) -> str:
        """Why the process of a run is gone; "": it lives, or the run never began."""
        return self._gone.get(self._ran_in.get(token, ""), "")

    def _compared(
        self, verb: str, task_id: str, field: Callable[[str, str], str | None], *, live: bool
    ) -> Iterator[str]:
        """One that has ended needs not be said to run alone."""
        must, has = self.tallies.get(task_id), tuple(int(field(task_id, name) or 0) for name in ("a", "l", "z"))
        if must is not None and has != (must.attempts, must.losses, int(must.alone) if live else has[2]):
            yield (
                f"{task_id}: {verb} has it at {has[0]} attempts, {has[1]} losses{', alone' if has[2] else ''}; its runs"
                f" come to {must.attempts} and {must.losses}{', alone' if must.alone else ''}"
            )


def _runs(args: Sequence[Any], each: int) -> list[Sequence[Any]]:
    return [args[start : start + each] for start in range(0, len(args), each)]
