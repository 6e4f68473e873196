"""Gates: what they keep, drop, delay and admit, what becomes of it when they are lifted or end, and what is written down."""

from __future__ import annotations

from random import Random

import pytest

from atf.store import keys, library
from atf.store.gates import GateSet
from atf.store.values.batches import ItemTerms, NewItem
from atf.store.values.claims import Outcome, Verdict
from atf.store.values.jobs import Tick
from atf.store.values.lambdas import GateAction, LambdaRecord, NewGate
from atf.task import US, Status
from tests.claiming import claim_ids, take

from .world import ENQUEUE_TIMEOUT_US, LAMBDA, QUEUE, World, dump, held, labelled

LARGE = labelled(team="web", x="x" * (1 << 17))
WEB, APP = labelled(team="web", tier="1"), labelled(team="app")


@pytest.fixture
async def one(world: World) -> World:
    """A world whose lambda is registered."""
    await world.schedule("before", delay_us=999 * US)
    await world.store.register_lambdas([LambdaRecord(LAMBDA, b"", 10_000, ENQUEUE_TIMEOUT_US, paused=False)])
    return world


async def in_queue(world: World) -> list[str]:
    await world.passes()
    return await world.queued()


async def test_a_gate_of_a_collection_keeps_its_tasks_and_no_others(one: World) -> None:
    await one.gate("pause", team="web")
    await one.schedule("w", labels=WEB)
    await one.schedule("a", labels=APP)
    await one.schedule("none")
    assert sorted(await in_queue(one)) == ["0-a", "0-none"]
    assert await one.statuses(["0-w"]) == ["NEW"]
    await one.check()
    (gate,) = await one.store.list_gates(LAMBDA)
    assert (gate.waiting, gate.dropped, gate.who, gate.why, gate.labels) == (1, 0, "ada", "it rains", {"team": "web"})
    assert await one.lift("pause", team="web") == 1
    assert sorted(await in_queue(one)) == ["0-a", "0-none", "0-w"]
    await one.check()
    assert await one.store.list_gates(LAMBDA) == []


async def test_a_task_must_have_all_labels_of_the_gate(one: World) -> None:
    await one.gate("pause", team="web", tier="2")
    await one.gate("pause", team="app", tier="1")
    await one.schedule("w", labels=WEB)
    assert await in_queue(one) == ["0-w"]
    await one.gate("pause", team="web", tier="1")
    await one.schedule("v", labels=WEB)
    assert await in_queue(one) == ["0-w"]


async def test_labels_may_be_any_text(one: World) -> None:
    odd = {"a b;=%": 'x"\\\n ;', "é": ""}
    assert await one.store.set_gate(NewGate(LAMBDA, GateAction.PAUSE, odd))
    await one.schedule("w", labels=labelled(**odd, more="1"))
    await one.schedule("v", labels=labelled(**{**odd, "é": "e"}))
    assert await in_queue(one) == ["0-v"]
    assert (await one.store.list_gates(LAMBDA))[0].labels == odd


async def test_what_was_pushed_before_is_kept_at_its_claim(one: World) -> None:
    await one.schedule("w", "x", labels=WEB)
    await one.schedule("a", labels=APP)
    await one.passes()
    await one.gate("pause", team="web")
    popped = await one.pop()
    batch = await claim_ids(one.store, "executor-1", "n", popped)
    assert (sorted(batch.lost), [each.task_id for each in batch.claims]) == (["0-w", "0-x"], ["0-a"])
    assert await one.statuses(["0-w", "0-x"]) == ["NEW"] * 2
    await one.check()
    await one.lift("pause", team="web")
    assert sorted(await in_queue(one)) == ["0-w", "0-x"]
    await one.check()


async def test_a_claim_that_is_repeated_after_a_gate_was_set_stays_a_claim(one: World) -> None:
    await one.schedule("w", labels=WEB)
    await one.passes()
    first = await take(one.store, QUEUE, owner="executor-1", nonce="n")
    await one.gate("pause", team="web")
    assert await take(one.store, QUEUE, owner="executor-1", nonce="n") == first
    assert await one.finish(Outcome.SUCCEEDED, *held(first)) == [Verdict.OK]


async def test_a_retry_meets_the_gate(one: World) -> None:
    (claim,) = await one.run("w", labels=WEB)
    await one.gate("pause", team="web")
    await one.fail(claim)
    one.clock.advance(60)
    assert await in_queue(one) == []
    assert await one.statuses(["0-w"]) == ["RETRIABLE_FAILURE"]
    await one.check()
    await one.lift("pause", team="web")
    assert await in_queue(one) == ["0-w"]
    assert (await one.get("0-w")).attempts == 1


async def test_a_gated_queue_is_not_looked_at(one: World) -> None:
    """What waits costs nothing: nobody visits it, and no pass is due."""
    await one.gate("pause", team="web")
    await one.schedule(*(f"w{number}" for number in range(300)), labels=WEB)
    await one.passes()
    found = await dump(one.store)
    assert found.zset("atf:{0}:due") == {QUEUE: one.clock.us + 999 * US}
    assert "atf:{0}:gates" not in found.data
    assert (await one.store.enqueue(0, 0)).next_in_us == 999 * US


async def test_many_that_waited_come_back_bit_by_bit_in_their_order(one: World) -> None:
    await one.gate("pause", team="web")
    names = [f"w{number:03}" for number in range(700)]
    for name in names:
        await one.schedule(name, labels=WEB)
        one.clock.advance(0.001)
    await one.passes()
    await one.lift("pause", team="web")
    passed = await one.store.enqueue(0, 0)
    assert passed.gated == 32, "the rest of the pass is for what is due"
    assert passed.next_in_us == 0
    assert await in_queue(one) == [f"0-{name}" for name in names]
    await one.check()


async def test_a_gate_ends_by_itself(one: World) -> None:
    await one.gate("pause", seconds=30, team="web")
    await one.schedule("w", labels=WEB)
    assert await in_queue(one) == []
    assert (await one.store.enqueue(0, 0)).next_in_us == 30 * US
    one.clock.advance(30)
    assert await one.store.list_gates(LAMBDA) == []
    assert await in_queue(one) == ["0-w"]


async def test_a_pause_of_the_whole_lambda_ends_by_itself_in_every_partition(one: World) -> None:
    await one.gate("pause", seconds=30)
    await one.schedule("w")
    await one.schedule("v", partition=1)
    assert await in_queue(one) == []
    assert (await one.store.list_gates(LAMBDA))[0].waiting == 2
    one.clock.advance(30)
    assert await in_queue(one) == ["0-w"]
    await one.passes(1)
    assert await one.queued(partition=1) == ["1-v"]
    assert not (await one.store.list_lambdas())[LAMBDA].paused


async def test_a_dropped_task_is_cancelled_and_counted(one: World) -> None:
    await one.schedule("queued", labels=WEB)
    await one.passes()
    number = await one.gate("drop", team="web")
    await one.schedule("w", "x", labels=WEB)
    await one.schedule("y", partition=1, labels=WEB)
    await one.schedule("a", labels=APP)
    assert sorted(await in_queue(one)) == ["0-a", "0-queued"]
    await one.passes(1)
    assert "0-queued" in (await claim_ids(one.store, "executor-1", "n", await one.pop())).lost
    assert await one.statuses(["0-w", "0-x", "1-y", "0-queued"]) == ["CANCELLED"] * 4
    assert (await one.get("0-w")).error == f"dropped by gate {number} of {LAMBDA}"
    assert (await one.store.list_gates(LAMBDA))[0].dropped == 4
    await one.check()
    assert [each.retried for each in await one.store.retry_tasks(["0-w"])] == [True]
    dropped = await one.store.dropped(LAMBDA, {"team": "web"}, [GateAction.DROP])
    assert dropped == "tasks dropped: 4, by all gates of the lambda so far: 4"
    assert not await one.store.dropped(LAMBDA, {"team": "web"}, [GateAction.PAUSE]), "there is none"
    await one.lift("drop", team="web")
    await one.passes()
    assert await one.statuses(["0-w"]) == ["ENQUEUED"]


async def test_a_dropped_task_of_an_ordering_key_gives_way_to_the_next(one: World) -> None:
    await one.schedule("k1", labels=WEB, ordering_key="k")
    await one.schedule("k2", labels=APP, ordering_key="k")
    await one.gate("drop", team="web")
    assert await in_queue(one) == ["0-k2"]
    await one.check()


async def test_a_kept_task_keeps_those_behind_it_in_their_order(one: World) -> None:
    await one.gate("pause", team="web")
    await one.schedule("k1", labels=WEB, ordering_key="k")
    await one.schedule("k2", labels=APP, ordering_key="k")
    assert await in_queue(one) == []
    await one.check()
    await one.lift("pause", team="web")
    assert await in_queue(one) == ["0-k1"]


async def test_a_delayed_task_waits_once_by_so_much(one: World) -> None:
    await one.gate("delay", 5 * US)
    await one.schedule("w")
    assert await in_queue(one) == []
    assert (await one.store.enqueue(0, 0)).next_in_us == 5 * US
    await one.check()
    one.clock.advance(4.9)
    assert await in_queue(one) == []
    one.clock.advance(0.1)
    assert await in_queue(one) == ["0-w"]
    (claim,) = held(await one.claim(*await one.pop()))
    await one.fail(claim)
    one.clock.advance(60)
    assert await in_queue(one) == ["0-w"], "one gate delays a task once"


async def test_the_longest_of_several_delays_counts_and_a_new_one_delays_again(one: World) -> None:
    await one.gate("delay", 5 * US, team="web")
    await one.gate("delay", 9 * US, tier="1")
    await one.schedule("w", labels=WEB)
    await one.passes()
    one.clock.advance(8.9)
    assert await in_queue(one) == []
    await one.gate("delay", 2 * US)
    one.clock.advance(0.1)
    assert await in_queue(one) == []
    one.clock.advance(2)
    assert await in_queue(one) == ["0-w"]


async def test_a_delay_that_is_lifted_lets_pass_at_once(one: World) -> None:
    await one.gate("delay", 3600 * US)
    await one.schedule("w")
    await one.passes()
    await one.lift("delay")
    assert await in_queue(one) == ["0-w"]


async def test_a_share_is_admitted_and_more_of_the_same_when_it_grows(one: World) -> None:
    names = [f"w{number}" for number in range(1000)]
    await one.gate("admit", 0.1)
    await one.schedule(*names)
    tenth = set(await in_queue(one))
    assert 85 <= len(tenth) <= 115
    await one.gate("admit", 0.3)
    third = set(await in_queue(one))
    assert tenth < third
    assert 270 <= len(third) <= 330
    (gate,) = await one.store.list_gates(LAMBDA)
    assert (gate.waiting, gate.amount) == (1000 - len(third), 0.3)
    await one.lift("admit")
    assert len(await in_queue(one)) == 1000
    await one.check()


async def test_a_pause_goes_before_a_drop_and_both_before_the_rest(one: World) -> None:
    await one.gate("delay", US, team="web")
    await one.gate("drop", team="web")
    await one.gate("pause", tier="1")
    await one.schedule("w", labels=WEB)
    await one.passes()
    assert await one.statuses(["0-w"]) == ["NEW"]
    await one.lift("pause", tier="1")
    await one.passes()
    assert await one.statuses(["0-w"]) == ["CANCELLED"]


async def test_a_kept_task_can_be_cancelled_and_its_id_used_again(one: World) -> None:
    await one.gate("pause", team="web")
    await one.schedule("w", labels=WEB, retention_us=0)
    await one.passes()
    assert (await one.store.cancel_tasks(["0-w"]))[0].cancelled
    await one.check()
    assert (await one.store.list_gates(LAMBDA))[0].waiting == 0
    one.clock.advance(700)
    while await one.store.sweep(0, 1000):
        pass
    await one.schedule("w", labels=APP, delay_us=999 * US)
    await one.lift("pause", team="web")
    await one.passes()
    assert (await one.get("0-w")).next_at_us == one.clock.us + 999 * US


async def test_setting_the_same_again_takes_its_place_and_a_repeated_call_does_not(one: World) -> None:
    gate = NewGate(LAMBDA, GateAction.PAUSE, {"team": "web"}, who="ada", request_id="r1")
    first = await one.store.set_gate(gate)
    assert first is not None
    assert (first.made, await one.store.set_gate(gate)) == (True, first._replace(made=False))
    second = await one.store.set_gate(gate._replace(request_id="r2", for_us=US))
    assert second is not None
    assert second.number > first.number
    assert (second.until_us, second.made) == (one.clock.us + US, True)
    assert [each.number for each in await one.store.list_gates(LAMBDA)] == [second.number]


async def test_a_lambda_has_so_many_gates_and_no_more(one: World) -> None:
    for number in range(library.MAX_GATES):
        assert await one.gate("pause", team=f"{number}")
    assert await one.gate("pause", team="one more") == 0
    assert await one.gate("pause", team="0")


async def test_a_pause_of_the_whole_lambda_has_a_place_beside_them(one: World) -> None:
    for number in range(library.MAX_GATES):
        assert await one.gate("pause", team=f"{number}")
    assert await one.store.pause_lambda(LAMBDA)
    assert (await one.store.list_lambdas())[LAMBDA].paused
    assert await one.gate("pause", seconds=60), "it is replaced"
    assert await one.gate("drop") == 0
    assert len(await one.store.list_gates(LAMBDA)) == library.MAX_GATES + 1
    assert await one.store.resume_lambda(LAMBDA)
    assert not (await one.store.list_lambdas())[LAMBDA].paused
    assert await one.gate("pause", team="one more") == 0
    assert await one.gate("pause")
    assert await one.lift("pause", team="0") == 1
    assert await one.gate("pause", team="one more"), "the pause takes nobody's place, either"


async def test_an_unknown_lambda_has_no_gates(world: World) -> None:
    assert await world.store.set_gate(NewGate("no/body", GateAction.DROP, {})) is None
    assert await world.store.lift_gate("no/body", {}, [GateAction.DROP]) is None
    assert await world.store.list_gates("no/body") == []


async def test_pause_and_resume_are_a_gate_and_leave_the_others(one: World) -> None:
    await one.gate("admit", 0.5)
    assert (await one.store.pause_lambda(LAMBDA, "bob", "lunch") or GateSet(0)).made
    assert not (await one.store.pause_lambda(LAMBDA, "eve", "again") or GateSet(0)).made
    gates = await one.store.list_gates(LAMBDA)
    assert [(each.action, each.who) for each in gates] == [(GateAction.ADMIT, "ada"), (GateAction.PAUSE, "bob")]
    await one.store.resume_lambda(LAMBDA)
    assert [each.action for each in await one.store.list_gates(LAMBDA)] == [GateAction.ADMIT]
    assert not (await one.store.list_lambdas())[LAMBDA].paused


@pytest.mark.parametrize("what", ["another gate", "resync"])
async def test_a_pause_that_is_over_is_none_though_no_visit_has_struck_it_off(one: World, what: str) -> None:
    await one.store.set_gate(NewGate(LAMBDA, GateAction.PAUSE, {}, for_us=10 * US, who="ada"))
    one.clock.advance(20)
    assert await one.store.list_gates(LAMBDA) == []
    if what == "another gate":
        await one.gate("admit", 0.5, team="web")
    else:
        await one.store.link.call("resync_lambdas", keys.record(0), [one.clock(), one.store.partitions, ""])
        await one.deliver()
    assert [each.action for each in await one.store.list_gates(LAMBDA)] == [GateAction.ADMIT] * (what == "another gate")
    await one.schedule("a")
    assert await in_queue(one) == ["0-a"]
    assert not (await one.store.list_lambdas())[LAMBDA].paused


async def test_a_pause_until_it_is_lifted_takes_the_place_of_one_that_ends(one: World) -> None:
    await one.store.set_gate(NewGate(LAMBDA, GateAction.PAUSE, {}, for_us=30 * US, who="ada"))
    await one.store.pause_lambda(LAMBDA, "bob", "lunch")
    (gate,) = await one.store.list_gates(LAMBDA)
    assert (gate.who, gate.why, gate.until_us) == ("bob", "lunch", 0)
    one.clock.advance(60)
    await one.schedule("a")
    assert await in_queue(one) == []


async def test_registering_anew_leaves_the_gates(one: World) -> None:
    await one.gate("pause", team="web")
    await one.store.register_lambdas([LambdaRecord(LAMBDA, b"", 9, ENQUEUE_TIMEOUT_US, paused=False)])
    await one.schedule("w", labels=WEB)
    assert await in_queue(one) == []


async def test_explain_names_the_gate(one: World) -> None:
    number = await one.gate("pause", team="web")
    await one.schedule("w", labels=WEB)
    await one.passes()
    explained = await one.store.explain_task("0-w")
    assert explained is not None
    assert (explained.gate, explained.record.next_at_us) == (number, 0)


async def test_long_labels_are_looked_at_a_few_at_a_time(one: World) -> None:
    await one.gate("pause", team="web")
    await one.schedule(*(f"w{number}" for number in range(8)), labels=LARGE)
    passed = await one.store.enqueue(0, 0)
    assert (passed.gated, passed.next_in_us) == (4, 0)
    await one.passes()
    assert (await one.store.list_gates(LAMBDA))[0].waiting == 8


async def test_a_claim_looks_into_a_few_large_specs_at_a_time(one: World) -> None:
    await one.schedule(*(f"w{number}" for number in range(8)), spec=b"s" * (1 << 18), labels=WEB)
    await one.schedule("a", labels=APP)
    await one.passes()
    await one.gate("pause", team="web")
    kept = []
    for taken in (["0-a"], []):
        assert await one.take() == taken
        kept.append((await one.statuses([f"0-w{number}" for number in range(8)])).count("NEW"))
    assert kept == [4, 8]
    await one.check()


@pytest.mark.parametrize("seed", range(20))
async def test_labels_are_found_wherever_they_stand(one: World, seed: int) -> None:
    rng = Random(seed)
    await one.gate("drop", team="web", region="r" * 64)
    expected = []
    for number in range(8):
        labels = {"team": rng.choice(["web", "webs", ""]), "region": "r" * rng.choice([64, 63]), "x" * 64: "é" * 32}
        chosen = {name: labels[name] for name in rng.sample(sorted(labels), rng.randint(0, 3))}
        await one.schedule(f"t{number}", labels=labelled(**chosen))
        if not {"team": "web", "region": "r" * 64}.items() <= chosen.items():
            expected.append(f"0-t{number}")
    assert sorted(await in_queue(one)) == expected


async def test_a_task_without_labels_has_no_field_for_them(one: World) -> None:
    await one.schedule("plain")
    await one.schedule("web", labels=WEB)
    found = (await dump(one.store)).tasks()
    assert [found[each].get("lb") for each in ("0-plain", "0-web")] == [None, "team=web tier=1"]


async def test_labels_are_replaced_with_the_task_that_is_put_off(one: World) -> None:
    """As the rest of what it is: a gate of its old labels no longer keeps it."""
    unique = keys.unique(LAMBDA, "one", US, 1)
    await one.schedule("first", labels=WEB, unique=unique)
    for name, labels in (("again", APP), ("last", "")):
        (answer,) = await one.store.schedule([one.task(name, labels=labels, unique=unique)])
        assert (answer.id, (await one.get("0-first")).labels) == ("0-first", labels)


@pytest.mark.parametrize("kind", ["tick", "beside", "item", "redriven", "handed back"])
async def test_tasks_of_each_kind_have_their_labels(one: World, kind: str) -> None:
    made = one.task("made", labels=WEB, at_us=one.clock.us)
    task_id = "0-made"
    await one.store.schedule_jobs([one.job("shop/daily")])
    (due,) = (await one.store.enqueue(one.store.job_partition("shop/daily"), 0)).jobs
    if kind == "tick":
        tick = Tick("shop/daily", due.generation, due.due_us, None, 0, "", US, due.due_us, made)
        assert await one.store.tick(one.store.job_partition("shop/daily"), [tick]) == [True]
        task_id = f"{one.store.job_partition('shop/daily')}-made"
    elif kind == "beside":
        ran = await one.store.run_job_now("shop/daily", made)
        assert ran is not None
        task_id = ran.id
    elif kind == "item":
        await one.store.open_batch("b", b"d", b"", LAMBDA, US)
        await one.store.schedule_items(0, "b", ItemTerms(LAMBDA, 1, labels=WEB), [NewItem(0, "0" * 32, b"spec")])
        task_id = f"0-b.{'0' * 32}"
    else:
        (claim,) = await one.run("made", started=False, labels=WEB)
        if kind == "redriven":
            await one.finish(Outcome.FAILED_FATAL, claim, error="no")
            assert await one.store.redrive([("0-made", 0)], one.clock.us) == [True]
        else:
            await one.store.hand_back([claim])
    assert (await one.get(task_id)).labels == WEB
    await one.gate("pause", team="web")
    await one.passes(int(task_id[0]))
    if kind == "handed back":
        popped = await one.pop()
        assert (await claim_ids(one.store, "executor-1", "n", popped)).lost == [task_id]
    explained = await one.store.explain_task(task_id)
    assert explained is not None
    assert explained.gate


async def test_the_counts_by_status_stay_exact_under_a_gate(one: World) -> None:
    await one.gate("pause", team="web")
    await one.schedule("w", "x", labels=WEB)
    await one.passes()
    assert (await one.store.counts(LAMBDA))[Status.NEW] == 3
    await one.check()


# --- the gate that closes by itself ---------------------------------------------------------------------------------------

FAILS = "shop/fails"


async def ends(world: World, partition: int, succeeded: int, failed: int) -> list[str]:
    """So many runs of a lambda end in a partition; answers which lambdas that one's next pass takes for failing."""
    names = [f"{world.clock.us}-{number}" for number in range(succeeded + failed)]
    claims = await world.run(*names, lambda_name=FAILS, partition=partition)
    await world.finish(Outcome.SUCCEEDED, *claims[:succeeded])
    await world.finish(Outcome.FAILED_FATAL, *claims[succeeded:])
    return list((await world.store.enqueue(partition, 0)).failing)


@pytest.fixture
async def watched(world: World) -> World:
    """A world with a lambda whose gate closes once half of its runs fail for good."""
    settings = "fatal=0.5 version=7"
    await world.store.register_lambdas(
        [LambdaRecord(FAILS, b"", 100, ENQUEUE_TIMEOUT_US, paused=False, settings=settings)]
    )
    for partition in range(world.store.partitions):
        await world.passes(partition)
    return world


async def test_it_closes_by_the_runs_of_all_partitions_together(watched: World) -> None:
    assert await ends(watched, 0, 2, 8) == [FAILS]
    assert await watched.store.judge(FAILS) is None  # ten runs say nothing yet
    assert await ends(watched, 1, 8, 2) == []  # two of ten fail there: this one has nothing to tell
    gate = await watched.store.judge(FAILS)
    assert gate is not None
    assert gate.why == "10 of 20 runs within a minute failed for good; its gate_at_fatal is 50 %"
    assert (await watched.store.list_lambdas())[FAILS].paused


async def test_it_closes_whatever_gates_the_lambda_has(watched: World) -> None:
    for number in range(library.MAX_GATES):
        assert await watched.store.set_gate(NewGate(FAILS, GateAction.PAUSE, {"team": f"{number}"})) != GateSet(0)
    assert await ends(watched, 0, 0, 20) == [FAILS]
    assert await watched.store.judge(FAILS) is not None
    assert (await watched.store.list_lambdas())[FAILS].paused


async def test_it_stays_open_where_all_partitions_together_fail_less(watched: World) -> None:
    assert await ends(watched, 0, 2, 8) == [FAILS]
    await ends(watched, 1, 9, 2)
    assert await watched.store.judge(FAILS) is None
    assert not (await watched.store.list_lambdas())[FAILS].paused


async def test_runs_that_ended_more_than_a_minute_ago_do_not_count(watched: World) -> None:
    assert await ends(watched, 0, 0, 19) == [FAILS]
    watched.clock.advance(61)
    assert await ends(watched, 0, 0, 1) == [FAILS]
    assert await watched.store.judge(FAILS) is None
    assert await ends(watched, 1, 0, 19) == [FAILS]
    assert await watched.store.judge(FAILS) is not None


async def test_what_failed_counts_until_somebody_resumes_and_lifting_nothing_is_no_resume(watched: World) -> None:
    assert await ends(watched, 0, 0, 20) == [FAILS]
    assert await watched.store.resume_lambda(FAILS) is not None
    assert await watched.store.lift_gate(FAILS, {"team": "web"}, [GateAction.DROP]) == 0
    assert await watched.store.judge(FAILS) is not None
    assert await watched.store.resume_lambda(FAILS) is not None
    assert await watched.store.judge(FAILS) is None
