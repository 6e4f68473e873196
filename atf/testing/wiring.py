"""Puts roles together in one process, on the runtime, the stores and the transport that it is given.

`atf up --store memory`, the harness, the simulation and the tests get their roles here; processes of their own get them in their mains.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    StoreConsumerSettings,
    Timing,
)
from atf.controller.entrance import Entrance
from atf.controller.service import ControllerService
from atf.controller.starts import Starts
from atf.executor.executor import Executor
from atf.executor.heartbeat import Heartbeats
from atf.executor.isolation.runs import IsolatedRuns
from atf.executor.table import Table
from atf.executor.workers import Workers
from atf.frontend.service import FrontendService
from atf.hsc.service import HscService
from atf.intake.asks import FRESH_S
from atf.metrics.metrics import Metrics
from atf.rpc import api
from atf.runtime import Runtime
from atf.sdk.lambdas import Lambda
from atf.store.store import Store
from atf.store_consumer.consumer import Consumer

_TASKS: Final = 4_096
"""Tasks that an executor may hold, unless it is given a table."""


@dataclass(frozen=True, slots=True)
class WiredExecutor:
    """An executor and its heartbeats, neither of which runs yet."""

    executor: Executor
    heartbeats: Heartbeats


@dataclass(frozen=True, slots=True)
class Wiring:
    """What all roles of one process have in common. Each method makes one role; a role runs when its `run` is called.

    Attributes:
        runtime: their clocks, their chance and their tasks.
        timing: how long leases last.
        metrics: what they count and measure.
    """

    runtime: Runtime
    timing: Timing
    metrics: Metrics = field(default_factory=Metrics)

    def frontend(
        self, store: Store, settings: FrontendSettings | None = None, kind: type[FrontendService] = FrontendService
    ) -> FrontendService:
        return kind(store=store, settings=settings or FrontendSettings(), runtime=self.runtime)

    def consumer(self, store: Store, settings: StoreConsumerSettings | None = None) -> Consumer:
        return Consumer(
            store=store, settings=settings or StoreConsumerSettings(), timing=self.timing, runtime=self.runtime
        )

    def hsc(
        self,
        store: Store,
        settings: HscSettings | None = None,
        *,
        kind: type[HscService] = HscService,
        fresh: float = FRESH_S,
    ) -> HscService:
        return kind(store=store, timing=self.timing, settings=settings, runtime=self.runtime, fresh=fresh)

    def controller(
        self,
        hsc: api.HSC,
        settings: ControllerSettings | None = None,
        *,
        host: str = "",
        guarded: Collection[str] = frozenset(),
        starts: Starts | None = None,
        entrance: Entrance | None = None,
    ) -> ControllerService:
        return ControllerService(
            hsc=hsc,
            settings=settings or ControllerSettings(),
            timing=self.timing,
            runtime=self.runtime,
            host=host,
            guarded=guarded,
            starts=starts,
            entrance=entrance,
            metrics=self.metrics,
        )

    def executor(
        self,
        executor_id: str,
        lambdas: Mapping[str, Lambda[..., Any]],
        *,
        controller: api.Controller,
        hsc: api.HSC,
        workers: Workers,
        table: Table | None = None,
        settings: ExecutorSettings | None = None,
        isolated: IsolatedRuns | None = None,
        drains: Callable[[], None] = lambda: None,
        end: Callable[[int, str], None] | None = None,
    ) -> WiredExecutor:
        """An executor whose heartbeats are sent from the same loop.

        Args:
            executor_id: its id.
            lambdas: what it runs, by name.
            controller: whom it asks for work.
            hsc: whom it tells of what it holds and of how runs ended.
            workers: where lambdas run.
            table: what its guard would see.
            settings: bounds of it.
            isolated: who runs isolated lambdas.
            drains: is called when it begins to drain.
            end: ends its process when its leases can't be kept; by itself, all that it runs is given up.
        """
        executor = Executor(
            executor_id=executor_id,
            lambdas=lambdas,
            controller=controller,
            hsc=hsc,
            workers=workers,
            table=table or Table.in_memory(_TASKS),
            settings=settings or ExecutorSettings(codec_keys=os.environ.get("ATF_CODEC_KEYS", "")),
            timing=self.timing,
            runtime=self.runtime,
            isolated=isolated,
            drains=drains,
        )
        return WiredExecutor(executor, executor.heartbeats(hsc, end or executor.abort))
