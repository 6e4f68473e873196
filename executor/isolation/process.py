"""Is the process of one isolated run: forked by the fork server, ends with the run.

Runs the lambda as a worker of the worker would (perform.py), and has the worker do what needs the executor. It has no part in leases,
claims or reports.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import signal
import socket
import sys
import threading  # noqa: TID251  a lambda may start threads, and use its context there
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn

from atf.errors import BY_REASON, FailedPrecondition, Internal
from atf.executor import run_span
from atf.executor.guarding.group import children_of, read_briefly
from atf.executor.held import HeldTask
from atf.executor.output import capture as output
from atf.executor.perform import Performer, Unawaited
from atf.exits import EXIT_FORKED
from atf.process.forks import keep_signals_from_children
from atf.process.stops import stop_signals
from atf.process.streams import lead_elsewhere, wait_written
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime
from atf.sdk.lambdas import Lambda
from atf.task import MAX_LOG_BYTES, MAX_PROGRESS_BYTES, clip

from .packets import DESCRIPTORS, pack, pack_outcome, receive, unpack

LITTLE_BYTES: Final = 16 << 20
"""The kernel frees so much in about a ms."""
_ALL_SIGNALS: Final = signal.valid_signals()
_LIBC: Final = ctypes.CDLL(None)


class Talk:
    """The run's end of the socket to its worker, and what stands behind ctx.stopping and ctx.first_time.

    Attributes:
        cancelled, timed_out, draining: what the worker has said.
    """

    def __init__(self, connection: socket.socket) -> None:
        self.cancelled = self.timed_out = self.draining = False
        self._socket: socket.socket | None = connection
        self._listening = threading.Lock()
        self._answer: list[Any] = []
        os.register_at_fork(after_in_child=self._forked)

    def tell(self, packet: bytes) -> None:
        """Sends a packet; a worker that is gone needs none."""
        if self._socket is not None:
            with contextlib.suppress(ConnectionError):
                self._socket.send(packet)

    def listen(self) -> None:
        """Takes what has arrived."""
        if self._socket is None or not self._listening.acquire(blocking=False):
            return  # another thread is about to take it
        try:
            while packet := receive(self._socket, socket.MSG_DONTWAIT):
                self._take(packet)
        except BlockingIOError:
            pass
        finally:
            self._listening.release()

    def is_set(self) -> bool:
        """Makes this the flag behind ctx.stopping."""
        self.listen()
        return self.draining

    async def ask_async(self, key: str, ttl_us: int) -> bool:
        """`ask` for an `async def`, which has this process for itself."""
        return self.ask(key, ttl_us)

    def ask(self, key: str, ttl_us: int) -> bool:
        """Asks the worker whether the task is the first for a key.

        Raises:
            AtfError: there was none, or it was refused.
        """
        if self._socket is None:
            raise FailedPrecondition("this process was forked by an isolated run: ask in the lambda itself")
        with self._listening:
            self.tell(pack("first_time", key, ttl_us))
            while not self._answer:
                said = receive(self._socket)
                if not said:
                    raise Internal("the worker of this run is gone")
                self._take(said)
            answer, self._answer = self._answer, []
        match answer:
            case ["answer", bool(first)]:
                return first
            case ["error", str(reason), str(sentence)]:
                raise BY_REASON.get(reason, Internal)(sentence)
        raise Internal(f"an answer that nobody understands: {answer[0]}")

    def _take(self, packet: bytes) -> None:
        match unpack(packet):
            case ["cancel", bool(timed_out)]:
                self.cancelled, self.timed_out = True, timed_out
            case ["drain"]:
                self.draining = True
            case answer:
                self._answer = answer

    def _forked(self) -> None:
        """In a child of the run: it would take what is said to its parent."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class _IsolatedTask(HeldTask):
    """The run's task as its own process has it."""

    __slots__ = ("_talk",)

    def __init__(self, claim: t.Claim, talk: Talk, now: float) -> None:
        super().__init__(claim, 0, now)
        self._talk = talk

    def is_set(self) -> bool:
        self._talk.listen()
        self.cancelled, self.timed_out = self._talk.cancelled, self._talk.timed_out
        return self.cancelled

    @property
    def encrypts(self) -> bool:
        """As the worker does it, which has the keys."""
        return bool(os.environ.get("ATF_CODEC_KEYS"))

    def say(self, progress: str) -> None:
        self._talk.tell(pack("progress", clip(self.redact(progress), MAX_PROGRESS_BYTES)))

    def keep(self, line: bytes, cut: int = 0) -> None:
        """Has the worker keep it: there it is still, should this process crash."""
        kept = line[-MAX_LOG_BYTES:]
        self._talk.tell(pack("log", kept, cut + len(line) - len(kept)))


def serve_one(lambdas: Mapping[str, Lambda[..., Any]], way: socket.socket, mask: set[int]) -> NoReturn:
    """Waits for a run, runs it in this process, and ends it.

    Args:
        lambdas: by name.
        way: brings the run's descriptors (packets.py).
        mask: the signals that are to be blocked, once there are handlers.
    """
    # A stop may be sent to every process of a service; the worker decides what it means for the run.
    for number in stop_signals():
        signal.signal(number, lambda _number, _frame: None)
    keep_signals_from_children(*stop_signals())
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    with way:
        _, descriptors, _, _ = socket.recv_fds(way, 1, DESCRIPTORS)
    if not descriptors:
        os._exit(0)
    for each in descriptors:
        os.set_inheritable(each, False)  # not for what the lambda starts
    connection, memory, *outputs = descriptors
    lead_elsewhere(*outputs)
    run(lambdas, socket.socket(fileno=connection), memory)


def run(lambdas: Mapping[str, Lambda[..., Any]], connection: socket.socket, memory: int) -> NoReturn:
    """Runs the task whose claim is in the file `memory` in this process, and ends it. `connection`: to the worker."""
    pid = os.getpid()
    with os.fdopen(memory, "rb") as file:
        claim = t.Claim.FromString(file.read())
    before, runtime, talk = holds(), SystemRuntime(), Talk(connection)
    task = _IsolatedTask(claim, talk, runtime.monotonic())
    output.take_process()
    performer = Performer(lambdas, runtime, lambda _task_id, _lambda_name: talk, talk, begin_span=run_span.carry_on)
    outcome = performer.run(task)
    if isinstance(outcome, Unawaited):
        outcome = asyncio.run(performer.finish(task, outcome))
    if os.getpid() != pid:
        _flush()
        os._exit(EXIT_FORKED)  # a child that the lambda forked must not speak for it
    run_span.flush()
    _flush()  # first: once the outcome is known, the process may be killed
    talk.tell(pack_outcome(outcome))
    with contextlib.suppress(Exception):
        logging.shutdown()  # handlers of the user's, which may take their time
    wait_written()
    signal.pthread_sigmask(signal.SIG_BLOCK, _ALL_SIGNALS)  # from here on none of the run's code is called
    if leaves_nothing(before):
        talk.tell(pack("alone"))  # the worker need not wait until the kernel has taken the process apart
    os._exit(0)


class Holds(NamedTuple):
    """What a process holds that goes only with it."""

    descriptors: frozenset[str]
    memory_bytes: int


def holds() -> Holds:
    """What this process holds now."""
    resident = int(read_briefly("/proc/self/statm").split()[1])
    return Holds(frozenset(os.listdir("/proc/self/fd")), resident * os.sysconf("SC_PAGE_SIZE"))  # noqa: PTH208  twice as fast


def leaves_nothing(before: Holds) -> bool:
    """Whether the end of this process makes no difference to anybody: it has no other threads, no children, and little that it had not `before`.

    A file that it has locked, a port, or much memory would be missing for the next run, which begins a few ms earlier then.
    """
    try:
        now = holds()
        return (
            now.descriptors == before.descriptors
            and now.memory_bytes < before.memory_bytes + LITTLE_BYTES
            and len(os.listdir("/proc/self/task")) == 1  # noqa: PTH208
            and not children_of(os.getpid())
        )
    except OSError:  # it has no descriptor left to look with
        return False


def _flush() -> None:
    """Has written what the run has said until now."""
    for stream in (sys.stdout, sys.stderr):  # the lambda may have put anything in their places
        with contextlib.suppress(Exception):
            stream.flush()
    _LIBC.fflush(None)
    output.end()
    wait_written()
