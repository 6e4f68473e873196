from __future__ import annotations

import asyncio
import math
from datetime import UTC, datetime, timedelta

import pytest

import atf
from atf.client.calls import error_of
from atf.client.info import ConcurrencyKeyInfo
from atf.client.jobs import JobInfo
from atf.frontend.settings import overridden
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from tests.sdk.fakes import ROUND_TRIP, World, faked, world
from tests.virtual import virtual

app = atf.App("c")


@app.task
def echo(number: int) -> int:
    return number


@app.task
def raw(data: bytes) -> None: ...


@virtual(world)
async def test_one_task_goes_at_once_with_an_id_of_the_clients(w: World) -> None:
    begun = w.runtime.monotonic()
    handle = await w.client.schedule(echo.prepare(7))
    assert w.runtime.monotonic() - begun == pytest.approx(ROUND_TRIP)
    assert [handle.id] == [f"3-{each}" for each in w.frontend.calls[0]]
    assert w.frontend.requests[handle.id].spec.payload == b'{"number":7}'


@virtual(world)
async def test_tasks_of_the_same_time_share_a_call(w: World) -> None:
    handles = await asyncio.gather(*(w.client.schedule(echo.prepare(each)) for each in range(100)))
    assert [len(each) for each in w.frontend.calls] == [100]
    payloads = [w.frontend.requests[each.id].spec.payload for each in handles]
    assert payloads == [b'{"number":%d}' % each for each in range(100)]


@virtual(world)
async def test_what_comes_while_a_call_is_under_way_goes_with_the_next(w: World) -> None:
    first = w.runtime.spawn(w.client.schedule(echo.prepare(0)), name="first")
    await asyncio.sleep(ROUND_TRIP / 2)
    others = [w.runtime.spawn(w.client.schedule(echo.prepare(each)), name="other") for each in range(1, 6)]
    await asyncio.sleep(ROUND_TRIP / 4)
    assert [len(each) for each in w.frontend.calls] == [1]
    await asyncio.gather(first, *others)
    assert [len(each) for each in w.frontend.calls] == [1, 5]


@virtual(world)
async def test_a_call_holds_256_tasks_and_3_mib(w: World) -> None:
    await w.client.schedule_many([echo.prepare(each) for each in range(600)])
    assert sorted(len(each) for each in w.frontend.calls) == [88, 256, 256]
    w.frontend.calls.clear()
    await w.client.schedule_many([raw.prepare(bytes(1 << 20)) for _ in range(5)])
    assert max(len(each) for each in w.frontend.calls) == 2


@virtual(world)
async def test_each_task_of_a_call_fails_by_itself(w: World) -> None:
    w.frontend.refused["bad"] = f.Error(code="NOT_FOUND", message="no lambda c/echo", reason="UnknownLambda")
    good, bad = await asyncio.gather(
        w.client.schedule(echo.prepare(1)),
        w.client.schedule(echo.options(key="bad").prepare(2)),
        return_exceptions=True,
    )
    assert isinstance(good, atf.Handle)
    assert isinstance(bad, atf.UnknownLambda)
    assert str(bad) == "no lambda c/echo"


@virtual(world)
async def test_jobs_that_are_scheduled_at_once_travel_together_and_fail_by_themselves(w: World) -> None:
    w.frontend.refused["c/bad"] = f.Error(code="ALREADY_EXISTS", message="job 'c/bad' exists", reason="AlreadyExists")
    w.frontend.failures = [atf.Unavailable("away")]
    names = ["c/first", "c/bad", *(f"c/{number}" for number in range(8))]
    made = await asyncio.gather(
        *(w.client.schedule_job(name, echo.prepare(1), "@daily") for name in names), return_exceptions=True
    )
    assert [each.name for each in made if isinstance(each, JobInfo)] == ["c/first", *names[2:]]
    assert isinstance(made[1], atf.AlreadyExists)
    assert w.frontend.calls[0] == names
    assert sorted(name for call in w.frontend.calls[1:] for name in call) == sorted(names)  # again, after a pause
    alone = await w.client.schedule_job("c/alone", echo.prepare(1), "@daily")
    assert (alone.name, w.frontend.calls[-1]) == ("c/alone", ["c/alone"])


@virtual(world)
async def test_an_error_without_a_known_reason_keeps_its_code(w: World) -> None:
    w.frontend.refused["bad"] = f.Error(code="ALREADY_EXISTS", message="taken", reason="SomethingNewer")
    with pytest.raises(atf.AlreadyExists, match="taken"):
        await w.client.schedule(echo.options(key="bad").prepare(2))


@virtual(world)
async def test_many_tasks_report_the_first_failure_and_may_be_sent_again(w: World) -> None:
    w.frontend.refused["bad"] = f.Error(code="RESOURCE_EXHAUSTED", message="full", reason="ResourceExhausted")
    tasks = [echo.prepare(1), echo.options(key="bad").prepare(2), echo.prepare(3)]
    with pytest.raises(atf.ResourceExhausted) as caught:
        await w.client.schedule_many(tasks)
    assert caught.value.__notes__ == ["1 of 3 tasks were not scheduled"]
    w.frontend.refused.clear()
    handles = await w.client.schedule_many(tasks)
    assert len(w.frontend.requests) == 3
    assert {each.id for each in handles} == set(w.frontend.requests)


@virtual(world)
async def test_what_a_partition_that_is_away_kept_back_is_sent_again_alone(w: World) -> None:
    w.frontend.refused["late"] = f.Error(code="UNAVAILABLE", message="partition 3", reason="Unavailable")
    w.frontend.refused["slow"] = f.Error(code="DEADLINE_EXCEEDED", message="no answer", reason="DeadlineExceeded")

    async def recover() -> None:
        await asyncio.sleep(1)
        w.frontend.refused.clear()

    w.runtime.spawn(recover(), name="recover")
    many = [echo.options(key=each).prepare(1) for each in ("late", "slow", "bad")] + [echo.prepare(3)]
    w.frontend.refused["bad"] = f.Error(code="NOT_FOUND", message="no lambda", reason="UnknownLambda")
    with pytest.raises(atf.UnknownLambda):
        await w.client.schedule_many(many)
    assert len(w.frontend.requests) == 3
    assert w.frontend.calls[0][:3] == ["late", "slow", "bad"]
    assert {tuple(each) for each in w.frontend.calls[1:]} == {("late", "slow")}


@virtual(world)
async def test_a_frontend_that_is_away_is_asked_again_with_the_same_id(w: World) -> None:
    w.frontend.failures = [atf.Unavailable("away"), atf.Unavailable("away"), atf.DeadlineExceeded("slow")]
    handle = await w.client.schedule(echo.prepare(1))
    assert len(w.frontend.calls) == 4
    assert {each for call in w.frontend.calls for each in call} == {handle.id.removeprefix("3-")}


@virtual(world)
async def test_an_answer_that_is_lost_does_not_make_a_second_task(w: World) -> None:
    w.frontend.lose_answer = True
    client = atf.AsyncClient(timeout=25, frontend=faked(w.frontend), runtime=w.runtime)

    async def lossy(request: f.ScheduleManyRequest, *, timeout: float = 10) -> f.ScheduleManyReply:
        try:
            async with asyncio.timeout(timeout):
                return await original(request, timeout=timeout)
        except TimeoutError:
            raise atf.DeadlineExceeded("no answer") from None

    original, w.frontend.schedule_many = w.frontend.schedule_many, lossy  # type: ignore[method-assign]
    await client.schedule(echo.prepare(1))
    assert len(w.frontend.calls) >= 2
    assert len(w.frontend.requests) == 1


@virtual(world)
async def test_a_frontend_that_stays_away_is_given_up_after_the_timeout(w: World) -> None:
    w.frontend.failures = [atf.Unavailable("away")] * 1000
    begun = w.runtime.monotonic()
    with pytest.raises(atf.Unavailable, match="away"):
        await w.client.schedule(echo.prepare(1))
    assert 7 < w.runtime.monotonic() - begun <= 10
    assert len(w.frontend.calls) < 20


@virtual(world)
async def test_what_is_wrong_is_not_tried_again(w: World) -> None:
    w.frontend.failures = [atf.InvalidArgument("no"), atf.Unavailable("away")]
    with pytest.raises(atf.InvalidArgument):
        await w.client.schedule(echo.prepare(1))
    assert len(w.frontend.calls) == 1


@virtual(world)
async def test_a_caller_that_gives_up_takes_no_other_along(w: World) -> None:
    first = w.runtime.spawn(w.client.schedule(echo.prepare(1)), name="first")
    second = w.runtime.spawn(w.client.schedule(echo.prepare(2)), name="second")
    await asyncio.sleep(ROUND_TRIP / 2)
    first.cancel()
    assert (await second).id in w.frontend.requests
    with pytest.raises(asyncio.CancelledError):
        await first


@virtual(world)
async def test_by_name_with_arguments_or_raw_bytes(w: World) -> None:
    handle = await w.client.schedule("photos/thumbnail", {"path": "a"}, key="k1", priority="low", delay=2)
    request = w.frontend.requests[handle.id]
    assert (getattr(request.spec, "lambda"), request.spec.payload) == ("photos/thumbnail", b'{"path":"a"}')
    assert (request.id, request.spec.options.priority, request.delay_us) == ("k1", 2, 2_000_000)
    raw_one = await w.client.schedule("photos/raw", b"\xff")
    assert w.frontend.requests[raw_one.id].spec.encoding == t.RAW
    empty = await w.client.schedule("photos/empty")
    assert w.frontend.requests[empty.id].spec.payload == b"{}"
    with pytest.raises(atf.InvalidArgument, match="lambda 'thumbnail'"):
        await w.client.schedule("thumbnail", {})
    with pytest.raises(atf.InvalidArgument, match="argument 'path': JSON can't hold nan"):
        await w.client.schedule("photos/thumbnail", {"path": float("nan")})


@virtual(world)
async def test_pages_are_joined_up_to_the_limit(w: World) -> None:
    w.frontend.tasks = {f"0-{n}": t.Task(id=f"0-{n}", status=t.NEW) for n in range(5)}
    assert [each.id for each in await w.client.list("c/echo")] == [f"0-{n}" for n in range(5)]
    assert [each.id for each in await w.client.list("c/echo", limit=3)] == ["0-0", "0-1", "0-2"]


@virtual(world)
async def test_tasks_are_iterated_over_all_pages(w: World) -> None:
    w.frontend.tasks = {f"0-{n}": t.Task(id=f"0-{n}", status=t.NEW) for n in range(5)}
    assert [each.id async for each in w.client.iterate()] == [f"0-{n}" for n in range(5)]


@virtual(world)
async def test_what_matches_is_cancelled_page_by_page(w: World) -> None:
    done = await w.client.cancel_matching(
        "c/*", ["waiting", atf.Status.CLAIMED], dry_run=False, key="k", priority="high"
    )
    assert (done.matched, done.cancelled, done.requested, done.looked_at, done.ids) == (6, 4, 2, 10, ("0-a", "0-a"))
    (request, _) = w.frontend.cancelling
    assert [*request.filter.statuses] == [t.NEW, t.ENQUEUED, t.RETRIABLE_FAILURE, t.CLAIMED]
    assert (request.filter.key, [*request.filter.priorities], bool(request.who)) == ("k", [0], True)
    with pytest.raises(atf.InvalidArgument, match="status 7: use waiting"):
        await w.client.list("c/echo", 7)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="has no option 'labls'; did you mean labels"):
        await w.client.list("c/echo", labls={})  # type: ignore[call-arg]


@virtual(world)
async def test_counts_have_every_status(w: World) -> None:
    counts = await w.client.count()
    assert counts == {"c/echo": {**dict.fromkeys(atf.Status, 0), atf.Status.NEW: 2}}


@virtual(world)
async def test_lambdas_pause_resume_and_explain(w: World) -> None:
    (info,) = await w.client.lambdas()
    assert (info.name, info.counts[atf.Status.NEW], info.counts[atf.Status.SUCCESS]) == ("photos/thumbnail", 3, 0)
    await w.client.pause("photos/thumbnail")
    await w.client.resume("photos/thumbnail")
    assert w.frontend.calls == [["pause", "photos/thumbnail"], ["resume", "photos/thumbnail"]]
    changed = await w.client.set_lambda("photos/thumbnail", {"rate": 5}, unset=["burst"])
    assert changed.overrides == {"rate": "5"}
    held = {name: value for name, value in changed.settings.items() if value is not None}
    assert held == {"owner": "web team", "rate": 5, "shares": {"2": 0.1}, "placement": "sticky"}
    assert (changed.code["owner"], changed.code["rate"], info.settings["rate"]) == ("web team", None, None)
    assert w.frontend.calls[-1] == ["set", "photos/thumbnail", "burst"]
    explained = await w.client.explain("0-1")
    assert (explained.reason, explained.position, explained.until) == ("queued", 0, None)


@virtual(world)
async def test_settings_are_given_as_the_code_gives_them(w: World) -> None:
    given = {
        "shares": {"low": 0.1, 0: 1e-5},
        "stop_on_fatal": True,
        "enqueue_timeout": timedelta(milliseconds=2_500),
        "rate": 1e-5,
        "burst": None,
        "max_running": 3,
        "pool": "gpu",
    }
    changed = await w.client.set_lambda("photos/thumbnail", given)
    assert changed.overrides == {
        "shares": "low:0.1,0:0.00001",
        "stop_on_fatal": "yes",
        "enqueue_timeout": "2.5",
        "rate": "0.00001",
        "burst": "none",
        "max_running": "3",
        "pool": "gpu",
    }
    overridden(f.LambdaSpec(name="photos/thumbnail"), "", changed.overrides, [])  # as a frontend takes it
    odd = await w.client.set_lambda("photos/thumbnail", {"stop_on_fatal": False, "shares": {}, "rate": float("inf")})
    assert odd.overrides == {"stop_on_fatal": "no", "shares": "none", "rate": "Infinity"}


@virtual(world)
async def test_concurrency_keys(w: World) -> None:
    assert await w.client.concurrency_keys("photos/thumbnail") == [
        ConcurrencyKeyInfo("anna", 3, 3, 7),
        ConcurrencyKeyInfo("bob", 1, 0, 0),
    ]
    assert await w.client.concurrency_keys("photos/thumbnail", "eve") == [ConcurrencyKeyInfo("eve", 0, 0, 0)]


@virtual(world)
async def test_gates(w: World) -> None:
    made = await w.client.gate("c/echo", "delay", by=1.5, labels={"team": "web"}, until=60, why="it rains")
    assert (made.action, made.delay, made.labels, made.until) == ("delay", 1.5, {"team": "web"}, None)
    request = w.frontend.gates[-1]
    assert isinstance(request, f.SetGateRequest)
    assert (request.for_us, request.why, bool(request.who), bool(request.request_id)) == (
        60_000_000,
        "it rains",
        True,
        True,
    )
    await w.client.gate("c/echo", "pause", until=datetime(2030, 1, 31, tzinfo=UTC), who="ada")
    request = w.frontend.gates[-1]
    assert isinstance(request, f.SetGateRequest)
    assert (request.until_at_us, request.who) == (1_896_048_000_000_000, "ada")
    assert await w.client.lift_gate("c/echo", "pause") == 1
    (gate,) = await w.client.gates()
    assert (gate.action, gate.share, gate.waiting) == ("admit", 0.5, 3)
    assert len(await w.client.audit()) == 5
    assert len(await w.client.audit(limit=3)) == 3
    done = await w.client.redrive("c/echo", dry_run=False, error="x", rate=5)
    assert (done.matched, done.redriven, done.looked_at, done.errors, done.ids) == (4, 4, 6, {"x": 4}, ("0-a", "0-a"))
    with pytest.raises(atf.InvalidArgument, match="use pause, drop, delay, admit"):
        await w.client.gate("c/echo", "stop")


def test_the_address_is_the_argument_else_the_environments_else_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATF_FRONTEND", raising=False)
    assert atf.AsyncClient().address == "localhost:7401"
    monkeypatch.setenv("ATF_FRONTEND", "tasks:1")
    assert atf.Client().address == "tasks:1"
    assert atf.Client("here:2").address == "here:2"


@virtual(world)
async def test_cores_of_a_pool_are_set_and_seen(w: World) -> None:
    found = await w.client.set_capacity("gpu", cores=2, reserve={"photos/thumbnail": 1}, rotation=0.5, max_retries=0)
    sent = f.SetCapacityRequest(
        pool="gpu", cores=2, reserve={"photos/thumbnail": 1}, rotation_us=500_000, max_retries=0
    )
    assert w.frontend.capacity is not None
    assert w.frontend.capacity.who
    w.frontend.capacity.ClearField("who")
    assert w.frontend.capacity == sent
    assert (found.cores[0].state, found.cores[0].lambda_name, found.groups) == (
        "occupied",
        "photos/thumbnail",
        [["e1"]],
    )
    shown = await w.client.capacity("gpu")
    assert shown.queue == [("shop/mail", 0)]
    assert (shown.max_retries, shown.hand_over, shown.reserved_timeout, shown.multiplexed_timeout) == (2, 1.5, 60, 1)
    assert (shown.rotation_interval, shown.dropped, shown.timed_out) == (10, 4, 5)
    assert await w.client.pools_with_cores() == ["", "gpu"]
    for given, said in (
        ({"rotation": math.nan}, "rotation nan: give seconds"),
        ({"hand_over": math.inf}, "hand_over inf: give seconds"),
        ({"cores": 1 << 40}, "cores up to 64"),
        ({"cores": 1.5}, "give whole numbers"),
    ):
        with pytest.raises(atf.InvalidArgument, match=said):
            await w.client.set_capacity("gpu", **given)


@virtual(world)
async def test_the_status_says_what_is_wrong(w: World) -> None:
    found = await w.client.status()
    assert found.wrong == (
        "hosts: one:7403 (pool ): 2 executors, quarantines shop/mail, since executors died there",
        "hosts: two:7403 (pool gpu): 0 executors, quarantines everything, since executors died there",
        "job shop/nightly: no live worker runs its lambda: atf job rm shop/nightly ends it",
    )
    assert found.memory == {"store:6379": (5, 100)}
    assert found.roles["hsc"] == {"1.0": 1, "1.1": 1}
    assert [(each.name, each.executors, each.draining) for each in found.hosts] == [
        ("one:7403", 2, False),
        ("two:7403", 0, False),
    ]
    (mail,) = found.lambdas
    assert (mail.name, mail.waiting, mail.due_since) == ("shop/mail", 3, datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC))
    late = await w.client.status(late="5s", recent=timedelta(days=1))
    assert "shop/mail: 3 due, the first for 6 s" in late.wrong
    assert [each.recent_us for each in w.frontend.operated if isinstance(each, f.GetStatusRequest)] == [
        3_600_000_000,
        86_400_000_000,
    ]


@virtual(world)
async def test_hosts_drain_and_lambdas_are_forgotten(w: World) -> None:
    await w.client.drain_host("one:7403", until="1h", why="new disks", who="ada")
    await w.client.drain_host("one:7403", who="ada")
    await w.client.resume_host("one:7403", who="ada")
    assert w.frontend.operated == [
        f.DrainHostRequest(host="one:7403", for_us=3_600_000_000, why="new disks", who="ada"),
        f.DrainHostRequest(host="one:7403", who="ada"),
        f.DrainHostRequest(host="one:7403", resume=True, who="ada"),
    ]
    assert await w.client.delete_lambda("shop/mail") == 0
    assert await w.client.delete_lambda("shop/mail", cancel_waiting=True) == 5, "it goes on until it is deleted"
    assert [each.cancel_waiting for each in w.frontend.operated[3:] if isinstance(each, f.DeleteLambdaRequest)] == [
        False,
        True,
        True,
    ]


@virtual(world)
async def test_an_end_at_once_is_not_taken_for_none(w: World) -> None:
    await w.client.drain_host("one:7403", until=0)
    await w.client.drain_host("one:7403")
    one, other = (each.HasField("for_us") for each in w.frontend.operated if isinstance(each, f.DrainHostRequest))
    assert (one, other) == (True, False), "the frontend refuses the first"


@virtual(world)
async def test_a_retry_that_is_refused_names_who_holds_the_key(w: World) -> None:
    w.frontend.tasks["0-a"] = t.Task(id="0-a", status=t.CANCELLED, owner="held")
    with pytest.raises(atf.FailedPrecondition, match="0-a can't run again: its unique key is held by task 0-other"):
        await w.client.retry("0-a")


@virtual(world)
async def test_hosts_tell_what_they_quarantine(w: World) -> None:
    one, two = await w.client.hosts()
    assert (one.name, one.pool, list(one.quarantined)) == ("one:7403", "", ["shop/mail"])
    assert one.quarantined["shop/mail"] is not None
    assert two.quarantined == {"*": None}


@pytest.mark.parametrize("kind", [atf.FailedPrecondition, atf.InvalidArgument, atf.Unavailable])
def test_an_error_of_an_unknown_reason_goes_by_its_code(kind: type[atf.AtfError]) -> None:
    """A newer frontend may have reasons that this client does not know."""
    assert type(error_of(f.Error(code=kind.code, reason="OfTomorrow", message="why"))) is kind
