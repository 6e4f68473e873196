"""Gates of lambdas, as a client sets and sees them."""

from __future__ import annotations

import builtins
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final

from atf.errors import InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.runtime import Runtime, new_id
from atf.sdk.messages import of_lambda, value_of
from atf.sdk.options import Duration, duration_us, instant_us
from atf.sdk.payload import short
from atf.task import MAX_BATCH

from .info import ACTION_WORDS, AuditInfo, FailureGroupInfo, GateInfo
from .matching import bound_us
from .whoami import signed

if TYPE_CHECKING:
    from .calls import Calls

_ACTIONS: Final = {word: number for number, word in ACTION_WORDS.items()}


class GateCalls:
    """The calls of an AsyncClient about gates."""

    _calls: Calls
    _runtime: Runtime

    async def gate(
        self,
        lambda_name: str,
        action: str,
        *,
        labels: Mapping[str, str] | None = None,
        by: Duration | None = None,
        share: float | None = None,
        until: datetime | Duration | None = None,
        why: str = "",
        who: str = "",
    ) -> GateInfo:
        """Sets a gate, in the place of the one of the lambda with the same action and labels.

        Args:
            lambda_name: "namespace/name".
            action: "pause": its tasks wait; "drop": they are cancelled; "delay": each waits once, `by` so much; "admit": a `share` of
                them passes, the others wait.
            labels: only tasks that have all of these; None: all.
            by: of "delay": seconds, a timedelta or text such as "5m".
            share: of "admit": more than 0, less than 1.
            until: an instant with a time zone, or seconds, a timedelta or text such as "5m" from now; None: until it is lifted.
            why: for the audit log.
            who: for the audit log; default: the user of this process, its host and its program.

        Raises:
            InvalidArgument, UnknownLambda: it was refused; nothing has changed.
            FailedPrecondition: the lambda has as many gates as it may have.
        """
        for option, given, owner in (("by", by, "delay"), ("share", share, "admit")):
            if given is not None and action != owner:
                raise InvalidArgument(f"{option}={short(given)}: only the action {owner!r} has one; leave it out")
        request = f.SetGateRequest(
            labels=labels or {},
            action=action_of(action),
            delay_us=0 if by is None else duration_us(by, "by"),
            share=0 if share is None else share,
            **signed(who, why),
            request_id=new_id(self._runtime.random),
            **of_lambda(lambda_name),
        )
        if isinstance(until, datetime):
            request.until_at_us = instant_us(until, "until")
        elif until is not None:
            request.for_us = duration_us(until, "until")
        return GateInfo.from_proto(await self._calls.set_gate(request))

    async def lift_gate(
        self,
        lambda_name: str,
        action: str | None = None,
        *,
        labels: Mapping[str, str] | None = None,
        why: str = "",
        who: str = "",
    ) -> int:
        """Lifts a lambda's gates with these labels; only that of one action, where it is named. What they kept goes on.

        Returns:
            how many were lifted; 0: there was none.
        """
        request = f.LiftGateRequest(
            labels=labels or {},
            action=None if action is None else action_of(action),
            **signed(who, why),
            **of_lambda(lambda_name),
        )
        return (await self._calls.lift_gate(request)).lifted

    async def gates(self, lambda_name: str = "") -> builtins.list[GateInfo]:
        """The gates of a lambda, or of all, with what each keeps and has dropped."""
        request = f.ListGatesRequest(**of_lambda(lambda_name))
        return [GateInfo.from_proto(each) for each in (await self._calls.list_gates(request)).gates]

    async def failures(
        self, lambda_name: str = "", *, since: datetime | None = None, limit: int = 100
    ) -> builtins.list[FailureGroupInfo]:
        """The groups of dead letters that failed alike, that of the newest one first.

        Args:
            lambda_name: only its groups; "photos/*": those of a namespace; empty: all.
            since: only dead letters that failed at this instant or later.
            limit: how many groups at most.

        Raises:
            UnknownLambda: no such lambda is registered.
        """
        request = f.ListFailuresRequest(since_at_us=_bound_us(since, "since"), **of_lambda(lambda_name))
        found = await failures_all(self._calls.list_failures, request, limit)
        return [value_of(FailureGroupInfo, each) for each in found]

    async def audit(
        self,
        lambda_name: str = "",
        *,
        who: str = "",
        what: str = "",
        task_id: str = "",
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
    ) -> builtins.list[AuditInfo]:
        """Who did what to which tasks and lambdas, when and why; newest first. The store keeps the newest 10,000 entries.

        Args:
            lambda_name: only what was done to it, or to its tasks.
            who: only what this one did, as `AuditInfo.who` has it.
            what: only calls of this name, such as "cancel_tasks".
            task_id: only calls that changed this task.
            since, until: when it was done, instants with a time zone.
            limit: how many at most.

        Raises:
            UnknownLambda: no such lambda is registered, and no entry is about it.
        """
        request = f.ListAuditRequest(
            who=who,
            what=what,
            task_id=task_id,
            since_at_us=_bound_us(since, "since"),
            until_at_us=_bound_us(until, "until"),
            **of_lambda(lambda_name),
        )
        found = await audit_all(self._calls.list_audit, request, limit)
        return [value_of(AuditInfo, each, tasks=tuple(each.tasks)) for each in found]


async def audit_all(
    call: Callable[[f.ListAuditRequest], Awaitable[f.ListAuditReply]], request: f.ListAuditRequest, limit: int
) -> builtins.list[f.AuditEntry]:
    """The newest entries that match, page by page: a page may be empty before the log ends."""
    found: builtins.list[f.AuditEntry] = []
    while len(found) < limit:
        request.page_size = min(limit - len(found), MAX_BATCH)
        reply = await call(request)
        found += reply.entries
        request.before = reply.before
        if not reply.before:
            break
    return found


async def failures_all(
    call: Callable[[f.ListFailuresRequest], Awaitable[f.ListFailuresReply]], request: f.ListFailuresRequest, limit: int
) -> builtins.list[f.FailureGroup]:
    """The newest groups, page by page: a page may be empty before the last one."""
    found: builtins.list[f.FailureGroup] = []
    while len(found) < limit:
        request.page_size = min(limit - len(found), MAX_BATCH)
        reply = await call(request)
        found += reply.groups
        request.page_token = reply.next_page_token
        if not request.page_token:
            break
    return found


def action_of(word: str) -> f.Gate.Action:
    """An action by its word.

    Raises:
        InvalidArgument: there is none of this name.
    """
    if not isinstance(word, str) or word not in _ACTIONS:
        raise InvalidArgument(f"action {short(word)}: use {', '.join(_ACTIONS)}")
    return _ACTIONS[word]


def _bound_us(at: datetime | None, option: str) -> int:
    """An instant; 0, which is none, only where none was given."""
    return 0 if at is None else bound_us(at, option)


def word_of(action: f.Gate.Action) -> str:
    """The word of an action."""
    return ACTION_WORDS.get(action, f"ACTION_{action}")
