"""The calling side of gRPC: connections, and the typed stubs of every service.

A stub implements an interface of api.py. What it raises is an AtfError, never a gRPC type. It does not call again by itself:
whoever calls knows what may be repeated. Part of the client, so it needs no library of the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import weakref
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator, Sequence
from typing import Any, ClassVar, Final, NamedTuple, Protocol, TypeVar

import grpc
import grpc.aio
from google.protobuf.descriptor import ServiceDescriptor
from google.protobuf.message import DecodeError, Message

from atf.config.settings import ADDRESS, FRONTEND_PORT
from atf.errors import Internal, InvalidArgument, Unavailable
from atf.runtime import end

from . import api
from . import batch_pb2 as b
from . import controller_pb2 as c
from . import frontend_pb2 as f
from . import hsc_pb2 as h
from . import job_pb2 as j
from . import store_consumer_pb2 as s
from . import task_pb2 as t
from .failure import MAX_MESSAGE_BYTES, Sign, sign_of, to_error

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)

_WITH_SCHEME: Final = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):.")
CHANNEL_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    # Notices within 30 s a peer that is gone, or that takes bytes and never answers: what waits on the connection ends with Unavailable.
    # Also while nothing is asked, so that whatever stands between does not forget an idle connection. A server of ours allows pings
    # this often (server.py).
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),  # its default of a minute would count instead
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # Without its own pool of subchannels a channel would share the connection that others of the process have to this address, and so
    # would get the very one that they have given up.
    ("grpc.use_local_subchannel_pool", 1),
    # A role that restarts is back within a second: gRPC's own backoff of up to two minutes would outlast it by far.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A frontend that is replaced may have another address under the same name: gRPC's own 30 s between two looks would outlast a caller.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # A proxy of the environment's is for the web; it can't carry calls between roles on one network.
    ("grpc.enable_http_proxy", 0),
)


_NEARLY: Final = 0.95
"""Of a call's time: one that its caller gives up behind that was given up for its time."""
_NOT_SENT: Final = "Internal error from Core"
"""What grpc.aio takes a call to have ended with, where it could not send a message: seldom, when the server has ended it just then, and
its reason is lost. A caller that repeats what is Unavailable learns it."""


class Channel(Protocol):
    """A connection to one server; it connects at the first call and again whenever it broke."""

    address: str

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        """One unary call; `path` is "/package.Service/Method", `timeout` in seconds.

        Raises:
            AtfError: what the server raised; Unavailable, DeadlineExceeded: it was not reached or did not answer.
        """
        ...

    async def close(self) -> None:
        """Ends the connection. Calls that wait, and later ones, raise Unavailable."""
        ...


class StreamingChannel(Channel, Protocol):
    """A channel that also carries streams."""

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        """A call of many requests and one reply, each of which is asked for when the one before has been sent. Errors as of `call`.

        Where `requests` raises, so does this, and the call is given up.
        """
        ...

    def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        """A call of one request and many replies; closing the generator gives the call up. Errors as of `call`."""
        ...


_ANY_ADDRESS: Final = '{"loadBalancingConfig": [{"pick_first": {"shuffleAddressList": true}}]}'
"""gRPC's word for: of the addresses of a name, begin with any. In the place of a peer that went silent, another one is likelier to answer."""


class _Live(NamedTuple):
    """What the next call goes by."""

    channel: Any
    methods: dict[str, Any]
    """By path."""


class Connection:
    """What channels share: a gRPC channel that is made at the first call, and its methods by path.

    A gRPC channel is given up, and the next call opens another, where gRPC calls it broken, or where the time of a call is over and not
    one answer has come on the channel since the call began: a frozen host, or a balancer without a backend, acknowledges whatever
    it is sent, and so does a connection look that a router in between has forgotten. Calls that are under way on a channel which was given
    up end on it, by themselves or by gRPC's keepalive.

    Args:
        address: host:port, or whatever else gRPC takes as a target.
        connect: makes a gRPC channel with these options.
    """

    def __init__(self, address: str, connect: Callable[[Sequence[tuple[str, Any]]], Any]) -> None:
        self.address = address
        self._connect = connect
        self._live: _Live | None = None
        self._given_up: weakref.WeakSet[Any] = weakref.WeakSet()
        """Of which calls are still under way: each holds its channel."""
        self._replaced = False
        self._heard = 0
        """Grows with each answer of the peer. Whether it has grown is all that counts, so threads need no lock for it."""
        self._closed = False

    def _method(self, path: str, request: type[Message], kind: str = "unary_unary") -> tuple[Any, Any]:
        """The method, which answers in bytes (see `_decoded`), and its channel. Its kind is gRPC's word for what streams."""
        if self._closed:
            raise Unavailable(f"the connection to {self.address} is closed")
        # Another thread may give the channel up meanwhile: so each is read once, and a method is never kept beside another channel.
        live = self._live
        if live is None:
            more = [("grpc.service_config", _ANY_ADDRESS)] if self._replaced else []
            live = self._live = _Live(self._connect([*CHANNEL_OPTIONS, *more]), {})
        method = live.methods.get(path)
        if method is None:
            made = getattr(live.channel, kind)
            method = live.methods[path] = made(path, request_serializer=request.SerializeToString)
        return method, live.channel

    def _failed(self, error: Any, channel: Any, heard: int) -> None:
        """Learns from a call that has failed what its connection is worth.

        Args:
            error: what gRPC raised.
            channel: that the call was made on.
            heard: `_heard` as it was when the call began.
        """
        match sign_of(error):
            case Sign.ALIVE:
                self._heard += 1
            case Sign.BROKEN:
                self._give_up(channel)
            case Sign.SILENT if self._heard == heard:
                self._give_up(channel)

    def _left(self, channel: Any, heard: int, until: float) -> None:
        """Learns from a call that its caller has given up, which keeps the time, too, and may be a hair faster than gRPC.

        Args:
            channel, heard: as of `_failed`.
            until: as of `nearly_over`.
        """
        if self._heard == heard and asyncio.get_running_loop().time() >= until:
            self._give_up(channel)

    def _give_up(self, channel: Any) -> None:
        if self._live is not None and self._live.channel is channel:
            self._given_up.add(channel)
            self._live, self._replaced = None, True

    def _channels(self) -> list[Any]:
        """All on which calls may be under way."""
        return [*([self._live.channel] if self._live is not None else []), *self._given_up]

    def _decoded(self, path: str, reply: type[R], data: bytes) -> R:
        self._heard += 1
        # Not by gRPC: its asyncio half answers None where the bytes can't be read.
        try:
            return reply.FromString(data)
        except DecodeError as error:
            method, name = path.rpartition("/")[2], reply.DESCRIPTOR.name
            raise Internal(f"{method}: what {self.address} answered is no {name}: {error}") from None


def nearly_over(timeout: float) -> float:
    """When the time of a call that begins now is nearly over, by the clock of the event loop."""
    return asyncio.get_running_loop().time() + _NEARLY * timeout


def check_address(address: str) -> None:
    """Lets pass what a server can be at: host:port, or what gRPC names with a scheme, such as unix:/path and dns:///name:port.

    Raises:
        InvalidArgument: it is something else, of which gRPC would say that it can't be reached.
    """
    if not (ADDRESS.fullmatch(address) or _WITH_SCHEME.match(address)):
        raise InvalidArgument(
            f"{address[:80]!r} is no address of a server: write HOST:PORT, such as localhost:{FRONTEND_PORT}"
        )


def blocking_connection(address: str) -> Callable[[Sequence[tuple[str, Any]]], Any]:
    """What makes channels of gRPC's blocking API."""
    check_address(address)
    return lambda options: grpc.insecure_channel(address, options=options)


class AioChannel(Connection):
    """A connection of the event loop that makes the first call."""

    def __init__(self, address: str, options: Sequence[tuple[str, Any]] = ()) -> None:
        check_address(address)
        super().__init__(address, lambda given: grpc.aio.insecure_channel(address, options=[*given, *options]))

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        with self._errors(path, timeout, channel, self._heard, nearly_over(timeout)):
            answer: bytes = await method(request, timeout=timeout)
        return self._decoded(path, reply, answer)

    async def send(self, path: str, requests: AsyncIterator[S], request: type[S], reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, request, "stream_unary")
        call, heard, until = method(timeout=timeout), self._heard, nearly_over(timeout)

        async def pump() -> None:
            with contextlib.suppress(asyncio.InvalidStateError, grpc.RpcError):  # it has ended: the answer says why
                async for each in requests:
                    await call.write(each)
                await call.done_writing()

        pumping, ended = map(asyncio.ensure_future, (pump(), call.code()))  # noqa: TID251  they end with this call
        try:
            await asyncio.wait([pumping, ended], return_when=asyncio.FIRST_COMPLETED)
            if not ended.done():
                pumping.result()  # raises what `requests` did
            with self._errors(path, timeout, channel, heard, until):
                answer: bytes = await call
        finally:
            call.cancel()  # of use only where it has not ended
            await end([pumping, ended])
        return self._decoded(path, reply, answer)

    async def receive(self, path: str, request: Message, reply: type[R], timeout: float) -> AsyncGenerator[R, None]:
        method, channel = self._method(path, type(request), "unary_stream")
        call, heard, until = method(request, timeout=timeout), self._heard, nearly_over(timeout)
        answers = aiter(call)
        try:
            while True:
                try:
                    with self._errors(path, timeout, channel, heard, until):
                        answer: bytes = await anext(answers)
                except StopAsyncIteration:
                    return
                yield self._decoded(path, reply, answer)
        finally:
            call.cancel()

    @contextlib.contextmanager
    def _errors(self, path: str, timeout: float, channel: Any, heard: int, until: float) -> Iterator[None]:
        """What gRPC raises within, of a call on `channel`, becomes an AtfError. `heard` and `until`: as of `_left`."""
        try:
            yield
        except grpc.aio.AioRpcError as error:
            if error.details() == _NOT_SENT:
                raise Unavailable(f"{path.rpartition('/')[2]}: the stream to {self.address} broke off") from None
            self._failed(error, channel, heard)
            raise to_error(error, self.address, path, timeout) from None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._closed and task is not None and not task.cancelling():
                # gRPC cancels what waits on a channel that is closed; nobody has cancelled the caller.
                raise Unavailable(f"the connection to {self.address} was closed") from None
            self._left(channel, heard, until)
            raise

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels():
            await channel.close()


class BlockingChannel(Connection):
    """A connection of its own for a thread of its own: a call blocks that thread and needs no event loop to turn.

    Heartbeats go through one: neither a busy event loop nor a connection full of payloads delays them.
    """

    def __init__(self, address: str) -> None:
        super().__init__(address, blocking_connection(address))

    async def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:
        method, channel = self._method(path, type(request))
        heard = self._heard
        try:
            answer: bytes = method(request, timeout=timeout)
        except grpc.RpcError as error:
            self._failed(error, channel, heard)
            raise to_error(error, self.address, path, timeout) from None
        return self._decoded(path, reply, answer)

    async def close(self) -> None:
        self._closed = True
        for channel in self._channels():
            channel.close()


def open_channel(address: str) -> StreamingChannel:
    """A connection to the role at `address`, host:port. Any number of stubs may share it."""
    return AioChannel(address)


# --- stubs ------------------------------------------------------------------------------------------------------------


class Stub:
    """One service of the server at the other end of a channel."""

    service: ClassVar[ServiceDescriptor]

    def __init__(self, channel: Channel) -> None:
        self.channel = channel
        self._paths = {name: f"/{self.service.full_name}/{name}" for name in self.service.methods_by_name}

    async def _call(self, method: str, request: Message, reply: type[R], timeout: float) -> R:
        return await self.channel.call(self._paths[method], request, reply, timeout)


class FrontendStub(Stub):
    """api.Frontend over gRPC."""

    service = f.DESCRIPTOR.services_by_name["Frontend"]

    def __init__(self, channel: StreamingChannel) -> None:
        super().__init__(channel)
        self._streams = channel

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        return await self._call("Schedule", request, f.ScheduleReply, timeout)

    async def schedule_many(self, request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        return await self._call("ScheduleMany", request, f.ScheduleManyReply, timeout)

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        return await self._call("GetTask", request, t.Task, timeout)

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        return await self._call("ListTasks", request, f.ListTasksReply, timeout)

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        return await self._call("WaitTasks", request, f.WaitTasksReply, timeout)

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        return await self._call("CancelTasks", request, f.CancelTasksReply, timeout)

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        return await self._call("RetryTasks", request, f.RetryTasksReply, timeout)

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        return await self._call("RegisterLambdas", request, f.RegisterLambdasReply, timeout)

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        return await self._call("ListLambdas", request, f.ListLambdasReply, timeout)

    async def pause_lambda(self, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        return await self._call("PauseLambda", request, f.PauseLambdaReply, timeout)

    async def resume_lambda(self, request: f.ResumeLambdaRequest, *, timeout: float = 10) -> f.ResumeLambdaReply:
        return await self._call("ResumeLambda", request, f.ResumeLambdaReply, timeout)

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        return await self._call("SetLambda", request, f.LambdaInfo, timeout)

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        return await self._call("SetGate", request, f.Gate, timeout)

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        return await self._call("LiftGate", request, f.LiftGateReply, timeout)

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        return await self._call("ListGates", request, f.ListGatesReply, timeout)

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        return await self._call("Redrive", request, f.RedriveReply, timeout)

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        return await self._call("ListAudit", request, f.ListAuditReply, timeout)

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        return await self._call("ExplainTask", request, f.ExplainTaskReply, timeout)

    async def list_keys(self, request: f.ListKeysRequest, *, timeout: float = 10) -> f.ListKeysReply:
        return await self._call("ListKeys", request, f.ListKeysReply, timeout)

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        return await self._call("ListConcurrencyKeys", request, f.ListConcurrencyKeysReply, timeout)

    async def resume_key(self, request: f.ResumeKeyRequest, *, timeout: float = 10) -> f.ResumeKeyReply:
        return await self._call("ResumeKey", request, f.ResumeKeyReply, timeout)

    async def skip_key(self, request: f.SkipKeyRequest, *, timeout: float = 10) -> f.SkipKeyReply:
        return await self._call("SkipKey", request, f.SkipKeyReply, timeout)

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        return await self._call("SetCapacity", request, f.Capacity, timeout)

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        return await self._call("GetCapacity", request, f.Capacity, timeout)

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        return await self._call("ListCapacity", request, f.ListCapacityReply, timeout)

    async def schedule_batch(
        self, requests: AsyncIterator[b.ScheduleBatchRequest], *, timeout: float = 600
    ) -> b.ScheduleBatchReply:
        path = self._paths["ScheduleBatch"]
        return await self._streams.send(path, requests, b.ScheduleBatchRequest, b.ScheduleBatchReply, timeout)

    async def get_batch(self, request: b.GetBatchRequest, *, timeout: float = 10) -> b.Batch:
        return await self._call("GetBatch", request, b.Batch, timeout)

    async def list_batches(self, request: b.ListBatchesRequest, *, timeout: float = 10) -> b.ListBatchesReply:
        return await self._call("ListBatches", request, b.ListBatchesReply, timeout)

    async def list_batch_items(self, request: b.ListBatchItemsRequest, *, timeout: float = 10) -> b.ListBatchItemsReply:
        return await self._call("ListBatchItems", request, b.ListBatchItemsReply, timeout)

    def watch_batch(self, request: b.WatchBatchRequest, *, timeout: float = 3600) -> AsyncGenerator[b.Batch, None]:
        return self._streams.receive(self._paths["WatchBatch"], request, b.Batch, timeout)

    async def cancel_batch(self, request: b.CancelBatchRequest, *, timeout: float = 10) -> b.Batch:
        return await self._call("CancelBatch", request, b.Batch, timeout)

    async def retry_batch(self, request: b.RetryBatchRequest, *, timeout: float = 10) -> b.Batch:
        return await self._call("RetryBatch", request, b.Batch, timeout)

    async def delete_batch(self, request: b.DeleteBatchRequest, *, timeout: float = 10) -> b.DeleteBatchReply:
        return await self._call("DeleteBatch", request, b.DeleteBatchReply, timeout)

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        return await self._call("ListHosts", request, f.ListHostsReply, timeout)

    async def drain_host(self, request: f.DrainHostRequest, *, timeout: float = 10) -> f.DrainHostReply:
        return await self._call("DrainHost", request, f.DrainHostReply, timeout)

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        return await self._call("DeleteLambda", request, f.DeleteLambdaReply, timeout)

    async def get_status(self, request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        return await self._call("GetStatus", request, f.GetStatusReply, timeout)

    async def schedule_job(self, request: f.ScheduleJobRequest, *, timeout: float = 10) -> j.Job:
        return await self._call("ScheduleJob", request, j.Job, timeout)

    async def schedule_jobs(self, request: f.ScheduleJobsRequest, *, timeout: float = 10) -> f.ScheduleJobsReply:
        return await self._call("ScheduleJobs", request, f.ScheduleJobsReply, timeout)

    async def get_job(self, request: f.GetJobRequest, *, timeout: float = 10) -> j.Job:
        return await self._call("GetJob", request, j.Job, timeout)

    async def list_jobs(self, request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:
        return await self._call("ListJobs", request, f.ListJobsReply, timeout)

    async def delete_job(self, request: f.DeleteJobRequest, *, timeout: float = 10) -> f.DeleteJobReply:
        return await self._call("DeleteJob", request, f.DeleteJobReply, timeout)

    async def delete_jobs_by_prefix(
        self, request: f.DeleteJobsByPrefixRequest, *, timeout: float = 10
    ) -> f.DeleteJobsByPrefixReply:
        return await self._call("DeleteJobsByPrefix", request, f.DeleteJobsByPrefixReply, timeout)

    async def pause_job(self, request: f.PauseJobRequest, *, timeout: float = 10) -> j.Job:
        return await self._call("PauseJob", request, j.Job, timeout)

    async def resume_job(self, request: f.ResumeJobRequest, *, timeout: float = 10) -> j.Job:
        return await self._call("ResumeJob", request, j.Job, timeout)

    async def run_job_now(self, request: f.RunJobNowRequest, *, timeout: float = 10) -> f.ScheduleReply:
        return await self._call("RunJobNow", request, f.ScheduleReply, timeout)

    async def preview_schedule(
        self, request: f.PreviewScheduleRequest, *, timeout: float = 10
    ) -> f.PreviewScheduleReply:
        return await self._call("PreviewSchedule", request, f.PreviewScheduleReply, timeout)

    async def find_dapr_app(self, request: f.FindDaprAppRequest, *, timeout: float = 10) -> f.FindDaprAppReply:
        return await self._call("FindDaprApp", request, f.FindDaprAppReply, timeout)


class ControllerStub(Stub):
    """api.Controller over gRPC."""

    service = c.DESCRIPTOR.services_by_name["Controller"]

    async def next_work(self, request: c.NextWorkRequest, *, timeout: float = 70) -> c.NextWorkReply:
        return await self._call("NextWork", request, c.NextWorkReply, timeout)


class StoreConsumerStub(Stub):
    """api.StoreConsumer over gRPC."""

    service = s.DESCRIPTOR.services_by_name["StoreConsumer"]

    async def poll(self, request: s.PollRequest, *, timeout: float = 10) -> s.PollReply:
        return await self._call("Poll", request, s.PollReply, timeout)


class HSCStub(Stub):
    """api.HSC over gRPC."""

    service = h.DESCRIPTOR.services_by_name["HSC"]

    async def claim_tasks(self, request: h.ClaimTasksRequest, *, timeout: float = 10) -> h.ClaimTasksReply:
        return await self._call("ClaimTasks", request, h.ClaimTasksReply, timeout)

    async def heartbeat(self, request: h.HeartbeatRequest, *, timeout: float = 10) -> h.HeartbeatReply:
        return await self._call("Heartbeat", request, h.HeartbeatReply, timeout)

    async def set_results(self, request: h.SetResultsRequest, *, timeout: float = 10) -> h.SetResultsReply:
        return await self._call("SetResults", request, h.SetResultsReply, timeout)

    async def hand_back(self, request: h.HandBackRequest, *, timeout: float = 10) -> h.HandBackReply:
        return await self._call("HandBack", request, h.HandBackReply, timeout)

    async def report_loss(self, request: h.ReportLossRequest, *, timeout: float = 10) -> h.ReportLossReply:
        return await self._call("ReportLoss", request, h.ReportLossReply, timeout)

    async def first_time(self, request: h.FirstTimeRequest, *, timeout: float = 10) -> h.FirstTimeReply:
        return await self._call("FirstTime", request, h.FirstTimeReply, timeout)


class BlockingHSCStub(HSCStub):
    """api.HSC over a connection of its own, for the thread that does nothing but heartbeats."""

    def __init__(self, address: str) -> None:
        super().__init__(BlockingChannel(address))


# Holds the stubs and the interfaces together: a type checker refuses a stub that lacks a method.
_FRONTEND: type[api.Frontend] = FrontendStub
_CONTROLLER: type[api.Controller] = ControllerStub
_HSC: type[api.HSC] = HSCStub
