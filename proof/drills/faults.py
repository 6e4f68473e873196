"""The eight faults: how each is injected, what ends it, and what would make it worse.

A pattern is looked for in the words of a command that was carried out. What a fault keeps to itself, such as whether payments
answers, is known outside of ATF only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from atf.sdk.schedulable import named

from . import shop
from .incident import Incident

Check = Callable[[Incident], Awaitable[bool]]


@dataclass(frozen=True)
class DrillFault:
    """One kind of trouble."""

    name: str
    inject: Callable[[Incident], Coroutine[Any, Any, None]]
    alerts: frozenset[str]
    """Those that lead to it; others may fire beside."""
    right: str
    """A command that deals with it. Its first call is the moment of the right action."""
    over: Check
    wrong: Mapping[str, str] = field(default_factory=dict)
    """Commands that make it worse, and why."""
    too_early: Callable[[Incident, float, str], str] = lambda _incident, _at, _words: ""
    """Whether a command was wrong at that instant, and why; "": it was not."""
    prepare: Callable[[Incident], Awaitable[None]] | None = None
    """What is there from the beginning, before the fault."""


DESTROYS: Final = {
    r"^atf (cancel|batch cancel|lambda rm|job rm)\b": "it deleted tasks, or the lambda that they belong to",
    r"(?i)^fleet redis (flush|del|unlink|shutdown)": "it deleted what the store holds",
    r"(?i)^fleet redis config set (maxmemory-policy|appendonly)": "the store may lose accepted tasks",
    r"^atf resume --all": "it also resumes what others paused",
    r"^atf store ": "an export or import is no part of this",
}
"""Wrong in every drill."""

# --- late task --------------------------------------------------------------------------------------------------------


async def _limit(incident: Incident) -> None:
    await incident.client.set_lambda("shop/bill", {"max_running": 1}, who="dana@laptop", why="trying something")
    incident.people["dana"] = lambda: "Oh. A trial of mine, which I forgot. What bill calls bears 50 at once: lift it."


async def _bills_flow(incident: Incident) -> bool:
    return await incident.oldest("shop/bill") < 2 and not await incident.gated()


# --- bad deploy -------------------------------------------------------------------------------------------------------


async def _deploy(incident: Incident) -> None:
    await incident.deploy(shop.BAD)


async def _mails_go(incident: Incident) -> bool:
    failing = await incident.value(
        'sum(increase(atf_tasks_ended_total{lambda="shop/mail",status="FATAL_FAILURE"}[15s]))'
    )
    return (
        incident.cluster.release == shop.GOOD
        and failing == 0
        and not await incident.gated()
        and await incident.oldest() < 5
    )


def _before_the_good_release(incident: Incident, at: float, words: str) -> str:
    good = [when for when, release in incident.deployed if release == shop.GOOD and when > incident.injected_at]
    if words.startswith(("atf retry", "atf resume")) and not (good and good[0] < at):
        return "the bad release still ran: tasks use up their attempts again"
    return ""


# --- full store -------------------------------------------------------------------------------------------------------
EXPORTS: Final = 1_500
_EXPORTS_PER_SECOND: Final = 20.0
_KEEPS: Final = 0.75


async def _export(incident: Incident) -> None:
    async def all_years() -> None:
        for number in range(EXPORTS):
            await asyncio.gather(incident.client.schedule("shop/export", {"year": number}), return_exceptions=True)
            await asyncio.sleep(1 / _EXPORTS_PER_SECOND)

    incident.background.append(asyncio.create_task(all_years()))
    incident.people["finance"] = lambda: (
        "We export all years for the audit, 1,500 files, once. We need each file for a week. Nothing comes after that."
    )


async def _has_room(incident: Incident) -> bool:
    refused = await incident.value('sum(increase(atf_rpc_requests_total{code="RESOURCE_EXHAUSTED"}[15s]))')
    ratio = await incident.value("atf_store_memory_ratio", 1)
    return ratio < _KEEPS and refused == 0 and not await incident.gated()


# --- paused lambda ----------------------------------------------------------------------------------------------------
_MIGRATION_S: Final = 300.0


def _until(incident: Incident) -> float:
    return incident.injected_at + _MIGRATION_S


async def _pause(incident: Incident) -> None:
    until = time.strftime("%H:%M:%S UTC", time.gmtime(_until(incident)))
    why = f"the ledger is being migrated until {until}; billing meanwhile would book twice"
    await incident.client.pause("shop/bill", who="dana@laptop", why=why)

    def dana() -> str:
        return (
            "Done. You may resume it."
            if time.time() > _until(incident)
            else f"Still migrating. Until {until}, as I wrote. Leave it."
        )

    incident.people["dana"] = dana


async def _bills_may_run(incident: Incident) -> bool:
    """What has piled up may take a while yet."""
    return not await incident.gated()


def _while_migrating(incident: Incident, at: float, words: str) -> str:
    lifts = words.startswith(("atf resume", "atf gate lift"))
    return (
        "the ledger was still being migrated, as the reason of the pause says"
        if lifts and at < _until(incident)
        else ""
    )


# --- dead host --------------------------------------------------------------------------------------------------------


async def _kill_host(incident: Incident) -> None:
    incident.cluster.kill_host("web-2")


async def _both_hosts(incident: Incident) -> bool:
    return len(incident.cluster.hosts) == 2 and await incident.oldest() < 5 and not await incident.gated()


# --- poison task ------------------------------------------------------------------------------------------------------


async def _poison(incident: Incident) -> None:
    await incident.client.schedule("shop/thumbnail", {"path": "uploads/417.webp2"})


async def _killed_nobody_lately(incident: Incident) -> bool:
    lost = await incident.value('sum(increase(atf_runs_ended_total{outcome="lost"}[15s]))')
    alive = await incident.value('sum(max by (pool) (atf_workers{state="working"}))')
    return lost == 0 and alive >= 2 and not await incident.gated() and await incident.oldest() < 5


# --- missed tick ------------------------------------------------------------------------------------------------------
_TICK_IN_S: Final = 75.0


async def _make_job(incident: Incident) -> None:
    tick = time.gmtime(time.time() + _TICK_IN_S + 60)
    incident.tick_at = time.time() + _TICK_IN_S + 60 - tick.tm_sec
    schedule = f"0 {tick.tm_min} * * * *"
    await incident.client.schedule_job("shop/report", named("shop/report", {}, {}), schedule, misfire="skip")


async def _pause_over_tick(incident: Incident) -> None:
    await asyncio.sleep(max(incident.tick_at - 5 - time.time(), 0))
    await incident.client.pause_job("shop/report", who="dana@laptop", why="a look at its schedule")
    await asyncio.sleep(max(incident.tick_at + 9 - time.time(), 0))
    await incident.client.resume_job("shop/report", who="dana@laptop", why="done")


def _reports(incident: Incident) -> int:
    made = incident.cluster.world / "reports"
    return len(made.read_text("utf-8").splitlines()) if made.exists() else 0


async def _reported_once(incident: Incident) -> bool:
    return _reports(incident) == 1


def _again(incident: Incident, at: float, words: str) -> str:
    earlier = [each for each in incident.calls if each.does(r"^atf (job run|schedule) shop/report") and each.at < at]
    return (
        "the report was made twice" if earlier and words.startswith(("atf job run", "atf schedule shop/report")) else ""
    )


# --- retry storm ------------------------------------------------------------------------------------------------------
_MEND_S: Final = 60.0
_BY_ITSELF_S: Final = 300.0


async def _payments_down(incident: Incident) -> None:
    down = incident.cluster.world / "payments.down"
    down.touch()

    async def mend(seconds: float) -> None:
        await asyncio.sleep(seconds)
        if down.exists():
            down.unlink()
            incident.mended_at = time.time()

    def payments() -> str:
        if not down.exists():
            return "We are back. Please come slowly: we bear 20 calls a second."
        if not incident.told_at:
            incident.told_at = time.time()
            incident.background.append(asyncio.create_task(mend(_MEND_S)))
        return (
            "Our database is failing over. A minute or so. Your retries don't help: please stop them. Ask again then."
        )

    incident.background.append(asyncio.create_task(mend(_BY_ITSELF_S)))
    incident.people["payments"] = incident.people["payments.example"] = payments


async def _charges_go(incident: Incident) -> bool:
    left = await incident.value('atf_tasks{lambda="shop/charge",status="RETRIABLE_FAILURE"}')
    return left == 0 and not await incident.gated() and incident.mended_at > 0


def _while_down(incident: Incident, at: float, words: str) -> str:
    down = incident.cluster.world / "payments.down"
    came_back = down.exists() or at < incident.mended_at
    return "payments was still down: the storm begins anew" if words.startswith("atf resume") and came_back else ""


_RETRIES: Final = {r"^atf retry\b": "a poison task takes a process with it each time"}
_HOSTS: Final = {r"^fleet (start|deploy)\b": "what fails would fail faster"}

FAULTS: Final = {
    each.name: each
    for each in (
        DrillFault(
            "late-task",
            _limit,
            frozenset({"AtfStartsLate", "AtfTasksWait"}),
            r"^atf lambda (un)?set shop/bill .*max_running",
            _bills_flow,
            {r"^fleet (deploy|start)": "executors were not short"},
        ),
        DrillFault(
            "bad-deploy",
            _deploy,
            frozenset({"AtfTasksFail", "AtfDeadLetters"}),
            rf"^fleet deploy {shop.GOOD}\b|^atf pause shop/mail",
            _mails_go,
            too_early=_before_the_good_release,
        ),
        DrillFault(
            "full-store",
            _export,
            frozenset({"AtfStoreFull", "AtfStoreFills", "AtfScheduleRefused"}),
            r"(?i)^fleet redis config set maxmemory \d",
            _has_room,
        ),
        DrillFault(
            "paused-lambda",
            _pause,
            frozenset({"AtfTaskOverdue", "AtfTasksWait"}),
            r"^fleet tell dana|^atf resume shop/bill",
            _bills_may_run,
            too_early=_while_migrating,
        ),
        DrillFault(
            "dead-host",
            _kill_host,
            frozenset({"AtfProcessGone"}),
            r"^fleet start web-2",
            _both_hosts,
            {r"^atf host drain": "a dead host does nothing that could be drained"},
        ),
        DrillFault(
            "poison-task",
            _poison,
            frozenset({"AtfRunsLost", "AtfDeadLetters"}),
            r"^fleet (cause|done) ",
            _killed_nobody_lately,
            _RETRIES,
        ),
        DrillFault(
            "missed-tick",
            _pause_over_tick,
            frozenset({"AtfTickMissed"}),
            r"^atf job run shop/report",
            _reported_once,
            {r"^atf job schedule": "it changes later ticks"},
            too_early=_again,
            prepare=_make_job,
        ),
        DrillFault(
            "retry-storm",
            _payments_down,
            frozenset({"AtfRetryStorm"}),
            r"^atf (pause|gate) shop/charge",
            _charges_go,
            _HOSTS,
            too_early=_while_down,
        ),
    )
}
