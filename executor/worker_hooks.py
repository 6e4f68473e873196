"""Calls the hooks of a worker process when it starts and when it stops. Where they run, whoever makes it says."""

from __future__ import annotations

import asyncio
import inspect
import threading  # noqa: TID251  a hook may block, and nothing can stop it then
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future  # noqa: TID251  how its thread answers
from typing import Final

from atf.errors import ConfigError, message_of
from atf.log import get_logger
from atf.sdk.app import App
from atf.sdk.hooks import WorkerHook
from atf.sdk.loading import where

from .outcome import reason

Run = Callable[[WorkerHook], Awaitable[object]]

Doing = Callable[[str], object]
"""Is told what goes on from now on, such as "running @app.on_worker_start shop.connect"."""

_log: Final = get_logger(duty="hooks")


def nobody(_what: str) -> None:
    """Nobody is told."""


def not_started(hook: WorkerHook, error: BaseException) -> ConfigError:
    """What keeps an executor from starting whose hook raised."""
    return ConfigError(f"{hook.name}: {where(error)}{type(error).__name__}: {message_of(error)}")


def call_start_hooks(apps: Sequence[App], doing: Doing = nobody) -> None:
    """Calls the start hooks of apps that are no `async def`, in this thread.

    Args:
        apps: whose.
        doing: told of each before it is called.

    Raises:
        ConfigError: one raised; names it.
    """
    for hook in [hook for app in apps for hook in app.start_hooks if not hook.is_async]:
        doing(f"running {hook.name}")
        try:
            hook.call()
        except BaseException as error:  # SystemExit says no more than any other
            raise not_started(hook, error) from error


class WorkerHooks:
    """The hooks of one worker process.

    Args:
        apps: whose, in their order.
        run: calls one, and waits for it.
    """

    def __init__(self, apps: Sequence[App], run: Run) -> None:
        self._starts = [hook for app in apps for hook in app.start_hooks]
        self._stops = [hook for app in apps for hook in app.stop_hooks][::-1]
        self._run = run

    async def start(self, doing: Doing = nobody) -> None:
        """Calls the start hooks, one after another.

        Args:
            doing: told of each before it is called.

        Raises:
            ConfigError: one raised; names it. Those after it are not called.
        """
        for hook in self._starts:
            doing(f"running {hook.name}")
            try:
                await self._run(hook)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # SystemExit says no more than any other
                raise not_started(hook, error) from error

    async def stop(self, within_s: float) -> None:
        """Calls the stop hooks, one after another, and says which raise. Called again, it does nothing.

        Args:
            within_s: seconds that all of them have together; those that are not called then are named.
        """
        stops, self._stops = self._stops, []
        until = asyncio.get_running_loop().time() + within_s
        for number, hook in enumerate(stops):
            left_s = until - asyncio.get_running_loop().time()
            limit = asyncio.timeout(left_s)
            try:
                if left_s > 0:
                    async with limit:
                        await self._run(hook)
            except asyncio.CancelledError:
                raise
            except BaseException as error:  # noqa: BLE001  the other hooks run all the same
                if not limit.expired():
                    _log.error("stop hook failed", hook=hook.name, error=reason(error))
            if left_s <= 0 or limit.expired():
                late = ", ".join(each.name for each in stops[number:])
                _log.error("stop hooks cut: drain_timeout is over", hooks=late)
                return


async def run_here(hook: WorkerHook) -> None:
    """Runs a hook on the loop that runs."""
    value = hook.call()
    if inspect.isawaitable(value):
        await value


def run_apart(lambdas_loop: Callable[[], asyncio.AbstractEventLoop]) -> Run:
    """Runs each `def` in a thread of its own, and each `async def` on the loop of the lambdas that are: this loop goes on meanwhile.

    Args:
        lambdas_loop: gives that loop, which turns.
    """

    async def run(hook: WorkerHook) -> None:
        done = asyncio.run_coroutine_threadsafe(_told(hook), lambdas_loop()) if hook.is_async else _in_thread(hook)
        error = await asyncio.wrap_future(done)
        if isinstance(error, asyncio.CancelledError):
            raise RuntimeError("it was cancelled") from error  # else it would count as a cancellation of ours
        if error is not None:
            raise error

    return run


async def _told(hook: WorkerHook) -> BaseException | None:
    """Runs a hook, and returns what it raised: asyncio would let SystemExit end the loop."""
    try:
        await run_here(hook)
    except BaseException as error:  # noqa: BLE001  whoever waits raises it
        return error
    return None


def _in_thread(hook: WorkerHook) -> Future[BaseException | None]:
    done: Future[BaseException | None] = Future()
    done.set_running_or_notify_cancel()

    def call() -> None:
        try:
            hook.call()
            done.set_result(None)
        except BaseException as raised:  # noqa: BLE001  whoever waits raises it
            done.set_result(raised)

    threading.Thread(target=call, name="hook", daemon=True).start()
    return done
