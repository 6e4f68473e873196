"""The blocking client: a face of AsyncClient, whose work it has done on a background loop. A line per call, no twin.

But for `schedule`, which is called for every task: that one takes the short way (thread_coalescing.py).
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from itertools import islice
from typing import Any, Self, TypeVar, Unpack, overload

from atf.config.store_urls import has_one_server, is_store_url
from atf.rpc import api
from atf.rpc.caller_security import SecurityOptions, of_client
from atf.runtime import Runtime, SystemRuntime
from atf.sdk.batch_handle import Batch
from atf.sdk.blocking import Bridged, blocking
from atf.sdk.chain_handle import ChainHandle
from atf.sdk.chains import Chain
from atf.sdk.handle import Handle
from atf.sdk.items import Target
from atf.sdk.option_kinds import BatchOptions, CallOptions
from atf.sdk.option_names import check_names
from atf.sdk.options import Duration
from atf.sdk.schedulable import Prepared, Schedulable
from atf.sdk.tracing import making, scheduling

from .async_client import AsyncClient
from .batch_upload import BatchPlan, add_note
from .info import TaskInfo
from .loop_bridge import BackgroundLoop, ClientBridge
from .matching import StatusLike, TaskConditions
from .retrying import call_address
from .submit import Chunker, check_count, count_of
from .thread_coalescing import ThreadScheduling

R = TypeVar("R")
T = TypeVar("T")


class Client(Bridged):
    """Talks to a frontend from any thread: `with atf.Client("localhost:7401") as client: ...`.

    Connects at the first call, and again after a fork. Tasks that threads schedule at the same time share a call.

    Args:
        address: as of AsyncClient.
        timeout, security: as of AsyncClient.
        frontend: what to call instead of a connection to `address`; for tests.
        runtime: clocks and chance; for tests.
        loop_bridge: where the work is done; default a loop on a thread of its own.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        timeout: Duration | None = None,
        frontend: api.Frontend | None = None,
        runtime: Runtime | None = None,
        loop_bridge: ClientBridge | None = None,
        codec_keys: str | None = None,
        **security: Unpack[SecurityOptions],
    ) -> None:
        check_names("Client()", security, SecurityOptions.__annotations__)
        self._loop_bridge: ClientBridge = loop_bridge or BackgroundLoop()
        self._core = AsyncClient(
            address,
            timeout=timeout,
            frontend=frontend,
            runtime=runtime,
            loop_bridge=self._loop_bridge,
            codec_keys=codec_keys,
            **security,
        )
        self._short: ThreadScheduling | None = None
        target = call_address(address)
        if frontend is None and loop_bridge is None and (has_one_server(target) or not is_store_url(target)):
            shown = of_client(**security)
            self._short = ThreadScheduling(target, self._core.timeout, runtime or SystemRuntime(), security=shown)

    @property
    def address(self) -> str:
        """Of the frontend, or of the task store without its password."""
        return self._core.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the connection and the background thread; calls of other threads that wait fail with Unavailable."""
        if self._short is not None:
            self._short.close()
        self._loop_bridge.run(self._core.close())
        self._loop_bridge.stop()

    @overload
    def schedule(self, task: Prepared[R], /) -> Handle[R]: ...
    @overload
    def schedule(
        self, task: str, payload: Mapping[str, Any] | bytes | None = ..., /, **options: Unpack[CallOptions]
    ) -> Handle[Any]: ...
    def schedule(
        self, task: Any, payload: Mapping[str, Any] | bytes | None = None, /, **options: Unpack[CallOptions]
    ) -> Handle[Any]:
        """See AsyncClient.schedule."""
        if self._short is None:
            return self._loop_bridge.run(self._core.schedule(task, payload, **options))
        prepared = self._core.prepared(task, payload, options)
        with scheduling([prepared.request]) as span:
            return self._core.stored(prepared, self._short.schedule(self._core.sealed(prepared.request)), span)

    @overload
    async def schedule_async(self, task: Prepared[R], /) -> Handle[R]: ...
    @overload
    async def schedule_async(
        self, task: str, payload: Mapping[str, Any] | bytes | None = ..., /, **options: Unpack[CallOptions]
    ) -> Handle[Any]: ...
    async def schedule_async(
        self, task: Any, payload: Mapping[str, Any] | bytes | None = None, /, **options: Unpack[CallOptions]
    ) -> Handle[Any]:
        """Like `schedule`, from any event loop."""
        return await self._loop_bridge.hop(self._core.schedule(task, payload, **options))

    @overload
    def batch(self, of: Schedulable[..., R], items: Iterable[Any], **options: Unpack[BatchOptions]) -> Batch[R]: ...
    @overload
    def batch(self, of: str, items: Iterable[Any], **options: Unpack[BatchOptions]) -> Batch[Any]: ...
    def batch(
        self, of: Schedulable[..., Any] | str, items: Iterable[Any], **options: Unpack[BatchOptions]
    ) -> Batch[Any]:
        """See AsyncClient.batch. The iterable is iterated on the calling thread."""
        plan = self._core.batch_plan(of, options)
        with making(plan.header):
            self._make(plan, items)
        return self._core.handle_of(plan)

    def chain(self, chain: Chain[R], *, batch_id: str | None = None) -> ChainHandle[R]:
        """See Chain.submit."""
        plan = self._core.chain_plan(chain, batch_id)
        if isinstance(chain.items, AsyncIterable):
            raise TypeError("the items come asynchronously: await submit_async")
        with making(plan.header):
            self._make(plan, chain.items)
        return self._core.chain_handle_of(chain, plan)

    async def chain_async(self, chain: Chain[R], *, batch_id: str | None = None) -> ChainHandle[R]:
        """Like `chain`, from any event loop."""
        return await self._loop_bridge.hop(self._core.chain(chain, batch_id=batch_id))

    def _make(self, plan: BatchPlan, items: Iterable[Any]) -> None:
        chunker: Chunker | None = None
        try:
            chunker = self._loop_bridge.run(self._core.begin_batch(plan))
            if chunker.closed:
                check_count(plan.header.id, chunker.taken, count_of(items, chunker.taken + 1))
            else:
                self._feed(chunker, islice(items, chunker.taken, None) if chunker.taken else items)
        except Exception as error:
            add_note(error, plan, chunker)
            raise

    def _feed(self, chunker: Chunker, items: Iterable[Any]) -> None:
        """See AsyncClient.feed."""
        failed: Exception | None = None
        sending: Future[Any] | None = None
        chunks = chunker.add(items)
        try:
            while True:
                try:
                    chunk = next(chunks, None)
                except Exception as error:  # noqa: BLE001  it is raised below
                    failed = error
                    break
                if chunk is None:
                    break
                if sending is not None:
                    sending.result()
                sending = self._loop_bridge.start(self._core.send_chunk(chunker, chunk))
            if sending is not None:
                sending.result()
        except BaseException:
            if sending is not None:
                sending.cancel()  # of use only if the wait was interrupted, as by Ctrl-C
            raise
        self._loop_bridge.run(self._core.send_chunk(chunker, chunker.rest(last=failed is None)))
        if failed is not None:
            raise failed

    async def batch_async(
        self,
        of: Schedulable[..., R] | str,
        items: Iterable[Any] | AsyncIterable[Any],
        **options: Unpack[BatchOptions],
    ) -> Batch[R]:
        """Like `batch`, from any event loop."""
        made: Batch[R] = await self._loop_bridge.hop(self._core.batch(of, items, **options))
        return made

    def batch_handle(
        self, batch_id: str, of: Schedulable[..., R] | str | None = None, *, target: Target | None = None
    ) -> Batch[R]:
        """See AsyncClient.batch_handle."""
        return self._core.batch_handle(batch_id, of, target=target)

    def iterate(
        self,
        lambda_name: str = "",
        status: StatusLike | None = None,
        *,
        oldest_first: bool = False,
        **conditions: Unpack[TaskConditions],
    ) -> Iterator[TaskInfo]:
        """See AsyncClient.iterate."""
        found = self._core.iterate(lambda_name, status, oldest_first=oldest_first, **conditions)
        return self._steps((found, lambda task: (task,)))

    batches = blocking(AsyncClient.batches)
    schedule_many = blocking(AsyncClient.schedule_many)
    get = blocking(AsyncClient.get)
    list = blocking(AsyncClient.list)
    wait = blocking(AsyncClient.wait)
    count = blocking(AsyncClient.count)
    cancel = blocking(AsyncClient.cancel)
    cancel_matching = blocking(AsyncClient.cancel_matching)
    retry = blocking(AsyncClient.retry)
    explain = blocking(AsyncClient.explain)
    lambdas = blocking(AsyncClient.lambdas)
    stopped_keys = blocking(AsyncClient.stopped_keys)
    resume_key = blocking(AsyncClient.resume_key)
    concurrency_keys = blocking(AsyncClient.concurrency_keys)
    skip_key = blocking(AsyncClient.skip_key)
    pause = blocking(AsyncClient.pause)
    set_lambda = blocking(AsyncClient.set_lambda)
    resume = blocking(AsyncClient.resume)
    capacity = blocking(AsyncClient.capacity)
    set_capacity = blocking(AsyncClient.set_capacity)
    pools_with_cores = blocking(AsyncClient.pools_with_cores)
    status = blocking(AsyncClient.status)
    hosts = blocking(AsyncClient.hosts)
    drain_host = blocking(AsyncClient.drain_host)
    resume_host = blocking(AsyncClient.resume_host)
    delete_lambda = blocking(AsyncClient.delete_lambda)
    gate = blocking(AsyncClient.gate)
    lift_gate = blocking(AsyncClient.lift_gate)
    gates = blocking(AsyncClient.gates)
    audit = blocking(AsyncClient.audit)
    failures = blocking(AsyncClient.failures)
    redrive = blocking(AsyncClient.redrive)
    schedule_job = blocking(AsyncClient.schedule_job)
    get_job = blocking(AsyncClient.get_job)
    list_jobs = blocking(AsyncClient.list_jobs)
    delete_job = blocking(AsyncClient.delete_job)
    delete_jobs = blocking(AsyncClient.delete_jobs)
    pause_job = blocking(AsyncClient.pause_job)
    resume_job = blocking(AsyncClient.resume_job)
    run_job_now = blocking(AsyncClient.run_job_now)
    preview_schedule = blocking(AsyncClient.preview_schedule)

    def handle(self, task_id: str) -> Handle[Any]:
        """The handle of a task that was scheduled elsewhere; asks nobody."""
        return self._core.handle(task_id)

    def _block(self, method: Callable[..., Coroutine[Any, Any, T]], args: Any, kwargs: Any) -> T:
        return self._loop_bridge.run(method(self._core, *args, **kwargs))
