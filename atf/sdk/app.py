"""An app: a namespace of lambdas, which are task types. Collects what `@app.task` decorates; sends nothing."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, Unpack, overload

from atf.errors import InvalidArgument
from atf.task import check_name

from .context import Context
from .default_client import default_client
from .handlers import check_handler, is_async, is_nested
from .hooks import AroundRun, AroundRunFunction, WorkerHook, WorkerHookFunction, around_run, worker_hook
from .lambdas import AsyncLambda, DefLambda, Lambda
from .option_kinds import BatchOptions, LambdaOptions
from .option_names import check_names
from .schedulable import Schedulable

if TYPE_CHECKING:
    from .batch_handle import Batch

P = ParamSpec("P")
R = TypeVar("R")
WorkerHookT = TypeVar("WorkerHookT", bound=WorkerHookFunction)
AroundRunT = TypeVar("AroundRunT", bound=AroundRunFunction)


class _Nothing:
    """Fits a first parameter only if anything does: one annotated Any or object, or not at all."""


_Handler = Callable[P, R] | Callable[Concatenate[Context, ...], R]
"""A handler without a context. The second half makes mypy take none with a context for one: it can't say then what P is. Else both
would fit where a type has Any in it (`-> dict`), and mypy would leave the whole lambda unchecked."""


class TaskDecorator(Protocol):
    """What `@app.task(...)` with options is: it turns a handler into a lambda.

    The overloads overlap on purpose, the narrowest first. A first parameter that takes anything can't be told from a
    context by its type, so such a lambda's arguments are left unchecked; then come a context, and any other parameters.
    """

    @overload
    def __call__(self, fn: Callable[Concatenate[_Nothing, ...], Coroutine[Any, Any, R]], /) -> AsyncLambda[..., R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[_Nothing, ...], R], /) -> DefLambda[..., R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncLambda[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: Callable[Concatenate[Context, P], R], /) -> DefLambda[P, R]: ...
    @overload
    def __call__(self, fn: _Handler[P, Coroutine[Any, Any, R]], /) -> AsyncLambda[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, fn: _Handler[P, R], /) -> DefLambda[P, R]: ...


class App:
    """A namespace of lambdas, which are task types.

    Args:
        namespace: the part of their names before the slash; 1 to 64 of the characters A-Z a-z 0-9 . _ -

    Attributes:
        start_hooks, stop_hooks: of the worker processes that run the app, in the order in which they were declared.

    Raises:
        InvalidArgument: the namespace has other characters.
    """

    def __init__(self, namespace: str) -> None:
        self.namespace = check_name(namespace, "namespace")
        self.start_hooks: list[WorkerHook] = []
        self.stop_hooks: list[WorkerHook] = []
        self._around: list[AroundRun] = []
        self._lambdas: dict[str, Lambda[..., Any]] = {}

    @property
    def lambdas(self) -> Mapping[str, Lambda[..., Any]]:
        """The lambdas by full name, "namespace/name"."""
        return MappingProxyType(self._lambdas)

    def __repr__(self) -> str:
        return f"<App {self.namespace}, {len(self._lambdas)} lambdas>"

    @overload
    def task(self, fn: Callable[Concatenate[_Nothing, ...], Coroutine[Any, Any, R]], /) -> AsyncLambda[..., R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[Concatenate[_Nothing, ...], R], /) -> DefLambda[..., R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /) -> AsyncLambda[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: Callable[Concatenate[Context, P], R], /) -> DefLambda[P, R]: ...
    @overload
    def task(self, fn: _Handler[P, Coroutine[Any, Any, R]], /) -> AsyncLambda[P, R]: ...  # type: ignore[overload-overlap]
    @overload
    def task(self, fn: _Handler[P, R], /) -> DefLambda[P, R]: ...
    @overload
    def task(self, **options: Unpack[LambdaOptions]) -> TaskDecorator: ...
    def task(self, fn: Callable[..., Any] | None = None, /, **options: Unpack[LambdaOptions]) -> Any:  # type: ignore[misc]  # it does: mypy compares the unpacked names with the positional one
        """Makes a lambda, which is a task type, of a handler: `@app.task`, or `@app.task(max_attempts=5)`.

        The handler is a `def` or an `async def`, or another callable that can be given its arguments by name; see docs/how-to/handlers.md.
        If its first parameter is annotated `atf.Context`, it gets the run's context there; callers never give it. Its other
        parameters travel as JSON by name, in the types of their annotations. It fails for good by raising `atf.Fatal`, and may
        be tried again after any other exception.

        Args:
            fn: the handler, where the decorator stands without brackets.
            name: the lambda's name within the namespace; default the function's.
            aliases: names that parameters had before, such as {"color": "colour"}: payloads that were made under them still decode.
            redact: parameters whose values nobody is to see, such as ["password"]: "[redacted]" stands for them in errors, logs and listings; see
                docs/how-to/operations.md, *What nobody is to see*.
            search: parameters by whose values tasks are found, such as ["order_id"]: `atf ls --search order_id=7`. At most 8, none redacted.
            max_attempts: runs that may fail before the task is a dead letter; default 10.
            max_losses: runs that may end with their executor; default 3.
            timeout: seconds, a timedelta or text such as "5m" that one run may take; default no bound.
            backoff: the waits between attempts; default Backoff(1, factor=2, max=600, jitter=0.1).
            retention: seconds, a timedelta or text such as "5m" that the record of a finished task is kept; default a day.
            priority: "high", "normal", "low", or 0 (high) to 9; default normal.
            schedule: the lambda is a job, too, of its own name, which executors register: cron, macro, `@every` or a period.
            tz: by whose clocks the schedule is read; default UTC.
            job: what else a job may say, such as {"misfire": "all"}; see atf.sdk.job.JobOptions.
            queue_limit: entries that one queue of the lambda holds; the rest waits in the task store. Default 100,000.
            enqueue_timeout: seconds, a timedelta or text such as "5m" after which a queued id is looked at again, later if far from the front; default 10.
            owner, runbook: who answers for it, and where it says what to do when it fails; for people.
            rate: tasks a second that are started, over the cluster; default no bound.
            burst: the most of them that any one second sees; default what the rate needs.
            max_running: tasks that run at once, over the cluster; default no bound.
            max_pending: unfinished tasks; beyond them `schedule` raises ResourceExhausted. Default no bound.
            shares: by priority the least share of what is started, such as {"low": 0.1}, so that it never starves.
            pool: the worker cluster that runs it; default any worker that names no pool.
            placement: "any" worker host that has room (the default), "sticky" (see affinity_key) or "spread".
            stop_on_fatal: an ordering key stops at a task that fails for good, until somebody resumes or skips it.
            version: of its code, a number that grows; a redrive can ask for a newer one than what failed.
            isolate: each run of this `def` has a process of its own on its worker, which can be killed alone; see docs/how-to/processes.md.
            gate_at_fatal: it is paused by itself once this share of a minute's runs failed for good; default never.
            logs: of which runs the newest 16 KiB of what they print and log are kept with the task: "failed", which is the default, "all" or
                "none". `atf logs ID` shows them.
            slo: how soon its tasks start, such as "5s 99%": 99 % within 5 s of being due; default "5s 95%". It changes nothing of how they run.

        Raises:
            TypeError: it can't be a handler (*args, positional-only, a generator, a class …), or there is no such option; says why.
            InvalidArgument: an option breaks its rule, the name is taken, or an alias or `redact` stands for no parameter.
        """
        check_names("@app.task", options, LambdaOptions.__annotations__)

        def decorate(handler: Callable[..., Any], /) -> Lambda[..., Any]:
            return self._add(handler, options)

        return decorate if fn is None else decorate(fn)

    def on_worker_start(self, hook: WorkerHookT, /) -> WorkerHookT:
        """Has each worker process call a function before it asks for its first task; see docs/how-to/hooks.md.

        Hooks run in the order in which they are declared. If one raises, the executor does not start.

        Args:
            hook: a `def`, or an `async def` that runs on the loop of the `async def` lambdas; without parameters.

        Raises:
            TypeError: it can't be such a hook; says why.
        """
        self.start_hooks.append(worker_hook("on_worker_start", hook))
        return hook

    def on_worker_stop(self, hook: WorkerHookT, /) -> WorkerHookT:
        """Has each worker process call a function after its last run has ended; see docs/how-to/hooks.md.

        Hooks run in the reverse order of their declaration, within what is left of the executor's drain_timeout. If one raises, that is
        logged, and the others run.

        Args, Raises: as for `on_worker_start`.
        """
        self.stop_hooks.append(worker_hook("on_worker_stop", hook))
        return hook

    def around_run(self, hook: AroundRunT, /) -> AroundRunT:
        """Runs a function around each run of the app's lambdas: what stands before its `yield` first, then the lambda, then the rest.

        The hook that was declared first is the outermost one. What the lambda raises is raised at the `yield`, too. See docs/how-to/hooks.md.

        Args:
            hook: a generator function with one `yield`, or what makes a context manager; it is given the run's `atf.Context`. An
                asynchronous one runs around `async def` lambdas alone.

        Raises:
            TypeError: it can't be such a hook; says why.
        """
        self._around.append(around_run(hook))
        for each in self._lambdas.values():
            each.run_within(self._around)
        return hook

    def batch(
        self, of: Schedulable[..., Any] | str, items: Iterable[Any], **options: Unpack[BatchOptions]
    ) -> Batch[Any]:
        """Schedules a task for each element, as a batch, by the default client; blocks until all are stored.

        Args:
            of: the lambda, perhaps with options, or its name; without a slash, one of this app.
            items, options: as for `AsyncClient.batch`, and so is what is raised.
        """
        return default_client().batch(self._one(of), items, **options)

    async def batch_async(
        self,
        of: Schedulable[..., Any] | str,
        items: Iterable[Any] | AsyncIterable[Any],
        **options: Unpack[BatchOptions],
    ) -> Batch[Any]:
        """Like `batch`, from any event loop; the elements may come asynchronously."""
        return await default_client().batch_async(self._one(of), items, **options)

    def _one(self, of: Schedulable[..., Any] | str) -> Schedulable[..., Any] | str:
        """What a name stands for here: the lambda itself, or the full name of another app's."""
        if not isinstance(of, str):
            return of
        name = of if "/" in of else f"{self.namespace}/{of}"
        return self._lambdas.get(name, name)

    def _add(self, handler: Any, options: LambdaOptions) -> Lambda[..., Any]:
        if isinstance(handler, Lambda):  # another app's, or under another name: the same handler
            handler = handler.fn
        check_handler(handler)
        kind = AsyncLambda if is_async(handler) else DefLambda
        added: Lambda[..., Any] = kind(handler, self.namespace, options)
        if added.name in self._lambdas:
            wraps = ", or the wrapper of their decorator @functools.wraps" if is_nested(handler) else ""
            raise InvalidArgument(f"lambda {added.name} is defined twice; give one of the two another name={wraps}")
        added.run_within(self._around)
        self._lambdas[added.name] = added
        return added
