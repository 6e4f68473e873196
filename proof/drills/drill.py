"""One drill: a healthy cluster, a fault at a random moment, the page, and what came of what the operator did.

It owns the order of these, the clock of the drill, and the judgement:

    right action        what ends the fault was done, it is over, and nothing was done that makes it worse
    right, with errors  the same, but something was carried out that makes it worse; a command that was refused or only asks counts as nothing
    not over            the fault was still there at the end
    no alert            nobody was paged
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import atf

from .cluster import DrillCluster, free_ports
from .faults import DESTROYS, DrillFault
from .incident import Incident
from .oncall import OperatorCall, calls, cancels_only, made, write_tools
from .prometheus import FiringAlert, PrometheusServer
from .shop import GOOD, SteadyLoad

AT_MOST_S: Final = 1_200.0
_ALERT_S: Final = 300.0
"""An alert that has not come by then does not come."""
_QUIET_S: Final = 20.0
_HEALTHY_S: Final = 180.0
_BEFORE_S: Final = (20.0, 50.0)
"""How long a healthy cluster is left alone before its fault."""
_HELD_S: Final = 15.0
"""What is over stays so for that long."""
_GRACE_S: Final = 90.0
"""What the operator calls done may take so long until it shows."""
Say = Callable[[str], None]


class Drill:
    """A drill in a folder, which holds everything of it.

    Args:
        fault: what goes wrong.
        folder: of the cluster, its logs, and the operator's commands.
        factor: how much faster the rules are.
        say: takes what the operator gets to read.
    """

    def __init__(self, fault: DrillFault, folder: Path, factor: float, say: Say) -> None:
        self.fault, self.folder, self._factor, self._say = fault, folder, factor, say
        self._paged: dict[FiringAlert, float] = {}
        self._firing: list[FiringAlert] = []
        self.wrong: list[dict[str, Any]] = []
        self._right_at = self._over_at = 0.0
        self._holds_since = 0.0

    async def run(self) -> dict[str, Any]:
        """The result."""
        cluster = DrillCluster(self.folder)
        try:
            await cluster.start()
            (port,) = free_ports(1)
            prometheus = PrometheusServer(
                self.folder / "prometheus", f"127.0.0.1:{port}", cluster.targets, self._factor
            )
            try:
                async with atf.AsyncClient(cluster.addresses["frontend"]) as client:
                    incident = Incident(cluster, client, prometheus)
                    return await self._go(incident)
            finally:
                await prometheus.stop()
        finally:
            await cluster.stop()

    async def _go(self, incident: Incident) -> dict[str, Any]:
        load = SteadyLoad(incident.client)
        incident.deployed.append((time.time(), GOOD))
        try:
            if self.fault.prepare is not None:
                await self.fault.prepare(incident)
            await self._healthy(incident)
            await asyncio.sleep(random.uniform(*_BEFORE_S))
            incident.injected_at = time.time()
            injecting = asyncio.create_task(self.fault.inject(incident))
            incident.background.append(injecting)
            await self._until_paged(incident)
            if incident.alerted_at:
                write_tools(self.folder, incident.cluster.env | {"ATF_PROMETHEUS": incident.prometheus.url})
                self._tell_where()
                await self._watch(incident)
            return self._result(incident)
        finally:
            for each in incident.background:
                each.cancel()
            await asyncio.gather(*incident.background, return_exceptions=True)
            await load.stop()

    async def _healthy(self, incident: Incident) -> None:
        """Returns when all has been up for a while and no alert fires.

        Raises:
            TimeoutError: some alert does.
        """
        began = quiet_since = time.time()
        while time.time() - quiet_since < _QUIET_S:
            await asyncio.sleep(1)
            if not await incident.prometheus.ready() or (firing := await incident.prometheus.alerts()):
                quiet_since = time.time()
                if quiet_since - began > _HEALTHY_S:
                    raise TimeoutError(f"the cluster was never healthy: {firing}")

    async def _until_paged(self, incident: Incident) -> None:
        while not incident.alerted_at and time.time() - incident.injected_at < _ALERT_S + max(
            incident.tick_at - incident.injected_at, 0
        ):
            await asyncio.sleep(0.5)
            await self._page(incident)
            if any(each.name in self.fault.alerts for each in self._paged):
                incident.alerted_at = time.time()

    async def _page(self, incident: Incident) -> None:
        self.page(await incident.prometheus.alerts())

    def page(self, firing: list[FiringAlert]) -> None:
        """Says which alerts have begun to fire, and which have ended."""
        before, now = {each.about for each in self._firing}, {each.about for each in firing}
        for alert in self._firing:
            if alert.about not in now:
                self._say(f"{_clock()}  [resolved] {' of '.join(filter(None, alert.about))}")
        for alert in firing:
            if alert.about not in before:
                self._say(
                    f"{_clock()}  [{alert.severity}] {alert.name}: {alert.summary}\n          runbook: {alert.runbook}"
                )
            if alert.about not in {each.about for each in self._paged}:
                self._paged[alert] = time.time()
        self._firing = firing

    def _tell_where(self) -> None:
        self._say(f"{_clock()}  You are on call. In your shell: source {self.folder}/env")

    async def _watch(self, incident: Incident) -> None:
        done_at = 0.0
        while time.time() < incident.alerted_at + AT_MOST_S:
            await asyncio.sleep(0.5)
            await incident.answer(self.folder / "asked")
            await self._page(incident)
            for each in calls(self.folder)[len(incident.calls) :]:
                self.judge(incident, each)
                incident.calls.append(each)
            await self._look(incident)
            done_at = done_at or incident.notes.get("done", 0.0)
            if done_at and (self._over_at or time.time() - done_at > _GRACE_S):
                return

    def judge(self, incident: Incident, call: OperatorCall) -> None:
        if not self._right_at and call.does(self.fault.right):
            self._right_at = call.at
        own = cancels_only(call.words, made(self.folder))
        reasons = [why for pattern, why in {**DESTROYS, **self.fault.wrong}.items() if call.does(pattern) and not own]
        if call.does("") and (why := self.fault.too_early(incident, call.at, call.words)):
            reasons.append(why)
        self.wrong += [
            {"command": call.words, "why": why, "at_s": round(call.at - incident.alerted_at, 1)} for why in reasons
        ]

    async def _look(self, incident: Incident) -> None:
        """Notes since when it is over. What breaks again was not over."""
        over = bool(self._right_at) and await self.fault.over(incident)
        self._holds_since = (self._holds_since or time.time()) if over else 0.0
        held = over and time.time() - self._holds_since >= _HELD_S
        self._over_at = self._holds_since if held else 0.0

    def _result(self, incident: Incident) -> dict[str, Any]:
        def since_alert(at: float) -> float | None:
            return round(at - incident.alerted_at, 1) if at else None

        if not incident.alerted_at:
            verdict = "no alert"
        elif not self._over_at:
            verdict = "not over"
        else:
            verdict = "right, with errors" if self.wrong else "right action"
        return {
            "fault": self.fault.name,
            "verdict": verdict,
            "alerts": [
                {"name": each.name, "lambda": each.lambda_name, "after_fault_s": round(at - incident.injected_at, 1)}
                for each, at in self._paged.items()
            ],
            "from_fault_to_alert_s": round(incident.alerted_at - incident.injected_at, 1)
            if incident.alerted_at
            else None,
            "from_alert_to_cause_s": since_alert(incident.notes.get("cause", 0.0)),
            "from_alert_to_right_action_s": since_alert(self._right_at),
            "from_alert_to_over_s": since_alert(self._over_at),
            "from_alert_to_done_s": since_alert(incident.notes.get("done", 0.0)),
            "wrong_actions": self.wrong,
            "said": incident.said,
            "commands": [
                {"at_s": since_alert(each.at), "exit": each.code, "words": each.words} for each in incident.calls
            ],
            "factor": self._factor,
        }


def _clock() -> str:
    return time.strftime("%H:%M:%S", time.gmtime())


def tidy(folder: Path) -> None:
    """Removes what a drill leaves behind."""
    shutil.rmtree(folder, ignore_errors=True)
