"""`atf schedule`: a task from the words of a command line."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import click

from atf.durability import Durability, durability_of
from atf.errors import InvalidArgument
from atf.rpc import api
from atf.rpc import frontend_pb2 as f
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime, new_id
from atf.sdk.options import Concurrency, Unique
from atf.task import (
    MAX_CONCURRENCY,
    MAX_PAYLOAD_BYTES,
    PRIORITIES,
    US,
    check_key,
    check_lambda,
    check_priority,
    id_of_key,
)
from atf.visible import one_line

from .argument_types import json_value
from .arguments import registered, untyped
from .options import as_json, duration, frontend_flag
from .output import print_json
from .remote import ask
from .tasks import report_finished, wait_for


@click.command()
@click.argument("lambda_name", metavar="LAMBDA")
@click.option(
    "-a", "--json-args", "arguments", multiple=True, metavar="NAME=VALUE",
    help="An argument of the lambda: its text, or JSON where it takes no text. May be given again.",
)  # fmt: skip
@click.option("--payload", metavar="JSON", help="All arguments by name, as one JSON object; - reads it from stdin.")
@click.option("--raw", metavar="FILE", help="Send the bytes of a file as they are; - reads stdin.")
@click.option("--delay", type=duration, help="Run after this long: seconds, or 500ms, 30s, 5m, 2h, 1d.")
@click.option("--at", metavar="TIME", help="Run at this instant, such as 2030-01-31T08:00 (local time) or ...08:00Z.")
@click.option("--priority", metavar="P", help="high, normal, low, or 0 (first) to 9.  [default: the lambda's]")
@click.option("--key", metavar="KEY", help="Idempotency key: scheduling the same again with it does nothing.")
@click.option(
    "--ordering-key", metavar="NAME", help="Tasks of one key run one after the other, in the order they were accepted."
)
@click.option("--affinity-key", metavar="NAME", help="Of a sticky lambda: prefer the host that had its last task.")
@click.option(
    "--concurrency-key",
    metavar="NAME",
    help="Of the tasks of one key, one runs at a time; or as many as the limit says.",
)
@click.option(
    "--concurrency-limit",
    type=click.IntRange(1, MAX_CONCURRENCY),
    metavar="N",
    help="So many run at once.  [default: 1]",
)
@click.option(
    "--concurrency-policy", type=click.Choice(["queue", "skip", "cancel_running"]),
    help="Whether one that finds no room waits, is cancelled, or waits and has the oldest stopped.  [default: queue]",
)  # fmt: skip
@click.option(
    "--unique", metavar="NAME", help="One task of a key within a window: a second call finds the first one's."
)
@click.option("--window", type=duration, help="The length of that window: seconds, or 500ms, 30s, 5m, 2h, 1d.")
@click.option("--debounce", is_flag=True, help="Put that task off until a window has passed without a call.")
@click.option("--label", "labels", multiple=True, metavar="NAME=VALUE", help="A note on the task. May be given again.")
@click.option(
    "--max-attempts",
    type=click.IntRange(1, 2**31 - 1),
    metavar="N",
    help="Give up after this many attempts.  [default: the lambda's]",
)
@click.option("--timeout", type=duration, help="Stop a run after this long; 0: never.  [default: the lambda's]")
@click.option(
    "--durability", metavar="CLASS",
    help="Return when it is as safe as this: relaxed, disk or replicated.  [default: the frontend's]",
)  # fmt: skip
@click.option("--wait", is_flag=True, help="Wait for the end, and print the result.")
@click.option("--wait-timeout", type=duration, help="Wait at most this long, then exit with 4.")
@frontend_flag
@as_json
def schedule(
    lambda_name: str, wait: bool, wait_timeout: float | None, frontend: str | None, as_json: bool, **given: Any
) -> int:
    """Schedule a task of LAMBDA (namespace/name) and print its id.

    \b
    atf schedule photos/thumbnail -a path=cat.jpg -a size=128
    atf schedule photos/thumbnail --payload '{"path": "cat.jpg"}' --delay 5m --priority low
    atf schedule photos/import --raw album.zip --wait
    """
    if wait_timeout is not None and not wait:
        raise InvalidArgument("--wait-timeout: of no use without --wait; give both, or neither")
    request = build_request(lambda_name, **given)

    async def work(stub: api.Frontend) -> f.ScheduleReply:
        await fit(stub, request.spec, given["arguments"])
        return await stub.schedule(request)

    reply = ask(frontend, work)
    if not wait:
        if as_json:
            met = Durability(reply.durability).word if reply.durability else ""
            said = {
                "id": reply.id,
                "existed": reply.existed,
                "scheduled_at_us": reply.scheduled_at_us,
                "durability": met,
            }
            print_json(said)
        else:
            print(one_line(reply.id))
        return 0
    if not as_json:
        print(one_line(reply.id), file=sys.stderr)
    return report_finished(wait_for(frontend, [reply.id], wait_timeout), as_json=as_json, alone=True)


def build_request(
    lambda_name: str,
    *,
    arguments: Sequence[str] = (),
    payload: str | None = None,
    raw: str | None = None,
    delay: float | None = None,
    at: str | None = None,
    priority: str | None = None,
    key: str | None = None,
    ordering_key: str | None = None,
    affinity_key: str | None = None,
    concurrency_key: str | None = None,
    concurrency_limit: int | None = None,
    concurrency_policy: str | None = None,
    unique: str | None = None,
    window: float | None = None,
    debounce: bool = False,
    labels: Sequence[str] = (),
    max_attempts: int | None = None,
    timeout: float | None = None,
    durability: str | None = None,
) -> f.ScheduleRequest:
    """The request that the flags describe. `arguments` stay texts until `fit` has asked what the lambda takes.

    Raises:
        InvalidArgument: a flag breaks a rule, or two do not go together.
    """
    body, encoding = _payload(arguments, payload, raw)
    spec = t.TaskSpec(payload=body, encoding=encoding, labels=pairs(labels, "--label"))
    setattr(spec, "lambda", check_lambda(lambda_name))
    if ordering_key is not None:
        spec.ordering_key = check_key(ordering_key, "--ordering-key")
    if affinity_key is not None:
        spec.affinity_key = check_key(affinity_key, "--affinity-key")
    _set_concurrency(spec, concurrency_key, concurrency_limit, concurrency_policy)
    _set_unique(spec, unique, window, debounce)
    if priority is not None:
        spec.options.priority = _priority(priority)
    if max_attempts is not None:
        spec.options.max_attempts = max_attempts
    if timeout is not None:
        spec.options.timeout_us = round(timeout * US)
    request = f.ScheduleRequest(
        id=id_of_key(key, "--key") if key is not None else new_id(SystemRuntime().random), spec=spec
    )
    if durability is not None:
        request.durability = cast("t.Durability", int(durability_of(durability, "--durability")))
    if at is not None and delay is not None:
        raise InvalidArgument("--at and --delay: give one of them")
    if at is not None:
        request.at_us = instant(at)
    elif delay is not None:
        request.delay_us = round(delay * US)
    return request


def _set_concurrency(spec: t.TaskSpec, key: str | None, limit: int | None, policy: str | None) -> None:
    if key is not None:
        made = Concurrency(check_key(key, "--concurrency-key"), limit or 1, policy or "queue")
        spec.concurrency.CopyFrom(made.to_proto())
    elif limit or policy:
        raise InvalidArgument("--concurrency-limit and --concurrency-policy: of no use without --concurrency-key")


def _set_unique(spec: t.TaskSpec, key: str | None, window: float | None, debounce: bool) -> None:
    if (key is None) != (window is None) or (debounce and key is None):
        raise InvalidArgument("--unique NAME and --window LENGTH: give both, and --debounce where it is meant, or none")
    if key is not None and window is not None:
        made = Unique(check_key(key, "--unique"), window, "debounce" if debounce else "throttle")
        spec.unique.CopyFrom(made.to_proto())


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


def pairs(words: Sequence[str], flag: str) -> dict[str, str]:
    """NAME=VALUE of a flag that may be given again."""
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise InvalidArgument(f"{flag} {word!r}: write NAME=VALUE")
        if name in found:
            raise InvalidArgument(f"{flag} {name}: given twice")
        found[name] = value
    return found


def _priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    if not text.isascii() or not text.isdigit() or len(text) > 9:
        raise InvalidArgument(f"--priority {text[:80]!r}: use high, normal, low, or 0 to 9")
    return check_priority(int(text))


def instant(text: str, flag: str = "--at") -> int:
    """Microseconds of an instant as people write it."""
    try:
        at = datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        raise InvalidArgument(
            f"{flag} {text!r}: write an instant such as 2030-01-31T08:00 or 2030-01-31T08:00:00Z"
        ) from None
    return max(1, round(at.timestamp() * US))
