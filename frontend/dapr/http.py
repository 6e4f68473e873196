"""Serves Dapr's HTTP API as far as it is about jobs: the path that its SDKs wait for, and a job by its name.

    GET                 /v1.0/healthz, /v1.0/healthz/outbound
    POST, GET, DELETE   /v1.0/jobs/<name>, /v1.0-alpha1/jobs/<name>, /v1.0/schedule/jobs/<name>

A thin adapter: JSON in, one call of DaprRuntime, JSON out.
"""

from __future__ import annotations

import asyncio
import json
import math
from base64 import b64encode
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from aiohttp import web
from google.protobuf import json_format, struct_pb2, wrappers_pb2
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import DecodeError

from atf.auth.caller import ANYBODY, Caller, acting_for
from atf.auth.routes import DAPR_HTTP, Door, Route, route_of
from atf.auth.secrets import shown_in
from atf.config.settings import SecuritySettings
from atf.errors import AtfError, Internal, InvalidArgument, NotFound, Unauthenticated
from atf.log import get_logger
from atf.metrics.metrics import Metrics
from atf.rpc import dapr_runtime_pb2 as d
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.http_bounds import address_of, bounded_runner, listen as listen_on, peer_of, receive_body
from atf.rpc.http_tls import names_in
from atf.rpc.listen_address import listening_socket
from atf.rpc.server import MAX_SENTENCE_BYTES
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity
from atf.task import clip

from .jobs import TIMING
from .runtime import APP_ID, DOMAIN, NAME_EMPTY, NAME_IN_BODY, SCHEDULE, DaprRuntime

MAX_BODY_BYTES: Final = 1 << 20
_JOBS: Final = ("/v1.0/jobs", "/v1.0-alpha1/jobs", "/v1.0/schedule/jobs")
_ERROR_INFO: Final = "type.googleapis.com/google.rpc.ErrorInfo"
_STATUS: Final = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}
_SHOWN_TYPES: Final = (struct_pb2.Value, struct_pb2.Struct, struct_pb2.ListValue, wrappers_pb2.StringValue)
"""Whose descriptions a process must hold to show data of these types; imported for that."""

_log = get_logger()


class HttpPort:
    """The listening port.

    Args:
        runtime: answers the calls.
        grace: seconds that calls which run have when it ends.
        security: whom it answers, and how connections are encrypted.
    """

    def __init__(self, runtime: DaprRuntime, grace: float, security: ServerSecurity = OPEN_TO_ALL) -> None:
        self._runtime = runtime
        self._security = security
        self._grace = grace
        self._limits = security.limits or CallerLimits(SecuritySettings(), Metrics())
        self._serving = True
        self._runner: web.AppRunner | None = None
        self._taking: asyncio.Server | None = None

    async def open(self, listen: str) -> str:
        """Begins to listen; the address, with the port that was taken.

        Raises:
            ConfigError: it can't listen there.
        """
        host, listening = await listening_socket(listen, "dapr_http")
        app = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_errors, self._let_in])
        for path in ("/v1.0/healthz", "/v1.0/healthz/outbound"):
            app.router.add_get(path, self._health)
        for path in _JOBS:
            app.router.add_post(f"{path}/{{name}}", self._schedule)
            app.router.add_get(f"{path}/{{name}}", self._get, allow_head=False)
            app.router.add_delete(f"{path}/{{name}}", self._delete)
        runner = bounded_runner(app, self._grace)
        await runner.setup()
        self._taking = await listen_on(runner, listening, self._security.http_of_callers)
        self._runner = runner
        return f"{host}:{listening.getsockname()[1]}"

    @web.middleware
    async def _let_in(
        self, request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        """Lets pass a call by the row of the RPC that its route stands for; whether it is well is told to everybody."""
        resource = request.match_info.route.resource
        route = Route(Door.CALL) if resource is None else route_of(DAPR_HTTP, request.method, resource.canonical)
        if route.door is Door.OPEN:
            return await handler(request)
        who = await self._caller(request, route.call)
        with self._limits.during(who.account or address_of(request)), acting_for(who):
            await receive_body(request)
            return await handler(request)

    async def _caller(self, request: web.Request, call: str) -> Caller:
        authenticator, tries = self._security.authenticator, self._security.wrong_tries
        if authenticator is None:
            return ANYBODY
        sent = {key.lower(): value for key, value in request.headers.items()}
        certificate = request.transport.get_extra_info("peercert") if request.transport is not None else None
        try:
            who = await authenticator.caller(shown_in(sent), names_in(certificate))
        except Unauthenticated as error:
            if tries is not None:
                await tries.after(peer_of(request), str(error))
            raise
        if call:  # else it is answered with 404
            self._security.check_method(call, who)
        return who

    def drain(self) -> None:
        """Says from now on that it is not ready; calls are still answered."""
        self._serving = False

    async def stop(self) -> None:
        """Takes no more calls, and waits for those that run."""
        self._serving = False
        if self._taking is not None:
            self._taking.close()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _health(self, _request: web.Request) -> web.Response:
        if not self._serving:
            return _refusal(500, "ERR_HEALTH_NOT_READY", "this frontend is about to end")
        return web.Response(status=204)

    async def _schedule(self, request: web.Request) -> web.Response:
        body = read_body(await request.read())
        if body.name:
            raise InvalidArgument("name: it stands in the path alone; leave it out here").with_reason(
                NAME_IN_BODY, DOMAIN
            )
        asked = d.ScheduleJobRequest(job=d.Job(name=_name(request)), overwrite=body.overwrite)
        for field in TIMING:
            if body.HasField(field):
                setattr(asked.job, field, getattr(body, field))
        if body.HasField("failure_policy"):
            asked.job.failure_policy.CopyFrom(body.failure_policy)
        asked.job.data.Pack(body.data)
        await self._runtime.schedule_job(asked, _metadata(request))
        return web.Response(status=204)

    async def _get(self, request: web.Request) -> web.Response:
        found = await self._runtime.get_job(d.GetJobRequest(name=_name(request)), _metadata(request))
        return web.json_response(_shown(found.job))

    async def _delete(self, request: web.Request) -> web.Response:
        await self._runtime.delete_job(d.DeleteJobRequest(name=_name(request)), _metadata(request))
        return web.Response(status=204)


def _name(request: web.Request) -> str:
    name = request.match_info["name"]
    if not name.strip():
        raise InvalidArgument("name: it is empty; give the job one in the path").with_reason(NAME_EMPTY, DOMAIN)
    return name


def _metadata(request: web.Request) -> Mapping[str, str]:
    app_id = request.headers.get(APP_ID)
    return {APP_ID: app_id} if app_id else {}


def read_body(sent: bytes) -> d.JobBody:
    """What a job's description says."""
    try:
        said = json.loads(sent.decode(), object_pairs_hook=_unique, parse_float=_finite, parse_constant=_finite)
        return json_format.ParseDict(said, d.JobBody())
    except SystemError:  # what protobuf raises of such a name
        raise InvalidArgument("the body is no job in JSON: a name has half a surrogate pair").with_reason(
            SCHEDULE, DOMAIN
        ) from None
    except (json_format.ParseError, ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        why = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise InvalidArgument(f"the body is no job in JSON: {why}").with_reason(SCHEDULE, DOMAIN) from None


def _unique(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{max(names, key=names.count)!r} stands there twice")
    return found


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:40]} is no number that JSON has")
    return number


def _shown(job: d.Job) -> dict[str, Any]:
    """A job in JSON. Data that came as JSON is shown as that; other data as protobuf has it in JSON, or in base 64."""
    data = AnyMessage()
    data.CopyFrom(job.data)
    job.ClearField("data")
    shown: dict[str, Any] = json_format.MessageToDict(job)
    if data.type_url or data.value:
        shown["data"] = _shown_data(data)
    return shown


def _shown_data(data: AnyMessage) -> Any:
    value = struct_pb2.Value()
    try:
        if data.Unpack(value):
            return _plain(value)
        return json_format.MessageToDict(data)
    except (TypeError, DecodeError, ValueError):  # a type that is the application's alone
        return {"@type": data.type_url, "value": b64encode(data.value).decode()}


def _plain(value: struct_pb2.Value) -> Any:
    """A value as it was sent: whole numbers are doubles in between."""
    match value.WhichOneof("kind"):
        case "number_value":
            number = value.number_value
            return int(number) if number.is_integer() and abs(number) < 1 << 53 else number
        case "list_value":
            return [_plain(each) for each in value.list_value.values]
        case "struct_value":
            return {name: _plain(each) for name, each in value.struct_value.fields.items()}
        case None | "null_value":
            return None
        case kind:
            return getattr(value, kind)


@web.middleware
async def _errors(request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]) -> Any:
    try:
        return await handler(request)
    except AtfError as error:
        return _refusal(_STATUS.get(error.code, 500), error.reason, str(error))
    except web.HTTPRequestEntityTooLarge:
        return _refusal(413, "ERR_BODY_READ", f"the body is over {MAX_BODY_BYTES} bytes (1 MiB)")
    except web.HTTPException as error:
        sentence = (
            f"{request.method} {request.path}: {error.reason}; jobs are at POST, GET and DELETE {_JOBS[0]}/<name>"
        )
        return _refusal(error.status, NotFound().reason if error.status == 404 else "ERR_BAD_REQUEST", sentence)
    except Exception as error:  # noqa: BLE001  a bug in one call is its caller's, not the server's end
        _log.exception("call failed", method=f"{request.method} {request.path}", error=type(error).__name__)
        return _refusal(500, Internal().reason, "it failed inside the server; its log has the details")


def _refusal(status: int, reason: str, sentence: str) -> web.Response:
    details = [{"@type": _ERROR_INFO, "reason": reason, "domain": DOMAIN}]
    body = {"errorCode": reason, "message": clip(sentence, MAX_SENTENCE_BYTES), "details": details}
    return web.json_response(body, status=status)
