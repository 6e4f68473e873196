"""Every method, with every verb, on what is of one's own namespace and of another, with every kind of token: as the table says."""

from __future__ import annotations

from collections import Counter
from typing import Any, cast

import pytest
from grpc_reflection.v1alpha import reflection_pb2

from atf.auth.methods import OPEN, RULES
from atf.auth.routes import ACTIONS, DAPR_HTTP, METRICS, ROUTES, UI
from tests.ui.conftest import example

from .matrix import BAD, BAD_HOLDERS, DENIED, GOOD, HIDDEN, LET_IN, NO_TOKEN, tried, world
from .matrix_http import ports, tried_by_http


async def test_the_whole_table_over_the_wire() -> None:
    cells = await tried()
    assert not [each for each in cells if each.found != each.expected]
    assert {each.method for each in cells} == RULES.keys()
    assert {each.token for each in cells} == {*BAD, *BAD_HOLDERS, *GOOD, "everywhere"}
    let_in = {each.method for each in cells if each.found == LET_IN}
    assert let_in == RULES.keys()  # none is refused to everybody
    found = Counter(each.found for each in cells)
    assert min(found[each] for each in (NO_TOKEN, DENIED, HIDDEN, LET_IN)) > 10


async def test_every_route_and_action_by_http() -> None:
    async with world() as w:
        cells = await tried_by_http(w)
    assert not [each for each in cells if each.found != each.expected]
    rows = {" ".join(row) for row in ROUTES if row[:2] != (UI, "POST")} | {f"ui POST /do/{each}" for each in ACTIONS}
    assert {each.method for each in cells} == rows | {"ui POST /logout"}
    found = Counter(each.found for each in cells)
    assert min(found[each] for each in (NO_TOKEN, DENIED, LET_IN)) > 10


async def test_a_route_or_an_action_without_a_row_is_refused_to_everybody(monkeypatch: pytest.MonkeyPatch) -> None:
    for row in ((UI, "GET", "/tasks"), (DAPR_HTTP, "GET", "/v1.0/jobs/{name}"), (METRICS, "GET", "/metrics")):
        monkeypatch.delitem(cast("dict[Any, Any]", ROUTES), row)
    monkeypatch.delitem(cast("dict[Any, Any]", ACTIONS), "pause-job")
    async with world() as w, ports(w) as http:
        shown = w.tokens["everywhere"]
        await http.browser.sign_in(shown)
        assert await http.browser.status("/lambdas") == 200
        assert await http.browser.status("/tasks") == 403
        assert "in no row" in (await http.browser.post("/do/pause-job", example("pause-job")))[1]
        assert (await http.ask(DAPR_HTTP, "GET", "/v1.0/jobs/{name}", shown))[0] == 403
        assert (await http.ask(METRICS, "GET", "/metrics", shown))[0] == 404


async def test_everything_that_is_routed_has_a_row() -> None:
    async with world() as w, ports(w) as http:
        for port, app in http.apps.items():
            routed = {
                (port, each.method, each.resource.canonical)
                for each in app.router.routes()
                if each.resource is not None and each.method != "HEAD"
            }
            assert routed == {row for row in ROUTES if row[0] == port}, port


async def test_every_service_that_a_server_answers_has_rows() -> None:
    """What it tells by reflection, beside those that it hides from that, which the table has."""
    async with world() as w:
        asked = reflection_pb2.ServerReflectionRequest(list_services="")
        call = w.channel.stream_stream(
            "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
            reflection_pb2.ServerReflectionRequest.SerializeToString,
            reflection_pb2.ServerReflectionResponse.FromString,
        )(iter([asked]))
        told = await call.read()
        rows = {each.rpartition("/")[0][1:] for each in (*RULES, *OPEN)}
        assert {each.name for each in told.list_services_response.service} <= rows
        for path in OPEN - {"/grpc.health.v1.Health/Watch"}:  # without a token, and known
            assert path.rpartition("/")[0][1:] in {each.name for each in told.list_services_response.service}
