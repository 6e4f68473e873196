"""Every public call with every option there is: it changes what is sent or done, or is refused by its name.

The calls are found by looking at what `import atf` gives, and the options by looking at the calls. A new call needs an entry in CALLS, a new
option one in VALUES: a test fails until it has one.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar, cast

import pytest

import atf
from atf.client.loop_bridge import ClientBridge, OwnLoop
from atf.client.matching import TaskConditions
from atf.rpc import batch_pb2 as b
from atf.rpc.api import Frontend
from atf.sdk.app import App
from atf.sdk.context import InBatch
from atf.sdk.job import TIMING
from atf.sdk.lambdas import Lambda
from atf.sdk.option_kinds import BatchOptions, CallOptions, JobOptions, LambdaOptions
from atf.sdk.schedulable import Schedulable
from atf.testing import Harness
from atf.testing.loop import VirtualLoop
from atf.testing.runtime import VirtualRuntime
from tests.recorder import Recorder

R = TypeVar("R")

app = atf.App("photos")


@app.task
def thumbnail(path: str, size: int = 1) -> int:
    return size


@app.task
def album(paths: list[int]) -> int:
    return len(paths)


# --- what there is ------------------------------------------------------------------------------------------------------

CLASSES: tuple[type, ...] = (
    atf.AsyncClient, atf.Client, Lambda, Schedulable, atf.Step, atf.Chain, atf.Handle, atf.Batch, atf.ChainHandle, App, atf.Context,
    InBatch,
)  # fmt: skip
"""Whose methods are the public calls."""
NOT_CALLS = {
    *("Client.close", "AsyncClient.close", "Client.handle", "AsyncClient.handle"),
    *("App.on_worker_start", "App.on_worker_stop", "App.around_run"),
}
"""That take no options and send nothing."""
INSIDE = {
    *(
        "prepared",
        "sealed",
        "hide_texts",
        "stored",
        "get_task",
        "wait_tasks",
        "batch_plan",
        "handle_of",
        "begin_batch",
        "feed",
        "send_chunk",
        "extend_batch",
        "run_within",
    ),
    *(
        "close_batch",
        "get_batch",
        "watch_batch",
        "get_log",
        "watch_log",
        "wait_batch",
        "batch_items",
        "finished_items",
        "batch_item",
        "finished_item",
    ),
    *("chain", "chain_async", "chain_plan", "chain_handle_of", "wait_chain", "chain_results", "cancel_chain"),
    *(
        "cancel_batch",
        "retry_batch",
        "delete_batch",
        "elements",
        "element",
        "takes",
        "first_parameter",
        "batch_template",
    ),
    *(
        "task_without",
        "spec",
        "decode",
        "decode_without",
        "redactor",
        "encode_result",
        "describe_callback",
        "describe_link",
        "add_links",
    ),
}
"""Methods by which the SDK's own parts call each other; what users call goes through them."""
KINDS: Mapping[str, frozenset[str]] = {
    kind.__name__: frozenset(kind.__annotations__)
    for kind in (CallOptions, BatchOptions, JobOptions, LambdaOptions, TaskConditions)
}
"""The names in **options, by the type that they are annotated with."""


def calls() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every public call, as Class.method."""
    for each in CLASSES:
        for name, method in inspect.getmembers(each, inspect.isroutine):
            inherited = any(name in vars(base) for base in each.__mro__[1:] if base in CLASSES)
            call = f"{each.__name__}.{name}"
            if not name.startswith("_") and name not in INSIDE and not inherited and call not in NOT_CALLS:
                yield call, method


def taken_by(method: Callable[..., Any]) -> set[str]:
    """The options that a call takes."""
    found: set[str] = set()
    for each in inspect.signature(method).parameters.values():
        if each.kind is each.VAR_KEYWORD:
            found |= next((names for kind, names in KINDS.items() if kind in str(each.annotation)), frozenset())
        elif each.kind is each.KEYWORD_ONLY or (
            each.default is not each.empty and each.kind is not each.POSITIONAL_ONLY
        ):
            found.add(each.name)
    return found


OPTIONS = sorted(
    set.union(*(taken_by(method) for _, method in calls())) | set.union(*map(set, KINDS.values())) | {"delya"}
)


# --- a world for one call -------------------------------------------------------------------------------------------------


class _Turning:
    """Has the work of a blocking client done by turning a loop."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        return self._loop.run_until_complete(work)

    def start(self, work: Coroutine[Any, Any, R]) -> Future[R]:
        done: Future[R] = Future()
        done.set_result(self.run(work))
        return done

    async def hop(self, work: Coroutine[Any, Any, R]) -> R:
        return await work

    def stop(self) -> None:
        pass


class _First:
    """Who is asked for first times."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def ask(self, key: str, ttl_us: int) -> bool:
        self.asked.append(ttl_us)
        return True

    async def ask_async(self, key: str, ttl_us: int) -> bool:
        return self.ask(key, ttl_us)


class World:
    """A frontend that remembers, clients of it, and something of every class."""

    def __init__(self, frontend: Recorder | None = None) -> None:
        self.loop = VirtualLoop()
        self.frontend = frontend or Recorder()
        self.loop_bridge: ClientBridge = _Turning(self.loop)
        runtime = VirtualRuntime(self.loop)
        self.blocking = atf.Client(
            "a", frontend=cast("Frontend", self.frontend), runtime=runtime, loop_bridge=self.loop_bridge
        )
        self.core = atf.AsyncClient(
            "a", frontend=cast("Frontend", self.frontend), runtime=VirtualRuntime(self.loop), loop_bridge=OwnLoop()
        )
        self.first = _First()
        self.context = atf.Context(
            task_id="0-a",
            lambda_name=thumbnail.name,
            attempt=1,
            run=1,
            fence=1,
            scheduled_at=datetime.now(UTC),
            first_time=self.first,
        )

    def of(self, kind: str) -> Any:
        made: dict[str, Callable[[], Any]] = {
            "AsyncClient": lambda: self.core,
            "Client": lambda: self.blocking,
            "Lambda": lambda: thumbnail,
            "Schedulable": lambda: thumbnail.options(priority=1),
            "Step": lambda: thumbnail.s("a"),
            "Chain": lambda: thumbnail.map_s(["a"]) | album.s(),
            "Handle": lambda: self.blocking.handle("0-a"),
            "Batch": lambda: self.blocking.batch_handle("a", thumbnail),
            "ChainHandle": lambda: atf.ChainHandle(self.core, self.loop_bridge, "a", 0, lambda *_: None, single=False),
            "App": lambda: atf.App("photos"),
            "Context": lambda: self.context,
            "InBatch": lambda: InBatch("a", 0, "w", "0-a", thumbnail),
        }
        return made[kind]()

    def done(self, made: Any) -> Any:
        """What a call came to, of any kind."""
        if inspect.iscoroutine(made):
            return self.done(self.loop.run_until_complete(made))
        if isinstance(made, tuple):
            return tuple(map(self.done, made))
        if inspect.isasyncgen(made):
            return self.done(self.loop.run_until_complete(_all(made)))
        if inspect.isgenerator(made) or isinstance(made, map):
            return list(made)
        if isinstance(made, Schedulable):
            return made.prepare("a").request.SerializeToString(deterministic=True)
        if isinstance(made, atf.Prepared):
            return made.request.SerializeToString(deterministic=True)
        if isinstance(made, atf.Chain):
            return self.done(made.submit())
        return repr(made)

    def close(self) -> None:
        self.loop.close()


async def _all(each: Any) -> list[Any]:
    return [one async for one in each]


def outcome(
    call: str, given: Call, options: Mapping[str, Any], _then: Callable[[World, Any], Any] | None = None
) -> Any:
    """What was sent, and what came of it."""
    world = World()
    try:
        with atf.use_client(world.blocking):
            kind, _, name = call.partition(".")
            try:
                made = getattr(world.of(kind), name)(*given.args, **{**given.options, **options})
                came = world.done(given.then(made) if given.then else made)
            except atf.TaskError as error:
                came = str(error)
        return world.frontend.asked, world.first.asked, came
    finally:
        world.close()


# --- how each call is made -------------------------------------------------------------------------------------------------

AT = datetime(2031, 1, 1, tzinfo=UTC)


@dataclass
class Call:
    """A call that is well made without further options."""

    args: tuple[Any, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    then: Callable[[Any], Any] | None = None
    """What is done with what it gave, where only that shows an option's effect."""


def _described(decorate: Any) -> Any:
    """What `@app.task(...)` made of a handler: registered, or as the job of its code."""

    def fresh(path: str = "a") -> None: ...

    made = decorate(fresh)
    job = made.job.SerializeToString(deterministic=True) if made.job else b""
    return made.spec().SerializeToString(deterministic=True) + job


_NAMED = Call((thumbnail.name, {"path": "a"}))
_MANY = Call(([thumbnail.prepare("a")],))
_BATCH = Call((thumbnail, ["a", "b"]))
_OF = Call((thumbnail.name,))
_ID = Call(("0-a",))
_JOB = Call(("photos/job",))
_ITEM = Call(("a",))
_HOST = Call(("one:7403",))
CALLS: dict[str, Call] = {
    "schedule": _NAMED, "schedule_many": _MANY, "batch": _BATCH, "get": _ID, "list": _OF, "iterate": _OF, "count": Call(), "cancel_matching": Call((thumbnail.name,), {"dry_run": True}), "wait": Call((["0-a", "0-b"],)), "cancel": _ID,
    "retry": _ID, "explain": _ID, "lambdas": Call(), "stopped_keys": _OF, "concurrency_keys": _OF,
    "resume_key": Call((thumbnail.name, "anna")), "skip_key": Call((thumbnail.name, "anna")), "pause": _OF, "resume": _OF,
    "set_lambda": _OF, "capacity": Call(), "set_capacity": Call(), "pools_with_cores": Call(), "hosts": Call(), "status": Call(), "drain_host": _HOST,
    "resume_host": _HOST, "delete_lambda": _OF,
    "gate": Call((thumbnail.name, "pause")), "lift_gate": _OF, "gates": Call(), "audit": Call(), "failures": Call(),
    "redrive": Call((thumbnail.name,), {"dry_run": True}), "batch_handle": Call(("a",), {}, lambda made: (made.lambda_name, made.extend_async([{"path": "x"}]))),
    "batches": Call(), "schedule_job": Call(("photos/job", thumbnail.prepare("a"), "* * * * * *")), "get_job": _JOB, "list_jobs": Call(),
    "delete_job": _JOB, "delete_jobs": _JOB, "pause_job": _JOB, "resume_job": _JOB, "run_job_now": _JOB,
    "preview_schedule": Call(("* * * * * *",)),
    "Schedulable.prepare": _ITEM, "Schedulable.schedule": _ITEM, "Schedulable.map": Call((["a", "b"],)), "Schedulable.s": Call(("a",), {}, lambda made: made.submit()),
    "Schedulable.map_s": Call((["a", "b"],)), "Lambda.options": Call(), "submit": Call(), "Handle.status": Call(), "Handle.result": Call(),
    "Handle.cancel": Call(), "Handle.retry": Call(), "Batch.progress": Call(), "Batch.watch": Call(), "Batch.wait": Call(),
    "Batch.results": Call(), "Batch.items": Call(), "Batch.failures": Call(), "Batch.item_of": _ITEM, "Batch.result_of": _ITEM,
    "Batch.cancel": Call(), "Batch.retry": Call(), "Batch.delete": Call(), "Batch.extend": Call((["a"],)), "Batch.close": Call(),
    "ChainHandle.wait": Call(), "ChainHandle.result": Call(), "ChainHandle.cancel": Call(), "App.batch": _BATCH,
    "App.task": Call((), {}, _described), "Context.progress": Call(("half",)), "Context.first_time": Call(("k",)),
    "InBatch.handle": Call((), {}, lambda made: made.lambda_name), "InBatch.extend": Call((["a"],)),
}  # fmt: skip
"""By method, or Class.method where classes differ; the blocking call and its _async twin are made alike."""

VALUES: dict[str, Any] = {
    "action": "pause", "affinity_key": "b", "aliases": {"web": "path"}, "arguments": True, "at": AT, "backoff": atf.Backoff(2), "batch_id": "new", "batch_size": 1,
    "burst": 200, "by": 3, "client": None, "concurrency_key": "b", "cancel_waiting": True, "cores": 2, "count": 7, "delay": 30, "delya": 3, "dry_run": False,
    "due_time": AT, "durability": "disk", "enqueue_timeout": 9, "error": "rain", "error_type": "OSError", "every": 2.0, "failed": "skip",
    "first": True, "fold": "first", "format": "unix", "gap": "run_after", "gate_at_fatal": 0.5, "grace": 9, "group": "g",
    "hand_over": 2.0, "isolate": True, "jitter": 4, "job": {"misfire": "all"}, "keep_open": True, "key": "mine", "labels": {"team": "web"}, "late": 7,
    "lambda_name": "photos/album", "limit": 3, "logs": "all", "lookahead": 2, "max_attempts": 4, "max_in_flight": 2, "max_losses": 2, "max_pending": 9,
    "max_retries": 7, "max_running": 9, "misfire": "all", "multiplexed_timeout": 2.0, "name": "other", "newer_version": True, "of": "photos/album",
    "on_complete": "photos/album", "on_failure": "photos/album", "on_success": "photos/album", "oldest_first": True, "ordering_key": "b", "overlap": "skip",
    "overwrite": True, "owner": "web", "pause": 3, "placement": "spread", "pool": "gpu", "prefix": "a", "priority": "high",
    "queue_limit": 9, "rate": 9.0, "recent": 7, "redact": ["path"], "search": ["path"], "repeats": 3, "request_id": "r", "reserve": {"photos/thumbnail": 1}, "reserved_timeout": 2.0, "retention": 60,
    "retry_interval": 3, "rotation": 9.0, "runbook": "read", "schedule": "@daily", "settings": {"rate": 5}, "share": 0.5, "since": AT,
    "shares": {"low": 0.1}, "slo": "1s 99%", "start": AT, "status": atf.Status.SUCCESS, "stop_on_fatal": True, "target": "path", "task_id": "0-b",
    "timeout": 3.0, "ttl": timedelta(days=2), "tz": "Europe/Paris", "unique": atf.Unique("b", 9), "unset": ["rate"], "until": 9, "version": 2, "what": "redrive",
    "who": "ada", "why": "rain", "workers": 2,
}  # fmt: skip
"""A value of each option that is not what it is without."""
BESIDE: dict[tuple[str, str], tuple[dict[str, Any], tuple[Any, ...]]] = {
    ("batch", "pause"): ({"pause": 2, "target": "path"}, ()),
    ("batch", "target"): ({"pause": 2, "target": "size"}, ()),
    ("batch_handle", "target"): ({"of": thumbnail, "target": "size"}, ()),
    ("batch_handle", "of"): ({"of": "photos/thumbnail"}, ()),
    ("gate", "by"): ({"by": 9}, (thumbnail.name, "delay")),
    ("gate", "share"): ({"share": 0.1}, (thumbnail.name, "admit")),
    ("App.task", "tz"): ({"schedule": "@daily"}, ()),
    ("App.task", "job"): ({"schedule": "@daily"}, ()),
    ("App.task", "burst"): ({"rate": 90}, ()),
}
"""What an option needs beside itself; and arguments that stand in for those of CALLS."""


def recipe(call: str) -> Call:
    """How a call is made."""
    plain = call.removesuffix("_async")
    found = CALLS.get(plain) or CALLS.get(plain.partition(".")[2])
    assert found is not None, f"{call} is new: say in CALLS how it is made"
    return found


def key_of(call: str) -> str:
    plain = call.removesuffix("_async")
    name = plain.partition(".")[2]
    return {"map": "batch", "map_s": "batch"}.get(
        name, plain if plain in CALLS and plain.startswith("App.task") else name
    )


ALL = list(calls())


def test_every_call_and_every_option_is_known() -> None:
    assert {recipe(call) is not None for call, _ in ALL} == {True}
    assert sorted(OPTIONS) == sorted(VALUES), "an option that is new needs a value"
    assert type(Harness(app).client) is atf.Client


TAKEN = [(call, option) for call, method in ALL for option in sorted(taken_by(method))]
REFUSED = [
    (call, option)
    for call, method in ALL
    for option in sorted(set(OPTIONS) - set(inspect.signature(method).parameters) - taken_by(method))
]
MATCHING = ("list", "iterate", "cancel_matching", "redrive")
"""Calls about tasks that match a filter."""
SPECIAL = {
    "Batch.wait": "timeout", "ChainHandle.wait": "timeout", "ChainHandle.result": "timeout", "Step.submit": "client", "Chain.submit": "client",
    "InBatch.extend": "of", "App.task": "isolate", "Client.status": "late", "AsyncClient.status": "late",
}  # fmt: skip
"""Whose effect is not in what is sent: tests of their own are below."""
OTHER_VALUES = {
    ("items", "status"): "done", ("audit", "until"): AT, **{(call, "until"): AT for call in MATCHING}, **{(call, "search"): {"path": "a"} for call in MATCHING},
}  # fmt: skip
MAY_REFUSE = {("preview_schedule", name) for name in JobOptions.__annotations__} | {
    ("gate", "by"), ("gate", "share"), ("batch_handle", "target"), ("batch", "target"), ("batch", "pause"), ("App.task", "tz"),
    ("App.task", "job"),
}  # fmt: skip
"""Options that need another one, or another argument; their refusal names them."""


@pytest.mark.parametrize(("call", "option"), TAKEN, ids=str)
def test_an_option_that_a_call_takes_changes_what_it_does(call: str, option: str) -> None:
    if SPECIAL.get(call.removesuffix("_async")) == option:
        return
    given, key, value = recipe(call), key_of(call), OTHER_VALUES.get((key_of(call), option), VALUES[option])
    if (key, option) in MAY_REFUSE:
        with contextlib.suppress(TypeError, atf.InvalidArgument):
            alone = outcome(call, given, {option: value})
            assert alone != outcome(call, given, {}), f"{call}({option}=…) is dropped without a word"
    beside, instead = BESIDE.get((key, option), ({}, ()))
    given = Call(instead or given.args, given.options, given.then)
    names = [each for each in inspect.signature(dict(ALL)[call]).parameters if each != "self"]
    place = names.index(option) if option in names else len(given.args)
    if place < len(given.args):  # it stands among the arguments: by position
        changed = Call((*given.args[:place], value, *given.args[place + 1 :]), given.options, given.then)
        after = outcome(call, changed, beside)
    elif key == "preview_schedule" and option not in {*TIMING, "count", "start"}:
        with pytest.raises(TypeError, match=f"no option '{option}': it changes no tick"):
            outcome(call, given, {option: value})
        return
    else:
        after = outcome(call, given, {**beside, option: value})
    assert after != outcome(call, given, beside), f"{call}({option}=…) is dropped without a word"


def test_an_option_that_a_call_does_not_take_is_refused_by_its_name() -> None:
    for call, option in REFUSED:
        with pytest.raises((TypeError, atf.InvalidArgument), match=rf"\b{option}\b") as refused:
            outcome(call, recipe(call), {option: VALUES[option]})
        assert re.search("unexpected keyword|multiple values|write|did you mean|leave", str(refused.value)), (
            refused.value
        )


@pytest.mark.parametrize("call", ["Batch.wait", "Batch.wait_async", "ChainHandle.wait", "ChainHandle.result_async"])
def test_a_wait_for_a_batch_ends_at_its_timeout(call: str) -> None:
    never = Recorder()
    world = World(never)
    never.watch_batch, never.get_batch = _never, _open  # type: ignore[attr-defined]
    kind, _, name = call.partition(".")
    with pytest.raises(TimeoutError, match="within 3 s"):
        world.done(getattr(world.of(kind), name)(timeout=3))
    assert world.loop.now_us == 3_000_000
    world.close()


async def _never(_request: Any, *, timeout: float) -> AsyncIterator[Any]:
    await asyncio.Event().wait()
    yield None


async def _open(request: Any, *, timeout: float) -> b.Batch:
    return b.Batch(id=request.id)


@pytest.mark.parametrize("kind", ["Step", "Chain"])
def test_a_chain_goes_by_the_client_that_it_is_given(kind: str) -> None:
    world, other = World(), World()
    with atf.use_client(world.blocking):
        world.of(kind).submit(other.blocking)
    assert (bool(world.frontend.asked), bool(other.frontend.asked)) == (False, True)
    world.close()
    other.close()


def test_a_callback_says_of_which_lambda_the_items_are_that_it_adds() -> None:
    world = World()
    with atf.use_client(world.blocking):
        of_callback = InBatch("a", None, "", "0-a")
        with pytest.raises(TypeError, match="of which lambda"):
            of_callback.extend(["a"])
        assert of_callback.extend(["a"], of=thumbnail).id == "a"
    world.close()


# --- beside a prepared task ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", sorted(set(OPTIONS)))
@pytest.mark.parametrize("call", ["Client.schedule", "Client.schedule_async", "AsyncClient.schedule"])
def test_nothing_stands_beside_a_prepared_task(call: str, option: str) -> None:
    with pytest.raises(TypeError, match=rf"\b{option}\b") as refused:
        outcome(call, Call((thumbnail.prepare("a"),)), {option: VALUES[option]})
    if option in CallOptions.__annotations__:
        assert f"write thumbnail.options({option}=…).prepare(…)" in str(refused.value)
    with pytest.raises(TypeError, match=r"a payload beside a prepared task.*write thumbnail\.prepare\(…\)"):
        outcome(call, Call((thumbnail.prepare("a"), {})), {})


def _prepared(**options: Any) -> atf.Prepared[int]:
    return thumbnail.options(**options).prepare("a")


WAYS: dict[str, Callable[[World, dict[str, Any]], Any]] = {
    "schedule": lambda w, options: w.blocking.schedule(_prepared(**options)),
    "schedule_async": lambda w, options: w.done(w.blocking.schedule_async(_prepared(**options))),
    "schedule_many": lambda w, options: w.blocking.schedule_many([_prepared(**options)]),
    "schedule_job": lambda w, options: w.blocking.schedule_job("a/b", _prepared(**options), "@daily"),
    "a lambda's schedule": lambda _w, options: thumbnail.options(**options).schedule("a"),
    "map": lambda _w, options: thumbnail.options(**options).map(["a"]),
    "batch": lambda w, options: w.blocking.batch(thumbnail.options(**options), ["a"]),
    "the first step": lambda _w, options: (thumbnail.options(**options).s("a") | album.s()).submit(),
    "a later step": lambda _w, options: (thumbnail.s("a") | album.options(**options).s()).submit(),
    "a callback": lambda _w, options: thumbnail.map(["a"], on_success=album.options(**options).s([])),
    "a step alone": lambda _w, options: thumbnail.options(**options).s("a").submit(),
}
"""What becomes of `.options(...)`."""


@pytest.mark.parametrize("option", sorted(CallOptions.__annotations__))
@pytest.mark.parametrize("way", WAYS)
def test_an_option_of_a_lambda_reaches_what_is_made_or_is_refused(way: str, option: str) -> None:
    def sent(options: dict[str, Any]) -> list[tuple[str, bytes]]:
        world = World()
        try:
            with atf.use_client(world.blocking):
                WAYS[way](world, options)
            return world.frontend.asked
        finally:
            world.close()

    refused: list[str] = []
    changed = sent({})
    try:
        changed = sent({option: VALUES[option]})
    except atf.InvalidArgument as error:
        refused.append(str(error))
    if refused:
        assert re.search(rf"\b{option}\b", refused[0])
        assert re.search("write|leave", refused[0])
        assert "schedule" not in way or way == "schedule_job", refused
    else:
        assert changed != sent({})


@pytest.mark.parametrize(
    "given", [thumbnail, "photos/thumbnail", None, thumbnail.s("a")], ids=lambda each: type(each).__name__
)
def test_what_is_no_prepared_task_is_refused_with_the_line_to_write(given: Any) -> None:
    world = World()
    ways: dict[str, Callable[[], Any]] = {
        "schedule_many": lambda: world.blocking.schedule_many([given]),
        "schedule_job": lambda: world.blocking.schedule_job("a/b", given, "@daily"),
    }
    if not isinstance(given, str):
        ways["schedule"] = lambda: world.blocking.schedule(given)
    for call in ways.values():
        with pytest.raises(TypeError, match=r"is no prepared task: write thumbnail\.prepare\("):
            call()
    assert not world.frontend.asked
    world.close()


def test_a_task_that_was_scheduled_once_may_also_be_a_jobs() -> None:
    world, task = World(), thumbnail.prepare("a")
    world.blocking.schedule(task)
    world.blocking.schedule_job("a/b", task, "@daily")
    assert [name for name, _ in world.frontend.asked] == ["ScheduleMany", "ScheduleJobs"]
    world.close()


def test_the_same_option_is_not_given_twice() -> None:
    with pytest.raises(TypeError, match=r"batch_id: .*leave it out of \.submit"):
        (thumbnail.map_s(["a"], batch_id="b") | album.s()).submit(batch_id="c")
    with pytest.raises(atf.InvalidArgument, match="give the time zone once"):

        @app.task(schedule="@daily", tz="UTC", job={"tz": "Europe/Paris"})
        def twice() -> None: ...


@pytest.mark.parametrize("option", ["schedule", "tz", "format", "gap", "fold", "due_time", "ttl"])
def test_a_text_of_a_job_that_is_empty_is_refused(option: str) -> None:
    client: Any = atf.Client("a")
    options = {"schedule": "@daily", option: ""}
    with pytest.raises(atf.InvalidArgument, match=f"{option}: it is empty; leave it out"):
        client.schedule_job("a/b", thumbnail.prepare("a"), **options)


@pytest.mark.parametrize(
    ("option", "says"), [("key", "key 5"), ("affinity_key", "affinity_key 5"), ("ordering_key", "ordering_key 5")]
)
def test_a_name_that_is_no_text_is_refused_by_its_rule(option: str, says: str) -> None:
    lambda_: Any = thumbnail
    with pytest.raises(atf.InvalidArgument, match=f"{says}: use 1 to 255 characters that can be seen"):
        lambda_.options(**{option: 5})


def test_an_option_among_the_arguments_of_a_handler_is_named_with_its_place() -> None:
    lambda_: Any = thumbnail
    for call in (lambda_.prepare, lambda_.schedule, lambda a, **options: lambda_.s(a, **options).submit()):
        with pytest.raises(TypeError, match=r"'delay'.*write thumbnail\.options\(delay=…\)\.prepare"):
            call("a", delay=3600)


def test_a_name_that_is_misspelt_is_answered_with_the_one_that_is_meant() -> None:
    lambda_: Any = thumbnail
    client: Any = atf.Client("a")
    any_app: Any = app
    ways: list[Callable[[], Any]] = [
        lambda: lambda_.options(dealy=3),
        lambda: client.schedule("photos/thumbnail", {}, dealy=3),
        lambda: client.schedule(thumbnail.prepare("a"), dealy=3),
    ]
    for call in ways:
        with pytest.raises(TypeError, match=r"no option 'dealy'; did you mean delay\?"):
            call()
    with pytest.raises(TypeError, match=r"no option 'max_inflight'; did you mean max_in_flight\?"):
        lambda_.map([], max_inflight=3)
    with pytest.raises(TypeError, match=r"no option 'overlapp'; did you mean overlap\?"):
        client.schedule_job("a/b", thumbnail.prepare("a"), "@daily", overlapp="skip")
    with pytest.raises(TypeError, match=r"@app.task has no option 'max_attempt'; did you mean max_attempts\?"):
        any_app.task(max_attempt=3)
