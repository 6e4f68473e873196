"""Notes who did what to which tasks, when and why: one entry for each call that changed something.

An entry is the event `audit` of the frontend's log: whoever holds the store could erase it there. The store keeps the newest entries, for
`atf audit` and the UI. A call never fails because its entry could not be stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from atf.auth.caller import caller
from atf.calls.coalescing import CallLimits, Coalescer
from atf.errors import AlreadyExists, AtfError, FailedPrecondition, InvalidArgument, NotFound
from atf.log import get_logger
from atf.runtime import Runtime
from atf.store.store import Store
from atf.store.values.audit import DONE, AuditEntry

from .validate import shown

NOT_AUDITED: Final = {
    "Schedule": "every task would be an entry; its own record says when it came",
    "ScheduleMany": "every task would be an entry; its own record says when it came",
    "ScheduleBatch": "the batch's record says when it came, and of what",
}
"""RPC that changes something -> why it is not noted. Every other one is."""

MAX_WHO_CHARS: Final = 100
MAX_WHY_CHARS: Final = 500
UNKNOWN: Final = "unknown"
"""Who asks, where a request does not say."""
_DETAIL_CHARS: Final = 500
_NAMES: Final = 10
"""Names of lambdas, jobs and the like, of which it names so many."""
_LIMITS: Final = CallLimits(size=1 << 18, items=64, late_s=1.0)
_PATIENCE_S: Final = 1.0
"""How long a call waits until the store has its entry; then it is answered, and the entry goes on its way."""
CHANGED_NOTHING: Final = (InvalidArgument, NotFound, AlreadyExists, FailedPrecondition)
"""Errors of calls that were refused."""

_log = get_logger()


class Signed(Protocol):
    """A request that says who asks, and why."""

    who: str
    why: str


@dataclass
class AuditDraft:
    """The entry of a call that is under way; the call fills in what came of it."""

    what: str
    who: str
    why: str
    lambda_name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    tasks: Sequence[str] = ()
    detail: str = ""
    changed: bool = True

    def done_to(self, tasks: Iterable[tuple[str, str]]) -> None:
        """The call changed these tasks, each with its lambda, and nothing else."""
        done = list(tasks)
        self.tasks, self.changed = [task_id for task_id, _ in done], bool(done)
        self.lambda_name = some_of(name for _, name in done)

    def entry(self, outcome: str = DONE) -> AuditEntry:
        """What is noted."""
        return AuditEntry(
            self.what,
            self.lambda_name,
            dict(sorted(self.labels.items())),
            self.who,
            self.why,
            _cut(self.detail),
            list(self.tasks),
            len(self.tasks),
            _cut(outcome),
        )


class AuditLog:
    """Notes what calls did.

    Args:
        store: which keeps the newest entries.
        runtime: clocks and tasks.
    """

    def __init__(self, store: Store, runtime: Runtime) -> None:
        self._store = store
        self._entries: Coalescer[AuditEntry, None] = Coalescer(
            self._add, size=lambda entry: len(msgspec.json.encode(entry)), limits=_LIMITS, runtime=runtime, name="audit"
        )

    @asynccontextmanager
    async def write(
        self,
        what: str,
        request: Signed,
        lambda_name: str = "",
        *,
        labels: Mapping[str, str] | None = None,
        tasks: Sequence[str] = (),
        detail: str = "",
    ) -> AsyncIterator[AuditDraft]:
        """Notes what is done within it: also where that failed, since some of it may have been done by then.

        Args:
            what: the call.
            request: who asks, and why.
            lambda_name, labels, tasks: what it is to be done to.
            detail: for people. Never a payload, nor an argument's value.

        Raises:
            InvalidArgument: the request says who or why at too great a length.
        """
        who, why = signature(request)
        draft = AuditDraft(what, who, why, lambda_name, labels or {}, tasks, detail)
        try:
            yield draft
        except CHANGED_NOTHING:
            raise
        except Exception as error:
            await self.note(draft.entry(f"{type(error).__name__}: {error}; some of it may have been done"))
            raise
        except BaseException:  # the caller has gone; so there is no time to wait for the store
            self._say(entry := draft.entry("the caller went away; some of it may have been done"))
            self._entries.add([entry])
            raise
        if draft.changed:
            await self.note(draft.entry())

    async def note(self, entry: AuditEntry) -> None:
        """Says an entry in the log, and has the store keep it."""
        self._say(entry)
        await asyncio.wait([self._entries.ask_one(entry)], timeout=_PATIENCE_S)

    def _say(self, entry: AuditEntry) -> None:
        _log.info("audit", **entry.logged())

    async def _add(self, entries: list[AuditEntry], _until: float) -> list[None]:
        try:
            await self._store.add_audit(entries)
        except AtfError as error:
            _log.warning("the store did not take entries of the audit log", entries=len(entries), error=str(error))
        return [None] * len(entries)


def signature(request: Signed) -> tuple[str, str]:
    """Who asks for a change, and why. Where it is known who calls, what the request says of that counts for nothing.

    Raises:
        InvalidArgument: either is too long.
    """
    who, why = request.who, request.why
    if len(who) > MAX_WHO_CHARS:
        raise InvalidArgument(f"who: {len(who)} characters, at most {MAX_WHO_CHARS}")
    if len(why) > MAX_WHY_CHARS:
        raise InvalidArgument(f"why: {len(why)} characters, at most {MAX_WHY_CHARS}")
    return caller().name[:MAX_WHO_CHARS] or (who if who.strip() else UNKNOWN), why


def batch_detail(batch_id: str) -> str:
    """What the entry of a command to a batch says, by which those of its items are found, too."""
    return f"batch {shown(batch_id)}"


def check_who(request: Signed) -> None:
    """Of what only people and their tools do: says who asks for it.

    Raises:
        InvalidArgument: it does not, or at too great a length.
    """
    if signature(request)[0] == UNKNOWN:
        raise InvalidArgument("who: say who asks for this; it stands in the audit log")


def some_of(names: Iterable[str]) -> str:
    """Each name once, and only the first ones of many."""
    found = list(dict.fromkeys(names))
    return ", ".join(found[:_NAMES]) + ", …" * (len(found) > _NAMES)


def _cut(text: str) -> str:
    return text if len(text) <= _DETAIL_CHARS else text[: _DETAIL_CHARS - 1] + "…"
