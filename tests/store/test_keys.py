"""Every key and field that a life of tasks leaves in Redis is on the page atf/store/keys.py, and each verb has its header."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from importlib.resources import files
from pathlib import Path

import pytest
from rq import Queue

import atf.store
from atf.errors import Unavailable
from atf.store import fields, keys, library
from atf.store.library import EXACT_LISTS
from atf.store.values.claims import ClaimRenewal, KeptRunLog, Outcome
from atf.store.values.lambdas import LambdaRecord
from atf.store.values.passes import OutboxRecord
from atf.task import US, Status
from tools.move_headers import NAMED, header

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, Dump, World, dump, held

_NAME = r"[A-Za-z0-9._-]{1,64}"
_PARTS = {
    "{p}": r"\{\d+\}",
    "<id>": r"\d+-(?:[A-Za-z0-9_-]{1,64}|[A-Za-z0-9_-]{1,24}\.[0-9a-f]{32}(?:-\d{1,8})?)",
    "<batch>": r"[A-Za-z0-9_-]{1,24}",
    "<queue>": rf"{_NAME}/{_NAME}:\d",
    "<lambda>": rf"{_NAME}/{_NAME}",
    "<STATUS>": "|".join(status.name for status in Status).join("()"),
    "<key>": rf"(?:{_NAME}/{_NAME}:)?{_NAME}",
    "<number>": r"\d+",
    "<retention>": r"\d+",
    "<entry>": r"[A-Za-z0-9._%-]+=[A-Za-z0-9._%-]*",
    "<group>": r"[0-9a-f]{12}",
    "<digests>": r"[a-z0-9_,-]{1,263}",
    "<job>": rf"{_NAME}/.{{1,255}}",
    "<pool>": r"[A-Za-z0-9._-]{0,64}",
    "<field>": "[A-Za-z]{1,4}",
    "<nonce>": "[!-~]{1,64}",
}


def _regex(pattern: str) -> re.Pattern[str]:
    parts = re.split("|".join(map(re.escape, _PARTS)).join("()"), pattern)
    return re.compile("".join(_PARTS.get(part) or re.escape(part) for part in parts))


async def whole_life(world: World, monkeypatch: pytest.MonkeyPatch) -> list[Dump]:
    """Everything that can happen to tasks and lambdas, photographed on the way."""
    seen: list[Dump] = []

    async def look() -> None:
        seen.append(await world.check())

    async def unreachable(_: OutboxRecord) -> bool:
        raise Unavailable("gone")

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "_apply", unreachable)
        with contextlib.suppress(Unavailable):  # on a cluster, one that is away fails nobody
            await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 6, ENQUEUE_TIMEOUT_US, paused=False)])
    await look()
    await world.passes()
    await world.store.set_token("a", b"{}")
    await world.store.set_token("keys", b"[]")
    await world.store.pause_lambda(LAMBDA)
    await world.store.resume_lambda(LAMBDA)
    await world.gates(look)
    await world.asks(look)
    await look()
    claims = await world.run("a", "b", "c", "d", "e", retention_us=US)
    await world.schedule("k1", "k2", ordering_key="k")
    await world.schedule("s1", "s2", concurrency=keys.concurrency(LAMBDA, "k", 1, 0))
    await world.store.schedule([world.task(name, unique=keys.unique(LAMBDA, "k", US, 0)) for name in ("u1", "u2")])
    await world.schedule(*(f"w{number}" for number in range(8)))
    await world.passes()
    await world.passes()
    await world.store.watch_tasks(["0-a"])
    await world.store.cancel_tasks(["0-b"])
    await world.store.watch_log(claims[0].task_id, 10)
    await world.store.heartbeat([ClaimRenewal(claims[0], True, "half", KeptRunLog(1, 1, "hello", 0))])
    await look()
    await world.finish(Outcome.SUCCEEDED, claims[0], result=b"1", encoding=1, traceparent="00-1-2-01")
    await world.finish(Outcome.STOPPED, claims[1], error="stopped")
    await world.fail(claims[2])
    await world.finish(Outcome.FAILED_FATAL, claims[3], error="no")
    await world.store.report_loss(claims[4:], "killed")
    await look()
    await world.passes()
    await world.pop()
    again = held(await world.claim(claims[4].task_id))
    await world.store.report_loss(again, "killed", shared=True)
    await look()
    await world.passes()
    await world.pop()
    await world.beat(*held(await world.claim(claims[4].task_id)), draining=True)
    await look()
    world.clock.advance(17)
    await world.passes()
    await look()
    await world.store.retry_tasks(["0-d"])
    await world.jobs()
    await world.firsts()
    await world.batches(look)
    await world.stops()
    await world.cores()
    await world.placed(look)
    await world.misfits(look)
    await world.retentions(EXACT_LISTS + 1)
    await look()
    world.clock.advance(60)
    await world.pop()
    await world.passes()
    await world.finish(Outcome.SUCCEEDED, *held(await world.claim("0-k1")))
    await world.store.sweep(0, 1000)
    await look()
    await world.permits()
    await look()
    await world.store.link.command("HSET", keys.record(0), "server", "of before", "durable", "0", key=keys.record(0))
    await world.store.open_partition(0)
    await look()
    return seen


async def test_every_key_is_on_the_page_with_its_type(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    patterns = [(_regex(pattern), pattern) for pattern in keys.KEYS]
    found = set()
    for photograph in await whole_life(world, monkeypatch):
        for key, (kind, _) in photograph.data.items():
            matching = [pattern for regex, pattern in patterns if regex.fullmatch(key)]
            assert len(matching) == 1, f"{key} matches {matching}"
            assert keys.KEYS[matching[0]].startswith(f"{kind}: "), key
            found.add(matching[0])
    assert keys.KEYS.keys() == found, "the page names keys that nobody uses"


async def test_every_field_is_on_the_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {name for each in await whole_life(world, monkeypatch) for task in each.tasks().values() for name in task}
    assert found == set(fields.FIELDS)


async def test_every_field_of_a_job_is_on_the_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs = await whole_life(world, monkeypatch)
    found = {name for each in photographs for key in each.data if ":j:" in key for name in each.hash(key)}
    assert found == set(fields.JOB_FIELDS)


async def test_every_field_of_a_batch_is_on_the_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs = await whole_life(world, monkeypatch)
    for place, known in ((":batch:", fields.BATCH_FIELDS), (":b:", fields.PART_FIELDS)):
        found = {
            name
            for each in photographs
            for key in each.data
            if place in key and key[-2:] not in {":i", ":p"}
            for name in each.hash(key)
        }
        shown = {
            re.sub(r"^x[A-Za-z].*", "x<request>.<offset>", re.sub(r"^([rg])\d+$", r"\1<partition>", name))
            for name in found
        }
        # only where they take more than a step, or minutes: test_batches.py
        rare = {"walk"} if place == ":b:" else {"still"}
        assert shown | rare == set(known)


async def test_every_field_of_permits_is_on_the_page(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    photographs = await whole_life(world, monkeypatch)
    found = {name for each in photographs for key in each.data if ":p:" in key for name in each.hash(key)}
    assert found == set(fields.PERMIT_FIELDS)


async def test_every_key_carries_the_tag_of_its_partition(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for photograph in await whole_life(world, monkeypatch):
        tags = defaultdict(set)
        for key in photograph.data:
            if key != Queue.redis_queues_keys:
                tags[re.findall(r"\{(\d+)\}", key)[0]].add(key)
                assert key.count("{") == 1
        assert set(tags) == {"0", "1"}


async def test_a_queue_is_rqs_own(world: World) -> None:
    await world.schedule("a")
    await world.passes()
    with world.store.link.blocking_client() as client:
        queue = Queue(keys.rq_name(0, QUEUE), connection=client)
        assert queue.job_ids == ["0-a"]
        assert queue.key in (await dump(world.store)).data
        assert queue in Queue.all(connection=client)


@pytest.mark.parametrize("name", ["a", "{0}", "{0}x", "{x}a/b:1", "0a/b:1", "{0}a/b:", "default"])
def test_a_queue_of_somebody_elses_is_not_ours(name: str) -> None:
    assert keys.parse_rq_name(name) is None


def test_a_queues_name_tells_its_parts() -> None:
    assert keys.parse_rq_name(keys.rq_name(12, keys.queue("shop/a.b-c_d", 9))) == (12, "shop/a.b-c_d", 9)


# --- the verbs' files -------------------------------------------------------------------------------------------------

LUA = library.verbs()
HEADERS = {verb: "\n".join(header(text)) for verb, text in LUA.items()}
CREATING = {
    "add_audit",
    "first_time",
    "open_batch",
    "reserve_items",
    "run_job_now",
    "schedule_items",
    "schedule",
    "schedule_jobs",
    "register_lambdas",
    "restore",
    "restore_unique_keys",
    "tick",
}
"""The verbs that a full store refuses; all others must go on, or it could not drain."""


@pytest.mark.parametrize("verb", sorted(LUA))
def test_a_verb_has_its_header(verb: str) -> None:
    lines = HEADERS[verb].splitlines()
    assert lines[0].startswith(f"-- {verb}: ")
    labels = [line.split()[1] for line in lines if re.match(r"-- (MOVES|KEYS\[1\]|ARGV|RETURNS) ", line)]
    assert labels == [*(["MOVES"] if verb in NAMED else []), "KEYS[1]", "ARGV", "RETURNS"]
    states = {status.name for status in Status}
    assert set(re.findall(r"\b[A-Z]{3,}(?:_[A-Z]+)?\b", HEADERS[verb])) <= states | {
        "MOVES",
        "KEYS",
        "ARGV",
        "RETURNS",
        "TIME",
    }


@pytest.mark.parametrize("verb", sorted(LUA))
def test_a_verb_is_registered_under_its_name_with_its_flag(verb: str) -> None:
    ((name, flags),) = re.findall(r"^register\('(\w+)', \{(.*?)\}", LUA[verb], re.MULTILINE)
    assert name == verb
    reads = not re.search(
        r"'(?:HSET|HSETNX|HDEL|HINCRBY|ZADD|ZREM|SADD|SREM|DEL|RPUSH|LPUSH|LPOP|LREM|PUBLISH)'", LUA[verb]
    )
    helpers = re.search(
        r"\b(?:batch_parts\.(?:count|sync)|batches\.(?!key|EXTRA)\w+|claiming\.\w+|taking\.(?!all_filled)\w+|due_index\.(?!sets_of|queues)\w+|gate_records\.(?!lines|tally_key)\w+"
        r"|limits_ledger\.\w+|liveness\.strike_off|loss\.\w+|misfits\.take|moves\.(?!holds)\w+|ordering_keys\.pass_over|outbox\.add|permit_part\.\w+"
        r"|registry\.(?:audit|forget|put|set_paused|write)|run_ends\.\w+|store_clock\.(?:note\w*|pause_claims))\(",
        LUA[verb],
    )
    if verb in CREATING:
        assert flags == ""
    else:
        assert flags == ("'no-writes'" if reads and not helpers else "'allow-oom'")


def test_the_verbs_of_the_library_are_those_that_python_calls() -> None:
    package = Path(str(files(atf.store)))
    called = {
        verb
        for path in package.rglob("*.py")
        for verb in re.findall(r'_(?:call|function|lease)\(\s*"(\w+)"', path.read_text(encoding="utf-8"))
    }
    assert called == set(LUA)


def test_nothing_is_used_that_differs_between_servers() -> None:
    for word in (
        "cmsgpack",
        "cjson",
        "struct.",
        "tostring(",
        "math.random",
        "'INFO'",
        "'EVAL",
        "'KEYS'",
        "'SCAN'",
        "'EXPIRE'",
    ):
        assert word not in library.CURRENT.source
