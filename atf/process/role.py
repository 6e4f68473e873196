"""Runs a role's process: event loop, signals, readiness, exit codes, and how an error ends it.

A role's main.py gives `run_role` a body. The first signal asks the body to drain, by `Process.stopping`; a second one ends the process
at once (stops.py). It loads neither gRPC nor Redis by itself; a guard has a frame of its own (executor/main.py).
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import platform
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import uvloop

from atf import __version__, log
from atf.calls.retry import RetryPolicy, retry
from atf.config.settings import LogSettings, SecuritySettings, StoreSettings, Timing
from atf.errors import AtfError, DeadlineExceeded, Internal, InvalidArgument, NotFound, ResourceExhausted, Unavailable
from atf.exits import EXIT_BAD_INPUT, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_OK, EXIT_UNAVAILABLE, READY_FD
from atf.metrics.metrics import Metrics, no_gauges
from atf.runtime import SystemRuntime, happens

from . import streams
from .descriptors import error_text, is_out_of_descriptors, watch
from .forks import keep_signals_from_children
from .memory import give_memory_back
from .metrics_access import MayRead, everybody, holders_of_own_token
from .service_manager import ServiceManager
from .stops import StopRequests, stop_signals

if TYPE_CHECKING:
    from atf.store.store import Store

T = TypeVar("T")

NO_SECURITY: Final = SecuritySettings()
_UNTIL_THERE: Final = RetryPolicy(
    first=0.1, most=2.0, errors=(Unavailable, DeadlineExceeded, ResourceExhausted, OSError)
)
_SAY_AGAIN_S: Final = 30.0
_COLLECTED: Final = (2_000, 10, 10)
"""Thresholds of garbage collection. With Python's own first one, 700, an HSC with 2,000 open calls spends a tenth of its time on looking through them
again and again; the command line starts with a larger one."""
_AT_ONCE_S: Final = 3.0
"""Seconds that a role has which does something before it ends at once."""


class StoppedEarly(Exception):
    """The process was asked to end before its body had what it needs."""


class Process:
    """What a role's body knows of its process.

    Attributes:
        role: the role's name.
        parts: the roles whose work it does, as the cluster and the metrics know them.
        stopping: set once the process was asked to end; the body then drains and returns.
        runtime: the real clocks.
        log: says events in the role's name.
        metrics: what it counts and measures.
        read_gauges: brings gauges up to date when somebody scrapes them.
        may_read: see MayRead.
        service_manager: is told when it serves, waits, drains.
        at_once: called when the process is to end at once. Returns whether the body ends by itself now, which may take _AT_ONCE_S;
            else the process ends there and then, as it does where this is None.
    """

    def __init__(self, role: str, parts: Sequence[str] = ()) -> None:
        self.role, self.parts = role, parts or (role,)
        self.stopping = asyncio.Event()
        self.metrics = Metrics()
        self.read_gauges: Callable[[], Coroutine[Any, Any, None]] = no_gauges
        self.may_read: MayRead = everybody
        self.metrics_address = ""
        self.at_once: Callable[[], bool] | None = None
        self._asked = StopRequests()
        self._insisted = 0
        self._serves = False
        self.runtime = SystemRuntime()
        self.log = log.get_logger()
        self.service_manager = ServiceManager(os.environ)
        # Taken out of the environment: a process that this one starts is not the one whose readiness is awaited.
        self._ready_fd = os.environ.pop(READY_FD, "")
        if self._ready_fd:
            os.set_inheritable(int(self._ready_fd), False)

    def ready(self, address: str = "", **more: str) -> None:
        """Says that the role serves, at `address` if it listens; and at `more` addresses by name, where they are not empty."""
        also = {name: each for name, each in {**more, "metrics": self.metrics_address}.items() if each}
        self._serves = True
        give_memory_back()
        self.log.info("ready", address=address, **also)
        self.service_manager.ready(f"serves at {address}" if address else "works")
        if self._ready_fd:
            self._tell_starter({"address": address, **also})

    @property
    def serves(self) -> bool:
        """Whether it has said that it is ready, and was not asked to end since."""
        return self._serves and not self.stopping.is_set()

    async def serve_metrics(self, listen: str, security: SecuritySettings) -> None:
        """Serves /metrics, /livez and /readyz until the process ends.

        Raises:
            ConfigError: it can't listen there, or may not without TLS and tokens.
        """
        from atf.metrics.server import MetricsServer

        security.check_listen(listen, "metrics_listen")
        tls = None
        if security.tls_cert:
            from atf.rpc.http_tls import http_context

            tls = http_context(security)
        if security.tls_cert or security.tls_ca:
            from .certificates import watch_certificates

            self.runtime.spawn(watch_certificates(security, self.metrics, self.runtime), name="certificates")
        if security.auth != "off" and self.may_read is everybody:
            from .security import wrong_tries_of

            self.may_read = holders_of_own_token(wrong_tries_of(self))
        self.metrics.begin(self.parts, __version__, platform.python_version())
        server = MetricsServer(self, asyncio.get_running_loop(), tls)
        await server.start(listen)
        self.metrics_address = server.address

    def failed(self, error: str) -> None:
        """Says to whoever waits for the role that it never serves, and why."""
        if self._ready_fd:
            self._tell_starter({"error": error})

    def _tell_starter(self, what: Mapping[str, str]) -> None:
        line = json.dumps({"role": self.role, "pid": os.getpid(), **what}) + "\n"
        descriptor, self._ready_fd = int(self._ready_fd), ""
        try:
            os.write(descriptor, line.encode())
            os.close(descriptor)
        except OSError as error:
            self.log.warning("nobody reads whether the role is ready", error=str(error))

    def stop(self, why: str) -> None:
        """Asks the body to drain and return. May be called again."""
        if not self.stopping.is_set():
            self.log.info("stopping", why=why)
            self.service_manager.stopping(why)
            self.stopping.set()

    async def give_signs_of_life(self) -> None:
        """Tells systemd again and again that the event loop goes round, where it wants to know; until cancelled."""
        while every := self.service_manager.alive_every_s:
            self.service_manager.alive()
            await asyncio.sleep(every)

    def catch_signals(self) -> None:
        """Takes the signals that ask to end. Called again, it takes them back from whoever has taken them since."""
        loop, signals = asyncio.get_running_loop(), stop_signals()
        for number in signals:
            loop.add_signal_handler(number, self._signalled, number)
        keep_signals_from_children(*signals)

    def ignore_signals(self) -> None:
        """Heeds no signal any more: the process is about to end by itself, with an exit code that says how."""
        loop = asyncio.get_running_loop()
        for number in stop_signals():
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_IGN)

    async def retry_until_available(self, attempt: Callable[[], Awaitable[T]], what: str) -> T:
        """Repeats `attempt` while what it needs is away, slow or full, and says what it waits for.

        Raises:
            Stopped: the process was asked to end meanwhile; the frame turns it into a clean exit.
            AtfError: what else `attempt` raised.
        """
        said, said_at = "", 0.0

        async def attempt_unless_stopped() -> T:
            if self.stopping.is_set():
                raise StoppedEarly
            return await attempt()

        def failed(error: Exception) -> None:
            nonlocal said, said_at
            if isinstance(error, OSError) and not is_out_of_descriptors(error):
                raise error
            now = self.runtime.monotonic()
            if str(error) != said or now - said_at > _SAY_AGAIN_S:
                self.log.warning("waiting", need=what, error=error_text(error))
                self.service_manager.waits(f"waits for {what}: {error_text(error)}")
                said, said_at = str(error), now

        def sleep(seconds: float) -> Awaitable[object]:
            return happens(self.stopping, seconds)

        return await retry(attempt_unless_stopped, _UNTIL_THERE, self.runtime, failed=failed, sleep=sleep)

    async def open_store(self, settings: StoreSettings, timing: Timing) -> Store:
        """The task store; waits for one that can't be reached.

        Raises:
            FailedPrecondition: it is there and does not fit (too old, other partitions); waiting would not help.
        """
        from atf.store.store import Store

        from .store_watch import StoreWatch

        store = await self.retry_until_available(lambda: Store.open(settings, timing, self.runtime), "the task store")
        store.metrics = self.metrics
        watching = StoreWatch(self.parts, store, self.runtime, self.log, self.stopping)
        await watching.say(store.check_results)
        self.runtime.spawn(watching.run(), name="task store settings")
        return store

    def _signalled(self, number: int) -> None:
        name = signal.Signals(number).name
        if not self._asked.at_once(number, self.runtime.monotonic()):
            self.stop(name)
            return
        self.log.warning("ending at once", signal=name)
        if self._insisted or self.at_once is None or not self.at_once():
            streams.exit_at_once(128 + number)
        self._insisted = number
        self.stop(name)
        asyncio.get_running_loop().call_later(_AT_ONCE_S, streams.exit_at_once, 128 + number)


def run_role(
    role: str,
    body: Callable[[Process], Awaitable[int | None]],
    settings: LogSettings,
    *,
    parts: Sequence[str] = (),
    metrics_listen: str = "",
    security: SecuritySettings = NO_SECURITY,
    first: Callable[[], None] | None = None,
    told: Callable[[], bool] = lambda: False,
) -> int:
    """Runs one role in this process until it ends.

    Args:
        role: its name.
        body: the role itself; what it returns is the exit code, None being 0.
        settings: what is said, and how.
        parts: the roles whose work it does; default: its own alone.
        metrics_listen: where to serve what it counts, host:port; empty: nowhere.
        security: who may read that, and how it is encrypted.
        first: called before any event loop runs: user code is imported there, which may run one of its own. A stop that comes meanwhile is
            carried out after it.
        told: whether somebody else says at ERROR why the role can't go on; its own line is then one at INFO.

    Returns:
        The exit code: 0 clean, 1 a bug, 2 a setting that breaks a rule, 3 not found, 4 something it needs refused it, 128 + n where
        signal n was the second that asked to end.
    """
    streams.protect_stdout()  # what lambdas print must not fail them
    log.setup(settings, role)
    process = Process(role, parts)
    early: list[int] = []
    """Signals that came before there was a loop."""

    async def frame() -> int:
        process.catch_signals()
        for number in early:
            process._signalled(number)
        process.runtime.spawn(watch(process.runtime, process.log), name="file descriptors")
        process.runtime.spawn(process.give_signs_of_life(), name="signs of life")
        if metrics_listen:
            await process.serve_metrics(metrics_listen, security)
        try:
            code = await body(process) or EXIT_OK
        except StoppedEarly:
            code = EXIT_OK
        return code or (128 + process._insisted if process._insisted else EXIT_OK)

    said = log.get_logger()
    try:
        if first is not None:
            signals = stop_signals()
            for number in signals:
                signal.signal(number, lambda which, _frame: early.append(which))
            keep_signals_from_children(*signals)
            first()
        gc.freeze()  # what was imported stays: no collection need look at it again
        gc.set_threshold(*_COLLECTED)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(frame())
    except AtfError as error:
        (said.info if told() else said.error)("can't go on", error=str(error), kind=error.reason)
        process.failed(str(error))
        return exit_code(error)
    except Exception as error:  # noqa: BLE001  the last place that can say it
        if is_out_of_descriptors(error):
            said.error("can't go on", error=error_text(error))
            return EXIT_UNAVAILABLE
        said.exception("ended by a bug", error=repr(error))
        return EXIT_FAILED


def exit_code(error: AtfError) -> int:
    """The exit code that stands for an error."""
    match error:
        case InvalidArgument():
            return EXIT_BAD_INPUT
        case NotFound():
            return EXIT_NOT_FOUND
        case Internal():
            return EXIT_FAILED
    return EXIT_UNAVAILABLE
