"""What the checker has to allow for: a store that forgot writes or whose clock was set back, and processes that were frozen for too long."""

from __future__ import annotations

from collections import defaultdict

from .events import Claimed, Excused, Forgot, SetBack


class Allowances:
    """What has happened so far that no promise holds against."""

    def __init__(self) -> None:
        self._forgot: list[Forgot] = []
        self._excused: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._set_back = False

    def take(self, event: Forgot | SetBack | Excused) -> None:
        """Takes note of it."""
        match event:
            case Forgot():
                self._forgot.append(event)
            case SetBack():
                self._set_back = True
            case Excused():
                self._excused[event.process].append((event.at_us, event.until_us))

    def is_forgotten(self, written_us: int) -> bool:
        """Whether the store has lost what it wrote then."""
        return any(each.since_us <= written_us <= each.at_us for each in self._forgot)

    def forgot_since(self, at_us: int) -> bool:
        """Whether the store has forgotten something from then on."""
        return any(each.at_us >= at_us for each in self._forgot)

    def is_no_more(self, claim: Claimed, following: Claimed) -> bool:
        """Whether the store has forgotten a claim, and its clock was set back so far that nothing was left for fences to grow by."""
        return self._set_back and self.is_forgotten(claim.at_us) and following.store_us <= claim.fence

    def is_excused(self, process: str, start_us: int, end_us: int) -> bool:
        """Whether a run in a process may overlap others all that time."""
        return any(since <= start_us and end_us <= until for since, until in self._excused.get(process, []))
