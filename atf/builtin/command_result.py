"""Turns a program's end into a result or an error's text, and reads such a text. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from atf.task import MAX_RESULT_BYTES
from atf.visible import one_line

MAX_STDOUT_BYTES: Final = MAX_RESULT_BYTES
STDERR_BYTES: Final = 1_800
"""Of the end of stderr: what an error shows."""
_STDOUT_BYTES: Final = 1_400
"""Of the end of stdout, as JSON: what an error keeps. With the rest it stays within the 4 KiB of an error."""
_SAID_CHARS: Final = 200
TOO_LONG: Final = (
    f"stdout: more than fits into a result, which has at most {MAX_RESULT_BYTES} bytes (64 KiB); have the program write to a file or"
    " an object store, and print where that is"
)

_FAILED: Final = re.compile(r"exit code (\d{1,3})(?:[:,][^\n]*)?\nstdout: (\"[^\n]*\")(?:\n|$)")


class EndedProgram(NamedTuple):
    """A program that has ended by itself."""

    exit_code: int
    """128 + n for signal n, as a shell says it."""
    stdout: bytes
    stderr: bytes
    """Its end."""


class ProgramFailure(NamedTuple):
    """What the error of a failed run says of its program."""

    exit_code: int
    stdout: str
    """Its end."""


def result_of(ended: EndedProgram, argv: Sequence[str]) -> dict[str, Any] | None:
    """The result of a success; None: it is too long."""
    result = {
        "result": {"stdout": ended.stdout.decode("utf-8", "replace"), "exit_code": ended.exit_code},
        "function_invocation": shlex.join(argv),
        "arguments": list(argv),
    }
    return None if len(msgspec.json.encode(result)) > MAX_RESULT_BYTES else result


def error_of(ended: EndedProgram) -> str:
    """The error of a failure: the exit code and the last line of stderr, then the end of stdout as JSON, then that of stderr."""
    stderr = (
        ended.stderr[-STDERR_BYTES:]
        .decode("utf-8", "replace")
        .encode()[-STDERR_BYTES:]
        .decode("utf-8", "ignore")
        .strip()
    )
    said = one_line(stderr.rpartition("\n")[2])[:_SAID_CHARS]
    stdout = ended.stdout[-_STDOUT_BYTES:].decode("utf-8", "replace")
    while len(encoded := msgspec.json.encode(stdout)) > _STDOUT_BYTES:
        stdout = stdout[len(stdout) // 4 + 1 :]
    lines = [f"exit code {ended.exit_code}{f': {said}' if said else ''}", f"stdout: {encoded.decode()}"]
    return "\n".join([*lines, *([f"stderr:\n{stderr}"] if stderr else [])])


def read_failure(error: str) -> ProgramFailure | None:
    """What an error of `atf/command` says of its program; None: the program did not run to its end."""
    match = _FAILED.match(error)
    if match is None:
        return None
    try:
        return ProgramFailure(int(match[1]), msgspec.json.decode(match[2], type=str))
    except msgspec.DecodeError:
        return None
