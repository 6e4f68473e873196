"""The built-in lambda `atf/command`: runs a program of the allow-list, so that a task or the items of a batch need no code of their own.

    argv[0]    a program of the allow-list (atf/config/allowed_programs.py), which is closed by default
    the rest   its arguments, as they are: there is no shell
    result     {"result": {"stdout", "exit_code"}, "function_invocation", "arguments"} (command_result.py)

Exit code 0 is a success; any other one fails the attempt. On the run's timeout or cancellation the program is killed with all that it
has started (program.py). A stop that reaches every process of a host reaches the program, too: where its signal has ended the program, the
task is handed back.
"""

from __future__ import annotations

import signal
from typing import Any, Final

from atf.config.allowed_programs import AllowedPrograms
from atf.errors import Fatal, HandBack, Retry
from atf.sdk.app import App
from atf.sdk.context import Context
from atf.sdk.work_items import COMMAND

MAX_ARGUMENTS: Final = 1_000
MAX_ARGV_BYTES: Final = 32 << 10
"""Of the arguments together: they stand in the result beside what the program prints."""
STOP_S: Final = 1.0
"""Seconds within which a stop that has ended a program reaches the executor, too."""
_BY_A_STOP: Final = frozenset(128 + number for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP))
_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_SHOWN_CHARS: Final = 200


def add_command(app: App, allowed: AllowedPrograms) -> None:
    """Adds the lambda to an app."""
    if allowed:

        @app.task
        def command(ctx: Context, argv: list[str]) -> dict[str, Any]:
            """Runs a program; see docs/how-to/commands.md."""
            return run_command(ctx, argv, allowed)

    else:  # a coroutine: where no program may run, no thread waits for one

        @app.task(name=COMMAND.partition("/")[2])
        async def refuse(argv: list[str]) -> None:
            """Runs nothing; see docs/how-to/commands.md."""
            _program(argv, allowed)


def run_command(ctx: Context, argv: list[str], allowed: AllowedPrograms) -> dict[str, Any]:
    """Runs a program to its end.

    Raises:
        Fatal: it is not allowed, the arguments can't be passed, or it printed more than a result holds.
        Retry: it failed, could not be started, or was told to stop.
        HandBack: a stop of the executor's host has ended it.
    """
    # Only now: most executors run no programs.
    from .command_result import TOO_LONG, error_of, result_of
    from .program import NotStarted, OutputTooLong, ProgramStopped, is_soon, run

    path = _program(argv, allowed)
    # Nothing of the executor's own environment, in which there may be secrets.
    told = {"ATF_TASK_ID": ctx.task_id, "ATF_ATTEMPT": str(ctx.attempt), "ATF_FENCE": str(ctx.fence)}
    try:
        ended = run(path, argv, {"PATH": _PATH, "LANG": "C.UTF-8", **told}, lambda: ctx.cancelled)
    except NotStarted as error:
        raise Retry(str(error)) from None
    except ProgramStopped:
        raise Retry("the program was killed, since its run was to end") from None
    except OutputTooLong:
        raise Fatal(TOO_LONG) from None
    if ended.exit_code in _BY_A_STOP and is_soon(lambda: ctx.stopping or ctx.cancelled, STOP_S):
        raise HandBack("a stop of this host has ended the program")
    if ended.exit_code:
        raise Retry(error_of(ended))
    result = result_of(ended, argv)
    if result is None:
        raise Fatal(TOO_LONG)
    return result


def _program(argv: list[str], allowed: AllowedPrograms) -> str:
    """The file of the program, once the arguments have been checked."""
    if not 1 <= len(argv) <= MAX_ARGUMENTS or not argv[0]:
        raise Fatal(f"argv: give a program and its arguments, 1 to {MAX_ARGUMENTS} texts")
    if any("\0" in each for each in argv):
        raise Fatal("argv: an argument can't hold a null character")
    size = sum(len(each.encode("utf-8", "surrogatepass")) + 1 for each in argv)
    if size > MAX_ARGV_BYTES:
        raise Fatal(
            f"argv: {size} bytes, at most {MAX_ARGV_BYTES}; put what is large into a file, and pass where it is"
        )
    path = allowed.path_of(argv[0])
    if path is None:
        shown = argv[0] if len(argv[0]) <= _SHOWN_CHARS else f"{argv[0][:_SHOWN_CHARS]}…"
        raise Fatal(
            f"argv: {shown!r} is not allowed here; whoever runs the executors may allow it, by its absolute path or by a name:"
            " --command-allow NAME=/PATH/TO/PROGRAM, ATF_COMMAND_ALLOW, or command_allow in atf.toml"
        )
    return path
