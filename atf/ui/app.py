"""Puts the pages together: the table of routes, and what holds of every request."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final
from urllib.parse import urlencode

from aiohttp import web
from markupsafe import Markup

from atf.auth.grants import ALL, Verb
from atf.auth.routes import UI, Door, route_of, rule_of_action
from atf.auth.secrets import HEADER, MAX_CHARS, SCHEME
from atf.client.whoami import whoami
from atf.config.settings import SecuritySettings, UiSettings
from atf.config.web import host_names, is_loopback
from atf.errors import (
    AtfError,
    ConfigError,
    DeadlineExceeded,
    NotFound,
    TooManyCalls,
    Unauthenticated,
    Unavailable,
)
from atf.log import get_logger
from atf.metrics.metrics import Metrics
from atf.rpc import api, frontend_pb2 as f
from atf.rpc.caller_limits import CallerLimits
from atf.rpc.caller_security import showing
from atf.rpc.http_bounds import address_of, peer_of, receive_body
from atf.rpc.server_security import OPEN_TO_ALL, ServerSecurity
from atf.runtime import Runtime, new_id
from atf.task import clip

from .actions.action import Action, command_words, read_values
from .actions.table import ACTIONS
from .pages.table import PAGES, Page
from .rendering import make_environment, with_values
from .samples import Samples
from .security import (
    CSRF_COOKIE,
    CSRF_FIELD,
    HEADERS,
    HSTS,
    OwnHosts,
    Refused,
    check_host,
    check_origin,
    check_token,
    name_of,
)
from .sessions import COOKIE, Desk, Session, Sessions
from .static_files import load_static
from .texts import command_line
from .visit import PageView, Visit, check_query
from .zones import Instants, zone_named

SESSION: Final = web.RequestKey("session", Session)
"""Of a request: who has made it, where people sign in."""
LOGIN: Final = "login"
"""In the place of a page's name in the navigation, of which that page shows nothing."""
_OF_SESSIONS: Final = ("/login", "/logout")
_WHY_SIGN_IN: Final = {
    "ended": "Your session has ended: nobody looked for a while, or its token is not valid any more. Sign in to go on.",
    "out": "You are signed out.",
}
MAX_FORM_BYTES: Final = 64 << 10
_FORM: Final = "application/x-www-form-urlencoded"
ZONE_COOKIE: Final = "atf_zone"
THEME_COOKIE: Final = "atf_theme"
SAID_COOKIE: Final = "atf_said"
"""What an action did, for the page that follows it."""
THEMES: Final = ("auto", "light", "dark")
PARTIAL: Final = "HX-Request"
"""The header of a request that wants the middle of a page alone."""
_TASK_ID: Final = re.compile(r"[0-9]{1,5}-[A-Za-z0-9_-]{1,64}")
_YEAR_S: Final = 31_536_000
_STATUS: Final = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "FAILED_PRECONDITION": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 503,
}
_log = get_logger()

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def make_app(
    frontend: api.Frontend,
    settings: UiSettings,
    runtime: Runtime,
    samples: Samples | None = None,
    *,
    login: bool = False,
    security: ServerSecurity = OPEN_TO_ALL,
) -> web.Application:
    """The pages as an application of aiohttp.

    Args:
        frontend: what they show, and what carries actions out.
        settings: under which path and which names, and whether they only show.
        runtime: clocks and chance.
        samples: of the same frontend; None: none have been taken.
        login: whether each reader has to show a token first, and sees what that may.
        security: what one reader may ask for, and what limits those who show no valid token.
    """
    site = _Pages(frontend, settings, runtime, samples, login, security)
    app = web.Application(client_max_size=MAX_FORM_BYTES, middlewares=[site.guard])
    root = settings.root
    for page in PAGES:
        app.router.add_get((root + page.path) or "/", site.show(page))
    if root:
        app.router.add_get(root, site.to_first_page)
        app.router.add_get("/", site.to_first_page)
    if login:
        app.router.add_get(f"{root}/login", site.ask_who)
        app.router.add_post(f"{root}/login", site.sign_in)
        app.router.add_post(f"{root}/logout", site.sign_out)
    app.router.add_get(f"{root}/find", site.find)
    app.router.add_get(f"{root}/prefs", site.preferences)
    app.router.add_get(f"{root}/static/{{path:.+}}", site.static)
    app.router.add_post(f"{root}/do/{{action}}", site.act)
    return app


class _Pages:
    def __init__(
        self,
        frontend: api.Frontend,
        settings: UiSettings,
        runtime: Runtime,
        samples: Samples | None,
        login: bool,
        security: ServerSecurity,
    ) -> None:
        self._limits = security.limits or CallerLimits(SecuritySettings(), Metrics())
        self._wrong_tries = security.wrong_tries
        self._frontend, self._settings, self._runtime = frontend, settings, runtime
        self._hosts = OwnHosts(settings.listen, host_names(settings.public_hosts))
        self._sessions = Sessions(frontend, runtime) if login else None
        self._desk = Desk(frontend, runtime, samples)
        self._static = load_static()
        self._templates = make_environment(settings.root)

    # --- every request ------------------------------------------------------------------------------------------------

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers what may be answered, an error as a page, and puts the same headers on all."""
        try:
            check_host(request.host, self._hosts)
            if request.method not in {"GET", "HEAD"}:
                await self._check_form(request)
            check_query(request.query)
            answer = await self._answered(request, handler)
        except AtfError as error:
            answer = self._failed(request, error)
        except web.HTTPException as error:
            answer = self._error_page(
                request, error.status, "Not here", f"{error.status} {error.reason}: {request.path[:200]}"
            )
        except Exception as error:  # noqa: BLE001  a bug in one page is that page's error
            _log.exception("page failed", path=request.path[:200], error=type(error).__name__)
            answer = self._error_page(
                request, 500, "A bug in atf ui", f"{type(error).__name__}: its log has the details."
            )
        for name, value in HEADERS.items():
            answer.headers.setdefault(name, value)
        if request.secure and not is_loopback(name_of(request.host)):
            answer.headers.add(*HSTS)
        return answer

    async def _answered(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """What a handler answers, whose calls show the token of whoever asks; or the way to the page that asks for one."""
        door = self._door(request)
        if self._sessions is None or door in {Door.OPEN, Door.READER}:
            with self._limits.during(address_of(request)):
                if self._sessions is not None and door is Door.READER:
                    await self._check_reader(request)
                return await handler(request)
        cookie = self._cookie(request, COOKIE)
        session = self._sessions.of(cookie)
        if session is None:
            return self._to_login(request)
        request[SESSION] = session
        with self._limits.during(session.caller.name), showing(session.token):
            try:
                return await handler(request)
            except Unauthenticated:  # revoked, or at its end
                self._sessions.end(cookie)
                del request[SESSION]
                return self._to_login(request)

    def _door(self, request: web.Request) -> Door:
        """Whom the table lets in by this route; what is no route is told to those alone who are signed in."""
        resource = request.match_info.route.resource
        if resource is None:
            return Door.SESSION
        path = resource.canonical
        path = path.removeprefix(self._settings.root) or "/"
        return route_of(UI, request.method, path).door

    async def _check_reader(self, request: web.Request) -> None:
        """Lets pass who shows a token that may read every namespace, as a metrics server does."""
        try:
            with showing(request.headers.get(HEADER, "").removeprefix(SCHEME)):
                caller = await self._frontend.get_caller(f.GetCallerRequest())
        except (ConfigError, Unauthenticated) as error:  # ConfigError: no header could carry it
            if self._wrong_tries is not None:
                await self._wrong_tries.after(peer_of(request), str(error))
            raise Unauthenticated(f"{error}: send `{HEADER}: {SCHEME}atf_…`, of a token that may read all") from None
        if not caller.everything and not (ALL in caller.scopes and {Verb.READ, Verb.ADMIN} & set(caller.verbs)):
            raise Refused(f"{caller.name}: no {Verb.READ} for all namespaces (*), which this needs")

    def _to_login(self, request: web.Request) -> web.Response:
        here = request.rel_url.raw_path_qs if request.method == "GET" and PARTIAL not in request.headers else ""
        why = {"why": "ended"} if self._cookie(request, COOKIE) else {}
        path = self._login_path({"next": here} | why if here else why)
        if PARTIAL in request.headers:  # a script would put the login page into the middle of the one that is open
            return web.Response(status=401, headers={"HX-Redirect": path})
        return _see(path)

    def _login_path(self, query: Mapping[str, str]) -> str:
        return f"{self._settings.root}/login" + (f"?{urlencode(query)}" if query else "")

    async def _check_form(self, request: web.Request) -> None:
        if self._settings.read_only and not request.path.endswith(_OF_SESSIONS):
            raise Refused("These pages are read-only: atf ui runs with --read-only.")
        check_origin(request.headers.get("Origin", ""), request.host, self._hosts, secure=request.secure)
        if request.content_type != _FORM:
            raise web.HTTPUnsupportedMediaType(reason=f"a form of these pages is {_FORM}")
        if (request.charset or "utf-8").lower() != "utf-8":
            raise web.HTTPUnsupportedMediaType(reason="a form of these pages is in UTF-8")
        await receive_body(request)
        try:
            form = await request.post()
        except UnicodeDecodeError:
            raise web.HTTPBadRequest(reason="the form is not in UTF-8") from None
        check_token(str(form.get(CSRF_FIELD, "")), self._cookie(request, CSRF_COOKIE))

    def _failed(self, request: web.Request, error: AtfError) -> web.Response:
        if isinstance(error, Unavailable | DeadlineExceeded) and not isinstance(error, TooManyCalls):
            said = f"{error}. This page shows what there is as soon as it answers."
            return self._error_page(request, 503, "The frontend is away", said, live=True)
        titles = {400: "That does not fit", 403: "Refused", 404: "Not found", 429: "Too much at once"}
        status = _STATUS.get(error.code, 500)
        return self._error_page(
            request, status, titles.get(status, "That did not work"), str(error), live=isinstance(error, NotFound)
        )

    def _error_page(
        self, request: web.Request, status: int, title: str, said: str, *, live: bool = False
    ) -> web.Response:
        view = PageView("error.html", title, {"said": clip(said, 2_000)}, live)
        return self._page(request, "", view, status)

    # --- pages --------------------------------------------------------------------------------------------------------

    def show(self, page: Page) -> Handler:
        """Answers with one of the pages."""

        async def handler(request: web.Request) -> web.StreamResponse:
            desk = self._desk_of(request)
            visit = Visit(
                self._frontend,
                desk.read,
                desk.samples,
                desk.logs,
                dict(request.query),
                dict(request.match_info),
                self._instants(request),
                self._runtime.wall_us(),
            )
            return self._page(request, page.nav, await page.view(visit))

        return handler

    def _page(self, request: web.Request, nav: str, view: PageView, status: int = 200) -> web.Response:
        instants, session = self._instants(request), request.get(SESSION)
        cookie = self._cookie(request, CSRF_COOKIE)
        token = cookie if _is_token(cookie) else new_id(self._runtime.random, 256)
        partial = PARTIAL in request.headers
        said = {} if partial else _said(self._cookie(request, SAID_COOKIE))
        query = dict(request.query)
        path = "/" + request.rel_url.raw_path.lstrip("/\\")  # in a link // would lead to another site

        def with_query(**changes: object) -> Markup:
            return with_values(path, {**query, **changes})

        text = self._templates.get_template(view.template).render(
            **view.values,
            title=view.title,
            live=view.live,
            partial=partial,
            nav=nav,
            here=with_values(path, query),
            query=query,
            with_query=with_query,
            at=instants.at,
            away=instants.away,
            csrf=token,
            read_only=self._settings.read_only,
            may_do=self._may_do(request),
            signed_in=session.caller.name if session is not None else "",
            editor_url=self._settings.editor_url,
            theme=_theme(self._cookie(request, THEME_COOKIE)),
            zone=zone_named(self._cookie(request, ZONE_COOKIE)).key,
            flash=said,
        )
        answer = web.Response(text=text, content_type="text/html", charset="utf-8", status=status)
        if token != cookie:
            self._set_cookie(request, answer, CSRF_COOKIE, token)
        if said:
            self._drop_cookie(request, answer, SAID_COOKIE)
        return answer

    def _desk_of(self, request: web.Request) -> Desk:
        session = request.get(SESSION)
        return session.desk if session is not None else self._desk

    def _may_do(self, request: web.Request) -> Callable[[str], bool]:
        session = request.get(SESSION)
        if self._settings.read_only or (self._sessions is not None and session is None):
            return lambda _action: False
        return lambda action: session is None or session.may_do(action)

    def _instants(self, request: web.Request) -> Instants:
        return Instants(zone_named(self._cookie(request, ZONE_COOKIE)), self._runtime.wall_us())

    @property
    def _cookie_path(self) -> str:
        return self._settings.root or "/"

    def _cookie_name(self, request: web.Request, name: str) -> str:
        """A cookie's name; by TLS at the root one that browsers take from this very host alone, not from others below its domain."""
        return f"__Host-{name}" if request.secure and not self._settings.root else name

    def _cookie(self, request: web.Request, name: str) -> str:
        return request.cookies.get(self._cookie_name(request, name), "")

    def _drop_cookie(self, request: web.Request, answer: web.StreamResponse, name: str) -> None:
        answer.del_cookie(self._cookie_name(request, name), path=self._cookie_path, secure=request.secure)

    def _set_cookie(
        self, request: web.Request, answer: web.StreamResponse, name: str, value: str, seconds: int | None = None
    ) -> None:
        secure = request.secure or request.headers.get("Origin", "").startswith("https://")  # behind a proxy with TLS
        answer.set_cookie(
            self._cookie_name(request, name),
            value,
            path=self._cookie_path,
            httponly=True,
            samesite="Strict",
            max_age=seconds,
            secure=secure,
        )

    async def to_first_page(self, _request: web.Request) -> web.StreamResponse:
        """The base path without its slash."""
        return _see(f"{self._settings.root}/")

    async def find(self, request: web.Request) -> web.StreamResponse:
        """Goes to the task of an id, or to the lambdas of a name."""
        sought = request.query.get("q", "").strip()
        if _TASK_ID.fullmatch(sought):
            return _see(f"{self._settings.root}/tasks/{sought}")
        return _see(f"{self._settings.root}/lambdas?{urlencode({'q': sought})}")

    async def preferences(self, request: web.Request) -> web.StreamResponse:
        """Keeps the reader's theme or zone in a cookie, and goes back."""
        answer = _see(self._way_back(request.query.get("next", "")))
        if request.query.get("theme") in THEMES:
            self._set_cookie(request, answer, THEME_COOKIE, request.query["theme"], _YEAR_S)
        if "zone" in request.query:
            self._set_cookie(request, answer, ZONE_COOKIE, zone_named(request.query["zone"]).key, _YEAR_S)
        return answer

    def _way_back(self, path: str) -> str:
        """A path of these pages; the first page where it is none."""
        first = f"{self._settings.root}/"
        fits = path.startswith(first) and not path.startswith("//") and path.isprintable() and "\\" not in path
        return path if fits else first

    async def static(self, request: web.Request) -> web.StreamResponse:
        """A file that pages load."""
        found = self._static.get(request.match_info["path"])
        if found is None:
            raise NotFound("there is no such file")
        headers = {"Cache-Control": f"public, max-age={_YEAR_S}, immutable", "ETag": f'"{found.digest}"'}
        return web.Response(body=found.body, content_type=found.content_type, charset="utf-8", headers=headers)

    # --- who reads ----------------------------------------------------------------------------------------------------

    async def ask_who(self, request: web.Request) -> web.StreamResponse:
        """The page that asks for a token."""
        return self._login_page(request, self._way_back(request.query.get("next", "")))

    def _login_page(self, request: web.Request, back: str, said: str = "", status: int = 200) -> web.Response:
        why = _WHY_SIGN_IN.get(request.query.get("why", ""), "")
        view = PageView("login.html", "Sign in", {"said": clip(said, 600), "why": why, "next": back}, live=False)
        return self._page(request, LOGIN, view, status)

    async def sign_in(self, request: web.Request) -> web.StreamResponse:
        """Begins a session, if whoever answers calls knows the token."""
        assert self._sessions is not None
        form = await request.post()
        token, back = str(form.get("token", "")).strip()[:MAX_CHARS], self._way_back(str(form.get("next", "")))
        try:
            with showing(token):
                caller = await self._frontend.get_caller(f.GetCallerRequest())
        except (Unauthenticated, ConfigError) as error:  # ConfigError: no header could carry it
            if self._wrong_tries is not None:
                await self._wrong_tries.after(peer_of(request), str(error))
            return self._login_page(request, back, str(error), 401)
        answer = _see(back)
        self._sessions.end(self._cookie(request, COOKIE))
        self._set_cookie(request, answer, COOKIE, self._sessions.begin(token, caller))
        return answer

    async def sign_out(self, request: web.Request) -> web.StreamResponse:
        """Ends the session."""
        assert self._sessions is not None
        self._sessions.end(self._cookie(request, COOKIE))
        answer = _see(self._login_path({"why": "out"}))
        self._drop_cookie(request, answer, COOKIE)
        return answer

    # --- actions ------------------------------------------------------------------------------------------------------

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Carries out what a form asks for, and shows on its page what came of it."""
        action = ACTIONS.get(request.match_info["action"])
        if action is None:
            raise NotFound(f"there is no action {request.match_info['action'][:80]!r}")
        form = await request.post()
        answer = _see(self._way_back(str(form.get("next", ""))))
        self._set_cookie(request, answer, SAID_COOKIE, _kept(await self._carried_out(request, action, form)), 60)
        return answer

    async def _carried_out(self, request: web.Request, action: Action, form: Mapping[str, object]) -> dict[str, str]:
        session = request.get(SESSION)
        try:
            rule = rule_of_action(action.name)
            if session is not None and not session.may_do(action.name):
                raise Refused(f"{session.caller.name}: no {rule.verb}, which this needs")
            values = read_values(action, form)
            done = await action.do(self._frontend, values, f"{whoami()} (atf ui)")
        except Unauthenticated:
            raise
        except AtfError as error:
            return {"tone": "bad", "text": clip(f"{action.label}: {error}", 600), "command": ""}
        self._desk_of(request).read.forget()
        command = command_line(command_words(action, values))
        by = session.caller.name if session is not None else ""
        _log.info("action", action=action.name, by=by, given=[name for name, value in values.items() if value])
        return {"tone": "good", "text": clip(done, 600), "command": clip(command, 600)}


def _see(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


def _kept(said: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode()


def _said(cookie: str) -> dict[str, str]:
    """What an action did, from the cookie that keeps it for a moment."""
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(cookie.encode()))
    except (ValueError, RecursionError):
        return {}
    if not isinstance(found, dict) or found.keys() != {"tone", "text", "command"}:
        return {}
    return {name: str(value)[:700] for name, value in found.items()}


def _is_token(text: str) -> bool:
    return len(text) == 64 and text.isalnum()


def _theme(given: str) -> str:
    return given if given in THEMES else THEMES[0]
