"""The client: every call as a coroutine. The blocking client and the handles are faces of it.

Turns messages into plain values and back, and gives every task its id; retrying.py has how a call gets through.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Never, Self, TypeVar, Unpack, overload

from atf.codec.cipher import Cipher, cipher_of
from atf.config.store_urls import is_store_url, shown_url
from atf.errors import AtfError, InvalidArgument
from atf.rpc import api, frontend_pb2 as f
from atf.rpc.caller_security import CallerSecurity, SecurityOptions, of_client
from atf.runtime import Runtime, SystemRuntime, new_id
from atf.sdk.blocking import LoopBridge
from atf.sdk.handle import Handle
from atf.sdk.option_kinds import CallOptions
from atf.sdk.option_names import check_names
from atf.sdk.options import Duration
from atf.sdk.payload import short
from atf.sdk.schedulable import Prepared, Schedulable, named
from atf.sdk.tracing import scheduled, scheduling

from .calls import Calls
from .capacity import CapacityCalls
from .chains import ChainCalls
from .cluster import ClusterCalls
from .gates import GateCalls
from .jobs import JobCalls
from .lambdas import LambdaCalls
from .loop_bridge import OwnLoop
from .retrying import call_address, call_timeout

if TYPE_CHECKING:
    from opentelemetry.trace import Span

R = TypeVar("R")


class AsyncClient(LambdaCalls, ChainCalls, CapacityCalls, ClusterCalls, GateCalls, JobCalls):
    """Talks to a frontend, on the event loop that uses it: `async with atf.AsyncClient() as client: ...`.

    That may be any event loop of asyncio; on uvloop's (`uvloop.run(main())`, package `uvloop`) calls take a little less CPU.

    Calls that find the frontend unreachable are repeated; that is safe, as each task has its id. Waits (`wait`, `handle.result`,
    `batch.wait`, `batch.results` …) are repeated for as long as they may take themselves.

    Args:
        address: host:port of the frontend, or of several with commas between: then it keeps to one by chance, and goes on to the next where that
            is away. Default ATF_FRONTEND, then localhost:7401. Or the address of the task store, such as redis://HOST:PORT: then the client
            is a frontend of its own (docs/how-to/client.md).
        timeout: how long a call may take, with all its tries, before it fails with Unavailable or DeadlineExceeded: seconds, a timedelta
            or text such as "5s"; default ATF_TIMEOUT, then 10 s.
        security: what it shows, and how its connections are encrypted; what is left out comes from ATF_TOKEN, ATF_TOKEN_FILE, ATF_TLS_CA …
            token: from `atf token create`.
            token_file: a file with the token, which is read again when it has changed.
            tls_ca: a file with the certificates of those who sign the frontends' certificates, or "system"; without it there is no TLS.
            tls_cert, tls_key: files with the certificate to show, and its key.
        frontend: what to call instead of a connection to `address`; for tests.
        runtime: clocks and chance; for tests.
        loop_bridge: how handles get at the loop that the client's work runs on; default: they are on it.
        codec_keys: a key file (docs/how-to/encryption.md): arguments leave encrypted by it, and what comes back is decrypted. Default
            ATF_CODEC_KEYS; empty: nothing is.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: Duration | None = None,
        frontend: api.Frontend | None = None,
        runtime: Runtime | None = None,
        loop_bridge: LoopBridge | None = None,
        codec_keys: str | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names("AsyncClient()", security, SecurityOptions.__annotations__)
        target = call_address(address)
        self.address = shown_url(target)
        self._runtime: Runtime = runtime or SystemRuntime()
        self._loop_bridge: LoopBridge = loop_bridge or OwnLoop()
        self.timeout = call_timeout(timeout)
        shown = of_client(**security)
        if shown is not None and is_store_url(target):
            raise InvalidArgument(
                f"{', '.join(security)}: for a frontend; whoever has the store's address shows nothing else"
            )
        self._cipher = cipher_of(codec_keys)
        self._calls: Calls = (
            Calls(target, self.timeout, frontend, self._runtime, shown)
            if self._cipher is None
            else _encrypted_calls(self._cipher, target, self.timeout, frontend, self._runtime, shown)
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Ends the connection."""
        await self._calls.close()

    # --- scheduling ---------------------------------------------------------------------------------------------------

    @overload
    async def schedule(self, task: Prepared[R], /) -> Handle[R]: ...
    @overload
    async def schedule(
        self, task: str, payload: Mapping[str, Any] | bytes | None = ..., /, **options: Unpack[CallOptions]
    ) -> Handle[Any]: ...
    async def schedule(
        self,
        task: Prepared[Any] | str,
        payload: Mapping[str, Any] | bytes | None = None,
        /,
        **options: Unpack[CallOptions],
    ) -> Handle[Any]:
        """Stores a task.

        Args:
            task: what `thumbnail.prepare(...)` made, or a lambda's full name.
            payload: with a name: its arguments, or raw bytes.
            options: with a name: as for `thumbnail.options(...)`.

        Raises:
            TypeError: there is no such option; or options, or a payload, stand beside a prepared task, which has its own.
            InvalidArgument, UnknownLambda: the frontend refused it; nothing was stored.
            AlreadyExists: another request has taken the `key`.
            FailedPrecondition: the store can't be as durable as asked for; nothing was stored.
            Unavailable, DeadlineExceeded, ResourceExhausted: it could not be stored within the timeout.
        """
        prepared = self.prepared(task, payload, options)
        with scheduling([prepared.request]) as span:
            return self.stored(prepared, await self._calls.schedule(prepared.request), span)

    def prepared(
        self, task: Prepared[R] | str, payload: Mapping[str, Any] | bytes | None, options: CallOptions
    ) -> Prepared[R]:
        """What `schedule` was given as a request with an id."""
        if isinstance(task, Prepared):
            if options or payload is not None:
                _refuse_beside(task, options)
            prepared = task
        elif isinstance(task, str):
            prepared = named(task, {} if payload is None else payload, options)
        else:
            raise _not_prepared("schedule()", task)
        self._with_id(prepared.request)
        return prepared

    def sealed(self, request: f.ScheduleRequest) -> f.ScheduleRequest:
        """The request as it may leave this process."""
        if self._cipher is None:
            return request
        from atf.codec.requests import seal_task

        return seal_task(self._cipher, request)

    def stored(self, prepared: Prepared[R], reply: f.ScheduleReply, span: Span | None = None) -> Handle[R]:
        """The handle of a task that was stored, as the span of the call learns too."""
        if span is not None:
            scheduled(span, reply.id)
        return Handle(self, self._loop_bridge, reply.id, prepared.decode, reply.durability)

    async def schedule_many(self, /, tasks: Iterable[Prepared[R]], **options: Never) -> builtins.list[Handle[R]]:
        """Stores tasks, as few calls as they fit in; each succeeds or fails by itself.

        Calling again with the same list, after an error, stores what is missing and makes no task twice.

        Args:
            tasks: what `thumbnail.prepare(...)` made, each with its own options.
            options: none; they stand before: `thumbnail.options(delay=30).prepare(...)`.

        Raises:
            TypeError: one of them is no prepared task; or there are options.
            AtfError: the first failure, after all were tried; its notes say how many failed.
        """
        check_names("schedule_many()", options, ())
        prepared = list(tasks)
        for each in prepared:
            if not isinstance(each, Prepared):
                raise _not_prepared("schedule_many()", each)
        requests = [self._with_id(each.request) for each in prepared]
        with scheduling(requests):
            answers = await self._calls.schedule_all(requests)
        failed = [each for each in answers if isinstance(each, AtfError)]
        if failed:
            failed[0].add_note(f"{len(failed)} of {len(prepared)} tasks were not scheduled")
            raise failed[0]
        stored = [each for each in answers if isinstance(each, f.ScheduleReply)]
        return [self.stored(each, reply) for each, reply in zip(prepared, stored, strict=True)]

    def _with_id(self, request: f.ScheduleRequest) -> f.ScheduleRequest:
        if not request.id:
            request.id = new_id(self._runtime.random)
        return request


def _encrypted_calls(
    cipher: Cipher,
    target: str,
    timeout: float,
    frontend: api.Frontend | None,
    runtime: Runtime,
    security: CallerSecurity | None,
) -> Calls:
    from .encrypted_calls import EncryptedCalls

    return EncryptedCalls(cipher, target, timeout, frontend, runtime, security)


def _refuse_beside(task: Prepared[Any], options: CallOptions) -> None:
    """Raises TypeError for what was given beside a prepared task, and would be dropped."""
    lambda_name: str = getattr(task.request.spec, "lambda")
    of = lambda_name.rpartition("/")[2]
    check_names("schedule()", options, CallOptions.__annotations__)
    for name, value in options.items():
        raise TypeError(
            f"schedule(): {name}={short(value)} beside a prepared task, which has its own options: write"
            f" {of}.options({name}=…).prepare(…)"
        )
    raise TypeError(f"schedule(): a payload beside a prepared task, which has its own: write {of}.prepare(…) with it")


def _not_prepared(call: str, given: object) -> TypeError:
    of = given.name.rpartition("/")[2] if isinstance(given, Schedulable) else "thumbnail"
    return TypeError(f"{call}: {short(given)} is no prepared task: write {of}.prepare(…) with its arguments")
