"""What a store in trouble looks like to a role: one class of error and one sentence, and everything goes on afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import fakeredis
import pytest
import redis
import redis.exceptions as rx
from redis._parsers.base import BaseParser

from atf.config.settings import StoreSettings, Timing
from atf.errors import (
    AtfError,
    ClaimsPaused,
    ConfigError,
    FailedPrecondition,
    Internal,
    ResourceExhausted,
    Unavailable,
)
from atf.runtime import SystemRuntime
from atf.store import library
from atf.store.servers.address import safe_url
from atf.store.servers.modes import fake_link
from atf.store.servers.refusals import translate
from atf.store.store import Store
from atf.store.values.claims import HeldClaim, Outcome, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import US, Status
from tests.claiming import claim_ids, serve_queues
from tests.known import know
from tests.store_calls import call_function, open_behind

from .conftest import OpenStore
from .servers import RESTRICTED, Server, running
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, Clock, World, held


@contextlib.asynccontextmanager
async def opened(url: str, clock: Clock | None = None, **settings: Any) -> AsyncIterator[Store]:
    store = await Store.open(StoreSettings(redis_url=url, **{"partitions": 2, **settings}), Timing(), SystemRuntime())
    store.now = clock
    try:
        await know(store, LAMBDA)
        yield store
    finally:
        await store.close()


@pytest.fixture
def real(embedded: Server) -> Iterator[redis.Redis]:
    """A client of the embedded server, empty now and with its settings put back afterwards."""
    with embedded.client() as client:
        client.flushall()
        client.function_flush()
        yield client
        client.config_set("maxmemory", 0)
        client.replicaof("NO", "ONE")


# --- a store that is full ---------------------------------------------------------------------------------------------


async def test_a_full_store_takes_no_more_tasks_and_drains(embedded: Server, real: redis.Redis, clock: Clock) -> None:
    async with opened(embedded.url, clock, push_when_scheduled=False) as store, opened(embedded.url, clock) as consumer:
        world = World(store, clock)
        known = LambdaRecord(LAMBDA, b"", 10, ENQUEUE_TIMEOUT_US, paused=False)._replace(settings="burst=5")
        await store.register_lambdas([known])
        (claim,) = await world.run("running")
        await world.schedule("a", "b", "c", "d", lambda_name="another/one")
        real.config_set("maxmemory", 1)

        with pytest.raises(ResourceExhausted, match="full"):
            await store.schedule([world.task("refused")])
        with pytest.raises(ResourceExhausted):
            await store.register_lambdas([LambdaRecord("new/one", b"", 10, ENQUEUE_TIMEOUT_US, paused=False)])
        with pytest.raises(ResourceExhausted):
            await store.register_lambdas([known, known._replace(spec=b"new")])
        for changed in ({"queue_limit": 11}, {"settings": "rate=6"}):
            with pytest.raises(ResourceExhausted):
                await store.register_lambdas([known._replace(**changed)])
        assert await store.register_lambdas([known]) == 0  # an executor that starts now helps to drain
        assert await store.get_tasks(["0-refused"]) == [None]

        assert await world.beat(claim) == [Verdict.OK]
        assert await world.finish(Outcome.SUCCEEDED, claim, result=b"x" * 1000) == [Verdict.OK]
        assert (await consumer.enqueue(0, 0)).enqueued == 4  # the first that this process pushes into that queue
        (popped,) = await serve_queues(store, 0, [["another/one:1"]], 10)
        claims = held(await world.claim(*popped[1]))
        await world.fail(claims[0])
        await store.hand_back([claims[1]])
        await store.report_loss([claims[2]], "killed")
        await store.cancel_tasks(["0-d"])
        await store.pause_lambda(LAMBDA)
        await store.watch_tasks(["0-a"])
        clock.advance(3 * 86_400)
        assert await store.sweep(0, 1000) == 1
        real.config_set("maxmemory", 0)
        await world.schedule("refused")
        assert (await consumer.enqueue(0, 0)).enqueued > 0
        await world.check()
    assert real.sismember("rq:queues", "rq:queue:{0}another/one:1")


# --- a store that does not fit ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url", ["http://h", "127.0.0.1:6379", "redis://h:99999", "redis://h:port", "redis://:secret@h:99999"]
)
async def test_an_address_that_can_be_none_is_a_setting_that_breaks_a_rule(url: str) -> None:
    with pytest.raises(ConfigError, match=r"redis_url = .*; write redis://HOST:PORT") as caught:
        async with opened(url):
            pass

    assert "secret" not in str(caught.value)


async def test_a_real_server_that_evicts_is_refused(embedded: Server, real: redis.Redis) -> None:
    real.config_set("maxmemory", 1 << 30)
    real.config_set("maxmemory-policy", "allkeys-lru")
    try:
        with pytest.raises(Unavailable, match="allkeys-lru"):
            async with opened(embedded.url):
                pass
    finally:
        real.config_set("maxmemory-policy", "noeviction")


async def test_another_number_of_partitions_is_refused(open_store: OpenStore) -> None:
    await open_store(partitions=2)
    with pytest.raises(FailedPrecondition, match=r"made with 2 partitions.*set to 3.*ATF_PARTITIONS"):
        await open_store(partitions=3)
    await open_store(partitions=2)


async def test_a_replica_takes_no_writes_and_is_no_store(embedded: Server, real: redis.Redis, clock: Clock) -> None:
    async with opened(embedded.url, clock) as store:
        world = World(store, clock)
        real.replicaof("127.0.0.1", "1")
        with pytest.raises(Unavailable, match="read-only replica"):
            await store.schedule([world.task("a")])
        with pytest.raises(Unavailable, match="read-only replica"):
            await store.enqueue(0, 0)
        with pytest.raises(Unavailable, match="read-only replica"):
            async with opened(embedded.url):
                pass
        real.replicaof("NO", "ONE")
        await world.schedule("a")


# --- a store that is away ---------------------------------------------------------------------------------------------


async def test_an_unreachable_store_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="can't be reached"):
        async with opened(f"unix://{tmp_path}/nobody"):
            pass


async def test_a_store_that_went_and_came_back_empty_is_used_again(embedded: Server, clock: Clock) -> None:
    async with opened(embedded.url, clock) as store:
        world = World(store, clock)
        embedded.kill()
        for call in (lambda: store.schedule([world.task("a")]), store.list_lambdas, lambda: store.get_tasks(["0-a"])):
            with pytest.raises(Unavailable, match="can't be reached"):
                await call()
        embedded.start()
        await world.schedule("a")
        assert await world.passes() == (0, 0, 0)  # its limits and gates are gone, too
        await know(store, LAMBDA)
        await world.schedule("b")
        assert await world.passes() == (2, 0, 0)


async def test_a_store_that_stalls_is_unavailable_and_its_late_answers_go_nowhere(
    embedded: Server, real: redis.Redis, clock: Clock
) -> None:
    async with opened(embedded.url, clock, store_timeout=1, store_connections=1) as store:
        world = World(store, clock)
        await world.schedule("a")
        real.client_pause(60_000, all=False)
        with pytest.raises(Unavailable):
            await store.enqueue(0, 0)
        real.client_unpause()
        assert await world.passes() in {(1, 0, 0), (0, 0, 0)}  # the stalled call may have been carried out
        assert (await world.get("0-a")).status is Status.ENQUEUED


@pytest.mark.usefixtures("real")
async def test_a_call_given_up_leaves_no_answer_for_the_next_one(embedded: Server, clock: Clock) -> None:
    async with opened(embedded.url, clock, store_connections=1) as store:
        world = World(store, clock)
        await world.schedule("a", "b")
        for turns in range(12):
            call = asyncio.ensure_future(store.get_tasks(["0-a"]))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call
            assert (await world.get("0-b")).id == "0-b"


# --- the function library ---------------------------------------------------------------------------------------------


async def test_a_lost_library_is_loaded_again(open_store: OpenStore, world: World) -> None:
    store = await open_store(store_connections=1)
    await world.schedule("a")
    await store.link.command("FUNCTION", "FLUSH")
    assert (await store.enqueue(0, 0)).enqueued == 1
    await store.link.command("FUNCTION", "FLUSH")
    assert len((await claim_ids(store, "executor-1", "n", ["0-a"], 1000)).claims) == 1


async def test_a_lost_library_is_loaded_again_by_many_at_once(open_store: OpenStore, world: World) -> None:
    """More calls at once than there are connections: none may hold one while it waits for another."""
    store = await open_store(store_connections=2)
    await world.schedule("a")
    await store.link.command("FUNCTION", "FLUSH")
    async with asyncio.timeout(30):
        answers = await asyncio.gather(*(store.get_tasks(["0-a"]) for _ in range(10)))
    assert {each[0].id for each in answers if each[0]} == {"0-a"}


async def test_a_library_of_this_version_with_other_code_is_refused(open_store: OpenStore) -> None:
    store = await open_store()
    await store.link.command("FUNCTION", "LOAD", "REPLACE", library.CURRENT.source + "-- changed\n")
    with pytest.raises(FailedPrecondition, match=f"FUNCTION DELETE {library.NAME}"):
        await open_store()


async def test_roles_that_open_an_empty_store_at_once_all_succeed(open_store: OpenStore) -> None:
    stores = await asyncio.gather(*(open_store() for _ in range(8)))
    for store in stores:
        await store.list_lambdas()


# --- a store that restarted -------------------------------------------------------------------------------------------


async def claim_after_restart(world: World, *kept: HeldClaim) -> None:
    """The restarted server may have forgotten claims: none for one lease, then as ever. What it has not forgotten lives on."""
    for moment in (0.0, 15.9):
        world.clock.advance(moment)
        assert await world.beat(*kept) == [Verdict.OK] * len(kept)
        with pytest.raises(ClaimsPaused, match=f"another {math.ceil(16 - moment)} s"):
            await claim_ids(world.store, "executor-1", "n", ["0-b"], 1000)
    assert (await world.get("0-b")).status is Status.ENQUEUED
    world.clock.advance(0.1)
    await world.passes()
    assert len(await world.claim("0-b")) == 1


async def test_a_clock_that_leaps_ahead_does_not_end_the_pause(world: World, clock: Clock) -> None:
    """An executor whose claim was forgotten lives on meanwhile: what the clock says is not how long it has had."""
    (task_id,) = await world.schedule("b")
    await world.passes()
    began = clock.us
    assert int(await call_function(world.store, "pause_claims", 0, [16 * US, "import"])) == began + 16 * US
    clock.advance(37)  # within a second of the consumer's
    for passed in (1.0, 15.9):
        believed_us = began + round(passed * US)
        next_in_us = (await world.store.enqueue(0, believed_us)).next_in_us
        assert next_in_us is not None
        assert next_in_us <= 16 * US - round(passed * US)
        with pytest.raises(ClaimsPaused, match="until a store consumer has seen the pause of claims go by"):
            await claim_ids(world.store, "executor-1", "n", [task_id], 1000)
    await world.store.enqueue(0, began + 16 * US)
    assert len(await world.claim(task_id)) == 1


async def test_the_pause_of_a_server_whose_clock_is_behind_is_seen_by_consumers_too(world: World, clock: Clock) -> None:
    """Those that passed by the clock of the server before are there all the same."""
    await world.passes()
    clock.advance(-40)
    ends = int(await call_function(world.store, "pause_claims", 0, [16 * US, "import"]))
    clock.us = ends + 24 * US
    with pytest.raises(ClaimsPaused):
        await world.store.claims_of("executor-1", "n")


async def test_a_second_pause_is_another_one_though_the_clock_has_stepped_back(world: World, clock: Clock) -> None:
    (task_id,) = await world.schedule("b")
    await world.passes()
    first = int(await call_function(world.store, "pause_claims", 0, [16 * US, "import"]))
    clock.advance(16)
    await world.passes()
    clock.advance(-10)
    second = int(await call_function(world.store, "pause_claims", 0, [16 * US, "import"]))
    assert second > first
    clock.advance((second - clock.us) / US)
    with pytest.raises(ClaimsPaused):
        await claim_ids(world.store, "executor-1", "n", [task_id], 1000)
    await world.passes()
    assert len(await world.claim(task_id)) == 1


@pytest.mark.parametrize("durable", ["0", "1"])
async def test_no_claims_for_one_lease_after_a_restart_unless_nothing_is_forgotten(clock: Clock, durable: str) -> None:
    run_id = "first"
    store = Store(
        fake_link(fakeredis.FakeServer(version=(7, 4)), lambda: (run_id, durable)),
        StoreSettings(partitions=1),
        Timing(),
        SystemRuntime(),
    )
    store.now = clock
    await store.link.load_library()
    await know(store, LAMBDA)
    world = World(store, clock)
    (claim,) = await world.run("a")
    await world.schedule("b")
    await world.passes()
    run_id = "second"
    if durable == "0":
        await claim_after_restart(world, claim)
    else:
        assert len(await world.claim("0-b")) == 1
    assert await world.beat(claim) == [Verdict.OK]
    await store.close()


def _write_out(server: Server) -> None:
    """A server that writes once a second may be a second behind, in a young store with everything."""
    with contextlib.closing(server.client()) as client:
        before = str(client.config_get("appendfsync")["appendfsync"])
        client.config_set("appendfsync", "always")
        client.set("x", "y")
        client.delete("x")
        client.config_set("appendfsync", before)


@pytest.mark.parametrize("fsync", ["everysec", "always", "no"])
async def test_a_real_restart_is_noticed(embedded: Server, clock: Clock, fsync: str) -> None:
    """Where the only one who was given claims finds its last one, claims go on; where nobody can say, they pause."""
    with running(embedded.binary, "--appendonly", "yes", "--appendfsync", fsync) as own:
        async with opened(own.url, clock) as store:
            world = World(store, clock)
            (claim,) = await world.run("a")
            await world.schedule("b")
            await world.passes()
            _write_out(own)
            own.kill()
            own.start()
            with contextlib.suppress(Unavailable):
                await store.link.command("PING")  # finds out that its connection has gone
            if fsync == "no":
                await claim_after_restart(world, claim)
            else:
                assert len(await world.claim("0-b")) == 1
            assert await world.beat(claim) == [Verdict.OK]


async def test_a_promoted_replica_gives_no_claims_for_one_lease_however_durable(embedded: Server, clock: Clock) -> None:
    """It forgets nothing by itself, but its primary may have given claims that never reached it."""
    with running(embedded.binary, "--appendonly", "yes", "--appendfsync", "always") as own, own.client() as client:
        async with opened(own.url, clock) as store:
            await World(store, clock).run("a")
            await World(store, clock).schedule("b")
            await World(store, clock).passes()
        client.replicaof("127.0.0.1", "1")
        client.replicaof("NO", "ONE")
        async with opened(own.url, clock) as store:
            client.hset("atf:{0}", "server", "of the primary")  # as it was replicated
            await claim_after_restart(World(store, clock))


async def test_a_server_that_forgot_even_its_first_claim_is_noticed(clock: Clock) -> None:
    """Else the first claims of a young store could be given twice."""
    server = ("one", "1")
    store = await open_behind(
        fakeredis.FakeServer(version=(7, 4)), lambda: server, StoreSettings(partitions=1), Timing(), SystemRuntime()
    )
    store.now = clock
    await know(store, LAMBDA)
    world = World(store, clock)
    await world.schedule("b")
    await world.passes()
    server = ("another", "0")
    await claim_after_restart(world)
    await store.close()


async def test_a_server_that_comes_back_with_nothing_is_noticed_by_whoever_knew_it(clock: Clock) -> None:
    """Else a task that is sent again with its old id would run beside its first run."""
    run_id = "first"
    link = fake_link(fakeredis.FakeServer(version=(7, 4)), lambda: (run_id, "0"))
    store = Store(link, StoreSettings(partitions=1), Timing(), SystemRuntime())
    store.now = clock
    await store.link.load_library()
    await store.open_partition(0)
    await know(store, LAMBDA)
    world = World(store, clock)
    await world.run("b")
    await store.link.client.flushall()
    await store.link.load_library()
    run_id = "second"
    clock.advance(1)
    await world.schedule("b")
    await know(store, LAMBDA)
    await store.open_partition(0)  # as at the first call over a connection of its own
    await world.passes()
    await claim_after_restart(world)
    await store.close()


async def test_the_first_claim_of_all_needs_no_pause(world: World) -> None:
    await world.run("a")


# --- what errors mean -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        ("OOM command not allowed when used memory > 'maxmemory'.", ResourceExhausted),
        ("READONLY You can't write against a read only replica.", Unavailable),
        (
            "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk.",
            Unavailable,
        ),
        ("LOADING Redis is loading the dataset in memory", Unavailable),
        ("NOREPLICAS Not enough good replicas to write.", Unavailable),
        ("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.", Unavailable),
        ("CLUSTERDOWN The cluster is down", Unavailable),
        ("ASK 3999 127.0.0.1:6381", Unavailable),
        ("MOVED 3999 127.0.0.1:6381", Unavailable),
        ("TRYAGAIN Multiple keys request during rehashing of slot", Unavailable),
        ("BUSY Redis is busy running a script.", Unavailable),
        ("NOAUTH Authentication required.", FailedPrecondition),
        ("WRONGPASS invalid username-password pair or user is disabled.", FailedPrecondition),
        ("NOPERM this user has no permissions to run the 'fcall' command", FailedPrecondition),
        ("ERR ACL failure in script: User atf has no permissions to run the 'hset' command", FailedPrecondition),
        ("ERR The user executing the script can't run this command or subcommand script: on", FailedPrecondition),
        ("ERR max number of clients reached", Unavailable),
        ("ERR user_function:1: attempt to index a nil value", Internal),
    ],
)
def test_every_refusal_of_a_server_has_its_error(reply: str, error: type[AtfError]) -> None:
    told = translate(BaseParser.parse_error(reply), "redis://h")  # type: ignore[no-untyped-call]
    assert type(told) is error
    assert error is Internal or "redis://h" in str(told)


def test_what_is_forbidden_is_told() -> None:
    told = translate(rx.NoPermissionError("User atf has no permissions to run the 'fcall' command"), "redis://h")
    assert "has no permissions to run the 'fcall' command" in str(told)
    assert "atf doctor" in str(told)


def test_a_password_is_never_told() -> None:
    assert safe_url("rediss://me:secret@host:6379/0") == "rediss://host:6379/0"
    assert safe_url("unix:///run/redis.sock") == "unix:///run/redis.sock"


@pytest.mark.skipif(RESTRICTED, reason="about the default user's password")
async def test_a_wrong_password_is_no_matter_of_waiting(embedded: Server, real: redis.Redis) -> None:
    real.config_set("requirepass", "secret")
    try:
        with pytest.raises(FailedPrecondition):
            async with opened(embedded.url):
                pass
        with pytest.raises(FailedPrecondition):
            async with opened(f"unix://me:wrong@{embedded.socket}"):
                pass
    finally:
        real.config_set("requirepass", "")


async def test_a_server_that_hides_its_settings_is_taken_for_one_that_may_forget(
    embedded: Server, real: redis.Redis, clock: Clock
) -> None:
    """As hosted ones do, which have no CONFIG."""
    real.acl_setuser("app", enabled=True, reset=True, passwords=["+secret"], keys=["*"], channels=["*"],
                     commands=["+@all", "-config"])  # fmt: skip
    try:
        async with opened(f"unix://app:secret@{embedded.socket}", clock) as store:
            world = World(store, clock)
            await world.run("a")
            (task_id,) = await world.schedule("b")
            await world.passes()
            real.hset("atf:{0}", "server", "as it was called before a restart")
            with pytest.raises(ClaimsPaused):
                await world.claim(task_id)
    finally:
        real.acl_deluser("app")
