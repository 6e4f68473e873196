"""Roles of which there are several, over four partitions: on one server, or on a Redis Cluster of three masters and their replicas.

It owns the processes and how a master of the cluster is killed; which role is killed, and when, is a row's business.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import redis

from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.cli.local.processes import ExecutorPids
from atf.embedded import find_binary
from atf.errors import AtfError
from tests.store.modes import Nodes, TcpServer, in_step

from .another import Another
from .stores import DURABLE, REPLICATING, until

PARTITIONS: Final = 4
DURABILITY: Final = "replicated"
"""On a cluster: a replica has every task, claim and end before it is answered, so that a failover takes none of them back."""
NODE_SETTINGS: Final = tuple((name, value or '""') for name, value in (DURABLE | REPLICATING).items())
"""As in the other rows of a cluster."""
_UP_S: Final = 60.0


@dataclass(frozen=True)
class Several:
    """What runs.

    Attributes:
        cluster: one of each role, and the store where that is one server.
        consumers: the other store consumers.
        controller: the other controller, with one executor.
        nodes: of the Redis Cluster; None: one server.
    """

    cluster: Cluster
    consumers: list[Another]
    controller: Another
    nodes: Nodes | None

    def executors(self) -> list[ExecutorPids]:
        """Of both controllers, those that run now."""
        return [*self.cluster.executors(), *self.controller.executors()]


@asynccontextmanager
async def several(
    app: str, env: Mapping[str, str], folder: Path, *, on_cluster: bool, consumers: int, executors: int = 1
) -> AsyncIterator[Several]:
    """Every role, and `consumers` store consumers and two controllers together; returns when their executors are there.

    Args:
        app: the lambdas' module.
        env: of every process.
        folder: takes the data and what the roles say.
        on_cluster: whether the store is a Redis Cluster.
        consumers: how many store consumers there are.
        executors: of the first controller.
    """
    async with AsyncExitStack() as stack:
        nodes = stack.enter_context(_running(folder / "nodes")) if on_cluster else None
        log = stack.enter_context((folder / "roles.log").open("w", encoding="utf-8", buffering=1))
        settings = ClusterSettings(
            redis_url=nodes.url if nodes else "",
            data_dir=str(folder / "data"),
            free_ports=True,
            executors=executors,
            partitions=PARTITIONS,
            durability=DURABILITY if on_cluster else "",
        )

        def say(name: str, line: str) -> None:
            print(f"{name:<14} | {line}", file=log)

        cluster = await stack.enter_async_context(Cluster(settings, [app], env=env, say=say))
        theirs = {**env, "ATF_REDIS_URL": cluster.redis_url}
        of_store = ["--listen", "127.0.0.1:0", "--partitions", str(PARTITIONS)]
        of_store += ["--durability", DURABILITY] if on_cluster else []
        others = [
            Another(theirs, ["store-consumer", *of_store], folder / f"consumer-{each}.log")
            for each in range(2, consumers + 1)
        ]
        addresses = ["--hsc", cluster.addresses["hsc"], "--frontend", cluster.frontend_address]
        words = ["controller", "--listen", "127.0.0.1:0", "--executors", "1", *addresses, app]
        controller = Another(dict(env), words, folder / "controller-2.log")
        for each in (*others, controller):
            each.start()
            stack.push_async_callback(each.kill)
        found = Several(cluster, others, controller, nodes)
        async with asyncio.timeout(_UP_S):
            while len(found.executors()) < executors + 1:
                await asyncio.sleep(0.1)
        yield found


def available() -> str:
    """Why no Redis Cluster can be started here; "" where it can."""
    try:
        find_binary()
    except AtfError as error:
        return str(error)
    return ""


@contextmanager
def _running(folder: Path) -> Iterator[Nodes]:
    """Three masters and their replicas, which write to disk before they answer."""
    folder.mkdir()
    nodes = Nodes(str(find_binary().path), folder, replicas=True, settings=NODE_SETTINGS)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.kill()


async def fail_over(nodes: Nodes) -> None:
    """Kills a master, and starts it again as soon as its replica is the master: nobody else has what that one takes on until then."""
    await whole(nodes)
    before = masters(nodes)
    killed = random.choice(before)
    killed.kill()
    await until(lambda: any(_leads(each) for each in nodes.servers if each not in before), "a replica takes over")
    killed.start()  # not in a thread: that would go on when this is cancelled


async def whole(nodes: Nodes) -> None:
    """Returns when every master has its replica."""
    await until(lambda: len(masters(nodes)) == len(nodes.servers) // 2, "every master has its replica")


def masters(nodes: Nodes) -> list[TcpServer]:
    """The masters whose replicas are in step."""
    return [each for each in nodes.servers if _leads(each) and in_step(each) == 1]


def _leads(server: TcpServer) -> bool:
    try:
        return bool(server.info("replication")["role"] == "master")
    except (redis.RedisError, OSError):
        return False
