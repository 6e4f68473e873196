"""Each text of each request, with each kind of bad text in it: the right status, a sentence with the field, nothing stored."""

from __future__ import annotations

import itertools

import grpc
import pytest
from google.protobuf.descriptor import FieldDescriptor

from atf.rpc import frontend_pb2 as f

from .catalogue import RULES, Path, fields_of, put
from .texts import INVALID_UTF8, TEXTS
from .world import INVALID, METHODS, OK, Answer, World, opened

MARK = "!!!"


@pytest.mark.parametrize("method", METHODS)
def test_every_text_that_a_caller_can_send_has_its_rule(method: str) -> None:
    assert set(RULES.get(method, {})) == set(fields_of(method)), "a new field needs its rule in catalogue.py"


async def test_the_requests_that_are_spoiled_are_good_ones() -> None:
    for method in METHODS:
        async with opened() as world:
            assert (await world.ask(method, world.valid(method))).code is OK, method


async def refusal_within(world: World, method: str, path: Path, text: str) -> Answer:
    """What became of a spoiled request, also where it is one of many that fail by themselves."""
    answer = await world.ask(method, put(world.valid(method), path, text))
    if method == "Frontend.ScheduleMany" and answer.code is OK:
        (result,) = f.ScheduleManyReply.FromString(answer.reply).results
        if result.HasField("error"):
            return Answer(grpc.StatusCode[result.error.code], result.error.message)
    return answer


@pytest.mark.parametrize("method", METHODS)
async def test_a_text_is_taken_or_refused_by_its_rule(method: str) -> None:
    async with opened() as world:
        for (path, rule), (kind, text) in itertools.product(RULES[method].items(), TEXTS.items()):
            before = world.stored()
            answer = await refusal_within(world, method, path, text)
            said = f"{'.'.join(path)}, {kind}: {answer}"
            assert answer.code is rule.code(text), said
            if answer.code is not OK:
                assert world.stored() == before, said
                assert rule.says in answer.sentence, said
                assert len(answer.sentence) > 20, said
                assert len(answer.sentence.encode()) <= 1_100, said


@pytest.mark.parametrize("method", METHODS)
async def test_a_text_that_is_no_utf8_is_refused(method: str) -> None:
    async with opened() as world:
        for (path, field), (kind, spoiled) in itertools.product(fields_of(method).items(), INVALID_UTF8.items()):
            data = put(world.valid(method), path, MARK).SerializeToString()
            assert data.count(MARK.encode()) == 1
            before = world.stored()
            answer = await world.send(method, data.replace(MARK.encode(), spoiled))
            said = f"{'.'.join(path)}, {kind}: {answer}"
            if field.type == FieldDescriptor.TYPE_BYTES:
                assert answer.code is OK, said
                continue
            assert answer.code is INVALID, said
            assert world.stored() == before, said
            assert f"{METHODS[method].name}: what was sent is no {METHODS[method].input_type.name}" in answer.sentence
