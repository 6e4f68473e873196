"""`atf slo`: the budgets of a Prometheus, and of roles' own metrics."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from atf.cli.budgets import ALERTED, BURN_QUERY, ENOUGH, SLO_QUERY, Budget, burning
from atf.cli.slo import budgets_now
from atf.config.settings import METRICS_ABOVE
from atf.rpc import frontend_pb2 as f

from .conftest import Atf, FakeFrontend

ROOT = Path(__file__).parents[2]
Serve = Callable[[Callable[[str], str | None]], str]

CONTROLLER = """
# TYPE atf_task_start_delay_seconds histogram
atf_task_start_delay_seconds_bucket{lambda="shop/mail",le="0.5"} 10
atf_task_start_delay_seconds_bucket{lambda="shop/mail",le="5.0"} 98
atf_task_start_delay_seconds_bucket{lambda="shop/mail",le="+Inf"} 100
atf_task_start_delay_seconds_count{lambda="shop/mail"} 100
atf_task_start_delay_seconds_bucket{lambda="shop/bill",le="1.0"} 100
atf_task_start_delay_seconds_bucket{lambda="shop/bill",le="5.0"} 200
atf_task_start_delay_seconds_count{lambda="shop/bill"} 200
process_start_time_seconds 1.8e9
"""
FRONTEND = """
atf_rpc_requests_total{method="Schedule",code="OK"} 1990
atf_rpc_requests_total{method="ScheduleMany",code="UNAVAILABLE"} 1
atf_rpc_requests_total{method="Schedule",code="INVALID_ARGUMENT"} 9
atf_rpc_requests_total{method="WaitTasks",code="UNAVAILABLE"} 50
process_start_time_seconds 1.9e9
"""


class Quiet(ThreadingHTTPServer):
    def handle_error(self, *_: object) -> None: ...  # a command may hang up before it has read everything


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves what a function makes of a path over HTTP on a port of its own; None: 404."""
    servers = []

    def start(answer: Callable[[str], str | None]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                said = answer(self.path)
                self.send_response(404 if said is None else 200)
                self.end_headers()
                self.wfile.write((said or "not here").encode())

            def log_message(self, *_: object) -> None: ...

        server = Quiet(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        servers.append(server)
        return f"127.0.0.1:{server.server_port}"

    yield start
    for each in servers:
        each.shutdown()
        each.server_close()


def sample(value: float, **labels: str) -> dict[str, Any]:
    return {"metric": labels, "value": [1.0, str(value)]}


def prometheus(*burns: dict[str, Any]) -> Callable[[str], str | None]:
    """A Prometheus that knows the two queries of the command."""
    promises = [
        sample(0.99, **{"lambda": "shop/mail", "le": "5.0"}),
        sample(0.95, **{"lambda": "shop/bill", "le": "0.25"}),
    ]
    results = {BURN_QUERY: list(burns), SLO_QUERY: promises}

    def answer(path: str) -> str | None:
        asked = urlsplit(path)
        if asked.path != "/prom/api/v1/query":
            return None
        return json.dumps({"status": "success", "data": {"result": results[parse_qs(asked.query)["query"][0]]}})

    return answer


BURNS = (
    sample(0.25, __name__="lambda:atf_starts_burn:30d", **{"lambda": "shop/bill"}),
    sample(1.5, __name__="lambda:atf_starts_burn:30d", **{"lambda": "shop/mail"}),
    sample(0.25, __name__="lambda:atf_starts_burn:5m", **{"lambda": "shop/mail"}),
    sample(16, __name__="lambda:atf_starts_burn:1h", **{"lambda": "shop/mail"}),
    sample(float("nan"), __name__="lambda:atf_starts_burn:6h", **{"lambda": "shop/mail"}),
    sample(0.5, __name__="cluster:atf_schedule_burn:30d"),
)


def test_the_budgets_of_a_prometheus_the_worst_first(atf: Atf, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://{serve(prometheus(*BURNS))}/prom/"

    lines = [line.split("\t") for line in atf("slo", "--prometheus", url).out.splitlines()]
    assert lines == [
        ["of", "promise", "budget left", "burn 5m", "burn 1h", "burn 6h", "burn 3d"],
        ["shop/mail", "5s 99%", "-50.0 %", "0.25", "16.00", "", ""],
        ["Schedule", "99.9% accepted", "50.0 %", "", "", "", ""],
        ["shop/bill", "250ms 95%", "75.0 %", "", "", "", ""],
    ]
    monkeypatch.setenv("ATF_PROMETHEUS", url)
    (one,) = atf("slo", "shop/bill", "--json").json
    assert one == {
        "of": "shop/bill",
        "promise": "250ms 95%",
        "left": 0.75,
        "burn": {"30d": 0.25},
        "counted": None,
        "bad": None,
        "since": None,
    }
    assert [each["left"] for each in atf("slo", "shop/new", "--json").json] == [None]


def test_the_budgets_since_roles_started(atf: Atf, frontend: FakeFrontend, serve: Serve) -> None:
    for name, slo in {"shop/mail": "", "shop/bill": "1s 90%", "shop/quiet": "5s 99%"}.items():
        frontend.lambdas.append(f.LambdaInfo(spec=f.LambdaSpec(name=name), in_force=f.LambdaSpec(name=name, slo=slo)))
    addresses = [serve(lambda _: CONTROLLER), serve(lambda _: FRONTEND)]
    words = [word for each in addresses for word in ("--metrics", each)]

    ran = atf("slo", *words)
    assert [line.split("\t") for line in ran.out.splitlines()] == [
        ["of", "promise", "budget left", "burn", "counted", "bad"],
        ["shop/bill", "1s 90%", "-400.0 %", "5.00", "200", "100"],
        ["Schedule", "99.9% accepted", "50.0 %", "0.50", "2000", "1"],
        ["shop/mail", "5s 95%", "60.0 %", "0.40", "100", "2"],
        ["shop/quiet", "5s 99%", "", "", "0", "0"],
    ]
    assert "counted since 2027-01-15" in ran.err
    assert {each["since"] for each in atf("slo", "--json", *words).json} == {"2027-01-15T08:00:00+00:00"}


@pytest.mark.usefixtures("frontend")
@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--prometheus", "prometheus:9090"], 2, "write its URL, such as http://prometheus:9090"),
        (["--prometheus", "http://a", "--metrics", "a:1"], 2, "--metrics: of no use with --prometheus"),
        (["--metrics", "web-1"], 2, "--metrics = 'web-1': write host:port"),
        (["--prometheus", "http://127.0.0.1:1"], 4, "http://127.0.0.1:1/api/v1/query can't be reached: "),
        (["--metrics", "127.0.0.1:1"], 4, "or --prometheus URL"),
        ([], 4, "http://127.0.0.1:1/metrics can't be reached"),
    ],
)
def test_what_can_not_be_asked_is_said(
    words: list[str],
    code: int,
    says: str,
    atf: Atf,
    monkeypatch: pytest.MonkeyPatch,
    serve: Serve,
) -> None:
    if not words:
        port = int(serve(lambda _: FRONTEND).rpartition(":")[2])
        monkeypatch.setenv("ATF_FRONTEND", f"127.0.0.1:{port - METRICS_ABOVE}")
        monkeypatch.setattr("atf.cli.slo.CONTROLLER_PORT", 1 - METRICS_ABOVE)  # nobody listens at port 1
    ran = atf("slo", *words)
    assert ran.code == code, ran
    assert says in ran.err


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("<html>", "its answer is not that of a Prometheus"),
        ('{"status": "error", "error": "it is tired"}', "it is tired"),
        ('{"status": "success", "data": {"result": [{"metric": 7}]}}', "its answer is not that of a Prometheus"),
        ('{"status": "success", "data": {"result": []}}', "load deploy/prometheus/recording.yml"),
        (None, "answers with HTTP 404: is that the address of a Prometheus?"),
    ],
)
def test_an_answer_of_another_form_is_refused(answer: str | None, says: str, atf: Atf, serve: Serve) -> None:
    ran = atf("slo", "--prometheus", f"http://{serve(lambda _: answer)}")
    assert ran.code != 0
    assert says in ran.err


@pytest.mark.usefixtures("frontend")
def test_metrics_of_another_form_are_refused(atf: Atf, serve: Serve) -> None:
    ran = atf("slo", "--metrics", serve(lambda _: 'atf_rpc_requests_total{method="Schedule" 7\n'))
    assert ran.code != 0
    assert "not text of Prometheus' format" in ran.err


@pytest.mark.parametrize(
    ("burn", "said"),
    [
        ({"1h": 20, "5m": 15}, "its error budget goes 20 times as fast as 5s 99% allows, over an hour"),
        ({"1h": 20, "5m": 3}, ""),  # it is over
        (
            {"6h": 7, "30m": 6.5, "1h": 7, "5m": 7},
            "its error budget goes 7 times as fast as 5s 99% allows, over six hours",
        ),
        ({"3d": 2, "6h": 2}, "its error budget goes 2 times as fast as 5s 99% allows, over three days"),
        ({"3d": 1, "6h": 1, "30d": 4}, ""),
    ],
)
def test_a_budget_burns_as_the_alerts_have_it(burn: dict[str, float], said: str) -> None:
    assert burning(Budget("shop/mail", "5s 99%", 0.5, burn)) == said


def test_the_bounds_are_those_of_the_alerts() -> None:
    rules = (ROOT / "deploy/prometheus/alerts.yml").read_text("utf-8")
    for long, short, most in ALERTED:
        assert f"lambda:atf_starts_burn:{long} > {most:g} and lambda:atf_starts_burn:{short} > {most:g}" in rules


def test_counts_since_a_start_say_something_once_there_are_enough() -> None:
    gone = {"left": -1.0, "burn": {"start": 2.0}}
    assert burning(Budget("shop/mail", "5s 95%", counted=ENOUGH, bad=10, **gone)) == (  # type: ignore[arg-type]
        "10 of 100 starts came later than 5s 95%: its error budget is gone"
    )
    assert burning(Budget("Schedule", "99.9% accepted", counted=1_000, bad=9, **gone)) == (  # type: ignore[arg-type]
        "9 of 1,000 calls were not 99.9% accepted: its error budget is gone"
    )
    assert burning(Budget("shop/mail", "5s 95%", counted=ENOUGH - 1, bad=10, **gone)) == ""  # type: ignore[arg-type]
    assert burning(Budget("shop/mail", "5s 95%", 0.1, {"start": 0.9}, 1_000, 45)) == ""


def test_status_asks_whom_slo_asks_and_does_without(serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ATF_PROMETHEUS", f"http://{serve(prometheus(*BURNS))}/prom")
    assert [each.of for each in budgets_now(5)] == ["shop/mail", "Schedule", "shop/bill"]
    monkeypatch.setenv("ATF_PROMETHEUS", "http://127.0.0.1:1")
    assert budgets_now(5) == []
