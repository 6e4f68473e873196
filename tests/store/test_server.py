"""What is found of a server: each judgement in each of its states, and all of them on real servers."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import fakeredis
import pytest
import redis

from atf.config.settings import StoreSettings, Timing
from atf.errors import ClaimsPaused, FailedPrecondition, Unavailable
from atf.runtime import SystemRuntime
from atf.store import library
from atf.store.servers import checks, permissions, settings
from atf.store.servers.check_results import CheckResult, ResultChanges, State, ok, refuse, warn
from atf.store.servers.modes import fake_link, open_link
from atf.store.store import Store
from atf.store.values.lambdas import LambdaRecord
from tests.claiming import take
from tests.known import know

from .conftest import OpenStore
from .servers import Server, running
from .world import ENQUEUE_TIMEOUT_US, LAMBDA, Clock, World, held

SOUND_INFO = {"redis_version": "7.2.4", "role": "master", "maxmemory": str(1 << 30), "aof_enabled": "1"}
SOUND_CONFIG = {
    "appendonly": "yes",
    "appendfsync": "always",
    "min-replicas-to-write": "0",
    "min-replicas-max-lag": "10",
    "hash-max-listpack-value": "64",
    "hash-max-listpack-entries": "128",
    "save": "",
    "stop-writes-on-bgsave-error": "yes",
}


def test_a_server_as_it_should_be_has_nothing_to_mend() -> None:
    results = settings.judge(SOUND_INFO, SOUND_CONFIG)

    assert {each.state for each in results} == {State.OK}
    assert not any(each.mend for each in results)


@pytest.mark.parametrize(
    ("check", "changed", "state", "says"),
    [
        ("version", {"redis_version": "6.2.14"}, State.REFUSE, r"is Redis 6\.2\.14; ATF needs Redis 7\.0 or newer"),
        ("version", {"redis_version": "10.0.0"}, State.OK, ""),
        ("version", {"redis_version": "7.0-rc1"}, State.OK, ""),
        ("version", {"redis_version": "strange"}, State.REFUSE, "Redis strange"),
        ("role", {"role": "slave", "master_host": "h", "master_port": "1"}, State.REFUSE, "point the roles at the primary, h:1"),
        ("role", {"loading": "1"}, State.REFUSE, "loading"),
        ("saves", {"aof_last_write_status": "err"}, State.REFUSE, "refuses writes.*append-only file"),
        ("saves", {"rdb_last_bgsave_status": "err", "save": "60 1"}, State.REFUSE, "refuses writes.*BGSAVE"),
        ("saves", {"rdb_last_bgsave_status": "err"}, State.WARN, "snapshot"),
        ("saves", {"rdb_last_bgsave_status": "err", "save": "60 1", "stop-writes-on-bgsave-error": "no"}, State.WARN, ""),
        ("saves", {"aof_last_bgrewrite_status": "err"}, State.WARN, "BGREWRITEAOF"),
        ("appendonly", {"aof_enabled": "0"}, State.WARN, "CONFIG SET appendonly yes"),
        ("appendfsync", {"appendfsync": "everysec"}, State.WARN, "2 s.*CONFIG SET appendfsync always"),
        ("appendfsync", {"appendfsync": "everysec", "min-replicas-to-write": "1"}, State.OK, ""),
        ("appendfsync", {"appendfsync": "no"}, State.WARN, "half a minute"),
        ("appendfsync", {"appendfsync": "", "aof_enabled": "0"}, State.OK, ""),
        ("maxmemory", {"maxmemory": "0"}, State.WARN, "CONFIG SET maxmemory"),
        ("maxmemory", {"used_memory": str(2 << 30)}, State.WARN, "it is full"),
        ("maxmemory", {"used_memory": str(1000 << 20)}, State.WARN, "nearly full"),
        ("maxmemory-policy", {"maxmemory_policy": "allkeys-lru"}, State.REFUSE, "evicts keys.*CONFIG SET maxmemory-policy"),
        ("maxmemory-policy", {"maxmemory_policy": "allkeys-lru", "maxmemory": "0"}, State.WARN, "as soon as"),
        ("maxmemory-policy", {"maxmemory_policy": "volatile-ttl"}, State.WARN, "whoever shares"),
        ("replicas", {"connected_slaves": "2"}, State.WARN, "CONFIG SET min-replicas-to-write 1"),
        ("replicas", {"connected_slaves": "1"}, State.WARN, "add a second replica; then CONFIG SET"),
        ("replicas", {"min-replicas-to-write": "1"}, State.REFUSE, "it refuses writes: 0 of its replicas"),
        (
            "replicas",
            {"min-replicas-to-write": "1", "connected_slaves": "2", "min_slaves_good_slaves": "0"},
            State.REFUSE,
            "within 10 s",
        ),
        ("replicas", {"min-replicas-to-write": "1", "connected_slaves": "2"}, State.WARN, "max-lag 2"),
        (
            "replicas",
            {"min-replicas-to-write": "1", "min-replicas-max-lag": "2", "connected_slaves": "1"},
            State.WARN,
            "one silent replica",
        ),
        (
            "replicas",
            {"min-replicas-to-write": "1", "min-replicas-max-lag": "2", "connected_slaves": "2"},
            State.OK,
            "stops taking",
        ),
        ("listpack", {"hash-max-listpack-value": "32"}, State.WARN, "CONFIG SET hash-max-listpack-value 64, then"),
        ("listpack", {"hash-max-listpack-entries": "8"}, State.WARN, "CONFIG SET hash-max-listpack-entries 128, then"),
    ],
)  # fmt: skip
def test_each_judgement_has_its_states(check: str, changed: dict[str, str], state: State, says: str) -> None:
    config = {**SOUND_CONFIG, **{name: value for name, value in changed.items() if name in SOUND_CONFIG}}
    info = {**SOUND_INFO, **{name: value for name, value in changed.items() if name not in SOUND_CONFIG}}

    (found,) = (each for each in settings.judge(info, config) if each.check == check)
    assert found.state is state
    assert re.search(says, found.sentence)
    assert (state is State.OK) or found.mend


def test_a_server_that_hides_its_settings_is_judged_by_what_it_says() -> None:
    found = {each.check: each for each in settings.judge({**SOUND_INFO, "maxmemory_policy": "allkeys-lru"}, {})}

    assert found["appendfsync"].state is State.WARN
    assert "+config|get" in found["appendfsync"].mend
    assert found["maxmemory-policy"].state is State.REFUSE
    assert found["listpack"].state is found["replicas"].state is State.OK


@pytest.mark.parametrize(
    ("offset_s", "error_s", "state", "says"),
    [
        (0.04, 0.001, State.OK, "agree"),
        (-0.2, 0.15, State.OK, "agree"),
        (0.4, 0.1, State.WARN, "0.40 s ahead of this host's"),
        (-3.0, 0.1, State.WARN, "3.00 s behind this host's"),
    ],
)
def test_two_clocks(offset_s: float, error_s: float, state: State, says: str) -> None:
    found = checks.clock(offset_s * 1e6, error_s * 1e6)

    assert found.state is state
    assert says in found.text
    assert f"{offset_s:+.3f} s" in found.value


def test_only_news_is_said_again() -> None:
    hidden, full, evicts = warn("a", "1", "x"), warn("b", "2", "y"), refuse("b", "3", "z")
    changes = ResultChanges([hidden, ok("b", "", "")])

    assert changes.news([hidden, ok("b", "", "")]) == ([], [])
    assert changes.news([warn("a", "another value", "x"), full]) == ([full], [])
    assert changes.news([hidden, evicts]) == ([evicts], [full])
    assert changes.news([]) == ([], [hidden, evicts])


# --- real servers -----------------------------------------------------------------------------------------------------


@pytest.fixture
def real(embedded: Server) -> Iterator[redis.Redis]:
    """A client of the embedded server, empty now and with its settings put back afterwards."""
    with embedded.client() as client:
        client.flushall()
        client.function_flush()
        before = client.config_get("m*") | client.config_get("append*") | client.config_get("hash-max-listpack-*")
        yield client
        changed = {name: value for name, value in before.items() if client.config_get(name)[name] != value}
        for name, value in changed.items():
            client.config_set(name, value)


def acl(client: Any, *words: str) -> None:
    client.execute_command("ACL", *words)


async def examined(url: str) -> dict[str, CheckResult]:
    link = open_link(StoreSettings(redis_url=url))
    try:
        return {each.check: each for each in await checks.examine(link, SystemRuntime())}
    finally:
        await link.close()


def plain(embedded: Server) -> str:
    """The server's address for its default user."""
    return f"unix://{embedded.socket}"


async def open_as_role(url: str) -> Store:
    return await Store.open(StoreSettings(redis_url=url, partitions=2), Timing(), SystemRuntime())


async def test_a_real_server_is_judged_in_each_respect(embedded: Server, real: redis.Redis) -> None:
    found = await examined(plain(embedded))

    assert list(found) == ["version", "role", "saves", "appendonly", "appendfsync", "maxmemory", "maxmemory-policy", "replicas",
                           "listpack", "clock", "acl"]  # fmt: skip
    states = {check: each.state.value for check, each in found.items() if each.state is not State.OK}
    assert states == {"appendonly": "warn", "maxmemory": "warn"}
    assert found["acl"].value == "default"
    assert {each.where for each in found.values()} == {plain(embedded)}

    for name, value in {
        "appendonly": "yes",
        "appendfsync": "always",
        "maxmemory": "1gb",
    }.items():
        real.config_set(name, value)
    assert {each.state for each in (await examined(plain(embedded))).values()} == {State.OK}


async def test_a_role_takes_a_store_with_warnings_and_refuses_one_that_evicts(
    embedded: Server, real: redis.Redis
) -> None:
    store = await open_as_role(plain(embedded))
    assert "appendonly" in {each.check for each in store.check_results if each.state is State.WARN}
    changes = ResultChanges(store.check_results)
    assert changes.news(await store.examine()) == ([], [])
    real.config_set("maxmemory", "1gb")
    real.config_set("maxmemory-policy", "allkeys-lru")
    came, went = changes.news(await store.examine())
    assert ([each.check for each in came], [each.check for each in went]) == (["maxmemory-policy"], ["maxmemory"])
    await store.close()

    with pytest.raises(Unavailable, match=r"evicts keys.*Mend it: CONFIG SET maxmemory-policy noeviction"):
        await open_as_role(plain(embedded))


async def test_too_few_replicas_are_a_refusal(embedded: Server, real: redis.Redis) -> None:
    real.config_set("min-replicas-to-write", 1)

    with pytest.raises(Unavailable, match="0 of its replicas"):
        await open_as_role(plain(embedded))


async def test_a_node_of_a_cluster_is_not_the_whole_store(embedded: Server) -> None:
    with running(embedded.binary, "--cluster-enabled", "yes") as node:
        assert "redis+cluster://" in (await examined(plain(node)))["mode"].mend


# --- who may do what --------------------------------------------------------------------------------------------------


@pytest.fixture
def user(real: redis.Redis, embedded: Server) -> Iterator[str]:
    """The address of the embedded server for the user that ships."""
    acl(real, "SETUSER", "some-key", *permissions.acl_user("secret").split()[2:])
    yield f"unix://some-key:secret@{embedded.socket}"
    real.acl_deluser("some-key")


async def test_the_user_that_ships_may_do_all(user: str, clock: Clock) -> None:
    found = (await examined(user))["acl"]
    assert (found.state, found.value) == (State.OK, "some-key")

    store = await open_as_role(user)
    store.now = clock
    await store.register_lambdas([LambdaRecord(LAMBDA, b"", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    world = World(store, clock)
    await world.schedule("a")
    await world.passes()
    (claim,) = held(await take(store, f"{LAMBDA}:1"))
    await world.beat(claim)
    await world.fail(claim)
    assert [each.depth for each in await store.queues()] == [0]
    async with store.listen("ready", [0, 1]) as notifications:
        assert await notifications.wait(5) == set()  # the subscription stands
        await world.schedule("b")
        assert await notifications.wait(5)
    await store.close()


@pytest.mark.usefixtures("user")
async def test_the_user_that_ships_may_do_no_more(embedded: Server) -> None:
    with redis.Redis(unix_socket_path=str(embedded.socket), username="some-key", password="secret") as client:
        for words in ("FLUSHALL", "KEYS *", "GET other", "HGET other f", "CONFIG SET maxmemory 1", "FUNCTION FLUSH",
                      "ACL LIST", "CLIENT LIST", "SPUBLISH other x", "SHUTDOWN", "EVAL x 0", "LLEN rq:queue:mail"):  # fmt: skip
            with pytest.raises(redis.exceptions.NoPermissionError):
                client.execute_command(*words.split())


@pytest.mark.parametrize(
    ("role", "may"),
    [
        ("server", "read tokens, read keys, write tokens, write keys, load"),
        ("frontend", "read tokens, read keys, write tokens, write keys, load"),
        ("hsc", "read tokens, read keys, write keys"),
        ("store-consumer", "read tokens"),
        ("direct", ""),
    ],
)
async def test_the_user_of_a_role_may_do_what_it_needs_and_no_more(
    real: redis.Redis, embedded: Server, clock: Clock, role: str, may: str
) -> None:
    acl(real, "SETUSER", "of-role", *permissions.acl_user("secret", role).split()[2:])
    url = f"unix://of-role:secret@{embedded.socket}"
    if "load" not in may:
        with pytest.raises(Unavailable, match="this user may not load them: start a frontend"):
            await open_as_role(url)
    await (await open_as_role(plain(embedded))).close()
    store = await open_as_role(url)
    store.now = clock
    assert (await examined(url))["acl"].state is State.OK
    await store.register_lambdas([LambdaRecord(LAMBDA, b"", 7, ENQUEUE_TIMEOUT_US, paused=False)])
    world = World(store, clock)
    await world.schedule("a")
    await world.passes()
    (claim,) = held(await take(store, f"{LAMBDA}:1"))
    await world.fail(claim)
    tried = {
        "read tokens": store.list_tokens(keys=False),
        "read keys": store.list_tokens(),
        "write tokens": store.set_token("t", b"{}"),
        "write keys": store.set_token("keys", b"[]"),
        "load": store.link.command("FUNCTION", "LOAD", "REPLACE", store.link.library.source),
    }
    done = []
    for name, call in tried.items():
        with contextlib.suppress(FailedPrecondition):
            await call
            done.append(name)
    assert ", ".join(done) == may
    for key in ("atf:{0}:tokens", "atf:{0}:tokens:keys"):
        if "write tokens" not in may and not (key.endswith("keys") and "write keys" in may):
            with pytest.raises(FailedPrecondition):
                await store.link.command("HSET", key, "x", "{}")
    await store.close()
    real.acl_deluser("of-role")


@pytest.mark.parametrize(
    ("taken", "lacks"),
    [
        ("-fcall", "+fcall"),
        ("-zadd -scan", "+scan +zadd"),
        ("resetkeys ~rq:queues", "~atf:{*}* ~rq:queue:{*}* ~rq:queues"),
        ("resetchannels", "&atf:{*}*"),
        ("-info", "+info"),
        ("-function", "+function|list +function|load"),
    ],
)
async def test_what_a_user_lacks_is_named_with_the_command_that_gives_it(
    user: str, real: redis.Redis, taken: str, lacks: str
) -> None:
    acl(real, "SETUSER", "some-key", *taken.split())

    found = (await examined(user))["acl"]
    assert found.state is State.REFUSE
    assert found.mend.startswith(f"ACL SETUSER some-key {lacks}, then ")
    with pytest.raises(Unavailable, match=re.escape(lacks)):
        await open_as_role(user)
    acl(real, "SETUSER", "some-key", *lacks.split())
    assert (await examined(user))["acl"].state is State.OK


async def test_what_a_user_may_do_without_is_no_refusal(user: str, real: redis.Redis) -> None:
    acl(real, "SETUSER", "some-key", "-config", "-cluster")
    assert (await examined(user))["acl"].state is State.OK
    acl(real, "SETUSER", "some-key", "-multi")
    found = (await examined(user))["acl"]
    assert (found.state, found.value) == (State.WARN, "some-key")
    assert "ACL SETUSER some-key +multi" in found.mend


async def test_the_trial_changes_nothing(real: redis.Redis, embedded: Server) -> None:
    await examined(plain(embedded))

    assert real.dbsize() == 0
    assert real.function_list() == []


def test_the_user_and_the_trial_name_the_same_rights() -> None:
    given = {word for word in permissions.acl_user().split() if word.startswith("+")}
    called = {f"+{name.lower()}" for name in re.findall(r"redis\.call\('([A-Z]+)'", library.CURRENT.source)}

    assert given - {"+multi", "+discard", "+acl|whoami"} == set(permissions.SAMPLES)
    assert called - {"+publish"} <= given


# --- the length of leases ---------------------------------------------------------------------------------------------


async def test_roles_agree_on_the_length_of_leases(open_store: OpenStore) -> None:
    first = await open_store()
    other = Timing(heartbeat_timeout=20)

    with pytest.raises(FailedPrecondition, match=r"heartbeat_timeout = 16 s.*set to 20 s.*atf store timing --set 20"):
        await open_store(timing=other)
    tool = await open_store(timing=other, agree=False)
    assert tool.heartbeat_timeout_us == 16_000_000
    await tool.retime(20_000_000)
    with pytest.raises(FailedPrecondition, match=r"20 s.*set to 16 s"):
        await open_store()
    assert (await open_store(timing=other)).heartbeat_timeout_us == 20_000_000
    await first.list_lambdas()  # goes on until it is started anew


async def test_a_tool_puts_no_length_on_record(open_store: OpenStore) -> None:
    await open_store(agree=False)
    await open_store(timing=Timing(heartbeat_timeout=20))


async def test_while_a_longer_timeout_comes_into_use_the_pause_after_a_restart_is_as_long(clock: Clock) -> None:
    """Executors may hold leases of the longer one already, and a restarted server may have forgotten them."""
    server_run = "first"
    fake = fakeredis.FakeServer(version=(7, 4))
    old = Store(fake_link(fake, lambda: (server_run, "0")), StoreSettings(partitions=1), Timing(), SystemRuntime())
    old.now = clock
    await old.link.load_library()
    await know(old, LAMBDA)
    world = World(old, clock)
    await world.run("a")
    anew = Store(fake_link(fake, lambda: (server_run, "0")), StoreSettings(partitions=1), Timing(), SystemRuntime())
    anew.now = clock
    await anew.retime(30_000_000)  # `old` was not started anew yet
    await anew.close()
    await world.schedule("b")
    await world.passes()
    server_run = "second"
    with pytest.raises(ClaimsPaused, match="another 30 s"):
        await take(old, f"{LAMBDA}:1")
    await old.close()


async def test_how_full_the_server_of_a_partition_is(embedded: Server, real: redis.Redis) -> None:
    store = await open_as_role(plain(embedded))
    real.config_set("maxmemory", "0")
    assert await store.memory_ratio(1) == 0, "without a bound nothing is full"
    real.config_set("maxmemory", str(2 * real.info("memory")["used_memory"]))
    assert await store.memory_ratio(1) == pytest.approx(0.5, abs=0.1)
    await store.close()


async def test_a_store_takes_no_direct_clients_until_its_operator_says_so(open_store: OpenStore) -> None:
    store, another = await open_store(), await open_store()
    assert not await another.direct_allowed()
    for allowed in (True, False):
        await store.allow_direct(allowed)
        assert await another.direct_allowed() is allowed
