"""Answers the RPCs about keys: ordering keys that have stopped, and concurrency keys for which tasks wait."""

from __future__ import annotations

from typing import Final

from atf.auth.caller import permit
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition, InvalidArgument
from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import failure_of
from atf.sdk.sealed import words
from atf.store.values.keys import KeyAnswer, KeyRecord, MendedKey, SlotsRecord
from atf.task import check_key, key_held

from .audit import AuditDraft
from .page_tokens import opened, sealed
from .parts import FrontendParts
from .redaction import is_withheld
from .validate import check_stored_id, checked_lambda, lambda_of, page_size

MAX_ERROR_CHARS: Final = 1_000
"""Of an error as a list of keys shows it; the task has it whole."""


class KeyRpcs(FrontendParts):
    """ListKeys, ResumeKey, SkipKey and ListConcurrencyKeys."""

    async def list_keys(self, request: f.ListKeysRequest, *, timeout: float = 10) -> f.ListKeysReply:
        """A page of those that have stopped, or the one asked for."""
        name, size = await self._readable(request), _page_size(request)
        if request.key:
            found = await self._store.get_key(name, check_key(request.key, "key"))
            return f.ListKeysReply(keys=[self._info(name, found)] if found else [])
        records, token = await self._store.list_keys(name, size, opened("list_keys", request.page_token))
        return f.ListKeysReply(
            keys=[self._info(name, each) for each in records], next_page_token=sealed("list_keys", token)
        )

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        """Those for which tasks wait among a page of keys, or the one asked for."""
        name, size = await self._readable(request), _page_size(request)
        if request.key:
            found = await self._store.get_concurrency_key(name, check_key(request.key, "key"))
            return f.ListConcurrencyKeysReply(keys=[_slots(found)] if found else [])
        behind = opened("list_concurrency_keys", request.page_token)
        records, token = await self._store.list_concurrency_keys(name, size, behind)
        return f.ListConcurrencyKeysReply(
            keys=[_slots(each) for each in records], next_page_token=sealed("list_concurrency_keys", token)
        )

    async def resume_key(self, request: f.ResumeKeyRequest, *, timeout: float = 10) -> f.ResumeKeyReply:
        """The task that stopped it starts afresh."""
        await self._check_key(request)
        async with self._audit.write("resume_key", request, lambda_of(request), detail=_detail(request)) as draft:
            done = await self._store.resume_key(lambda_of(request), request.key, request.task_id)
            _check_done(request, done)
            _note_done(draft, done)
        return f.ResumeKeyReply(task_id=done.task_id, retried=done.mended is KeyAnswer.DONE)

    async def skip_key(self, request: f.SkipKeyRequest, *, timeout: float = 10) -> f.SkipKeyReply:
        """What is behind that task goes on."""
        await self._check_key(request)
        async with self._audit.write("skip_key", request, lambda_of(request), detail=_detail(request)) as draft:
            done = await self._store.skip_key(lambda_of(request), request.key, request.task_id)
            _check_done(request, done)
            _note_done(draft, done)
        return f.SkipKeyReply(task_id=done.task_id)

    async def _readable(self, request: f.ListKeysRequest | f.ListConcurrencyKeysRequest) -> str:
        """The lambda whose keys are asked for: the caller may read them."""
        permit(Verb.READ, checked_lambda(request))
        return (await self._lambdas.known(lambda_of(request))).record.name

    def _info(self, name: str, record: KeyRecord) -> f.KeyInfo:
        return f.KeyInfo(
            key=record.key,
            stopped=record.stopped_at_us > 0,
            stopped_at_us=record.stopped_at_us,
            task_id=record.task_id,
            error=failure_of(words(self._redaction.error(name, record.error))).headline[:MAX_ERROR_CHARS],
            unfinished=record.unfinished,
            withheld=is_withheld(name),
        )

    async def _check_key(self, request: f.ResumeKeyRequest | f.SkipKeyRequest) -> None:
        permit(Verb.OPERATE, checked_lambda(request))
        await self._lambdas.known(lambda_of(request))
        check_key(request.key, "key")
        if request.task_id:
            check_stored_id(request.task_id, self._store.partitions)


def _check_done(request: f.ResumeKeyRequest | f.SkipKeyRequest, done: MendedKey) -> None:
    name = lambda_of(request)
    # With a task's id it has gone on from there, by this call's first try or another.
    if done.mended is KeyAnswer.NOT_STOPPED and not request.task_id:
        raise FailedPrecondition(
            f"key {request.key!r} of {name} has not stopped; atf key ls {name} lists those that have"
        )
    if done.mended is KeyAnswer.HELD:
        raise FailedPrecondition(
            f"the task that stopped key {request.key!r} of {name} can't run again: {key_held(done.task_id)}"
        )
    if done.mended is KeyAnswer.ANOTHER:
        raise FailedPrecondition(
            f"key {request.key!r} of {name} has stopped at task {done.task_id}, not at {request.task_id}; look at that one first"
        )


def _detail(request: f.ResumeKeyRequest | f.SkipKeyRequest) -> str:
    return f"key {request.key!r}"


def _note_done(draft: AuditDraft, done: MendedKey) -> None:
    draft.changed = done.mended is not KeyAnswer.NOT_STOPPED
    draft.tasks = [done.task_id] if done.task_id else []


def _page_size(request: f.ListKeysRequest | f.ListConcurrencyKeysRequest) -> int:
    if request.key and request.page_token:
        raise InvalidArgument("key and page_token: give one of them; of one key there is one page")
    return page_size(request.page_size)


def _slots(record: SlotsRecord) -> f.ConcurrencyKeyInfo:
    return f.ConcurrencyKeyInfo(key=record.key, taken=record.taken, limit=record.limit, waiting=record.waiting)
