"""Who did what: each change of the service that was answered has a line in the log of a frontend, and each line stands in the store, where it
is told of newest first.

A line may be missing there where the frontend was killed before it had reached the store, or has said that the store did not take it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from atf.errors import AtfError
from atf.rpc import frontend_pb2 as f
from atf.store.values.audit import AuditEntry

if TYPE_CHECKING:
    from .loop import SimProcess
    from .world import World

WHO: Final = "s"
EVENT: Final = "audit"
NOT_TAKEN: Final = "the store did not take entries of the audit log"
_PAGE: Final = 40


class Audits:
    """What was done and said of it."""

    def __init__(self) -> None:
        self._asked = 0
        self._answered: set[str] = set()  # why
        self._logged: set[str] = set()
        self._said: list[tuple[SimProcess, str, str]] = []  # whose line, its fields, why
        self._doubtful: set[SimProcess] = set()
        self._taken: set[str] = set()  # by the store; the oldest go from it where it is full
        self._stored: list[str] = []

    def keep(self) -> list[str]:
        """What `forgot` takes."""
        return list(self._stored)

    def forgot(self, kept: Sequence[str]) -> None:
        """The store is as it was when these were kept; of what has been said by now it may know nothing."""
        self._said.clear()
        self._stored = list(kept)

    def signed(self, what: str) -> dict[str, str]:
        """Who asks for a change, and why, as no other call does."""
        self._asked += 1
        return {"who": WHO, "why": f"{what} {self._asked}"}

    def answered(self, why: str) -> None:
        """The call that said so has changed something, and was answered."""
        self._answered.add(why)

    def logged(self, process: SimProcess, event: str, fields: Mapping[str, Any]) -> None:
        """A process has written a line into its log."""
        if event == EVENT:
            self._logged.add(fields["why"])
            self._said.append((process, _text(fields), fields["why"]))
        elif event == NOT_TAKEN:
            self._doubtful.add(process)

    def stored(self, entries: Sequence[bytes], *, full: bool) -> None:
        """The store has taken entries; `full`: each in the place of the oldest one."""
        if full:
            del self._stored[: len(entries)]
        taken = [_text(msgspec.json.decode(each, type=AuditEntry).logged()) for each in entries]
        self._stored += taken
        self._taken.update(taken)

    def wrong(self, told: Sequence[f.AuditEntry]) -> list[str]:
        """What is wrong at the end, when the store has told of all its entries."""
        found = [f"the call {why} was answered, and no log says so" for why in sorted(self._answered - self._logged)]
        for process, said, why in self._said:
            if said not in self._taken and process.alive and process not in self._doubtful:
                found.append(f"{process.name} has the call {why} in its log, and the store was given no such entry")
        if [_text(_fields(each)) for each in reversed(told)] != self._stored:
            found.append(f"the audit log has {len(self._stored)} entries, and other {len(told)} were told")
        return found


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, sort_keys=True)


def _fields(entry: f.AuditEntry) -> dict[str, Any]:
    return AuditEntry(
        entry.what,
        getattr(entry, "lambda"),
        dict(entry.labels),
        entry.who,
        entry.why,
        entry.detail,
        list(entry.tasks),
        entry.task_count,
        entry.outcome,
    ).logged()


async def judge(world: World) -> None:
    """Reads the audit log, when nobody changes anything any more."""
    frontend, audits = world.wire_frontend(), world.server.audits
    told: list[f.AuditEntry] = []
    request = f.ListAuditRequest(page_size=_PAGE)
    while True:
        try:
            reply = await frontend.list_audit(request, timeout=10)
        except AtfError as error:
            world.chronicle.say(f"list audit failed: {error}")
            await asyncio.sleep(1)
            continue
        told += reply.entries
        request.before = reply.before
        if not reply.before:
            break
    world.chronicle.odd += audits.wrong(told)
