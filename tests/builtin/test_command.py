"""`atf/command`: which programs may run, what comes back of them, and that nothing of them goes on."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import atf
from atf.builtin import with_builtins
from atf.builtin.command import MAX_ARGUMENTS, MAX_ARGV_BYTES
from atf.builtin.command_result import EndedProgram, ProgramFailure, error_of, read_failure
from atf.config.allowed_programs import AllowedPrograms
from atf.config.settings import ExecutorSettings
from atf.errors import ConfigError
from atf.executor.outcome import GaveUp, RunFailed, of_exception
from atf.task import MAX_ERROR_BYTES, MAX_RESULT_BYTES

PYTHON = os.path.realpath(sys.executable)


class When:
    """A flag that is set as soon as something holds."""

    def __init__(self, holds: Callable[[], bool]) -> None:
        self.is_set = holds


def context(**given: Any) -> atf.Context:
    at = datetime(2026, 1, 2, tzinfo=UTC)
    run: dict[str, Any] = {"task_id": "0-abc", "attempt": 2, "run": 3, "fence": 77, "scheduled_at": at, **given}
    return atf.Context(lambda_name="atf/command", **run)


def command(*argv: str, allow: str = f"python={PYTHON}", **ctx: Any) -> Any:
    """Runs the lambda as an executor has it."""
    found = with_builtins({}, ExecutorSettings(command_allow=allow))["atf/command"]
    return found.fn(context(**ctx), list(argv))


def python(code: str, *arguments: str, **ctx: Any) -> Any:
    return command("python", "-I", "-S", "-c", code, *arguments, **ctx)


@pytest.mark.processes
def test_a_success_gives_what_it_printed_its_exit_code_and_its_command_line() -> None:
    assert command("echo", "a b", "$HOME", allow="echo=/bin/echo") == {
        "result": {"stdout": "a b $HOME\n", "exit_code": 0},
        "function_invocation": "echo 'a b' '$HOME'",
        "arguments": ["echo", "a b", "$HOME"],
    }


@pytest.mark.processes
def test_a_program_that_is_listed_by_its_path_is_named_by_that_path_alone() -> None:
    assert command("/bin/echo", allow="/bin/echo")["result"] == {"stdout": "\n", "exit_code": 0}
    for other in ("echo", "/usr/../bin/echo", "//bin/echo", "echo\n"):
        with pytest.raises(atf.Fatal, match="not allowed here"):
            command(other, allow="/bin/echo")


async def test_nothing_may_run_before_somebody_allows_it() -> None:
    found = with_builtins({}, ExecutorSettings())["atf/command"]
    assert found.is_async, "or every executor had a thread for it"
    with pytest.raises(
        atf.Fatal, match=r"'/bin/echo' is not allowed here; .* --command-allow NAME=/PATH/TO/PROGRAM, ATF_COMMAND_ALLOW"
    ):
        await found.fn(["/bin/echo", "x"])


def test_a_name_that_is_not_listed_is_refused_for_good_and_not_looked_for() -> None:
    with pytest.raises(atf.Fatal, match="'sh' is not allowed") as refused:
        command("sh", "-c", "echo hi", allow="echo=/bin/echo")
    assert isinstance(of_exception(refused.value), GaveUp)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        ([], "give a program"),
        ([""], "give a program"),
        (["echo"] * (MAX_ARGUMENTS + 1), "1 to 1000"),
        (["echo", "a\0b"], "null character"),
        (["echo", "x" * MAX_ARGV_BYTES], "put what is large into a file"),
    ],
)
def test_arguments_that_cannot_be_passed_fail_for_good(argv: list[str], says: str) -> None:
    with pytest.raises(atf.Fatal, match=says):
        command(*argv, allow="echo=/bin/echo")


@pytest.mark.processes
def test_another_exit_code_fails_the_attempt_and_says_what_the_program_said() -> None:
    code = "import sys; print('half'); print('no such\\nthing: \\x07ünïon', file=sys.stderr); sys.exit(3)"
    with pytest.raises(atf.Retry) as failed:
        python(code)
    text = str(failed.value)
    assert text.splitlines()[:2] == ["exit code 3: thing: \\x07ünïon", 'stdout: "half\\n"']
    assert text.endswith("stderr:\nno such\nthing: \x07ünïon")
    assert read_failure(text) == ProgramFailure(3, "half\n")
    outcome = of_exception(failed.value)
    assert isinstance(outcome, RunFailed)
    assert read_failure(outcome.error) == ProgramFailure(3, "half\n")


@pytest.mark.processes
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_program_that_a_stop_of_its_host_has_ended_is_run_again(name: str) -> None:
    """A service manager signals every process of a host, in any order: the executor may hear of it a moment later."""
    looks = iter([False, False, True, True])
    with pytest.raises(atf.HandBack, match="a stop of this host"):
        python(f"import os, signal; os.kill(os.getpid(), signal.{name})", stopping=When(lambda: next(looks)))


@pytest.mark.processes
@pytest.mark.parametrize(("code", "stopping"), [("import os; os.kill(os.getpid(), 15)", False), ("exit(3)", True)])
def test_a_program_that_no_stop_has_ended_has_failed(code: str, stopping: bool) -> None:
    with pytest.raises(atf.Retry):
        python(code, stopping=When(lambda: stopping))


@pytest.mark.processes
def test_a_program_that_a_signal_ended_has_the_exit_code_of_a_shell() -> None:
    with pytest.raises(atf.Retry, match=r"^exit code 137\n"):
        python("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")


def test_an_error_stays_within_its_bound_whatever_was_printed() -> None:
    for byte in (b"x", b"\n", b"\x01", b"\xff", "ü".encode()):
        error = error_of(EndedProgram(255, byte * 70_000, byte * 70_000))
        assert len(error.encode()) <= MAX_ERROR_BYTES
        read = read_failure(error)
        assert read is not None
        assert read.exit_code == 255
        assert read.stdout
        assert (byte * 9_000).decode("utf-8", "replace").endswith(read.stdout)


@pytest.mark.parametrize(
    "text", ["", "lost with its executor", "exit code 3", 'exit code x\nstdout: ""', 'exit code 3\nstdout: "']
)
def test_another_error_is_none_of_a_program(text: str) -> None:
    assert read_failure(text) is None


@pytest.mark.processes
def test_output_up_to_the_bound_of_a_result_is_kept_and_more_is_refused() -> None:
    kept = python("print('x' * 65_000, end='')")
    assert kept["result"]["stdout"] == "x" * 65_000
    for code in (
        f"print('x' * {MAX_RESULT_BYTES}, end='')",  # it fits by itself, not with the rest
        "while True: print('x' * 1000)",
    ):
        with pytest.raises(atf.Fatal, match="print where that is"):
            python(code)


@pytest.mark.processes
def test_a_long_stderr_is_no_failure_and_its_end_is_kept() -> None:
    code = "import sys; sys.stderr.write('x' * 3_000_000 + 'end'); sys.exit(int(sys.argv[1]))"
    assert python(code, "0")["result"]["exit_code"] == 0
    with pytest.raises(atf.Retry, match=r"xend$"):
        python(code, "1")


@pytest.mark.processes
def test_what_is_no_utf_8_is_replaced() -> None:
    assert python("import os; os.write(1, b'a\\xffb')")["result"]["stdout"] == "a�b"


@pytest.mark.processes
def test_it_runs_in_an_empty_folder_that_goes_and_sees_nothing_of_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_PASSWORD", "hunter2")
    code = (
        "import os; open('made', 'w').close(); print(os.getcwd(), os.listdir(),"
        " sorted(os.environ.items()), os.read(0, 1), os.listdir('/proc/self/fd'), sep='\\n')"
    )
    folder, files, environment, stdin, open_files = python(code)["result"]["stdout"].splitlines()
    assert files == "['made']"
    assert not Path(folder).exists()
    assert dict(eval(environment)) == {
        "PATH": "/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "HOME": folder,
        "TMPDIR": folder,
        "ATF_TASK_ID": "0-abc",
        "ATF_ATTEMPT": "2",
        "ATF_FENCE": "77",
    }
    assert stdin == "b''"
    assert len(eval(open_files)) == 4, "its own three, and that of the folder it lists"


@pytest.mark.processes
def test_a_file_that_is_no_program_fails_the_attempt(tmp_path: Path) -> None:
    with pytest.raises(atf.Retry, match=r"nothing can't be started: .*No such file"):
        command("x", allow=f"x={tmp_path}/nothing")


@pytest.mark.processes
def test_a_run_that_is_to_stop_kills_the_program_and_all_that_it_started(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    code = (
        "import os, sys, time\n"
        "child = os.fork()\n"
        "if child: open(sys.argv[1] + '.part', 'w').write(f'{os.getpid()} {child}'); os.rename(sys.argv[1] + '.part', sys.argv[1])\n"
        "time.sleep(600)"
    )
    with pytest.raises(atf.Retry, match="killed"):
        python(code, str(ready), cancelled=When(ready.exists))
    for pid in ready.read_text().split():
        until_gone(int(pid))


@pytest.mark.processes
def test_what_a_program_leaves_behind_ends_with_it_and_keeps_nobody_waiting() -> None:
    code = "import os, time\npid = os.fork()\nif pid: print(pid)\nelse: time.sleep(600)"
    pid = python(code)["result"]["stdout"]
    until_gone(int(pid))


@pytest.mark.processes
def test_a_program_that_closes_its_output_is_waited_for() -> None:
    code = "import os, time; os.close(1); os.close(2); time.sleep(0.03); os._exit(7)"
    with pytest.raises(atf.Retry, match=r"^exit code 7\n"):
        python(code)


def until_gone(pid: int) -> None:
    """Waits until a process that was killed runs no more; one that nobody has reaped yet has ended, too."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        try:
            stat = Path(f"/proc/{pid}/stat").read_bytes()
        except OSError:
            return
        if stat.rpartition(b")")[2].split()[0] in {b"Z", b"X"}:
            return
    raise AssertionError(f"process {pid} still runs")


def test_the_list_of_programs_is_read_with_its_names() -> None:
    allowed = AllowedPrograms.parse(" a=/bin/a=b , /bin/x=y,,a=/bin/a=b")
    assert [allowed.path_of(each) for each in ("a", "/bin/x=y", "/bin/a=b", "")] == ["/bin/a=b", "/bin/x=y", None, None]
    assert not AllowedPrograms.parse("")


@pytest.mark.parametrize(
    "text",
    [
        "echo",
        "*",
        "bin/echo",
        "=/bin/echo",
        "a b=/bin/echo",
        "a=bin/echo",
        "/bin/../echo",
        "//bin/echo",
        "/bin/",
        "a=",
        "/bin/\x07",
    ],
)
def test_an_entry_that_names_no_program_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="command_allow"):
        ExecutorSettings(command_allow=f"/bin/true,{text}")


def test_one_name_for_two_programs_is_refused() -> None:
    with pytest.raises(ConfigError, match="'a' is given twice"):
        AllowedPrograms.parse("a=/bin/a,a=/bin/b")
