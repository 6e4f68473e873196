"""Worker hosts as callers ask for them: those that are alive, and their draining."""

from __future__ import annotations

from atf.errors import InvalidArgument, NotFound
from atf.rpc import frontend_pb2 as f
from atf.task import MAX_AHEAD_US, US
from atf.times import length

from . import view
from .audit import check_who
from .lambdas import did_you_mean
from .parts import FrontendParts
from .validate import shown


class HostRpcs(FrontendParts):
    """The calls on worker hosts."""

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        """The worker hosts that are alive."""
        now_us, hosts = await self._store.list_hosts()
        return f.ListHostsReply(hosts=[view.host(each) for each in hosts], now_us=now_us)

    async def drain_host(self, request: f.DrainHostRequest, *, timeout: float = 10) -> f.DrainHostReply:
        """Has a worker host drain, or take tasks again."""
        check_who(request)
        if request.HasField("for_us") and not 0 < request.for_us <= MAX_AHEAD_US:  # 0 would be taken for no end
            raise InvalidArgument(f"for {length(request.for_us)}: use more than 0 s and at most ten years")
        if request.resume and request.HasField("for_us"):
            raise InvalidArgument("for_us: of no use with resume; leave it out")
        _, hosts = await self._store.list_hosts()
        names = {each.name for each in hosts}
        host = shown(request.host)
        if host not in names and not request.resume:
            raise NotFound(
                f"no worker host {host!r} is alive{did_you_mean(host, names) or '; atf host lists those that are'}"
            )
        verb = "resume_host" if request.resume else "drain_host"
        async with self._audit.write(verb, request, detail=host):
            if not await self._store.drain_host(host, drains=not request.resume, seconds=request.for_us / US):
                draining = {each.name for each in hosts if each.drain_until_us is not None}
                raise NotFound(
                    f"the host {host!r} does not drain{did_you_mean(host, draining) or '; atf host lists those that do'}"
                )
        return f.DrainHostReply()
