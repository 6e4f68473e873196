"""What callers are told of tasks, held against what these were: a status that the task had while the call was under way, and of a success the
result of a run whose outcome the store had accepted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

UNKNOWN: Final = ""
"""The status of a task that the store does not know."""
UNSAID: Final = object()
"""The result of a success in an answer that does not tell results, such as GetLog's."""


class _Success(NamedTuple):
    """The store has accepted a claim's success."""

    at_us: int
    fence: int


class RunAnswers:
    """What each task was, by the observer's clock, and what its runs returned."""

    def __init__(self) -> None:
        self._was: dict[str, list[tuple[int, str]]] = defaultdict(list)
        self._successes: dict[str, list[_Success]] = defaultdict(list)
        self._returned: dict[tuple[str, int], Any] = {}
        self._forgot_us = -1

    def saw(self, at_us: int, task_id: str, status: str) -> None:
        """A task has another status from now on."""
        self._was[task_id].append((at_us, status))

    def succeeded(self, at_us: int, task_id: str, fence: int) -> None:
        """The store has accepted that a claim's run succeeded."""
        self._successes[task_id].append(_Success(at_us, fence))

    def returned(self, task_id: str, fence: int, value: Any) -> None:
        """A claim's run has returned."""
        self._returned[task_id, fence] = value

    def forgot(self, at_us: int, since_us: int) -> None:
        """The store has lost what it had answered since an instant."""
        self._forgot_us = at_us
        for task_id, found in self._successes.items():
            self._successes[task_id] = [each for each in found if each.at_us <= since_us]

    def between(self, task_id: str, since_us: int, until_us: int) -> set[str]:
        """Every status that a task had within a time."""
        was = self._was.get(task_id, [])
        before = [status for at_us, status in was if at_us <= since_us]
        return {before[-1] if before else UNKNOWN, *(status for at_us, status in was if since_us < at_us <= until_us)}

    def check(self, task_id: str, told: str, result: Any, since_us: int, now_us: int) -> Iterator[str]:
        """What is wrong with an answer.

        Args:
            task_id: of the task.
            told: its status; UNKNOWN: that there is none.
            result: of a SUCCESS, what its run returned; UNSAID: the answer does not say.
            since_us: when the call began.
            now_us: when it was answered.
        """
        had = self.between(task_id, since_us, now_us)
        if told not in had:
            yield f"{task_id}: somebody was told {told or 'that there is none'}, and it was {sorted(had)} since {since_us / 1e6:.6f} s"
        elif told == "SUCCESS" and result is not UNSAID and self._forgot_us < since_us:
            accepted = self._successes[task_id]
            younger = [each for each in accepted if since_us < each.at_us <= now_us]
            earlier = [each for each in accepted if each.at_us <= since_us][-1:]
            values = [self._returned.get((task_id, each.fence)) for each in (*earlier, *younger)]
            if result not in values:
                yield f"{task_id}: somebody was told that it returned {result!r}, and accepted was {values}"
