"""Every field of every request that names a lambda: a foreign one is refused in each, beside others that are one's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, MethodDescriptor
from google.protobuf.message import Message

from atf.rpc import batch_pb2 as b, task_pb2 as t

from .matrix import DENIED, FRONTEND, OTHER, OWN, World, methods, requests_of, verdict, world

ELSEWHERE: Final = {
    "PreviewSchedule job.task.lambda": "nothing is made, and the answer is instants",
    **dict.fromkeys(
        (
            *(
                "NextClaims lambda_set",
                "NextClaims lambdas",
                "ReportHost executors.lambda_sets",
                "ReportHost sets.lambdas",
            ),
            "ReportHost quarantined.lambda",
        ),
        "tests/hsc/test_permits.py",
    ),
    "NextClaims without": "what is not to be given",
}
"""Fields that are not tried here, and why."""


def named_in(message: Descriptor, within: tuple[Descriptor, ...] = ()) -> Iterator[str]:
    """The fields that name lambdas, by their ways from a message; of one that holds itself once more."""
    for field in message.fields:
        if field.message_type and not field.message_type.GetOptions().map_entry:
            if field.message_type not in within:
                inner = named_in(field.message_type, (*within, message))
                yield from (f"{field.name}.{each}" for each in inner)
        elif "lambda" in field.name or field.name == "without" or (message.name, field.name) == ("LambdaSpec", "name"):
            yield field.name


def with_foreign(message: Message, way: str) -> None:
    """Puts the name of a foreign lambda there; into another item, where there are several."""
    name, _, rest = way.partition(".")
    if not rest:
        setattr(message, name, OTHER)
        return
    held: Any = getattr(message, name)
    if hasattr(held, "add"):
        first, held = held[0], held.add()
        held.CopyFrom(first)
    with_foreign(held, rest)


def of_own(w: World, service: str, method: MethodDescriptor) -> list[Message]:
    asked = requests_of(w, service, method, "own")
    if method.name == "ScheduleBatch":
        of: dict[str, Any] = {"lambda": OWN}
        step = b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**of))
        then = b.Callback(when=b.Callback.COMPLETION, task=t.TaskSpec(**of), then=[step])
        asked[0].header.spec.callbacks.append(then)  # type: ignore[attr-defined]
    return asked


async def test_a_foreign_lambda_is_refused_in_every_field_that_names_one() -> None:
    tried: set[str] = set()
    async with world() as w:
        await w.fill("own", OWN)
        for service, path, method in methods():
            for way in named_in(method.input_type):
                tried.add(f"{method.name} {way}")
                if service == FRONTEND and f"{method.name} {way}" not in ELSEWHERE:
                    asked = of_own(w, service, method)
                    with_foreign(asked[0], way)
                    code, answers = await w.call(path, method, "admin", asked)
                    assert verdict(path, code, answers, "own") == DENIED, (method.name, way, code)
    assert ELSEWHERE.keys() <= tried
    assert len(tried) > 30
