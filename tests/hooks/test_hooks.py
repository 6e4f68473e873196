"""Hooks: what may be one, their order, and what their errors mean."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

import atf
from atf.errors import ConfigError
from atf.executor import worker_hooks
from atf.executor.held import HeldTask
from atf.executor.outcome import GaveUp, HandedBack, Outcome, Returned, RunFailed, RunStopped
from atf.executor.perform import Performer, Unawaited
from atf.executor.worker_hooks import WorkerHooks, call_start_hooks, run_apart, run_here
from atf.rpc import task_pb2 as t
from atf.runtime import SystemRuntime
from atf.testing import Harness
from tests.executor.world import claim, held
from tests.virtual import virtual

SEEN = contextvars.ContextVar("SEEN", default="")


class Hooked:
    """An app of which all that happens is written down."""

    def __init__(self) -> None:
        self.app = app = atf.App("k")
        self.seen: list[str] = []

        @app.task
        def work(how: str) -> str:
            self.seen.append(f"work {SEEN.get()}")
            return end_by(how)

        @app.task
        async def work_async(how: str) -> str:
            self.seen.append(f"work {SEEN.get()}")
            await asyncio.sleep(0)
            return end_by(how)

        async def later(how: str) -> str:
            await asyncio.sleep(0)
            self.seen.append("awaited")
            return end_by(how)

        @app.task
        def gives_awaitable(how: str) -> Any:
            return later(how)

    def around(self, name: str) -> None:
        """Declares a hook that writes down what it sees."""

        def hook(ctx: atf.Context) -> Iterator[None]:
            token = SEEN.set(SEEN.get() + name)
            self.seen.append(f"{name} {ctx.lambda_name}")
            try:
                yield
            except BaseException as error:
                self.seen.append(f"{name} saw {type(error).__name__}")
                raise
            finally:
                SEEN.reset(token)
            self.seen.append(f"{name} after")

        self.app.around_run(hook)

    def run(self, name: str, how: str = "well") -> Outcome:
        performer = Performer(self.app.lambdas, SystemRuntime())
        task = HeldTask(claim("0-a", f"k/{name}", b'{"how":"%s"}' % how.encode()), 0, 0.0)
        if performer.is_async(task):
            return asyncio.run(performer.run_async(task))
        outcome = contextvars.Context().run(performer.run, task)
        return asyncio.run(performer.finish(task, outcome)) if isinstance(outcome, Unawaited) else outcome


def end_by(how: str) -> str:
    match how:
        case "fail":
            raise ValueError("no")
        case "fatal":
            raise atf.Fatal("never")
        case "exit":
            raise SystemExit(3)
    return how


BOTH = pytest.mark.parametrize("name", ["work", "work_async"])


@BOTH
def test_the_first_declared_is_the_outermost_and_shares_the_context_of_the_run(name: str) -> None:
    hooked = Hooked()
    hooked.around("a")
    hooked.around("b")
    assert hooked.run(name) == Returned(b'"well"', t.JSON)
    assert hooked.seen == [f"a k/{name}", f"b k/{name}", "work ab", "b after", "a after"]


def test_a_lambda_that_is_declared_later_runs_within_them_too_and_another_apps_does_not() -> None:
    hooked, other = Hooked(), atf.App("other")
    hooked.around("a")
    late = hooked.app.task(name="late")(end_by)
    theirs = other.task(name="late")(late)
    assert [len(each.around) for each in (hooked.app.lambdas["k/work"], late, theirs)] == [1, 1, 0]
    assert late("well") == "well", "a plain call runs none"
    assert hooked.seen == []


@BOTH
@pytest.mark.parametrize("how", ["fail", "fatal", "exit"])
def test_every_hook_sees_what_the_lambda_raises_and_it_stays_the_outcome(name: str, how: str) -> None:
    hooked = Hooked()
    bare = hooked.run(name, how)
    hooked.seen.clear()
    hooked.around("a")
    hooked.around("b")
    outcome = hooked.run(name, how)
    kind = {"fail": "ValueError", "fatal": "Fatal", "exit": "SystemExit"}[how]
    assert hooked.seen[-2:] == [f"b saw {kind}", f"a saw {kind}"]
    assert type(outcome) is type(bare)
    assert "executor/around.py" not in str(outcome)
    assert isinstance(outcome, RunFailed | GaveUp)
    assert outcome.error.startswith(kind), "it is the lambda's own, and no hook is named"


@BOTH
def test_what_a_hook_swallows_is_raised_again(name: str) -> None:
    hooked = Hooked()
    hooked.around("a")

    @hooked.app.around_run
    def swallow(ctx: atf.Context) -> Iterator[None]:
        with contextlib.suppress(Exception):
            yield

    outcome = hooked.run(name, "fail")
    assert isinstance(outcome, RunFailed)
    assert outcome.error.startswith("ValueError: no")
    assert hooked.seen[-1] == "a saw ValueError", "the hook around it sees the same"


@BOTH
@pytest.mark.parametrize("when", ["before", "after", "instead"])
@pytest.mark.parametrize(
    ("error", "kind"),
    [(ValueError("odd"), RunFailed), (atf.Fatal("odd"), GaveUp), (atf.Retry("odd", after=7), RunFailed)],
    ids=["failed", "fatal", "retry"],
)
def test_an_error_of_a_hook_is_the_outcome_and_names_the_hook(
    name: str, when: str, error: Exception, kind: type[Outcome]
) -> None:
    hooked = Hooked()
    hooked.around("a")

    @hooked.app.around_run
    def odd(ctx: atf.Context) -> Iterator[None]:
        if when == "before":
            raise error
        try:
            yield
        except ValueError:
            raise error from None
        if when == "after":
            raise error

    outcome = hooked.run(name, "fail" if when == "instead" else "well")
    assert isinstance(outcome, kind)
    assert isinstance(outcome, RunFailed | GaveUp)
    assert outcome.error.startswith(f"@app.around_run {__name__}.")
    assert "odd: " in outcome.error.splitlines()[0]
    assert not isinstance(error, atf.Retry) or (isinstance(outcome, RunFailed) and outcome.after_s == 7)
    assert ("work a" in hooked.seen) == (when != "before")
    assert hooked.seen[-1] == f"a saw {type(error).__name__}"


@BOTH
def test_a_hook_may_hand_back(name: str) -> None:
    hooked = Hooked()

    @hooked.app.around_run
    def closed(ctx: atf.Context) -> Iterator[None]:
        if ctx.attempt:
            raise atf.HandBack("closed", after=9)
        yield

    outcome = hooked.run(name)
    assert isinstance(outcome, HandedBack)
    assert outcome.after_s == 9
    assert outcome.error.endswith("closed: closed")


def test_asynchronous_hooks_are_of_async_lambdas_and_take_their_place_in_the_order() -> None:
    hooked = Hooked()
    hooked.around("a")

    @hooked.app.around_run
    async def b(ctx: atf.Context) -> AsyncIterator[None]:
        await asyncio.sleep(0)
        hooked.seen.append("b")
        try:
            yield
        finally:
            await asyncio.sleep(0)
            hooked.seen.append("b after")

    hooked.around("c")
    hooked.run("work_async", "fail")
    assert hooked.seen == ["a k/work_async", "b", "c k/work_async", "work ac", "c saw ValueError", "b after", "a saw ValueError"]  # fmt: skip
    hooked.seen.clear()
    hooked.run("work")
    assert "b" not in hooked.seen


def test_a_cancelled_run_is_seen_and_stays_cancelled() -> None:
    hooked = Hooked()
    hooked.around("a")

    @hooked.app.task
    async def long() -> None:
        task.cancelled = True
        assert task.aio is not None
        task.aio.cancel()
        await asyncio.sleep(600)

    task = HeldTask(claim("0-a", "k/long", b"{}"), 0, 0.0)

    async def run() -> Outcome:
        task.aio = asyncio.current_task()
        return await Performer(hooked.app.lambdas, SystemRuntime()).run_async(task)

    assert asyncio.run(run()) == RunStopped("cancelled")
    assert hooked.seen[-1] == "a saw CancelledError"


@pytest.mark.parametrize("how", ["well", "fail"])
def test_what_a_def_returns_to_be_awaited_is_awaited_within_the_hooks(how: str) -> None:
    hooked = Hooked()
    seen: list[str] = hooked.seen

    @hooked.app.around_run
    def a(ctx: atf.Context) -> Iterator[None]:
        try:
            yield
        finally:
            seen.append("left")

    outcome = hooked.run("gives_awaitable", how)
    assert isinstance(outcome, Returned if how == "well" else RunFailed)
    assert seen == ["awaited", "left"]


def test_what_is_no_generator_may_make_a_context_manager() -> None:
    hooked = Hooked()

    @hooked.app.around_run
    @contextlib.contextmanager
    def made(ctx: atf.Context) -> Iterator[None]:
        hooked.seen.append("made")
        yield

    @hooked.app.around_run
    @contextlib.asynccontextmanager
    async def made_async(ctx: atf.Context) -> AsyncIterator[None]:
        hooked.seen.append("made async")
        yield

    @hooked.app.around_run
    class Timed:
        def __init__(self, ctx: atf.Context) -> None:
            self.name = ctx.lambda_name

        def __enter__(self) -> None:
            hooked.seen.append(f"timed {self.name}")

        def __exit__(self, *error: object) -> bool:
            return True

    @hooked.app.around_run
    def given(ctx: atf.Context) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    hooked.run("work_async")
    assert hooked.seen == ["made", "made async", "timed k/work_async", "work "]
    assert isinstance(hooked.run("work", "fail"), RunFailed), "that it asks to swallow makes no success of it"


def test_a_hook_without_a_yield_fails_the_run_and_says_what_to_write() -> None:
    hooked = Hooked()

    @hooked.app.around_run
    def forgot(ctx: atf.Context) -> Any:
        return None

    outcome = hooked.run("work")
    assert isinstance(outcome, RunFailed)
    assert "forgot returned NoneType, which is no context manager: write a yield" in outcome.error


def test_what_can_not_be_a_hook_is_refused_where_it_is_declared() -> None:
    app: Any = atf.App("k")

    async def no_yield(ctx: atf.Context) -> None: ...
    def no_context() -> Iterator[None]:
        yield

    with pytest.raises(TypeError, match=r"no_yield is an async def without a yield"):
        app.around_run(no_yield)
    with pytest.raises(TypeError, match=r"no_context: the hook is called with the context alone"):
        app.around_run(no_context)
    with pytest.raises(TypeError, match=r"no_yield: a worker hook is called without arguments"):
        app.on_worker_start(no_yield)
    with pytest.raises(TypeError, match=r"no_context is a generator: write a def"):
        app.on_worker_stop(no_context)
    with pytest.raises(TypeError, match=r"@app.on_worker_start decorates a function"):
        app.on_worker_start(3)


def worker_app(seen: list[str], name: str, error: BaseException | None = None) -> atf.App:
    app = atf.App(name)

    @app.on_worker_start
    def start() -> None:
        seen.append(f"{name} start")

    @app.on_worker_start
    async def start_async() -> None:
        await asyncio.sleep(0)
        seen.append(f"{name} start_async")
        if error is not None:
            raise error

    @app.on_worker_stop
    def stop() -> None:
        seen.append(f"{name} stop")

    @app.on_worker_stop
    async def stop_async() -> None:
        seen.append(f"{name} stop_async")
        if error is not None:
            raise error

    return app


async def test_each_start_hook_is_told_before_it_is_called() -> None:
    seen: list[str] = []
    hooks = WorkerHooks([worker_app(seen, "a")], run_here)
    await hooks.start(lambda what: seen.append(what.rpartition(".")[2]))
    assert seen == ["start", "a start", "start_async", "a start_async"]


async def test_worker_hooks_run_in_order_and_back() -> None:
    seen: list[str] = []
    hooks = WorkerHooks([worker_app(seen, "a"), worker_app(seen, "b")], run_here)
    await hooks.start()
    assert seen == ["a start", "a start_async", "b start", "b start_async"]
    seen.clear()
    await hooks.stop(5)
    await hooks.stop(5)
    assert seen == ["b stop_async", "b stop", "a stop_async", "a stop"]


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), asyncio.CancelledError()], ids=str)
async def test_an_error_of_a_start_hook_is_a_config_error_that_names_it(error: BaseException) -> None:
    seen: list[str] = []
    hooks = WorkerHooks([worker_app(seen, "a", error), worker_app(seen, "b")], run_apart(asyncio.get_running_loop))
    with pytest.raises(ConfigError, match=r"^@app.on_worker_start .*start_async: ") as raised:
        await hooks.start()
    cancelled = isinstance(error, asyncio.CancelledError)
    assert str(raised.value).endswith(
        "RuntimeError: it was cancelled" if cancelled else f"{type(error).__name__}: {error}"
    )
    assert seen == ["a start", "a start_async"]


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


async def test_an_error_whose_text_raises_still_names_the_hook_and_the_line() -> None:
    hooks = WorkerHooks([worker_app([], "a", Mute())], run_here)
    with pytest.raises(ConfigError, match=r"start_async: .*test_hooks.py line \d+: Mute: its text can't be read$"):
        await hooks.start()


async def test_an_error_of_a_stop_hook_is_said_and_keeps_no_other(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[str] = []
    hooks = WorkerHooks([worker_app(seen, "a"), worker_app(seen, "b", SystemExit(3))], run_here)
    await hooks.stop(5)
    assert seen == ["b stop_async", "b stop", "a stop_async", "a stop"]
    said = capsys.readouterr()
    assert "stop hook failed" in said.out + said.err
    assert "stop_async" in said.out + said.err


@virtual(held)
async def test_stop_hooks_that_take_too_long_are_cut_and_named(world: Any) -> None:
    app = atf.App("k")
    ran: list[str] = []

    @app.on_worker_stop
    async def never_called() -> None:
        ran.append("never")

    @app.on_worker_stop
    async def endless() -> None:
        await asyncio.sleep(600)

    said: list[dict[str, str]] = []

    class Log:
        def error(self, event: str, **more: str) -> None:
            said.append({"event": event, **more})

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker_hooks, "_log", Log())
        await WorkerHooks([app], run_here).stop(5)
        await WorkerHooks([app], run_here).stop(0)
    assert [each["event"] for each in said] == ["stop hooks cut: drain_timeout is over"] * 2
    for each in said:
        assert each["hooks"].index("endless") < each["hooks"].index("never_called"), "the order in which they would run"
    assert ran == []


@virtual(held)
async def test_the_executor_calls_stop_hooks_once_nothing_runs_any_more(world: Any) -> None:
    from tests.executor.world import job

    called: list[tuple[float, int]] = []

    async def stop(within_s: float) -> None:
        called.append((round(within_s), len(world.executor.ledger.tasks)))

    world.executor.stop_hooks = stop
    world.controller.give(job("0-a"))
    await world.settle()
    world.executor.drain()
    await asyncio.sleep(10)
    assert called == []
    world.held.end("0-a")
    await world.settle()
    assert await world.run == 0
    assert called == [(20, 0)]


def test_a_fork_server_calls_those_that_are_no_async_def() -> None:
    seen: list[str] = []
    did: list[str] = []
    call_start_hooks([worker_app(seen, "a"), worker_app(seen, "b")], did.append)
    assert seen == ["a start", "b start"]
    assert did == [f"running @app.on_worker_start {__name__}.worker_app.<locals>.start"] * 2

    app = atf.App("c")
    app.on_worker_start(functools.partial(end_by, "exit"))
    with pytest.raises(ConfigError, match=r"end_by: .*SystemExit: 3"):
        call_start_hooks([app])


def test_the_harness_runs_all_of_them() -> None:
    hooked = Hooked()
    hooked.around("a")

    @hooked.app.on_worker_start
    async def start() -> None:
        await asyncio.sleep(3600)
        hooked.seen.append("start")

    @hooked.app.on_worker_stop
    def stop() -> None:
        hooked.seen.append("stop")

    with Harness(hooked.app, executors=2) as harness:
        assert hooked.seen == ["start"]
        work: Any = hooked.app.lambdas["k/work"]
        assert harness.result(work.schedule("well")) == "well"
        work_async: Any = hooked.app.lambdas["k/work_async"]
        assert harness.result(work_async.schedule("well")) == "well"
    assert hooked.seen == [
        "start",
        *("a k/work", "work a", "a after"),
        *("a k/work_async", "work a", "a after"),
        "stop",
    ]


def test_a_harness_whose_start_hook_fails_says_so() -> None:
    hooked = Hooked()

    @hooked.app.on_worker_start
    def start() -> None:
        raise ValueError("no database")

    with pytest.raises(ConfigError, match=r"start: .*ValueError: no database"):
        Harness(hooked.app)
