"""stdout and stderr that neither fail nor block: full disks, readers that have ended, readers that read no more, descriptors that are closed."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from atf.process import safe_output, streams
from atf.process.safe_output import SafeOutput

PATIENCE_S = 20.0
DISK = 99


class Disk:
    """What stands for os.write in the thread that writes: a disk that is full when told so, and takes a part of a write when told so."""

    def __init__(self) -> None:
        self.written = b""
        self.room: int | None = None
        self.error = errno.ENOSPC

    def write(self, descriptor: int, data: bytes) -> int:
        if descriptor != DISK:  # a thread that another test has left says what it has lost
            return safe_output.WRITE(descriptor, data)
        count = len(data) if self.room is None else min(self.room, len(data))
        if not count:
            raise OSError(self.error, os.strerror(self.error))
        if self.room is not None:
            self.room -= count
        self.written += data[:count]
        return count


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(safe_output.os, "write", made.write)  # type: ignore[attr-defined]
    return made


@pytest.fixture
def output(disk: Disk) -> Iterator[SafeOutput]:
    made = SafeOutput(DISK, "disk")
    yield made
    made.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def put(output: SafeOutput, lines: bytes) -> None:
    """Writes, and waits until the thread is done with it."""
    output.write(lines)
    assert output.wait_written(PATIENCE_S)


def test_whole_lines_are_written_and_half_ones_when_they_are_flushed(disk: Disk, output: SafeOutput) -> None:
    put(output, b"one\ntw")
    assert disk.written == b"one\n"
    put(output, b"o\nthr")
    assert disk.written == b"one\ntwo\n"
    output.flush()
    until(lambda: disk.written == b"one\ntwo\nthr")


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EPIPE, errno.EBADF, errno.EDQUOT])
def test_what_fails_is_dropped_and_told_of_when_there_is_room_again(disk: Disk, output: SafeOutput, error: int) -> None:
    disk.room, disk.error = 0, error
    put(output, b"one\ntwo\n")
    put(output, b"three\n")
    assert (disk.written, output.lost) == (b"", 3)
    disk.room = None
    put(output, b"four\n")
    put(output, b"five\n")
    assert disk.written.decode() == f"3 lines are missing here: {os.strerror(error)}\nfour\nfive\n"
    assert output.lost == 0


def test_a_line_that_broke_off_does_not_run_into_the_next_one(disk: Disk, output: SafeOutput) -> None:
    disk.room = 6
    put(output, b"one\ntwo\nthree\n")
    assert (disk.written, output.lost) == (b"one\ntw", 2)
    disk.room = None
    put(output, b"four\n")
    assert disk.written == b"one\ntw\n2 lines are missing here: No space left on device\nfour\n"


def test_the_notice_may_be_of_another_form(disk: Disk, output: SafeOutput) -> None:
    output.notice = lambda lines, why: f"{lines}/{why}"
    disk.room = 0
    put(output, b"one\n")
    disk.room = None
    put(output, b"two\n")
    assert disk.written == b"1/No space left on device\ntwo\n"


@pytest.fixture
def pipe() -> Iterator[tuple[int, SafeOutput]]:
    """A pipe that nobody reads, but the test."""
    reader, writer = os.pipe()
    output = SafeOutput(writer, "pipe", closes=True)
    yield reader, output
    os.close(reader)
    output.close()


def test_who_writes_waits_once_for_a_reader_that_reads_no_more(pipe: tuple[int, SafeOutput]) -> None:
    reader, output = pipe
    line = b"x" * 1023 + b"\n"
    began = time.monotonic()
    for _ in range(4000):  # four times what is kept
        output.write(line)
    output.flush()
    assert time.monotonic() - began < 5.0  # 4,000 waits would be 400 s
    assert output.lost > 2000

    taken = bytearray()
    while b"missing" not in taken:
        taken += os.read(reader, 1 << 16)
    whole, _, notice = bytes(taken).rpartition(line)
    assert notice.endswith(b" lines are missing here: nobody read them\n")
    assert (len(whole) >> 10) + 1 + int(notice.split()[0]) == 4000


def test_a_pipe_gets_its_lines_where_somebody_has_taken_poll_away(
    pipe: tuple[int, SafeOutput], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As eventlet does: each line to a pipe ended in an AttributeError."""
    reading, output = pipe
    monkeypatch.delattr(safe_output.select, "poll")  # type: ignore[attr-defined]
    output.write(b"one line\n")
    assert os.read(reading, 100) == b"one line\n"


def test_the_end_of_a_process_is_not_held_up(pipe: tuple[int, SafeOutput]) -> None:
    reader, output = pipe
    for _ in range(300):
        output.write(b"x" * 1023 + b"\n")
    began = time.monotonic()
    assert not output.wait_written(0.01)
    output.end()
    output.write(b"dropped\n")
    output.flush()
    assert time.monotonic() - began < PATIENCE_S
    os.set_blocking(reader, False)
    taken = bytearray()
    with contextlib.suppress(BlockingIOError):
        while data := os.read(reader, 1 << 16):
            taken += data
    assert b"dropped" not in taken


def test_many_threads_write_whole_lines(disk: Disk, output: SafeOutput) -> None:
    def work(name: int) -> None:
        for number in range(200):
            output.write(b"%d %d\n" % (name, number))

    threads = [threading.Thread(target=work, args=(name,)) for name in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert output.wait_written(PATIENCE_S)
    lines = [tuple(map(int, each.split())) for each in disk.written.splitlines()]
    assert sorted(lines) == [(name, number) for name in range(8) for number in range(200)]
    for name in range(8):
        assert [number for each, number in lines if each == name] == list(range(200))


def test_a_log_file_is_there_when_it_is_closed(tmp_path: Path) -> None:
    with streams.open_log(tmp_path / "log") as log:
        print("naïve ✓", file=log)
        print("half", end="", file=log)
    assert (tmp_path / "log").read_text("utf-8") == "naïve ✓\nhalf"


# --- whole processes --------------------------------------------------------------------------------------------------

PROGRAM = """
import os, sys, threading
from atf.process import streams
streams.protect()
streams.protect_stdout()
{body}
"""


def run(body: str, shell: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-c", PROGRAM.format(body=body)]
    if shell:
        command = ["bash", "-c", f'set -o pipefail; "$@" {shell}', "bash", *command]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1]), **more}
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=50, check=False)


CLOSED = """
import grpc
from concurrent import futures
begun, over = threading.Event(), threading.Event()
class Silent(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda *_: begun.set() or over.wait(20) and b"")
server = grpc.server(futures.ThreadPoolExecutor(1), [Silent()])
channel = grpc.insecure_channel(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
server.start()
call = channel.unary_unary("/a/b").future(b"")
assert begun.wait(20)
server.stop(0)
assert call.exception(20) is not None
lost = threading.Event()
channel.subscribe(lambda state: state is grpc.ChannelConnectivity.READY or lost.set())
assert lost.wait(20)
over.set()
channel.close()
"""


@pytest.mark.processes
def test_grpc_writes_no_lines_of_its_own_unless_it_is_asked_to() -> None:
    """A connection that a peer closed was a line of bare text between lines of JSON."""
    assert run(CLOSED).stderr == ""
    assert run("print(os.environ['GRPC_VERBOSITY'])", GRPC_VERBOSITY="DEBUG").stdout == "DEBUG\n"


@pytest.mark.processes
def test_lines_of_the_end_are_there() -> None:
    ended = run("print('one'); print('two', end=''); print('three', file=sys.stderr); sys.exit(7)")
    assert (ended.returncode, ended.stdout, ended.stderr) == (7, "one\ntwo", "three\n")


@pytest.mark.processes
@pytest.mark.parametrize(
    "shell",
    [">/dev/full 2>&1", ">&- 2>&- <&-", "2>/dev/full", "2>&-", ">&-", "<&-", "| true", "2>&1 | true"],
)
def test_no_write_error_shows_in_the_exit_code(shell: str) -> None:
    body = "for n in range(300): print('x' * 1000); print('y' * 1000, file=sys.stderr, flush=True)\nsys.exit(7)"
    ended = run(body, shell)
    assert ended.returncode == 7
    assert "Exception" not in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.processes
def test_lines_that_stdout_has_lost_are_told_of_on_stderr() -> None:
    ended = run("print('one'); print('two')", ">/dev/full")
    assert (ended.returncode, ended.stderr) == (0, "2 lines of stdout are missing: No space left on device\n")
    ended = run("print('one')", ">&-")
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.processes
def test_what_is_closed_is_not_taken_for_something_else(tmp_path: Path) -> None:
    """A file or connection that is opened later must not get what is said."""
    body = "opened = open(os.environ['FILE'], 'w'); os.write(2, b'said'); print(opened.fileno(), file=opened)"
    ended = run(body, ">&- 2>&- <&-", FILE=str(tmp_path / "file"))
    assert ended.returncode == 0
    assert int((tmp_path / "file").read_text()) > 2


@pytest.mark.processes
def test_user_code_that_closes_its_outputs_silences_nobody_else() -> None:
    body = """
from atf import log
from atf.config.settings import LogSettings
log.setup(LogSettings(log_format="json"), "executor")
sys.stdout.close(); sys.stderr.close()
print("out"); log.get_logger().warning("said")
sys.exit(7)
"""
    ended = run(body)
    assert (ended.returncode, ended.stdout, '"event": "said"' in ended.stderr) == (7, "out\n", True)


@pytest.mark.processes
def test_a_forked_child_says_what_it_says_and_nothing_twice() -> None:
    body = """
print("parent")
if child := os.fork():
    os.waitpid(child, 0)
else:
    print("child")
    sys.stdout.flush()
    os._exit(0)
"""
    assert sorted(run(body).stdout.split()) == ["child", "parent"]
    assert run(body, ">/dev/full").returncode == 0


@pytest.mark.processes
def test_a_text_that_the_terminal_can_not_show_is_escaped() -> None:
    ended = run("print('≤ 5 µs'); print('✓', file=sys.stderr)", PYTHONIOENCODING="ascii")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "\\u2264 5 \\xb5s\n", "\\u2713\n")


@pytest.mark.processes
def test_a_signals_handler_may_write_while_its_thread_does() -> None:
    body = """
import signal
signal.signal(signal.SIGALRM, lambda *_: print("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
for n in range(20000): print(n)
signal.setitimer(signal.ITIMER_REAL, 0)
sys.exit(7)
"""
    ended = run(body)
    assert (ended.returncode, "19999" in ended.stdout, "alarm" in ended.stdout) == (7, True, True)
