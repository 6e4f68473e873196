"""/metrics, /livez and /readyz, over HTTP within this process."""

from __future__ import annotations

import asyncio
import http.client
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from atf.auth.caller import Caller, CallerKind
from atf.auth.dev_certificates import DevAuthority, Pair
from atf.auth.grants import TokenGrant, Verb
from atf.auth.wrong_tries import WrongTries
from atf.config.settings import SecuritySettings
from atf.errors import ConfigError, Unauthenticated
from atf.metrics import http_server, server as module
from atf.metrics.http_server import MAX_CONNECTIONS, MAX_OF_ADDRESS
from atf.metrics.metrics import Metrics
from atf.metrics.server import MetricsServer
from atf.metrics.table import LEASES_LOST, RPC_SECONDS, TASKS
from atf.process import metrics_access
from atf.process.metrics_access import holders_of_own_token, readers_of_everything
from atf.process.role import Process
from atf.rpc import tls_files
from atf.rpc.caller_security import Security
from atf.rpc.http_tls import http_context

PEER = "ipv4:10.0.0.1:0"


class Noted(WrongTries):
    """Notes who has shown what is not valid."""

    def __init__(self) -> None:
        self.noted: list[str] = []

    async def after(self, peer: str, why: str) -> None:  # noqa: ARG002
        self.noted.append(peer)


class Role:
    """A process that serves or not."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.serves = False
        self.reads = 0

    async def read_gauges(self) -> None:
        self.reads += 1
        self.metrics.replace(TASKS, {("a/b", "NEW"): self.reads})

    async def may_read(self, shown: str, _peer: str) -> str:
        return "" if shown in {"", "Bearer right"} else "that token may not read everything"


class Site:
    """What somebody sees who asks."""

    def __init__(self, role: Role, address: str) -> None:
        self.role, self.address = role, address

    def get(self, path: str, method: str = "GET") -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, timeout=20)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    async def ask(self, path: str) -> tuple[int, str]:
        return await asyncio.to_thread(self.get, path)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    role = Role()
    role.metrics.begin(("hsc",), "0.1", "3.11")
    server = MetricsServer(role, asyncio.get_running_loop())
    await server.start("127.0.0.1:0")
    yield Site(role, server.address)
    server.close()


async def test_a_scrape_has_counters_gauges_and_histograms(site: Site) -> None:
    site.role.metrics.histogram(RPC_SECONDS, "Schedule").observe(0.02)
    status, text = await site.ask("/metrics")

    assert status == 200
    families = {each.name: each for each in text_string_to_metric_families(text)}
    assert families["atf_leases_lost"].samples[0].value == 0  # it is there before the first
    assert families["atf_build_info"].samples[0].labels == {"role": "hsc", "version": "0.1", "python": "3.11"}
    assert "process_start_time_seconds" in families
    buckets = {each.labels.get("le"): each.value for each in families["atf_rpc_seconds"].samples}
    assert (buckets["0.01"], buckets["0.025"], buckets["+Inf"]) == (0, 1, 1)


async def test_gauges_are_read_for_each_scrape(site: Site) -> None:
    await site.ask("/metrics")
    _, text = await site.ask("/metrics")
    assert 'atf_tasks{lambda="a/b",status="NEW"} 2.0' in text


async def test_a_scrape_shows_what_there_is_where_gauges_can_not_be_read(site: Site) -> None:
    async def fails() -> None:
        raise RuntimeError("no store")

    site.role.metrics.counter(LEASES_LOST).inc()
    site.role.read_gauges = fails  # type: ignore[method-assign]
    status, text = await site.ask("/metrics")
    assert status == 200
    assert "atf_leases_lost_total 1.0" in text


async def test_it_is_ready_once_it_serves(site: Site) -> None:
    assert (await site.ask("/readyz"))[0] == 503
    site.role.serves = True
    assert await site.ask("/readyz") == (200, "serves\n")


async def test_it_lives_while_its_loop_turns(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await site.ask("/livez") == (200, "the loop turns\n")
    monkeypatch.setattr(module, "LIVE_S", 0.05)
    assert site.get("/livez") == (503, "the loop has not turned for 0.05 s\n")  # this very thread is the loop's


async def test_other_paths_are_told_what_there_is(site: Site) -> None:
    assert await site.ask("/") == (404, "here are /metrics, /livez and /readyz\n")
    assert (await asyncio.to_thread(site.get, "/metrics", "POST"))[0] == 405


async def test_so_many_connections_at_most(site: Site) -> None:
    host, port = site.address.split(":")

    def crowded() -> bytes:
        with ExitStack() as stack:
            for _ in range(MAX_CONNECTIONS):
                stack.enter_context(socket.create_connection((host, int(port)), 20))
            more = stack.enter_context(socket.create_connection((host, int(port)), 20))
            return more.recv(1)

    assert await asyncio.to_thread(crowded) == b""


async def test_a_request_that_comes_byte_by_byte_is_given_up(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "HEAD_S", 0.2)
    host, port = site.address.split(":")

    def drip() -> int:
        with socket.create_connection((host, int(port)), 20) as connection:
            connection.settimeout(0.02)
            for sent in range(1_000):
                try:
                    connection.sendall(b"G")
                    if connection.recv(1) == b"":
                        return sent
                except TimeoutError:
                    pass
                except ConnectionError:
                    return sent
        return 1_000

    assert 5 < await asyncio.to_thread(drip) < 100
    assert (await site.ask("/livez"))[0] == 200


async def test_an_address_leaves_connections_to_others(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_server, "is_loopback", lambda host: host == "127.0.0.2")
    host, port = site.address.split(":")

    def crowded() -> tuple[bytes, int]:
        with ExitStack() as stack:
            for _ in range(MAX_OF_ADDRESS):
                stack.enter_context(socket.create_connection((host, int(port)), 20))
            more = stack.enter_context(socket.create_connection((host, int(port)), 20)).recv(1)
            other = http.client.HTTPConnection(host, int(port), 20, source_address=("127.0.0.2", 0))
            other.request("GET", "/livez")
            status = other.getresponse().status
            other.close()
            return more, status

    assert await asyncio.to_thread(crowded) == (b"", 200)


async def test_a_port_that_is_taken_is_named_with_its_setting(site: Site) -> None:
    with pytest.raises(ConfigError, match=r"is in use.*--metrics-listen HOST:PORT \(or ATF_METRICS_LISTEN"):
        await MetricsServer(site.role, asyncio.get_running_loop()).start(site.address)


async def test_after_its_end_nobody_answers() -> None:
    role = Role()
    server = MetricsServer(role, asyncio.get_running_loop())
    await server.start("127.0.0.1:0")
    server.close()
    with pytest.raises(OSError):  # noqa: PT011  refused or reset
        await Site(role, server.address).ask("/livez")


async def test_metrics_are_for_tokens_that_may_read_and_the_rest_for_everybody(site: Site) -> None:
    def get(path: str, shown: str) -> int:
        connection = http.client.HTTPConnection(site.address, timeout=20)
        connection.request("GET", path, headers={"Authorization": shown})
        status = connection.getresponse().status
        connection.close()
        return status

    site.role.serves = True
    wrong, right = "Bearer wrong", "Bearer right"
    found = [
        await asyncio.to_thread(get, *each)
        for each in (("/metrics", wrong), ("/metrics", right), ("/livez", wrong), ("/readyz", wrong))
    ]
    assert found == [401, 200, 200, 200]


async def test_metrics_are_served_by_tls_and_a_new_certificate_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tls_files, "LOOK_EVERY_S", 0.0)
    one, two = (DevAuthority(datetime.now(UTC)) for _ in range(2))

    def put(pair: Pair) -> None:
        (tmp_path / "c").write_bytes(pair.certificate)
        (tmp_path / "k").write_bytes(pair.key)

    put(one.server())
    context = http_context(SecuritySettings(tls_cert=str(tmp_path / "c"), tls_key=str(tmp_path / "k")))
    server = MetricsServer(Role(), asyncio.get_running_loop(), context)
    await server.start("127.0.0.1:0")

    def get(authority: DevAuthority) -> int:
        trusts = ssl.create_default_context(cadata=authority.pair.certificate.decode())
        connection = http.client.HTTPSConnection(server.address, timeout=20, context=trusts)
        connection.request("GET", "/livez")
        status = connection.getresponse().status
        connection.close()
        return status

    assert await asyncio.to_thread(get, one) == 200
    put(two.server())
    assert await asyncio.to_thread(get, two) == 200
    with pytest.raises(ssl.SSLError):
        await asyncio.to_thread(get, one)
    server.close()


@pytest.mark.parametrize(("scopes", "may"), [({"*"}, True), ({"photos"}, False)])
async def test_a_role_with_the_store_lets_read_whose_token_reads_everything(scopes: set[str], may: bool) -> None:
    class Knows:
        async def caller(self, shown: str, _subjects: object) -> Caller:
            if shown != "Bearer x":
                raise Unauthenticated("who is that?")
            return Caller(CallerKind.TOKEN, "token x", TokenGrant(frozenset({Verb.READ}), frozenset(scopes)))

    tries = Noted()
    may_read = readers_of_everything(Knows(), tries)
    assert (await may_read("Bearer x", PEER) == "") is may
    assert tries.noted == []
    assert "who is that" in await may_read("Bearer y", PEER)
    assert tries.noted == [PEER]


async def test_a_role_without_the_store_lets_read_who_has_its_own_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_access, "own", lambda: Security(token="mine"))
    tries = Noted()
    may_read = holders_of_own_token(tries)
    assert await may_read("Bearer mine", PEER) == ""
    assert "the token of this process" in await may_read("Bearer other", PEER)
    assert tries.noted == [PEER]
    monkeypatch.setattr(metrics_access, "own", Security)
    assert await may_read("", PEER) != ""


async def test_a_process_that_others_reach_serves_metrics_with_tls_and_tokens_alone() -> None:
    process = Process("hsc")
    with pytest.raises(ConfigError, match=r"metrics_listen = 0\.0\.0\.0:0: other machines reach that"):
        await process.serve_metrics("0.0.0.0:0", SecuritySettings())
