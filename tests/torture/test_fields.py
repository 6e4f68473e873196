"""Each text of each request, with each kind of bad text in it: the right status, a sentence with the field, nothing stored."""

from __future__ import annotations

from typing import Any

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from atf.rpc import frontend_pb2 as f

from .catalogue import RULES, Path, fields_of, put
from .texts import INVALID_UTF8, TEXTS
from .world import INVALID, METHODS, OK, Answer, World, world_for

MARK = "!!!"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("method", METHODS)
def test_every_text_that_a_caller_can_send_has_its_rule(method: str) -> None:
    assert set(RULES.get(method, {})) == set(fields_of(method)), "a new field needs its rule in catalogue.py"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.asyncio(loop_scope="module")
async def test_the_request_that_is_spoiled_is_a_good_one(method: str, untouched: World) -> None:
    async with world_for(method, untouched) as world:
        assert (await world.ask(method, world.valid(method))).code is OK


async def refusal_within(world: World, method: str, path: Path, text: str) -> Answer:
    """What became of a spoiled request, also where it is one of many that fail by themselves."""
    answer = await world.ask(method, put(world.valid(method), path, text))
    replies: dict[str, Any] = {
        "Frontend.ScheduleMany": f.ScheduleManyReply,
        "Frontend.ScheduleJobs": f.ScheduleJobsReply,
    }
    if method in replies and answer.code is OK:
        (result,) = replies[method].FromString(answer.reply).results
        if result.HasField("error"):
            return Answer(grpc.StatusCode[result.error.code], result.error.message)
    return answer


@pytest.mark.sweep(4)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_is_taken_or_refused_by_its_rule(method: str, untouched: World) -> None:
    async with world_for(method, untouched) as world:
        for path, rule in RULES[method].items():
            before = world.stored()
            refused = [kind for kind, text in TEXTS.items() if rule.code(text) is not OK]
            for kind in refused:
                answer = await refusal_within(world, method, path, TEXTS[kind])
                said = f"{'.'.join(path)}, {kind}: {answer}"
                assert answer.code is rule.code(TEXTS[kind]), said
                assert rule.says in answer.sentence, said
                assert len(answer.sentence) > 20, said
                assert len(answer.sentence.encode()) <= 1_100, said
            assert world.stored() == before, f"{'.'.join(path)}: one of {refused} was stored"
            for kind in TEXTS.keys() - refused:
                answer = await refusal_within(world, method, path, TEXTS[kind])
                assert answer.code is OK, f"{'.'.join(path)}, {kind}: {answer}"


@pytest.mark.sweep(3)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.asyncio(loop_scope="module")
async def test_a_text_that_is_no_utf8_is_refused(method: str, untouched: World) -> None:
    async with world_for(method, untouched) as world:
        for path, field in fields_of(method).items():
            before = world.stored()
            for kind, spoiled in INVALID_UTF8.items():
                data = put(world.valid(method), path, MARK).SerializeToString()
                assert data.count(MARK.encode()) == 1
                answer = await world.send(method, data.replace(MARK.encode(), spoiled))
                said = f"{'.'.join(path)}, {kind}: {answer}"
                if field.type == FieldDescriptor.TYPE_BYTES:
                    assert answer.code is OK, said
                else:
                    assert answer.code is INVALID, said
                    sentence = f"{METHODS[method].name}: what was sent is no {METHODS[method].input_type.name}"
                    assert sentence in answer.sentence
            assert field.type == FieldDescriptor.TYPE_BYTES or world.stored() == before, ".".join(path)
