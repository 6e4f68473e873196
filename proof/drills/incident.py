"""What a fault sees of the drill: the cluster, its clients, the clock; and what machines and people answer to `fleet`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import redis

import atf
from atf.errors import AtfError

from . import shop
from .cluster import HOSTS, DrillCluster
from .oncall import USAGE, OperatorCall
from .prometheus import PrometheusServer

NOBODY: Final = "(no answer: nobody of that name is there, or they know nothing of it)"


@dataclass
class Incident:
    """A drill that goes on."""

    cluster: DrillCluster
    client: atf.AsyncClient
    prometheus: PrometheusServer
    injected_at: float = 0.0
    alerted_at: float = 0.0
    calls: list[OperatorCall] = field(default_factory=list)
    """What was run so far."""
    people: dict[str, Callable[[], str]] = field(default_factory=dict)
    """What somebody answers who is told something."""
    deployed: list[tuple[float, int]] = field(default_factory=list)
    background: list[asyncio.Task[None]] = field(default_factory=list)
    """What goes on meanwhile; it ends with the drill."""
    tick_at: float = 0.0
    told_at: float = 0.0
    """When the owner of what is down was told, first."""
    mended_at: float = 0.0
    notes: dict[str, float] = field(default_factory=dict)
    """When the operator said `cause` and `done`, first."""
    said: dict[str, str] = field(default_factory=dict)

    async def value(self, expression: str, default: float = 0.0) -> float:
        """The greatest value of an expression of Prometheus."""
        found = await self.prometheus.value(expression)
        return default if found is None else found

    async def oldest(self, lambda_name: str = "") -> float:
        """Seconds for which the oldest task has been due: of a lambda, or of any."""
        return await self.value(
            f'atf_due_oldest_seconds{{lambda="{lambda_name}"}}' if lambda_name else "atf_due_oldest_seconds"
        )

    async def gated(self) -> bool:
        return await self.value("atf_lambda_gated") > 0

    async def deploy(self, release: int) -> None:
        self.deployed.append((time.time(), release))
        await self.cluster.deploy(release)

    # --- what `fleet` asks ---

    async def answer(self, folder: Path) -> None:
        """Answers every question that lies there."""
        for path in questions(folder):
            words = [str(each) for each in json.loads(path.read_text("utf-8"))]
            path.unlink()
            try:
                code, said = 0, await self._fleet(words[0], words[1:])
            except (AtfError, ValueError, redis.RedisError) as error:
                code, said = 1, str(error)
            answer = path.with_suffix(".part")
            answer.write_text(json.dumps([code, said]), "utf-8")
            answer.rename(path.with_suffix(".answer"))

    async def _fleet(self, verb: str, words: list[str]) -> str:
        match verb, words:
            case "hosts", []:
                return "\n".join(self._host(name) for name in HOSTS)
            case "start", [name]:
                return await self._start(name)
            case "releases", []:
                return "\n".join(
                    f"{_clock(at)}  shop release {release} deployed to all hosts" for at, release in self.deployed
                )
            case "deploy", [release] if release.isdigit() and int(release) in (shop.GOOD, shop.BAD):
                await self.deploy(int(release))
                return f"release {release} runs on {', '.join(self.cluster.hosts)}"
            case "redis", [_, *_]:
                return self._redis(words)
            case "tell", [who, _, *_]:
                return self.people.get(who.lower(), lambda: NOBODY)()
            case (("cause" | "done"), [_, *_]):
                self.notes.setdefault(verb, time.time())
                self.said[verb] = " ".join(words)
                return "noted"
        raise ValueError(USAGE)

    def _host(self, name: str) -> str:
        where = f"{name}  controller {self.cluster.addresses[name]}, its metrics {self.cluster.metrics[name]}"
        if name in self.cluster.hosts:
            return f"{where}  answers, release {self.cluster.release}"
        return f"{where}  does not answer: the machine is dead"

    async def _start(self, name: str) -> str:
        if name not in HOSTS:
            raise ValueError(f"no host {name}: there are {', '.join(HOSTS)}")
        if name in self.cluster.hosts:
            raise ValueError(f"{name} runs already")
        await self.cluster.start_host(name)
        return f"a fresh machine {name} runs, with release {self.cluster.release}"

    def _redis(self, words: list[str]) -> str:
        with redis.Redis.from_url(self.cluster.store.url, decode_responses=True) as client:
            return str(client.execute_command(*words))


def questions(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.json"))


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.gmtime(at))
