"""Starts dead letters of a lambda, or of a group of failures, that match a filter afresh, so many a second.

A page of the dead-letter set at a time: who asks goes on with the token, which carries when the redrive began and when the next task is
due. So nothing has to remember a redrive that is under way; one that is broken off is begun anew, and finds what is left. A task that
fails again meanwhile joins the end of the set; since that was after the redrive began, it is left alone.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final, NamedTuple

from atf.errors import InvalidArgument
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import summary_of
from atf.sdk.messages import of_lambda
from atf.store.values.audit import AuditEntry
from atf.store.values.lists import TaskQuery
from atf.store.values.tasks import TaskRecord
from atf.task import US, Status
from atf.times import instant

from .audit import check_who, signature
from .filters import check_group, next_token, parse_token
from .lambdas import KnownLambda
from .listing import ListRpcs
from .validate import bad_page_token, check_labels, lambda_of
from .view import stored

MAX_ERROR_CHARS: Final = 500
MIN_RATE: Final = 0.001
MAX_RATE: Final = 100_000
_ERRORS: Final = 20
_ERROR_SHOWN_CHARS: Final = 200
_IDS: Final = 5
_READ_AT_ONCE: Final = 64
"""Records of a page, whose specs and errors are read."""
_TOKEN: Final = re.compile(r"([0-9]{1,16})/([0-9]{1,12})/(.{0,200})", re.DOTALL)

_log = get_logger()


class _RedrivePosition(NamedTuple):
    """How far a redrive has come."""

    begun_us: int
    """By the server that is furthest ahead, as each dates what fails there by its own TIME. Nothing is due before it, by the TIME of its
    own server, so what fails again is dated later on all of them.
    """
    redriven: int
    page: str  # of the dead-letter set


class RedriveRpc(ListRpcs):
    """The call Redrive."""

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        """Redrives, or only counts, what matches in a page of the dead-letter set."""
        _check(request)
        query, known = await self._asked(request)
        at = parse_position(request.page_token) or _RedrivePosition(await self._store.latest_time_us(), 0, "")
        first = not request.page_token
        behind, _ = parse_token(at.page, query)
        page = await self._store.list_tasks(query, _READ_AT_ONCE, behind)
        records, token = await self._read(page.tasks), next_token(query, page, 0)
        known = known or (await self._lambdas.known(records[0].lambda_name) if records else None)
        version = _version(request, known) if known else 0
        matching = [
            each for each in map(self._redaction.record, records) if _matches(each, request, version, at.begun_us)
        ]
        if first and not request.dry_run:
            await self._note_redrive(request, "begun: " + _filter(request))
        rate = request.rate
        after = [round((at.redriven + number) * US / rate) if rate else 0 for number in range(len(matching))]
        done = list[bool]()
        if not request.dry_run:
            tasks = [(each.id, after_us) for each, after_us in zip(matching, after, strict=True)]
            done = await self._store.redrive(tasks, at.begun_us)
        redriven = at.redriven + (len(matching) if request.dry_run else sum(done))
        if not token and not request.dry_run:
            await self._note_redrive(request, f"ended: {redriven} task{'' if redriven == 1 else 's'}")
        _log.info(
            "redrive", name=lambda_of(request), group=request.failure_group, matched=len(matching), redriven=sum(done)
        )
        return f.RedriveReply(
            matched=len(matching),
            redriven=sum(done),
            looked_at=len(records),
            errors=dict(Counter(summary_of(each.error, _ERROR_SHOWN_CHARS) for each in matching).most_common(_ERRORS)),
            ids=[each.id for each in matching[:_IDS]],
            next_page_token=f"{at.begun_us}/{redriven}/{token}" if token else "",
            last_due_at_us=at.begun_us + max(after) if after and not request.dry_run else 0,
        )

    async def _asked(self, request: f.RedriveRequest) -> tuple[TaskQuery, KnownLambda | None]:
        """Where the dead letters are looked for; and their lambda, which only its tasks tell where just a group is named."""
        name, group = lambda_of(request), request.failure_group
        known = await self._lambdas.known(name) if name or not group else None
        if not group:
            return TaskQuery(name, statuses=[Status.FATAL_FAILURE], oldest_first=True), known
        asked = f.TaskFilter(failure_group=group, **of_lambda(name))
        return await self._query(asked, oldest_first=True), known

    async def _note_redrive(self, request: f.RedriveRequest, detail: str) -> None:
        name, labels = lambda_of(request), dict(request.labels)
        await self._audit.note(AuditEntry("redrive", name, labels, *signature(request), detail))


def _check(request: f.RedriveRequest) -> None:
    check_labels(request.labels)
    check_who(request)
    if not request.HasField("dry_run"):
        raise InvalidArgument("dry_run is not said: true only says what would be started, false starts it")
    if len(request.error) > MAX_ERROR_CHARS:
        raise InvalidArgument(f"error: {len(request.error)} characters, at most {MAX_ERROR_CHARS}")
    if request.rate != 0 and not MIN_RATE <= request.rate <= MAX_RATE:  # NaN is not, either
        raise InvalidArgument(f"rate {request.rate}: tasks a second, from {MIN_RATE} to {MAX_RATE}; 0 is all at once")
    since, until = request.failed_from_at_us, request.failed_until_at_us
    if since < 0 or until < 0 or (until and until <= since):
        raise InvalidArgument(
            f"failed from {instant(since)} until {instant(until)}: give first the earlier instant, then the later one"
        )
    if request.failure_group:
        check_group(request.failure_group)


def _version(request: f.RedriveRequest, known: KnownLambda) -> int:
    """The present version of the lambda's code."""
    if request.newer_version and not known.spec.version:
        raise InvalidArgument(
            f"newer_version: the code of {known.record.name} says no version; declare one: @app.task(version=2)"
        )
    return known.spec.version


def parse_position(token: str) -> _RedrivePosition | None:
    """Reads how far a redrive has come; None: it begins."""
    if not token:
        return None
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise bad_page_token(token)
    return _RedrivePosition(int(match[1]), int(match[2]), match[3])


def _matches(record: TaskRecord, request: f.RedriveRequest, version: int, begun_us: int) -> bool:
    failed_us = record.moved_at_us.get(Status.FATAL_FAILURE, 0)
    if failed_us > begun_us:
        return False
    if failed_us < request.failed_from_at_us or (
        request.failed_until_at_us and failed_us >= request.failed_until_at_us
    ):
        return False
    if request.error not in record.error:
        return False
    if request.newer_version and record.failed_version >= version:
        return False
    if not request.labels:
        return True
    spec = stored(t.TaskSpec, record.spec)
    return spec is not None and all(spec.labels.get(name) == value for name, value in request.labels.items())


def _filter(request: f.RedriveRequest) -> str:
    parts = [f"of the group {request.failure_group}"] if request.failure_group else []
    parts += [f"error has {request.error!r}"] if request.error else []
    parts += ["only where the version is newer"] if request.newer_version else []
    parts += ["only those that failed within a span"] if request.failed_from_at_us or request.failed_until_at_us else []
    parts += [f"{request.rate:g} a second"] if request.rate else []
    return ", ".join(parts) or "all dead letters"
