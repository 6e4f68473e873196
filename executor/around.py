"""Runs a lambda within the hooks of its app: enters them, calls the lambda, and leaves them in the reverse order.

A hook sees what the lambda raises, and may raise something else in its place. It can't make a success of a failure: what it swallows is raised
again, so that the hooks around it see the same, and so does the executor.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from atf.sdk.context import Context
from atf.sdk.hooks import AroundRun


class HookRaised(BaseException):
    """A hook raised an error of its own, which decides on the outcome of the run.

    Attributes:
        hook: its name.
        error: what it raised.
    """

    def __init__(self, hook: str, error: BaseException) -> None:
        super().__init__(hook, error)
        self.hook = hook
        self.error = error


def call_within(hooks: Sequence[AroundRun], ctx: Context, call: Callable[[], Any]) -> Any:
    """Calls a `def` within hooks that are not asynchronous.

    Returns:
        What the call returned. If that has to be awaited, so has what is returned here: it leaves the hooks then.

    Raises:
        HookRaised: a hook raised an error of its own.
        BaseException: what the call raised.
    """
    entered = _Entered()
    try:
        for hook in hooks:
            entered.enter(hook, ctx)
        value = call()
    except BaseException as error:
        entered.leave(error)
        raise
    if inspect.isawaitable(value):
        return _awaited(entered, value)
    entered.leave(None)
    return value


async def await_within(hooks: Sequence[AroundRun], ctx: Context, call: Callable[[], Awaitable[Any]]) -> Any:
    """Likewise calls and awaits an `async def`, within hooks of both kinds."""
    entered = _Entered()
    try:
        for hook in hooks:
            if hook.is_async:
                await entered.enter_async(hook, ctx)
            else:
                entered.enter(hook, ctx)
        value = call()
    except BaseException as error:
        await entered.leave_async(error)
        raise
    return await _awaited(entered, value)


async def _awaited(entered: _Entered, value: Any) -> Any:
    try:
        while inspect.isawaitable(value):
            value = await value
    except BaseException as error:
        await entered.leave_async(error)
        raise
    await entered.leave_async(None)
    return value


class _Entered:
    """The hooks that a run has entered."""

    def __init__(self) -> None:
        self._managers: list[tuple[AroundRun, Any]] = []
        self._raised_by = ""
        """The hook that raised what goes up now; empty: none, it is the lambda's."""

    def enter(self, hook: AroundRun, ctx: Context) -> None:
        self._raised_by = hook.name
        manager = hook.manager(ctx)
        manager.__enter__()
        self._note(hook, manager)

    async def enter_async(self, hook: AroundRun, ctx: Context) -> None:
        self._raised_by = hook.name
        manager = hook.manager(ctx)
        await manager.__aenter__()
        self._note(hook, manager)

    def _note(self, hook: AroundRun, manager: Any) -> None:
        self._managers.append((hook, manager))
        self._raised_by = ""

    def leave(self, error: BaseException | None) -> None:
        """Leaves them all; raises HookRaised if a hook's error decides on the outcome."""
        while self._managers:
            hook, manager = self._managers.pop()
            try:
                manager.__exit__(*_of(error))
            except BaseException as raised:  # noqa: BLE001  the hooks around it are left with it
                error = self._judged(hook, error, raised)
        self._end(error)

    async def leave_async(self, error: BaseException | None) -> None:
        while self._managers:
            hook, manager = self._managers.pop()
            try:
                if hook.is_async:
                    await manager.__aexit__(*_of(error))
                else:
                    manager.__exit__(*_of(error))
            except BaseException as raised:  # noqa: BLE001  the hooks around it are left with it
                error = self._judged(hook, error, raised)
        self._end(error)

    def _judged(self, hook: AroundRun, before: BaseException | None, raised: BaseException) -> BaseException:
        if raised is not before:
            self._raised_by = hook.name
        return raised

    def _end(self, error: BaseException | None) -> None:
        if error is not None and self._raised_by:
            raise HookRaised(self._raised_by, error) from None


def _of(error: BaseException | None) -> tuple[Any, Any, Any]:
    return (None, None, None) if error is None else (type(error), error, error.__traceback__)
