"""Keeps one record per claim that this executor holds, from its arrival until its end is recorded.

Owns the record, the slots of the table, and the age of the oldest lease. Three threads touch it. The event loop of the
executor takes and releases; a worker's thread marks a start; the heartbeats' thread renews leases. Records are replaced in one
dict (each operation on it is atomic), and a lock that is taken once per batch orders what concerns the oldest lease.
"""

from __future__ import annotations

import asyncio
import threading  # noqa: TID251  the heartbeats have a thread of their own, whatever the role does
from collections import Counter
from collections.abc import Iterable
from dataclasses import InitVar, dataclass, field
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from atf.rpc import task_pb2 as t
from atf.sdk.redaction import NOTHING, Redactor
from atf.task import DEFAULT_MAX_LOSSES, MAX_PROGRESS_BYTES, US, clip

from .outcome import Outcome
from .output.kept_log import FORKS, KeptLog
from .table import SlotState, Stage, Table

if TYPE_CHECKING:
    from opentelemetry.trace import Span

    from .encryption import RunCipher
    from .isolation.isolated_run import IsolatedRun


@dataclass(slots=True, eq=False)
class HeldTask:
    """A claim that this executor holds.

    A worker sets `started` and then looks at `lost` and `cancelled`; whoever sets one of these looks at `started` afterwards.
    So at least one of the two sees the other, without a lock.
    """

    claim: InitVar[t.Claim]
    lease_us: int
    """CLOCK_BOOTTIME of the sending of the request that got or last renewed the lease."""
    waiting_since: float
    """Seconds of the monotonic clock, like the other `_at`."""
    task_id: str = field(init=False)
    counter: int = field(init=False)
    nonce: str = field(init=False)
    attempt: int = field(init=False)
    run: int = field(init=False)
    losses: int = field(init=False)
    scheduled_at_us: int = field(init=False)
    spec: t.TaskSpec = field(init=False)
    lambda_name: str = field(init=False)
    alone: bool = field(init=False)
    """Whether nothing else may run beside it: if its executor dies again, it was the cause."""
    logs: t.KeptLogs = field(init=False)
    """Of which runs of its lambda the log is kept."""
    timeout: float = field(init=False)
    """Seconds of one run; 0: none."""
    slot: int = -1
    queued: bool = False
    """Whether it was put to the workers and has not come out again."""
    started: bool = False
    """Whether its lambda may have begun."""
    told: bool = False
    """Whether a heartbeat has said that it started, or was asked to."""
    started_at: float = 0.0
    ended_at: float = 0.0
    outcome: Outcome | None = None
    """How the run ended; None: it has not."""
    cancelled: bool = False
    """Whether the run should stop; the lambda sees it as ctx.cancelled."""
    cut: bool = False
    """Whether a drain has cut it short, a coroutine, by cancelling it: it is handed back however it ends."""
    stop_at: float = 0.0
    """When it was first told to stop; 0: never."""
    timed_out: bool = False
    lost: bool = False
    """Whether the claim is no longer ours: nothing may be reported of it."""
    overrun: bool = False
    """Whether the body did not end although it was told to."""
    progress: str = ""
    """What the lambda said of its progress and no heartbeat has carried yet."""
    redact: Redactor = NOTHING
    """Takes redacted arguments out of what is said of the run: errors, progress, what it logs and prints."""
    cipher: RunCipher | None = None
    """Encrypts what is told of the run; None: it is told in plain."""
    aio: asyncio.Task[None] | None = None
    """The body, if it is a coroutine."""
    awaiting: bool = False
    """Whether a `def` has returned something that is awaited now."""
    span: Span | None = None
    """Of OpenTelemetry, while it runs; None: the program has set no tracer provider."""
    log: KeptLog | None = None
    """What it has said; None: nothing."""
    isolated: IsolatedRun | None = None
    """The process of the run, once it has one of its own."""

    def __post_init__(self, claim: t.Claim) -> None:
        self.task_id = claim.task_id
        self.counter, self.nonce = claim.token.counter, claim.token.nonce
        self.attempt, self.run, self.losses = claim.attempt, claim.run, claim.losses
        self.scheduled_at_us, self.logs = claim.scheduled_at_us, claim.logs
        try:
            self.spec = t.TaskSpec.FromString(claim.spec)
        except DecodeError:
            self.spec = t.TaskSpec()  # no lambda has this one's name; what runs it says so
        self.lambda_name = getattr(self.spec, "lambda")  # a word of Python's
        options = self.spec.options
        most = options.max_losses or DEFAULT_MAX_LOSSES
        self.alone = claim.alone or (self.losses > 0 and self.losses >= most - 1)
        self.timeout = options.timeout_us / US

    def is_set(self) -> bool:
        """Makes this the flag behind ctx.cancelled."""
        return self.cancelled

    def say(self, progress: str) -> None:
        """Takes the lambda's word on its progress."""
        said = self.redact(progress)
        self.progress = clip(said, MAX_PROGRESS_BYTES) if self.cipher is None else self.cipher.progress(said)

    @property
    def encrypts(self) -> bool:
        """Whether what it says stands encrypted with its task, and nowhere else."""
        return self.cipher is not None

    @property
    def keeps_log(self) -> bool:
        """Whether what the lambda says is kept, in case that the run is one whose log is."""
        return self.logs != t.LOGS_OF_NONE

    def keep(self, line: bytes, cut: int = 0) -> None:
        """Keeps a line of what the lambda says, of which so many bytes are missing in front."""
        self.kept_log().add(line, cut)

    def kept_log(self) -> KeptLog:
        """Its log, made where it has none yet."""
        with FORKS.lock:
            self.log = self.log or KeptLog()
            return self.log

    def write_log(self, log: t.RunLog) -> None:
        """Writes what is kept of its log into a message."""
        if self.log is not None:
            log.run, log.attempt = self.run, self.attempt
            kept = self.log.read()
            log.text, log.cut_bytes = kept if self.cipher is None else self.cipher.log(self.run, kept)

    def ref(self) -> t.ClaimRef:
        """The claim as other roles know it."""
        ref = t.ClaimRef()
        self.write(ref)
        return ref

    def write(self, ref: t.ClaimRef) -> None:
        """Makes a message name the claim."""
        ref.task_id = self.task_id
        token = ref.token
        token.counter, token.nonce = self.counter, self.nonce


class Ledger:
    """All that is held, by task id, mirrored in the table.

    Attributes:
        tasks: what is held.
        stale: what has too little of its lease left to start; the next heartbeat renews that.
        draining: whether the executor takes no more. Lambdas see it as ctx.stopping, and heartbeats say so.
        drained: what became of what was held when the drain began, for the log.
        moved: set when something has left a worker or this: others may start, or be fetched. Whoever waits for that clears it, and looks before it waits.
            Like `take` and `release` it is for the executor's loop alone.
    """

    def __init__(self, table: Table) -> None:
        self.tasks: dict[str, HeldTask] = {}
        self.stale: list[HeldTask] = []
        self.draining = threading.Event()
        self.drained: Counter[str] = Counter()
        self.moved = asyncio.Event()
        self._table = table
        self._free = list(range(table.slots))
        self._lock = threading.Lock()

    @property
    def room(self) -> int:
        """How many more claims the table has slots for."""
        return len(self._free)

    @property
    def oldest_lease_us(self) -> int:
        """CLOCK_BOOTTIME at which the oldest lease was asked for, or earlier; 0: nothing is held."""
        return self._table.oldest_lease_us

    def snapshot(self) -> list[HeldTask]:
        """What is held now; from any thread."""
        return list(self.tasks.values())

    def take(self, tasks: Iterable[HeldTask]) -> None:
        """Records claims that have arrived. The caller has seen that there is room, and that none of the ids is held."""
        with self._lock:
            oldest = self._table.oldest_lease_us
            for task in tasks:
                task.slot = self._free.pop()
                self._table.fill(task.slot, task.task_id, task.counter, task.nonce, suspect=task.losses > 0)
                self.tasks[task.task_id] = task
                oldest = min(oldest, task.lease_us) if oldest else task.lease_us
            self._table.oldest_lease_us = oldest

    def release(self, tasks: Iterable[HeldTask]) -> None:
        """Forgets claims whose end is recorded, or that are lost. What is not held is passed over."""
        with self._lock:
            for task in tasks:
                if self.tasks.get(task.task_id) is task:
                    del self.tasks[task.task_id]
                    self._table.free(task.slot)
                    self._free.append(task.slot)
            if not self.tasks:
                # Else it stays as it is, at worst too old, until the next heartbeat.
                self._table.oldest_lease_us = 0
        self.moved.set()

    def take_stale(self) -> list[HeldTask]:
        """Takes out what waits for a heartbeat."""
        stale, self.stale = self.stale, []
        return stale

    def renew(self, tasks: Iterable[HeldTask], sent_us: int) -> None:
        """A heartbeat sent at `sent_us` has renewed these leases."""
        with self._lock:
            for task in tasks:
                task.lease_us = max(task.lease_us, sent_us)
            self._table.oldest_lease_us = min((task.lease_us for task in self.tasks.values()), default=0)

    def drain(self) -> None:
        """From now on nothing more is taken."""
        self.draining.set()
        self._table.stage = max(self._table.stage, Stage.DRAINS)

    def cut(self) -> None:
        """The process ends now, whatever still runs: by our own decision, so that counts nothing. From any thread."""
        self._table.stage = Stage.CUTS

    def start(self, task: HeldTask) -> None:
        """Its lambda is about to begin; from the worker's thread."""
        self._table.mark(task.slot, SlotState.STARTED)
        task.started = True

    def give_up(self, task: HeldTask, state: SlotState, error: str, retry_in_us: int = 0) -> None:
        """Its body does not end: how it is to be reported once this process is dead."""
        task.overrun = True
        self._table.overrun(task.slot, state, error, retry_in_us)
