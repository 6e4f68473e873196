"""Keeps a gRPC connection to a server, and opens another one where it leads nowhere."""

from __future__ import annotations

import asyncio
import re
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import DecodeError, Message

from atf.config.settings import ADDRESS, FRONTEND_PORT
from atf.config.store_urls import shown_url
from atf.config.web import is_address, is_loopback
from atf.errors import Internal, InvalidArgument, Unavailable

from .caller_security import CallerSecurity, own
from .failure import MAX_MESSAGE_BYTES, ConnectionSign, sign_of

R = TypeVar("R", bound=Message)
S = TypeVar("S", bound=Message)

_WITH_SCHEME: Final = re.compile(r"(dns|ipv4|ipv6|unix|unix-abstract|vsock|xds):.")
RECONNECT_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Without its own pool of subchannels a channel would share the connection that others of the process have to this address, and so
    # would get the very one that they have given up.
    ("grpc.use_local_subchannel_pool", 1),
    # A role that restarts is back within a second: gRPC's own backoff of up to two minutes would outlast it by far.
    ("grpc.initial_reconnect_backoff_ms", 100),
    # How long a try may take: a busy or frozen server takes its time for a handshake of TLS. All calls that wait for it fail with it.
    ("grpc.min_reconnect_backoff_ms", 5_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A frontend that is replaced may have another address under the same name: gRPC's own 30 s between two looks would outlast a caller.
    ("grpc.dns_min_time_between_resolutions_ms", 1_000),
    # A proxy of the environment's is for the web; it can't carry calls between roles on one network.
    ("grpc.enable_http_proxy", 0),
)
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
    *RECONNECT_OPTIONS,
)
QUICK_OPTIONS: Final[tuple[tuple[str, int], ...]] = (
    # Where there is another server, or a long poll on which much depends: that a server is frozen or gone is noticed within 2 s. Only while a call
    # is open, since each ping costs the server some 70 µs.
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.keepalive_time_ms", 1_000),
    ("grpc.keepalive_timeout_ms", 900),
    ("grpc.http2.ping_timeout_ms", 900),
    ("grpc.min_reconnect_backoff_ms", 2_000),
)
_NEARLY: Final = 0.95
"""Of a call's time: one that its caller gives up behind that was given up for its time."""
_EVERY_ADDRESS: Final = '{"loadBalancingConfig": [{"round_robin": {}}]}'
"""gRPC's word for: a call to each of the addresses of a name in turn. A channel that keeps to one of them pins one server."""


class _Live(NamedTuple):
    """What the next call goes by."""

    channel: Any
    methods: dict[str, Any]
    """By path."""
    version: int
    """Of the security that the channel was made with."""


class Connection:
    """What channels share: a gRPC channel that is made at the first call, and its methods by path.

    A gRPC channel is given up, and the next call opens another, where gRPC calls it broken, or where the time of a call is over and not
    one answer has come on the channel since the call began: a frozen host, or a balancer without a backend, acknowledges whatever
    it is sent, and so does a connection look that a router in between has forgotten. Calls that are under way on a channel which was given
    up end on it, by themselves or by gRPC's keepalive.

    Args:
        address: host:port, or whatever else gRPC takes as a target.
        connect: makes a gRPC channel with these options and credentials; of None a plain one.
        security: what calls show, and how the channel is made; None: what this process has.
    """

    def __init__(
        self,
        address: str,
        connect: Callable[[Sequence[tuple[str, Any]], Any | None], Any],
        security: CallerSecurity | None = None,
    ) -> None:
        self.address = address
        self._security = security or own()
        self._connect = connect
        self._live: _Live | None = None
        self._following: tuple[_Live, Callable[[], bool]] | None = None
        """What takes the place of the channel, since a certificate has changed; and whether it is connected."""
        self._given_up: weakref.WeakSet[Any] = weakref.WeakSet()
        """Of which calls are still under way: each holds its channel."""
        self.broke = 0
        """Grows each time that the peer was not reached, or did not answer in time."""
        self._heard = 0
        """Grows with each answer of the peer. Whether it has grown is all that counts, so threads need no lock for it."""
        self._closed = False

    def _method(self, path: str, request: type[Message], kind: str = "unary_unary") -> tuple[Any, Any]:
        """The method, which answers in bytes (see `_decoded`), and its channel. Its kind is gRPC's word for what streams."""
        if self._closed:
            raise Unavailable(f"the connection to {self.address} is closed")
        # Another thread may give the channel up meanwhile: so each is read once, and a method is never kept beside another channel.
        live, version = self._live, self._security.version()
        if live is None:
            live = self._live = self._made(version)
        elif live.version != version:
            live = self._renewed(live, version)
        method = live.methods.get(path)
        if method is None:
            of_kind = getattr(live.channel, kind)
            method = live.methods[path] = of_kind(path, request_serializer=request.SerializeToString)
        return method, live.channel

    def _made(self, version: int) -> _Live:
        more = [("grpc.service_config", _EVERY_ADDRESS), *QUICK_OPTIONS] if _may_be_several(self.address) else []
        return _Live(self._connect([*CHANNEL_OPTIONS, *more], self._security.credentials()), {}, version)

    def _renewed(self, live: _Live, version: int) -> _Live:
        """A channel with the new certificate once it is connected; until then the one that there is, whose connection holds."""
        following = self._following
        if following is None or following[0].version != version:
            made = self._made(version)
            following = self._following = made, _readiness(made.channel)
        if not following[1]():
            return live
        self._given_up.add(live.channel)  # calls under way end where they are
        self._live, self._following = following[0], None
        return following[0]

    def _failed(self, error: Any, channel: Any, heard: int) -> None:
        """Learns from a call that has failed what its connection is worth.

        Args:
            error: what gRPC raised.
            channel: that the call was made on.
            heard: `_heard` as it was when the call began.
        """
        sign = sign_of(error)
        self.broke += sign is not ConnectionSign.ALIVE
        match sign:
            case ConnectionSign.ALIVE:
                self._heard += 1
            case ConnectionSign.BROKEN:
                self._give_up(channel)
            case ConnectionSign.SILENT if self._heard == heard:
                self._give_up(channel)

    def _left(self, channel: Any, heard: int, until: float) -> None:
        """Learns from a call that its caller has given up, which keeps the time, too, and may be a hair faster than gRPC.

        Args:
            channel, heard: as of `_failed`.
            until: as of `nearly_over`.
        """
        if self._heard == heard and asyncio.get_running_loop().time() >= until:
            self.broke += 1
            self._give_up(channel)

    def _give_up(self, channel: Any) -> None:
        if self._live is not None and self._live.channel is channel:
            self._given_up.add(channel)
            self._live = None

    def _channels(self) -> list[Any]:
        """All on which calls may be under way."""
        following = [self._following[0]] if self._following is not None else []
        live = [self._live] if self._live is not None else []
        return [*(each.channel for each in (*live, *following)), *self._given_up]

    def _decoded(self, path: str, reply: type[R], data: bytes) -> R:
        self._heard += 1
        # Not by gRPC: its asyncio half answers None where the bytes can't be read.
        try:
            return reply.FromString(data)
        except DecodeError as error:
            method, name = path.rpartition("/")[2], reply.DESCRIPTOR.name
            raise Internal(f"{method}: what {self.address} answered is no {name}: {error}") from None


def _readiness(channel: Any) -> Callable[[], bool]:
    """Has a channel connect; what says whether it is connected."""
    if isinstance(channel, grpc.aio.Channel):
        return lambda: channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY
    done: Callable[[], bool] = grpc.channel_ready_future(channel).done
    return done


def changed(options: Sequence[tuple[str, Any]], others: Sequence[tuple[str, Any]]) -> list[tuple[str, Any]]:
    """GRPC's options, with others in place of those of the same names."""
    return list({**dict(options), **dict(others)}.items())


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
            f"{shown_url(address)[:80]!r} is no address of a server: write HOST:PORT, such as localhost:{FRONTEND_PORT}"
        )


def _may_be_several(address: str) -> bool:
    """Whether servers on several machines may be at an address: a name may stand for them, or a list with a scheme of gRPC's."""
    if scheme := _WITH_SCHEME.match(address):
        return scheme[1] in {"dns", "ipv4", "ipv6", "xds"}
    host = address.rpartition(":")[0]
    return not is_address(host) and not is_loopback(host)


def addresses_of(text: str) -> list[str]:
    """The addresses of one role, with commas between.

    Raises:
        InvalidArgument: one is none.
    """
    found = [each.strip() for each in text.split(",")]
    for each in found:
        check_address(each)
    return list(dict.fromkeys(found))


def blocking_connection(
    address: str, options: Sequence[tuple[str, Any]] = ()
) -> Callable[[Sequence[tuple[str, Any]], Any | None], Any]:
    """What makes channels of gRPC's blocking API; `options` in place of those that are given."""
    return _maker(grpc, address, options)


def aio_connection(
    address: str, options: Sequence[tuple[str, Any]] = ()
) -> Callable[[Sequence[tuple[str, Any]], Any | None], Any]:
    """The same of its asyncio API."""
    return _maker(grpc.aio, address, options)


def _maker(
    api: Any, address: str, options: Sequence[tuple[str, Any]]
) -> Callable[[Sequence[tuple[str, Any]], Any | None], Any]:
    check_address(address)

    def connect(given: Sequence[tuple[str, Any]], credentials: Any | None) -> Any:
        chosen = changed(given, options)
        if credentials is None:
            return api.insecure_channel(address, options=chosen)
        return api.secure_channel(address, credentials, options=chosen)

    return connect
