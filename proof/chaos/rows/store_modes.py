"""Rows: the store modes tried for real, on hosts whose links are cut and whose servers are killed under load."""

from __future__ import annotations

import asyncio
import functools
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from atf.config.settings import Timing
from atf.task import US
from atf.verify.events import Forgot
from atf.verify.load import Load
from atf.verify.outcome import LoadOutcome
from proof.chaos.frame import Figures, Progress, Row, Trial
from proof.chaos.lab import available
from proof.chaos.scene import RELAXED as RELAXED_LOAD, Scene
from proof.chaos.stores import ChaosServer, ClusterStore, SentinelStore, Single, followers, until

REPLICATED: Final = "replicated"
TIMING: Final = Timing(heartbeat_interval=3, heartbeat_timeout=20)
"""A failover takes four to seven seconds. With the default interval three heartbeats may fail within five, and every executor
at work would end itself; with this one those bear it that are not cut off."""
CUT_S: Final = 40.0
"""Seconds a cut lasts: a failover, a whole lease in which the new master gives no claims, and some time at work."""
ALONE_S: Final = 5.0
"""Seconds after which no write comes through to a master that was cut off."""
SHORT_CUT_S: Final = 8.0
PERIOD_S: Final = 60.0
"""Seconds from one killed master of a Cluster to the next."""
SCHEDULE_S: Final = 5.0
"""Seconds that Schedule may be away for by one killed master of a Cluster, or while a site is cut off that has not the master; where the master is
cut off, from the election of another one on: before that there is no store."""
CLAIMS_S: Final = 5.0 + TIMING.heartbeat_timeout
"""Seconds from the election until tasks are claimed again."""
BACK_S: Final = 90.0
"""Seconds after a cut until everybody works again, at most."""
_PASSING: Final = {"Unavailable", "DeadlineExceeded"}
"""Errors that say: try again."""
_RECENT_S: Final = 10.0
LAG_S: Final = 2.0
"""Seconds by which a replica may be behind its master while that takes writes (min-replicas-max-lag)."""
RELAXED: Final = Load(rate=5, short_s=0.8, long_s=20, long_share=0.01, delayed_share=0.1)
"""Of each host, of class relaxed, beside its other load: few long tasks, since those of a whole cut come at once and take all threads for their time."""
DEAD_S: Final = 30.0
"""Seconds for which a killed master of a Cluster stays away where it is not started at once: longer than the failover, and than a lease."""

Try = Callable[[Scene], Awaitable[Callable[[int], Awaitable[Trial]]]]
"""Begins a scene, and answers what does one trial in it."""


async def run_scene(begin: Try, timing: Timing, n: int, progress: Progress) -> Sequence[Trial]:
    async with Scene(progress, timing) as scene:
        once = await begin(scene)
        found: list[Trial] = []
        async for number in progress.trials(n):
            found.append(await once(number))
            shown = ", ".join(f"{name} {value}" for name, value in found[-1].items() if not isinstance(value, list))
            progress.say(f"{shown}{''.join(f'; BROKEN: {each}' for each in _said(found[-1]))}")
        if not found:  # stopped before the first trial
            return []
        outcome, relaxed = await scene.judge()
        for each in [*outcome.findings, *(relaxed.findings if relaxed else [])]:
            progress.say(f"  {each}")
        found[0] |= outcome.figures() | (of_relaxed(relaxed) if relaxed else {})
        refused = Counter(outcome.refused) + Counter(relaxed.refused if relaxed else {})
        odd = {kind: count for kind, count in refused.items() if kind not in _PASSING}
        found[0]["failures"] = [
            *outcome.failures,
            *(f"of class relaxed: {each}" for each in (relaxed.failures if relaxed else [])),
            *(f"Schedule failed with {kind}, {n} times" for kind, n in odd.items()),
        ]
        scene.keep = any(_said(each) for each in found)
        return found


def of_relaxed(outcome: LoadOutcome) -> Figures:
    """The figures of the tasks of class relaxed; `forgiven` went with what a failover may lose of it, `lost` otherwise."""
    names = ("attempted", "acknowledged", "lost", "stuck", "early", "concurrent", "forgiven", "duplicated")
    return {f"relaxed_{name}": value for name, value in outcome.figures().items() if name in names}


def _said(trial: Trial) -> list[str]:
    return [*trial.get("failures", []), *trial.get("late", [])]


# --- a single server --------------------------------------------------------------------------------------------------


async def _single(scene: Scene) -> Callable[[int], Awaitable[Trial]]:
    store = Single(scene.lab.host("store"), scene.folder)
    await scene.begin(store, [scene.lab.host("r1")], durability="disk")

    async def once(_number: int) -> Trial:
        scene.lab.cut("store")
        await asyncio.sleep(SHORT_CUT_S)
        scene.lab.heal()
        cut = await scene.works("r1", seconds=BACK_S)
        await store.server.kill()
        await store.start()
        return {
            "works_after_cut_s": round(cut, 2),
            "works_after_kill_s": round(await scene.works("r1", seconds=BACK_S), 2),
        }

    return once


# --- Sentinels --------------------------------------------------------------------------------------------------------


async def _split_brain(scene: Scene, relaxed: Load | None = None) -> Callable[[int], Awaitable[Trial]]:
    store = SentinelStore([scene.lab.host(name) for name in ("s1", "s2", "s3")], scene.folder)
    roles = ["r1", "r2"]
    await scene.begin(store, [scene.lab.host(name) for name in roles], durability=REPLICATED, relaxed=relaxed)

    async def once(number: int) -> Trial:
        await store.whole()
        master = _known(store.master())
        inside, outside = roles[number % 2], roles[1 - number % 2]
        return await _cut_off(
            scene, store, lambda: scene.lab.split(master.host.name, inside), master, [inside], [outside]
        )

    return once


async def _datacenters(scene: Scene) -> Callable[[int], Awaitable[Trial]]:
    sites = ("east", "north", "west")
    servers = [scene.lab.host(f"{site}-store", site) for site in sites]
    roles = {site: scene.lab.host(f"{site}-roles", site) for site in sites}
    store = SentinelStore(servers, scene.folder)
    await scene.begin(store, list(roles.values()), durability=REPLICATED, executors=1)

    async def once(number: int) -> Trial:
        await store.whole()
        master = _known(store.master())
        masters = master.host.name.partition("-")[0]
        # every second time that of the master, else the others in turns
        site = masters if number % 2 == 0 else [each for each in sites if each != masters][number // 2 % 2]
        others = [roles[each].name for each in sites if each != site]
        lost = master if site == masters else None
        return await _cut_off(scene, store, lambda: scene.lab.cut(site), lost, [roles[site].name], others)

    return once


async def _cut_off(
    scene: Scene,
    store: SentinelStore,
    cut: Callable[[], None],
    master: ChaosServer | None,
    inside: Sequence[str],
    outside: Sequence[str],
) -> Trial:
    """While a part is cut off: the others elect a master if it was theirs, and go on; the part's executors end. Then it is healed.

    Args:
        scene: where.
        store: its store.
        cut: cuts it off.
        master: the master that is cut off; None: it is not.
        inside: the hosts with roles that are cut off.
        outside: the other ones with roles.
    """
    late: list[str] = []
    trial: Trial = {"late": late}
    unharmed = scene.workers(*outside)
    cut()
    began = time.monotonic()
    if master is not None:
        scene.forgot.append(forgotten(began))
    if master is not None:
        others = [each.host for each in store.servers if each is not master]
        trial["elected_s"] = _rounded(
            await until(lambda: store.master(others) not in {None, master}, "the others elect a master")
        )
    elected_us = time.time_ns() // 1000
    await asyncio.sleep(max(0.0, began + ALONE_S - time.monotonic()))
    holders = scene.at_work() & scene.workers(*inside)
    trial["at_work_inside"] = len(holders)
    await asyncio.sleep(max(0.0, began + CUT_S - time.monotonic()))
    idle = [host for host in outside if not scene.began_in(time.monotonic() - _RECENT_S) & scene.workers(host)]
    late += [f"no task began on {host} in the last {_RECENT_S:g} s of the cut" for host in idle]
    left = holders & scene.workers(*inside)
    late += [f"an executor that was cut off at work still lives after {CUT_S:g} s"] * len(left)
    trial["schedule_away_s"] = _rounded(away := scene.waited(began, *outside))
    if master is None and away > SCHEDULE_S:
        late.append(f"Schedule was away for {away:.1f} s where nothing was cut")
    if master is not None:
        since = away - trial["elected_s"]
        late += [f"Schedule was away for {since:.1f} s after the election"] if since > SCHEDULE_S else []
        trial["claims_s"] = _rounded(claims := scene.claimed_after(elected_us, *outside))
        late += [f"no task was claimed for {claims:.1f} s after the election"] if claims > CLAIMS_S else []
    trial["ended_outside"] = len(unharmed - scene.workers(*outside))
    scene.lab.heal()
    healed = time.monotonic()
    await store.whole()
    trial["whole_s"] = _rounded(time.monotonic() - healed)
    for host in [*inside, *outside]:
        await scene.works(host, seconds=BACK_S)
    trial["works_again_s"] = _rounded(time.monotonic() - healed)
    return trial


def forgotten(cut_s: float) -> Forgot:
    """What a master that was cut off then (monotonic, seconds) may take with it, of tasks of class relaxed: what no replica had, and what it took alone."""
    return Forgot(round((cut_s + ALONE_S) * US), round((cut_s - LAG_S) * US))


def _known(master: ChaosServer | None) -> ChaosServer:
    if master is None:
        raise TimeoutError("the Sentinels do not agree on a master")
    return master


# --- a Redis Cluster --------------------------------------------------------------------------------------------------


def _cluster(scene: Scene, replicas: int = 1) -> ClusterStore:
    """Three masters with so many replicas each."""
    return ClusterStore([scene.lab.host(f"s{number}") for number in range(1, 4 + 3 * replicas)], scene.folder)


async def _cluster_kill(scene: Scene) -> Callable[[int], Awaitable[Trial]]:
    store = _cluster(scene)
    await scene.begin(store, [scene.lab.host(name) for name in ("r1", "r2")], durability=REPLICATED)

    async def once(number: int) -> Trial:
        trial, began = await _killed(scene, store, number, 0.0)
        away = scene.waited(began)
        return {**trial, "late": too_long("Schedule", away), "schedule_away_s": _rounded(away)}

    return once


async def _cluster_away(scene: Scene, replicas: int = 1) -> Callable[[int], Awaitable[Trial]]:
    store = _cluster(scene, replicas)
    hosts = [scene.lab.host(name) for name in ("r1", "r2")]
    await scene.begin(store, hosts, durability=REPLICATED, relaxed=RELAXED)

    async def once(number: int) -> Trial:
        trial, began = await _killed(scene, store, number, DEAD_S)
        scene.forgot.append(Forgot(round(began * US), round((began - LAG_S) * US)))
        replicated = scene.waited(began, *(each.name for each in hosts))
        relaxed = scene.waited(began, *(f"{each.name}{RELAXED_LOAD}" for each in hosts))
        waits = trial["whole_s"] if replicas == 1 else None
        return {
            **trial,
            "late": too_long("Schedule of class relaxed", relaxed)
            + too_long("Schedule of class replicated", replicated, waits),
            "schedule_away_s": _rounded(replicated),
            "relaxed_away_s": _rounded(relaxed),
        }

    return once


async def _killed(scene: Scene, store: ClusterStore, number: int, dead_s: float) -> tuple[Trial, float]:
    """A master is killed, and is back when a replica has taken over and so many seconds are over; the figures, and when it was killed.

    Args:
        scene: where.
        store: its store.
        number: which master.
        dead_s: seconds for which it stays away at least.
    """
    await store.whole()
    killed = store.masters()[number % 3]
    heirs = followers(killed)
    unharmed = scene.workers(*scene.roles)
    began = time.monotonic()
    await killed.kill()
    failover = await until(lambda: any(each.address in heirs for each in store.masters()), "a replica takes over")
    await asyncio.sleep(max(0.0, began + dead_s - time.monotonic()))
    await killed.start()
    await store.whole()
    whole = time.monotonic() - began
    for host in scene.roles:
        await scene.works(host, seconds=BACK_S)
    await asyncio.sleep(max(0.0, began + PERIOD_S - time.monotonic()))
    ended = len(unharmed - scene.workers(*scene.roles))
    return {"failover_s": _rounded(failover), "whole_s": _rounded(whole), "ended": ended}, began


def too_long(what: str, away: float, back: float | None = None) -> list[str]:
    """What to say of a call that was away for too long after a master was killed.

    Args:
        what: the call.
        away: seconds of the longest one since then.
        back: seconds until the killed one was in step again, as a replica, where the call has to wait for it: the bar counts from there.
    """
    since, where = (away, "") if back is None else (away - back, " after its master's return")
    return [f"{what} was away for {since:.1f} s{where}"] if since > SCHEDULE_S else []


def somebody_at_work(figures: Figures) -> list[str]:
    """Executors that have nothing to do when they are cut off prove nothing."""
    return [] if figures.get("at_work_inside") else ["no executor was at work when it was cut off, in any trial"]


def _rounded(seconds: float) -> float:
    return round(seconds, 2)


def _row(begin: Try, timing: Timing = TIMING, **words: Any) -> Row:
    return Row(run=functools.partial(run_scene, begin, timing), available=available, **words)


KEPT: Final = "acknowledged tasks lost 0, concurrent 0, early 0"
_RELAXED_KEPT: Final = f"concurrent 0, early 0, and lost only what was accepted in the {LAG_S:g} s before a kill"
_SIDES: Final = (
    f"executors that are cut off at work end; on the other side Schedule answers ≤ {SCHEDULE_S:g} s after the election, and tasks are claimed"
    f" ≤ {CLAIMS_S:g} s (H + 5) after it"
)

ROWS: Final = [
    _row(
        _single,
        Timing(),
        name="store-cut",
        what=f"single store (appendfsync always) cut off for {SHORT_CUT_S:g} s, then killed and started again",
        bar=KEPT,
        full=10,
        batch=10,
    ),
    _row(
        _split_brain,
        name="split-brain",
        what="Sentinels, durability replicated: the master is parted from its replicas, with roles and clients on both sides",
        bar=f"{KEPT}; {_SIDES}",
        full=10,
        batch=5,
        verdict=somebody_at_work,
    ),
    _row(
        functools.partial(_split_brain, relaxed=RELAXED),
        name="split-brain-relaxed",
        what="the same, with claims of class relaxed, and some tasks of it beside those of class replicated",
        bar=f"{KEPT}; of class relaxed concurrent 0, early 0, and lost only what was accepted from {LAG_S:g} s before to {ALONE_S:g} s after the cut; {_SIDES}",
        full=10,
        batch=5,
        verdict=somebody_at_work,
    ),
    _row(
        _cluster_kill,
        name="cluster-kill",
        what="Redis Cluster 3 + 3, durability replicated: a master is killed each minute, and started again, as a replica, as soon as its own replica took over",
        bar=f"{KEPT}; Schedule is away for ≤ {SCHEDULE_S:g} s",
        full=15,
        batch=15,
    ),
    _row(
        _cluster_away,
        name="cluster-away",
        what=f"the same, with some tasks of class relaxed beside; the killed master is started again {DEAD_S:g} s after the kill",
        bar=f"{KEPT}; of class relaxed {_RELAXED_KEPT}, and Schedule of it is away for ≤ {SCHEDULE_S:g} s; of class replicated until ≤ {SCHEDULE_S:g} s after the killed one is back, as a replica in step: until then there is none",
        full=10,
        batch=5,
    ),
    _row(
        functools.partial(_cluster_away, replicas=2),
        name="cluster-away-two-replicas",
        what=f"the same with a second replica for each master: Redis Cluster 3 + 6, and a master that is killed is away for {DEAD_S:g} s",
        bar=f"{KEPT}; of class relaxed {_RELAXED_KEPT}; Schedule of both classes is away for ≤ {SCHEDULE_S:g} s, though the killed one is still away",
        full=10,
        batch=5,
    ),
    _row(
        _datacenters,
        name="datacenter-cut",
        what="three sites, each with a store server, a Sentinel, every role and clients: one is cut off whole",
        bar=f"{KEPT}; executors that are cut off at work end; work goes on in the others: Schedule ≤ {SCHEDULE_S:g} s after an election, claims ≤ {CLAIMS_S:g} s",
        full=10,
        batch=5,
        verdict=somebody_at_work,
    ),
]
