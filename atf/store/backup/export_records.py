"""The records of an export, one a line. Numbers have their bounds here; export_lines.py has all other rules."""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from atf.cores.pool import CoreSettings
from atf.store.values.lambdas import GateAction
from atf.task import MAX_AHEAD_US

FORMAT: Final = 1
Instant = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
"""µs, or another number that may grow so large: larger ones are not exact in the store."""
Count = Annotated[int, msgspec.Meta(ge=0, le=(1 << 31) - 1)]


class ExportHeader(msgspec.Struct, tag="header"):
    """The first line."""

    format: int
    partitions: Count
    begun_us: Instant  # by the store's TIME, when the export began


class ExportedGate(msgspec.Struct, omit_defaults=True):
    """A gate of a lambda."""

    action: GateAction
    labels: dict[str, str] = {}
    amount: float = 0
    until_us: Instant = 0
    who: str = ""
    why: str = ""
    automatic: bool = False


class ExportedLambda(msgspec.Struct, tag="lambda"):
    """A registered lambda."""

    name: str
    spec: bytes
    queue_limit: Count
    enqueue_timeout_us: Annotated[int, msgspec.Meta(ge=0, le=MAX_AHEAD_US)]
    settings: str = ""
    overrides: str = ""
    gates: list[ExportedGate] = []


class ExportedCores(msgspec.Struct, tag="cores"):
    """The cores of a pool, as an operator has set them."""

    pool: str
    settings: CoreSettings


class ExportedJob(msgspec.Struct, tag="job"):
    """A job that has not ended."""

    name: str
    spec: bytes
    overlap: str
    next_us: Instant  # the tick to come
    ticks: Instant  # that became tasks
    paused: bool
    base_us: Instant  # what the durations of its timing count from
    rhythm: str


class ExportedTask(msgspec.Struct, tag="task", omit_defaults=True):
    """A live task."""

    id: str
    lambda_name: str
    priority: int
    spec: bytes
    digest: bytes
    scheduled_at_us: Instant
    next_at_us: Instant
    limits: str = ""
    ordering_key: str = ""
    place: Instant = 0  # behind its ordering key
    concurrency: str = ""  # see keys.concurrency
    attempts: Count = 0
    losses: Count = 0
    lapses: str = ""  # ends of leases in a row that counted nothing
    alone: bool = False  # nothing else may run beside it
    runs: Count = 0
    fence: Instant = 0
    error: str = ""
    held: bool = False  # it was claimed, and may have been running
    cancel_requested: bool = False  # while it was running, or that it runs no more after that
    job: str = ""  # whose task it is
    beside: bool = False  # it was made beside that job's ticks
    labels: str = ""  # see keys.labels
    entries: str = ""  # of the opt-in index: see keys.entry, with a blank between two


CARRIED: Final = (
    "id", "lambda_name", "priority", "spec", "digest", "scheduled_at_us", "limits", "ordering_key", "concurrency",
    "attempts", "losses", "lapses", "alone", "runs", "fence", "error", "labels",
    "entries",
)  # fmt: skip
"""What TaskRecord, ExportedTask and RestoredTask have under one name, and an export and an import pass on."""


class ExportedStop(msgspec.Struct, tag="stop"):
    """An ordering key that has stopped, and the task at which; that one without a spec where its record is gone."""

    since_us: Instant
    task: ExportedTask


class ExportedUniqueKey(msgspec.Struct, tag="window"):
    """An open window of a unique key."""

    key: str  # lambda:key
    task_id: str  # which may have ended
    until_us: Instant


class ExportedPage(msgspec.Struct, tag="page"):
    """Everything above is complete; an interrupted export goes on at `cursor`. "" after the last page."""

    cursor: str
    tasks: Count


class ExportEnd(msgspec.Struct, tag="end"):
    """The last line: the export is complete."""

    tasks: Count


Line = (
    ExportHeader
    | ExportedLambda
    | ExportedCores
    | ExportedJob
    | ExportedStop
    | ExportedUniqueKey
    | ExportedTask
    | ExportedPage
    | ExportEnd
)
