"""The built-in lambda `atf/http`: calls any service of an allowed host, so that a task or a job needs no code of its own.

1. the arguments are checked (http_request.py), and every address against the allow-list (atf/config/allowed_hosts.py)
2. the target's addresses are tried in turn (rotation.py) until one has taken the request (http_session.py)
3. its answer is a result, atf.Retry or atf.Fatal (http_answer.py)
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from atf.config.allowed_hosts import AllowedHosts
from atf.errors import Fatal, InvalidArgument, Retry
from atf.runtime import Runtime
from atf.sdk.app import App
from atf.sdk.context import Context
from atf.sdk.schedulable import Prepared, named
from atf.task import US

from .http_answer import UNAVAILABLE, HttpAnswer, error_of, result_of, retry_after_s
from .http_request import DEFAULT_TIMEOUT_S, Request, checked_request, run_headers, without_sent
from .rotation import AddressRotation

NAME: Final = "atf/http"

_END_S: Final = 0.1
"""Seconds before the run's deadline at which a request is given up, so that the address is known to be slow."""


def http_request(
    url: str | list[str],
    *,
    method: str = "POST",
    headers: dict[str, str] | None = None,
    body: Any = None,
    timeout: float = DEFAULT_TIMEOUT_S,
) -> Prepared[dict[str, Any]]:
    """A task of `atf/http`, for `client.schedule_job`, `schedule` and `schedule_many`. With options, such as a delay, it is
    scheduled by name: `client.schedule("atf/http", {"url": …}, delay=5)`.

    Args:
        url: where to; a list: the addresses of one target, which are tried in turn.
        method: GET, HEAD, POST, PUT, PATCH, DELETE or OPTIONS.
        headers: of the request. They are kept in the task store, like every argument.
        body: text, or anything else that JSON can hold, which is sent as application/json.
        timeout: seconds of one request.

    Raises:
        InvalidArgument: an argument breaks its rule. Whether the host is allowed, the executor says.
    """
    checked_request(url, method, headers, body, timeout)
    given = {"url": url, "method": method, "headers": headers, "body": body, "timeout": timeout}
    return named(NAME, given, {})


def add_http(app: App, allowed: AllowedHosts, runtime: Runtime) -> None:
    """Adds the lambda to an app."""
    caller = HttpCaller(allowed, runtime)

    @app.task
    async def http(
        ctx: Context,
        url: str | list[str],
        method: str = "POST",
        headers: dict[str, str] | None = None,
        body: Any = None,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> dict[str, Any]:
        """Sends an HTTP request; see docs/how-to/http.md."""
        try:
            request = checked_request(url, method, headers, body, timeout)
        except InvalidArgument as error:
            raise Fatal(str(error)) from None
        return await caller.call(ctx, request)


class HttpCaller:
    """Calls targets.

    Args:
        allowed: the hosts that may be called.
        runtime: clocks.
    """

    def __init__(self, allowed: AllowedHosts, runtime: Runtime) -> None:
        self._allowed = allowed
        self._runtime = runtime
        self._rotation = AddressRotation(runtime.monotonic)

    async def call(self, ctx: Context, request: Request) -> dict[str, Any]:
        """Sends a request to one address of its target: to the next only where this one cannot have taken it.

        Returns:
            status, content_type, body, truncated and url (without path and query) of the answer.

        Raises:
            Retry: the target could not be reached, or says that it may work later.
            Fatal: a host is not allowed, or the answer says that it never will.
        """
        # Only now: aiohttp takes a tenth of a second to load, and most executors call nothing.
        from .http_session import AddressRefused, NotSent, Unanswered, send

        self._check(request)
        by_key = {each.key: each for each in request.addresses}
        headers = {**run_headers(ctx), **request.headers}  # of one name in two cases the later one is sent
        refusals: list[str] = []
        waits: list[float | None] = []
        for key in self._rotation.order(list(by_key)):
            address = by_key[key]
            try:
                answer = await send(request, address, headers, self._seconds(ctx, request), self._allowed)
            except NotSent as error:
                self._rotation.failed(key)
                refusals.append(str(error))
                waits.append(None)
                continue
            except AddressRefused as error:
                raise Fatal(f"{error}; docs/how-to/http.md says where a name may lead") from None
            except Unanswered as error:
                self._rotation.failed(key)
                raise Retry(str(error)) from None
            wait = retry_after_s(answer.headers, self._runtime.wall_us())
            self._note(key, answer, wait)
            if answer.succeeded:
                return result_of(answer, address.origin)
            error_text = error_of(answer, address.origin, address.url, partial(without_sent, request=request))
            if not answer.may_pass:
                raise Fatal(error_text)
            if answer.status != UNAVAILABLE:
                raise Retry(error_text, after=wait)
            refusals.append(error_text)
            waits.append(wait)
        raise Retry("; ".join(refusals), after=None if None in waits else min(filter(None, waits)))

    def _check(self, request: Request) -> None:
        for each in request.addresses:
            if not self._allowed.allows(each.host, each.port):
                raise Fatal(
                    f"url: {each.host}:{each.port} is not allowed here; whoever runs the executors may allow it:"
                    f" --http-allow {each.host}:{each.port}, ATF_HTTP_ALLOW, or http_allow in atf.toml"
                )

    def _seconds(self, ctx: Context, request: Request) -> float:
        """Of this request: what it was given, and never past the run's own deadline."""
        if ctx.deadline is None:
            return request.timeout_s
        left = ctx.deadline.timestamp() - self._runtime.wall_us() / US
        return min(request.timeout_s, max(left - _END_S, left / 2, 0.001))

    def _note(self, key: str, answer: HttpAnswer, wait: float | None) -> None:
        if answer.broken:
            self._rotation.failed(key, wait or 0.0)
        else:
            self._rotation.worked(key)
