"""The command `atf`. It owns exit codes and error sentences; each group of commands is a module of its own.

    0  done            1  the task failed         2  bad input
    3  not found       4  unavailable: nothing listens there, or the store takes nothing
    5  not allowed: no valid token was shown, or it may not do this

A command's module is imported when the command is called, and only then: `atf executor` guards a process, and must not carry
what other commands need.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from atf.errors import AtfError, NotFound, PermissionDenied, TaskError, Unauthenticated
from atf.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_REFUSED, EXIT_UNAVAILABLE
from atf.process.streams import protect
from atf.visible import one_line

if TYPE_CHECKING:
    import click

_WHILE_IMPORTING: Final = 100_000
"""New objects before garbage is looked for. Imports leave none: at Python's 700, looking takes a sixth of a start. Roles go back to that."""
_UNWRITABLE: Final = frozenset({errno.EBADF, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.ENOSPC})
"""How a write to stdout fails, where there is somebody to read it."""
_UNAVAILABLE_CODES = frozenset({"UNAVAILABLE", "RESOURCE_EXHAUSTED", "DEADLINE_EXCEEDED", "INTERNAL", "UNKNOWN"})


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code; every error is one sentence on stderr."""
    if os.getpid() == 1 and arguments is None:
        from .init import run_as_init

        run_as_init()
    if arguments is None:
        gc.set_threshold(_WHILE_IMPORTING)
        protect()
    if isinstance(sys.stdout, io.TextIOWrapper):  # of ASCII or Latin-1, say: what it has no letter for becomes a "?"
        sys.stdout.reconfigure(errors="replace")
    return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        from .commands import cli
    except ModuleNotFoundError as error:
        return _say(f'the command line needs {error.name}: pip install "atf-tasks[server]"', EXIT_BAD_INPUT)
    words = None if arguments is None else list(arguments)
    return answered(lambda: cli.main(args=words, prog_name="atf", standalone_mode=False))


def answered(work: Callable[[], Any]) -> int:
    """The exit code of a command's work; an error that ended it is one sentence on stderr."""
    import click

    code = EXIT_OK
    stdout = sys.stdout
    try:
        ended = work()
        code = ended if isinstance(ended, int) else EXIT_OK
        sys.stdout.flush()
        return code
    except click.ClickException as error:
        return _refused(error)
    except (click.Abort, KeyboardInterrupt):
        return _say("interrupted", 130)
    except SystemExit:
        if sys.stdout is stdout:
            raise
        sys.stdout = stdout  # click's answer to a pipe that nobody reads is a stream of its own, and the exit code 1
        return _unwritten(BrokenPipeError(), code)
    except Exception as error:  # noqa: BLE001  the last place that can say it
        return _failed(error, code)


def _refused(error: click.ClickException) -> int:
    """The exit code of a command line that click does not take."""
    import click

    if isinstance(error, click.exceptions.NoArgsIsHelpError):  # its message is the help, in lines
        print(error.format_message(), file=sys.stderr)
        return EXIT_BAD_INPUT
    if isinstance(error, click.UsageError):
        command = error.ctx.command_path if error.ctx else "atf"
        return _say(f"{error.format_message()} (see {command} --help)", EXIT_BAD_INPUT)
    return _say(error.format_message(), EXIT_BAD_INPUT)


def _failed(error: Exception, code: int) -> int:
    """The exit code of a command that an error ended."""
    if isinstance(error, AtfError):
        return _say(str(error), exit_code(error))
    if isinstance(error, ModuleNotFoundError):
        return _say(f'this command needs {error.name}: pip install "atf-tasks[server]"', EXIT_BAD_INPUT)
    if isinstance(error, OSError) and _is_of_stdout(error):
        return _unwritten(error, code)
    if os.environ.get("ATF_DEBUG"):
        raise error
    return _unforeseen(error)


def exit_code(error: AtfError) -> int:
    """The exit code that an error ends a command with."""
    if isinstance(error, TaskError):
        return EXIT_FAILED
    if isinstance(error, NotFound):
        return EXIT_NOT_FOUND
    if isinstance(error, Unauthenticated | PermissionDenied):
        return EXIT_REFUSED
    return EXIT_UNAVAILABLE if error.code in _UNAVAILABLE_CODES else EXIT_BAD_INPUT


def _is_of_stdout(error: OSError) -> bool:
    return isinstance(error, BrokenPipeError) or (error.errno in _UNWRITABLE and error.filename is None)


def _unwritten(error: OSError, code: int) -> int:
    """The exit code of a command that stdout does not take all of."""
    # Else Python tries to write what is left at its end, and ends with a code of its own.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):  # `atf ls | head`: whoever read has seen enough
        return code
    return _say(f"stdout: {error.strerror}. What this command was to print is incomplete", EXIT_UNAVAILABLE)


def _unforeseen(error: Exception) -> int:
    if isinstance(error, UnicodeEncodeError):  # a word of the command line went into a message
        return _say(f"{error.object[:80]!r}: this is no text in UTF-8", EXIT_BAD_INPUT)
    from atf.process.descriptors import error_text, is_out_of_descriptors

    if is_out_of_descriptors(error):
        return _say(error_text(error), EXIT_UNAVAILABLE)
    return _say(f"a bug in atf: {type(error).__name__}: {error} (ATF_DEBUG=1 shows where)", EXIT_UNAVAILABLE)


def _say(sentence: str, code: int) -> int:
    print(f"atf: {one_line(sentence)}", file=sys.stderr)
    return code
