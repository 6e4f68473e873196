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

from atf.client.whoami import whoami
from atf.config.settings import UiSettings
from atf.config.web import host_names
from atf.errors import AtfError, DeadlineExceeded, NotFound, Unavailable
from atf.log import get_logger
from atf.rpc import api
from atf.runtime import Runtime, new_id
from atf.task import clip

from .actions.action import Action, command_words, read_values
from .actions.table import ACTIONS
from .log_watch import LogWatches
from .pages.table import PAGES, Page
from .reads import SharedReads
from .rendering import make_environment, with_values
from .samples import Samples
from .security import CSRF_COOKIE, CSRF_FIELD, HEADERS, Refused, check_host, check_origin, check_token
from .static_files import load_static
from .texts import command_line
from .visit import PageView, Visit, check_query
from .zones import Instants, zone_named

MAX_FORM_BYTES: Final = 64 << 10
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
    frontend: api.Frontend, settings: UiSettings, runtime: Runtime, samples: Samples | None = None
) -> web.Application:
    """The pages as an application of aiohttp.

    Args:
        frontend: what they show, and what carries actions out.
        settings: under which path and which names, and whether they only show.
        runtime: clocks and chance.
        samples: of the same frontend; None: none have been taken.
    """
    site = _Pages(frontend, settings, runtime, samples or Samples(frontend, SharedReads(runtime), runtime))
    app = web.Application(client_max_size=MAX_FORM_BYTES, middlewares=[site.guard])
    root = settings.root
    for page in PAGES:
        app.router.add_get((root + page.path) or "/", site.show(page))
    if root:
        app.router.add_get(root, site.to_first_page)
        app.router.add_get("/", site.to_first_page)
    app.router.add_get(f"{root}/find", site.find)
    app.router.add_get(f"{root}/prefs", site.preferences)
    app.router.add_get(f"{root}/static/{{path:.+}}", site.static)
    app.router.add_post(f"{root}/do/{{action}}", site.act)
    return app


class _Pages:
    def __init__(self, frontend: api.Frontend, settings: UiSettings, runtime: Runtime, samples: Samples) -> None:
        self._frontend, self._settings, self._runtime = frontend, settings, runtime
        self._public = host_names(settings.public_hosts)
        self._samples, self._read = samples, samples.read
        self._logs = LogWatches(frontend, runtime)
        self._static = load_static()
        self._templates = make_environment(settings.root)

    # --- every request ------------------------------------------------------------------------------------------------

    @web.middleware
    async def guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answers what may be answered, an error as a page, and puts the same headers on all."""
        try:
            check_host(request.host, self._public)
            if request.method not in {"GET", "HEAD"}:
                await self._check_form(request)
            check_query(request.query)
            answer = await handler(request)
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
        return answer

    async def _check_form(self, request: web.Request) -> None:
        if self._settings.read_only:
            raise Refused("These pages are read-only: atf ui runs with --read-only.")
        check_origin(request.headers.get("Origin", ""), request.host, self._public)
        form = await request.post()
        check_token(str(form.get(CSRF_FIELD, "")), request.cookies.get(CSRF_COOKIE, ""))

    def _failed(self, request: web.Request, error: AtfError) -> web.Response:
        if isinstance(error, Unavailable | DeadlineExceeded):
            said = f"{error}. This page shows what there is as soon as it answers."
            return self._error_page(request, 503, "The frontend is away", said, live=True)
        titles = {400: "That does not fit", 403: "Refused", 404: "Not found"}
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
            visit = Visit(
                self._frontend,
                self._read,
                self._samples,
                self._logs,
                dict(request.query),
                dict(request.match_info),
                self._instants(request),
                self._runtime.wall_us(),
            )
            return self._page(request, page.nav, await page.view(visit))

        return handler

    def _page(self, request: web.Request, nav: str, view: PageView, status: int = 200) -> web.Response:
        instants = self._instants(request)
        cookie = request.cookies.get(CSRF_COOKIE, "")
        token = cookie if _is_token(cookie) else new_id(self._runtime.random, 256)
        partial = PARTIAL in request.headers
        said = {} if partial else _said(request.cookies.get(SAID_COOKIE, ""))
        query = dict(request.query)
        path = request.rel_url.raw_path

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
            editor_url=self._settings.editor_url,
            theme=_theme(request),
            zone=zone_named(request.cookies.get(ZONE_COOKIE, "")).key,
            flash=said,
        )
        answer = web.Response(text=text, content_type="text/html", charset="utf-8", status=status)
        if token != cookie:
            self._set_cookie(answer, CSRF_COOKIE, token)
        if said:
            answer.del_cookie(SAID_COOKIE, path=self._cookie_path)
        return answer

    def _instants(self, request: web.Request) -> Instants:
        return Instants(zone_named(request.cookies.get(ZONE_COOKIE, "")), self._runtime.wall_us())

    @property
    def _cookie_path(self) -> str:
        return self._settings.root or "/"

    def _set_cookie(self, answer: web.StreamResponse, name: str, value: str, seconds: int | None = None) -> None:
        answer.set_cookie(name, value, path=self._cookie_path, httponly=True, samesite="Strict", max_age=seconds)

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
            self._set_cookie(answer, THEME_COOKIE, request.query["theme"], _YEAR_S)
        if "zone" in request.query:
            self._set_cookie(answer, ZONE_COOKIE, zone_named(request.query["zone"]).key, _YEAR_S)
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

    # --- actions ------------------------------------------------------------------------------------------------------

    async def act(self, request: web.Request) -> web.StreamResponse:
        """Carries out what a form asks for, and shows on its page what came of it."""
        action = ACTIONS.get(request.match_info["action"])
        if action is None:
            raise NotFound(f"there is no action {request.match_info['action'][:80]!r}")
        form = await request.post()
        answer = _see(self._way_back(str(form.get("next", ""))))
        self._set_cookie(answer, SAID_COOKIE, _kept(await self._carried_out(action, form)), 60)
        return answer

    async def _carried_out(self, action: Action, form: Mapping[str, object]) -> dict[str, str]:
        try:
            values = read_values(action, form)
            done = await action.do(self._frontend, values, f"{whoami()} (atf ui)")
        except AtfError as error:
            return {"tone": "bad", "text": clip(f"{action.label}: {error}", 600), "command": ""}
        self._read.forget()
        command = command_line(command_words(action, values))
        _log.info("action", action=action.name, command=clip(command, 600))
        return {"tone": "good", "text": clip(done, 600), "command": clip(command, 600)}


def _see(path: str) -> web.Response:
    return web.Response(status=303, headers={"Location": path})


def _kept(said: dict[str, str]) -> str:
    return base64.urlsafe_b64encode(json.dumps(said).encode()).decode()


def _said(cookie: str) -> dict[str, str]:
    """What an action did, from the cookie that keeps it for a moment."""
    try:
        found: Any = json.loads(base64.urlsafe_b64decode(cookie.encode()))
    except ValueError:
        return {}
    if not isinstance(found, dict) or found.keys() != {"tone", "text", "command"}:
        return {}
    return {name: str(value)[:700] for name, value in found.items()}


def _is_token(text: str) -> bool:
    return len(text) == 64 and text.isalnum()


def _theme(request: web.Request) -> str:
    given = request.cookies.get(THEME_COOKIE, "")
    return given if given in THEMES else THEMES[0]
