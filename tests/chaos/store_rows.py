"""Rows that try the store modes for real: a store cut off or killed under load, again and again, and what came of the tasks.

Each row is a scene: `await ROW(times)` answers a Story, whose `notes` hold what the row measured and whose `troubles` what it
found wrong beside the judgement of the history.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from typing import Final

from .diary import pid_of
from .scene import Scene, Story
from .stores import ClusterStore, SentinelStore, Server, Single, followers, until

REPLICATED: Final = "replicated"
CUT_S: Final = 35.0
"""Seconds a cut lasts: a failover, a whole lease in which the new master gives no claims, and some time at work."""
ALONE_S: Final = 5.0
"""Seconds after which no write comes through to a master that was cut off."""
SHORT_CUT_S: Final = 8.0
PERIOD_S: Final = 60.0
"""Seconds from one killed master of a Cluster to the next."""
SCHEDULE_S: Final = 5.0
"""Seconds that Schedule may be unavailable for by one failover."""
BACK_S: Final = 90.0
"""Seconds after a cut until everybody works again, at most."""


async def single(times: int, binary: str = "") -> Story:
    """One server with its append-only file on a host of its own: cut off, then killed and started again; nothing is lost."""
    async with Scene() as scene:
        store = Single(scene.lab.host("store"), scene.folder, binary=binary)
        await scene.begin(store, [scene.lab.host("r1")])
        for _ in range(times):
            scene.lab.cut("store")
            await asyncio.sleep(SHORT_CUT_S)
            scene.lab.heal()
            _append(scene, "works_after_cut_s", await scene.works("r1", seconds=BACK_S))
            await store.server.kill()
            await store.start()
            _append(scene, "works_after_kill_s", await scene.works("r1", seconds=BACK_S))
        return await scene.judge()


async def split_brain(times: int, binary: str = "") -> Story:
    """The master is parted from its replicas, with the roles and the load of one host on its side, and of another on theirs."""
    async with Scene() as scene:
        hosts = [scene.lab.host(name) for name in ("s1", "s2", "s3")]
        store = SentinelStore(hosts, scene.folder, binary=binary)
        roles = [scene.lab.host(name).name for name in ("r1", "r2")]
        await scene.begin(store, [scene.lab.hosts[name] for name in roles], durability=REPLICATED)
        for number in range(times):
            await store.whole()
            master = _known(store.master())
            inside, outside = roles[number % 2], roles[1 - number % 2]
            scene.lab.split(master.host.name, inside)
            await _cut_off(scene, store, master, {inside}, {outside})
        return await scene.judge()


async def datacenters(times: int, binary: str = "") -> Story:
    """Three sites, each with a store server, a Sentinel, every role and a load; one of them is cut off whole."""
    async with Scene() as scene:
        sites = ("east", "north", "west")
        servers = [scene.lab.host(f"{site}-store", site) for site in sites]
        roles = {site: scene.lab.host(f"{site}-roles", site) for site in sites}
        store = SentinelStore(servers, scene.folder, binary=binary)
        await scene.begin(store, list(roles.values()), durability=REPLICATED, rate=10, executors=1)
        for number in range(times):
            await store.whole()
            master = _known(store.master())
            masters = master.host.name.partition("-")[0]
            # every second time that of the master, else the others in turns
            site = masters if number % 2 == 0 else [each for each in sites if each != masters][number // 2 % 2]
            scene.lab.cut(site)
            others = {roles[each].name for each in sites if each != site}
            await _cut_off(scene, store, master if site == masters else None, {roles[site].name}, others)
        return await scene.judge()


async def cluster(times: int, binary: str = "") -> Story:
    """A Redis Cluster of 3 + 3: a master is killed each minute, its replica takes over, and it comes back as a replica."""
    async with Scene() as scene:
        store = ClusterStore([scene.lab.host(f"s{number}") for number in range(1, 7)], scene.folder, binary=binary)
        await scene.begin(store, [scene.lab.host("r1"), scene.lab.host("r2")], durability=REPLICATED)
        for number in range(times):
            await store.whole()
            killed = store.masters()[number % 3]
            heirs = followers(killed)
            began = time.monotonic()
            await killed.kill()
            took = await until(lambda: any(each.address in heirs for each in store.masters()), "a replica takes over")  # noqa: B023
            _append(scene, "failover_s", took)
            await killed.start()
            await store.whole()
            _append(scene, "whole_s", time.monotonic() - began)
            for host in scene.roles:
                await scene.works(host, seconds=BACK_S)
            await asyncio.sleep(max(0.0, began + PERIOD_S - time.monotonic()) if number + 1 < times else 0.0)
            wait = max(scene.waits(began).values())
            _append(scene, "schedule_waited_s", wait)
            if wait > SCHEDULE_S:
                scene.story.troubles.append(f"kill {number + 1}: Schedule took {wait:.1f} s")
        return await scene.judge()


async def _cut_off(
    scene: Scene, store: SentinelStore, master: Server | None, inside: set[str], outside: set[str]
) -> None:
    """While a part is cut off: the others elect a master if it was theirs, and go on; the part's executors end. Then it is healed.

    Args:
        scene: where.
        store: its store.
        master: the master that is cut off; None: it is not.
        inside: the hosts with roles that are cut off.
        outside: the other ones with roles.
    """
    began = time.monotonic()
    if master is not None:
        others = [each.host for each in store.servers if each is not master]

        def elected() -> bool:
            return store.master(others) not in (None, master)

        _append(scene, "elected_s", await until(elected, "the others elect a master"))
    await asyncio.sleep(max(0.0, began + ALONE_S - time.monotonic()))
    holders = scene.busy() & set().union(*(scene.workers(host) for host in inside))
    await asyncio.sleep(max(0.0, began + CUT_S - time.monotonic()))
    now = time.monotonic()
    for host in sorted(outside):
        _append(scene, "schedule_waited_outside_s", scene.waits(began, host)[host])
        if not _worked(scene, now - 10, outside):
            scene.story.troubles.append(f"cut off {sorted(inside)}: no task began elsewhere in the last 10 s")
    _append(scene, "executors_cut_off_at_work", len(holders))
    if left := holders & set().union(*(scene.workers(host) for host in inside)):
        scene.story.troubles.append(
            f"cut off {sorted(inside)}: {len(left)} executors at work still live after {CUT_S:g} s"
        )
    scene.lab.heal()
    healed = time.monotonic()
    await store.whole()
    _append(scene, "whole_s", time.monotonic() - healed)
    for host in sorted(inside | outside):
        await scene.works(host, seconds=BACK_S)
    _append(scene, "works_again_s", time.monotonic() - healed)


def _worked(scene: Scene, since: float, hosts: Iterable[str]) -> bool:
    """Whether a run has begun since then in a process of each of these hosts."""
    return all(scene.workers(host) & {pid_of(each.process) for each in scene.begun(since)} for host in hosts)


def _known(master: Server | None) -> Server:
    if master is None:
        raise RuntimeError("the Sentinels do not agree on a master")
    return master


def _append(scene: Scene, name: str, value: float) -> None:
    scene.story.notes.setdefault(name, []).append(round(value, 2))


ROWS: Final = {
    "single-store": single,
    "split-brain": split_brain,
    "cluster": cluster,
    "datacenters": datacenters,
}
