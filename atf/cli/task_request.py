"""Makes the request for a task from the words of a command line, for `atf schedule` and `atf job schedule`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click

from atf.durability import durability_of
from atf.errors import InvalidArgument
from atf.rpc import api, frontend_pb2 as f, task_pb2 as t
from atf.runtime import SystemRuntime, new_id
from atf.sdk.options import Concurrency, Unique
from atf.task import MAX_PAYLOAD_BYTES, PRIORITIES, US, check_key, check_lambda, check_priority, id_of_key

from .arguments import registered, untyped
from .json_values import json_value
from .options import F, instant, option, pairs

_arguments_flag = click.option(
    "-a", "--json-args", "arguments", multiple=True, metavar="NAME=VALUE",
    help="An argument of the lambda: its text, or JSON where it takes no text. May be given again.",
)  # fmt: skip
_payload_flag = option("--payload", "JSON", "All arguments by name, as one JSON object; - reads it from stdin.")


def arguments_flags(command: F) -> F:
    """Adds -a and --payload: `arguments` and `payload` of the command."""
    return _arguments_flag(_payload_flag(command))


def build_request(lambda_name: str, **given: Any) -> f.ScheduleRequest:
    """The request that flags of `atf schedule` describe, by their names. `arguments` stay texts until `fit` has asked what the lambda takes.

    Raises:
        InvalidArgument: a flag breaks a rule, or two do not go together.
    """
    chosen = {name: value for name, value in given.items() if value is not None}
    body, encoding = _payload(chosen.get("arguments", ()), chosen.get("payload"), chosen.get("raw"))
    spec = t.TaskSpec(payload=body, encoding=encoding, labels=pairs(chosen.get("labels", ()), "--label"))
    setattr(spec, "lambda", check_lambda(lambda_name))
    for name in ("ordering_key", "affinity_key"):
        if name in chosen:
            setattr(spec, name, check_key(chosen[name], f"--{name.replace('_', '-')}"))
    _set_concurrency(spec, chosen)
    _set_unique(spec, chosen)
    if "priority" in chosen:
        spec.options.priority = priority_of(chosen["priority"])
    if "max_attempts" in chosen:
        spec.options.max_attempts = chosen["max_attempts"]
    if "timeout" in chosen:
        spec.options.timeout_us = round(chosen["timeout"] * US)
    key = id_of_key(chosen["key"], "--key") if "key" in chosen else new_id(SystemRuntime().random)
    request = f.ScheduleRequest(id=key, spec=spec)
    if "durability" in chosen:
        request.durability = cast("t.Durability", int(durability_of(chosen["durability"], "--durability")))
    if "at" in chosen and "delay" in chosen:
        raise InvalidArgument("--at and --delay: give one of them")
    if "at" in chosen:
        request.at_us = instant(chosen["at"], "--at")
    elif "delay" in chosen:
        request.delay_us = round(chosen["delay"] * US)
    return request


def _set_concurrency(spec: t.TaskSpec, chosen: Mapping[str, Any]) -> None:
    limit, policy = chosen.get("concurrency_limit"), chosen.get("concurrency_policy")
    if "concurrency_key" in chosen:
        key = check_key(chosen["concurrency_key"], "--concurrency-key")
        spec.concurrency.CopyFrom(Concurrency(key, limit or 1, policy or "queue").to_proto())
    elif limit or policy:
        raise InvalidArgument("--concurrency-limit and --concurrency-policy: of no use without --concurrency-key")


def _set_unique(spec: t.TaskSpec, chosen: Mapping[str, Any]) -> None:
    debounce = chosen.get("debounce", False)
    if ("unique" in chosen) != ("window" in chosen) or (debounce and "unique" not in chosen):
        raise InvalidArgument("--unique NAME and --window LENGTH: give both, and --debounce where it is meant, or none")
    if "unique" in chosen:
        key = check_key(chosen["unique"], "--unique")
        spec.unique.CopyFrom(Unique(key, chosen["window"], "debounce" if debounce else "throttle").to_proto())


def _payload(arguments: Sequence[str], payload: str | None, raw: str | None) -> tuple[bytes, t.Encoding]:
    if sum([bool(arguments), payload is not None, raw is not None]) > 1:
        raise InvalidArgument("-a, --payload and --raw: give one of them")
    if raw is not None:
        try:
            return _checked(_read(raw)), t.RAW
        except (OSError, ValueError) as error:
            raise InvalidArgument(f"--raw {raw}: {getattr(error, 'strerror', None) or error}") from None
    if payload is None:
        return _encoded(pairs(arguments, "-a")), t.JSON
    try:
        values = json_value(_checked(_read("-")).decode() if payload == "-" else payload)
    except ValueError as error:
        raise InvalidArgument(f"--payload is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise InvalidArgument('--payload: give a JSON object of the arguments by name, such as {"path": "cat.jpg"}')
    return _encoded(values), t.JSON


async def fit(stub: api.Frontend, spec: t.TaskSpec, words: Sequence[str]) -> None:
    """Makes the arguments of a task what its lambda takes by its registered signature.

    Args:
        stub: the frontend that knows the lambda.
        spec: of `build_request`.
        words: NAME=VALUE, as they were given.

    Raises:
        InvalidArgument: an argument has no such name, is missing, or is no value that the lambda takes.
        UnknownLambda: the lambda is not registered; the message names the nearest.
    """
    if spec.encoding == t.RAW:
        return
    parameters = await registered(stub, getattr(spec, "lambda"))
    given = pairs(words, "-a")
    values = {name: parameters.read(name, text) if parameters else untyped(text) for name, text in given.items()}
    if given:
        spec.payload = _encoded(values)
    if parameters is not None:
        parameters.check(json.loads(spec.payload))


def _read(name: str) -> bytes:
    """The bytes of a file, or of stdin for "-"; no more than shows that they are too many, since /dev/zero has no end."""
    if name == "-":
        return sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
    with Path(name).open("rb") as file:
        return file.read(MAX_PAYLOAD_BYTES + 1)


def _checked(body: bytes) -> bytes:
    if len(body) > MAX_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"the payload is over {MAX_PAYLOAD_BYTES} bytes (1 MiB); store large data elsewhere and pass where it is"
        )
    return body


def _encoded(values: dict[str, Any]) -> bytes:
    try:
        return json.dumps(values, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise InvalidArgument("an argument is no text in UTF-8; send bytes with --raw FILE") from None


def priority_of(text: str) -> int:
    """A priority by its name or number."""
    if text in PRIORITIES:
        return PRIORITIES[text]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidArgument(f"--priority {text[:80]!r}: use high, normal, low, or 0 to 9")
    return check_priority(int(text))
