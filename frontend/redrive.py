"""Starts dead letters or cancelled tasks that match a filter afresh, so many a second.

A page at a time: who asks goes on with the token, which carries when the redrive began and when the next task is due. So nothing has to
remember a redrive that is under way; one that is broken off is begun anew, and finds what is left. A task that fails again meanwhile joins
the end of the lists; since that was after the redrive began, it is left alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from atf.auth.caller import caller, permit
from atf.auth.grants import Verb
from atf.errors import InvalidArgument
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import summary_of
from atf.sdk.sealed import SEALED_TEXT
from atf.store.values.lists import ListedTask
from atf.store.values.tasks import TaskRecord
from atf.task import MAX_BATCH, US, Status, sources

from .audit import check_who
from .filters import next_token
from .listing import ListRpcs
from .matching import MOST_IDS, check_condition, check_dry_run, named_lambda, of_statuses, words_of
from .validate import bad_page_token, lambda_of

MAX_ERROR_CHARS: Final = 500
MIN_RATE: Final = 0.001
MAX_RATE: Final = 100_000
_ENDED: Final = sources("redrive")
_ERRORS: Final = 20
_ERROR_SHOWN_CHARS: Final = 200
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
    page: str  # of the lists


class _Matching(NamedTuple):
    """What of a page matches."""

    tasks: dict[str, str]  # id -> lambda
    errors: Counter[str]


class RedriveRpc(ListRpcs):
    """The call Redrive."""

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        """Redrives, or only counts, what matches in a page of the tasks that have ended."""
        _check(request)
        asked = of_statuses(request.filter, _ENDED, [Status.FATAL_FAILURE], "runs again")
        query = await self._query(asked, verb=Verb.OPERATE, oldest_first=True)
        at = parse_position(request.page_token) or _RedrivePosition(await self._store.latest_time_us(), 0, "")
        page, of = await self._page(asked, query, MAX_BATCH, at.page)
        found = await self._matching(page.tasks, request, at.begun_us)
        reply = f.RedriveReply(
            matched=len(found.tasks),
            looked_at=page.looked_at,
            of=of,
            errors=dict(found.errors.most_common(_ERRORS)),
            ids=list(found.tasks)[:MOST_IDS],
        )
        if found.tasks and not request.dry_run:
            await self._redrive(request, found.tasks, at, reply)
        redriven = at.redriven + (reply.matched if request.dry_run else reply.redriven)
        if token := next_token(query, page, of):
            reply.next_page_token = f"{at.begun_us}/{redriven}/{token}"
        _log.info("redrive", name=lambda_of(asked), group=asked.failure_group, matched=reply.matched, redriven=redriven)
        return reply

    async def _matching(self, tasks: Sequence[ListedTask], request: f.RedriveRequest, begun_us: int) -> _Matching:
        """Those of some listed tasks that match what the lists don't answer."""
        versions = await self._versions(request) if request.newer_version else None
        found = _Matching({}, Counter())
        for start in range(0, len(tasks), _READ_AT_ONCE):
            records = await self._read(tasks[start : start + _READ_AT_ONCE])
            if request.error:  # which asks what errors say
                permit(Verb.READ_PAYLOAD, *(each.lambda_name for each in records))
            await self._redaction.load(each.lambda_name for each in records)
            for each in map(self._redaction.record, records):
                if _matches(each, request, versions, begun_us):
                    found.tasks[each.id] = each.lambda_name
                    found.errors[summary_of(each.error, _ERROR_SHOWN_CHARS)] += 1
        return found

    async def _versions(self, request: f.RedriveRequest) -> Mapping[str, int]:
        """The present versions of the code of all lambdas."""
        await self._lambdas.refresh()
        name = named_lambda(request.filter)
        if name and not (await self._lambdas.known(name)).spec.version:
            raise InvalidArgument(
                f"newer_version: the code of {name} says no version; declare one: @app.task(version=2)"
            )
        return {each.record.name: each.spec.version for each in self._lambdas.all()}

    async def _redrive(
        self, request: f.RedriveRequest, tasks: Mapping[str, str], at: _RedrivePosition, reply: f.RedriveReply
    ) -> None:
        rate, asked = request.rate, request.filter
        after = [round((at.redriven + number) * US / rate) if rate else 0 for number in range(len(tasks))]
        async with self._audit.write(
            "redrive", request, named_lambda(asked), labels=asked.labels, tasks=list(tasks), detail=_detail(request)
        ) as draft:
            due = list(zip(tasks, after, strict=True))
            done = await self._store.redrive(due, at.begun_us, caller().scopes(Verb.OPERATE))
            draft.done_to(each for each, redriven in zip(tasks.items(), done, strict=True) if redriven)
        reply.redriven = sum(done)
        reply.last_due_at_us = at.begun_us + max(after)


def _check(request: f.RedriveRequest) -> None:
    check_who(request)
    check_dry_run(request, "started")
    check_condition(request.filter, bool(request.error or request.newer_version))
    if len(request.error) > MAX_ERROR_CHARS:
        raise InvalidArgument(f"error: {len(request.error)} characters, at most {MAX_ERROR_CHARS}")
    if request.rate != 0 and not MIN_RATE <= request.rate <= MAX_RATE:  # NaN is not, either
        raise InvalidArgument(f"rate {request.rate}: tasks a second, from {MIN_RATE} to {MAX_RATE}; 0 is all at once")


def parse_position(token: str) -> _RedrivePosition | None:
    """Reads how far a redrive has come; None: it begins.

    Raises:
        InvalidArgument: no page has answered so.
    """
    if not token:
        return None
    match = _TOKEN.fullmatch(token)
    if match is None:
        raise bad_page_token(token)
    return _RedrivePosition(int(match[1]), int(match[2]), match[3])


def _matches(record: TaskRecord, request: f.RedriveRequest, versions: Mapping[str, int] | None, begun_us: int) -> bool:
    if record.status not in _ENDED or record.moved_at_us.get(record.status, 0) > begun_us:
        return False
    if request.error and SEALED_TEXT.search(record.error):
        raise InvalidArgument(
            f"error {request.error!r}: the messages of {record.lambda_name} are encrypted, so no text is found in them. Choose by the type of"
            " error (error_type), or by the group of failures"
        )
    if request.error not in record.error:
        return False
    return versions is None or record.failed_version < versions.get(record.lambda_name, 0)


def _detail(request: f.RedriveRequest) -> str:
    parts = [words_of(request.filter)]
    parts += [f"error has {request.error!r}"] if request.error else []
    parts += ["only where the version is newer"] if request.newer_version else []
    parts += [f"{request.rate:g} a second"] if request.rate else []
    return ", ".join(filter(None, parts))
