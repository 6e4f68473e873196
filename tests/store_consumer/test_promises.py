"""What lambdas promise about their starts, as the store consumer exports it."""

from __future__ import annotations

import asyncio

from atf.frontend.settings import overridden
from atf.metrics.metrics import LambdaLabels
from atf.metrics.table import SLO_RATIO
from atf.rpc import frontend_pb2 as f
from atf.store.values.lambdas import LambdaRecord
from atf.store_consumer.measures import FRESH_S, Measures, promises
from tests.faults.world import World, play


def told(code: dict[str, str], overrides: dict[str, str], label: LambdaLabels) -> dict[tuple[str, ...], float]:
    specs = {name: f.LambdaSpec(name=name, slo=slo) for name, slo in code.items()}
    known = {name: LambdaRecord(name, b"", 1, 1, False, overrides=overrides.get(name, "")) for name in code}
    return promises(known, specs, label)


def test_what_an_operator_set_goes_before_the_code_and_the_code_before_the_default() -> None:
    set_to = overridden(f.LambdaSpec(name="a/b"), "", {"slo": "2.5s 99.5%", "rate": "5"}, [])
    lifted = overridden(f.LambdaSpec(name="a/c", slo="1s 99%"), "", {"slo": "none"}, [])
    code = {"a/a": "", "a/b": "1s 99%", "a/c": "1s 99%", "a/d": "250ms 99.9%", "a/e": "what a newer release says"}

    assert told(code, {"a/b": set_to, "a/c": lifted}, LambdaLabels()) == {
        ("a/a", "5.0"): 0.95,
        ("a/b", "2.5"): 0.995,
        ("a/c", "5.0"): 0.95,
        ("a/d", "0.25"): 0.999,
        ("a/e", "5.0"): 0.95,
    }


def test_lambdas_beyond_the_bound_promise_the_default_together() -> None:
    assert told({"a/a": "1s 99%", "a/b": "1s 99%", "a/c": ""}, {}, LambdaLabels(1)) == {
        ("a/a", "1.0"): 0.99,
        ("other", "5.0"): 0.95,
    }


def test_the_promise_of_each_registered_lambda_is_exported() -> None:
    async def story(world: World) -> None:
        measures = Measures(world.store, world.runtime, lambda: 0)
        await measures.read()
        before = dict(world.wiring.metrics.values(SLO_RATIO))
        assert before["f/step", "5.0"] == 0.95
        await world.client.set_lambda("f/step", {"slo": "500ms 99%"})
        await asyncio.sleep(FRESH_S)
        await measures.read()
        after = dict(world.wiring.metrics.values(SLO_RATIO))
        assert after["f/step", "0.5"] == 0.99
        assert ("f/step", "5.0") not in after
        assert len(after) == len(before)

    play(story)
