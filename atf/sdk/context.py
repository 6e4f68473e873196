"""What a running task knows of itself: the first parameter of a handler that asks for it. Plain values; what it asks of the store, others ask."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import md5
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from atf.errors import InvalidArgument
from atf.task import DEFAULT_FIRST_TIME_US, MAX_PROGRESS_BYTES, US, check_first_time

from .default_client import default_client
from .options import Duration, duration_us

if TYPE_CHECKING:
    from .batch_handle import Batch
    from .batch_info import BatchProgress
    from .items import Target
    from .schedulable import Schedulable

_log: Final = logging.getLogger("atf.task")


class Flag(Protocol):
    """What tells that something has happened, such as threading.Event."""

    def is_set(self) -> bool: ...


class FirstTimeCheck(Protocol):
    """Who says whether a task is the first that asks for a key."""

    def ask(self, key: str, ttl_us: int) -> bool: ...
    async def ask_async(self, key: str, ttl_us: int) -> bool: ...


class _Never:
    """A flag that is never set."""

    def is_set(self) -> bool:
        return False


@dataclass(eq=False)
class InBatch:
    """The batch that made a task, and the task's place in it."""

    id: str
    number: int | None
    """Of the item, from 0, as submitted; None: the task is a callback of the batch, not an item of it."""
    work_item_id: str
    """Of the item; empty: it is none."""
    task_id: str = ""
    lambda_: Any = None
    """Of an item: its own."""
    _extended: int = 0

    def handle(self, of: Schedulable[..., Any] | str | None = None) -> Batch[Any]:
        """The batch's handle, by the default client; see ATF_FRONTEND.

        Args:
            of: the lambda of its items, or the lambda's name; an item knows it.
        """
        return default_client().batch_handle(self.id, of or self.lambda_)

    def extend(
        self,
        items: Iterable[Any],
        *,
        of: Schedulable[..., Any] | str | None = None,
        target: Target | None = None,
    ) -> BatchProgress:
        """Adds items behind all that the batch has. A batch that a callback extends is in progress again.

        A run that is tried again makes its calls again: the first call of each run of this task is one and the same, the second is,
        and so on. So each adds its items once, if the handler makes its calls in the same order.

        Args:
            items: as for `map`.
            of: the lambda of the batch's items, or the lambda's name; an item knows it.
            target: of a batch with a pause, as for `map`: its maker's is not known here.

        Raises:
            TypeError: a callback did not say of which lambda the items are.
            AtfError: as for `Batch.extend`.
        """
        return self.handle(of).extend(items, target=target, request_id=self._request_id())

    async def extend_async(
        self,
        items: Iterable[Any] | AsyncIterable[Any],
        *,
        of: Schedulable[..., Any] | str | None = None,
        target: Target | None = None,
    ) -> BatchProgress:
        """Like `extend`, in an `async def`."""
        return await self.handle(of).extend_async(items, target=target, request_id=self._request_id())

    def _request_id(self) -> str:
        self._extended += 1
        return f"{md5(self.task_id.encode(), usedforsecurity=False).hexdigest()}-{self._extended}"


class Context:
    """One run of a task, as its handler sees it.

    Attributes:
        task_id: the task's id, "<partition>-<id>".
        lambda_name: "namespace/name".
        attempt: 1 for the first; attempts count runs that ended by the handler's own doing.
        run: 1 for the first; counts lost runs too.
        fence: grows with every run of the task. Refuse writes with a smaller one than you have seen, and a run that was
            given up on can change nothing more.
        scheduled_at: the instant asked for, in UTC; of a job's tick, that of its schedule.
        job: the name of the job whose tick this is; empty: it is none.
        tick: the number of the tick, which grows by one; 0: none, or the job was run by hand.
        batch: the batch that made the task; None: none did.
        deadline: the instant at which this run times out, in UTC; None: never.
        labels: as given when the task was scheduled.
        log: a logger that adds the task's id to every line.
    """

    def __init__(
        self,
        *,
        task_id: str,
        lambda_name: str,
        attempt: int,
        run: int,
        fence: int,
        scheduled_at: datetime,
        job: str = "",
        tick: int = 0,
        batch: InBatch | None = None,
        deadline: datetime | None = None,
        labels: Mapping[str, str] | None = None,
        cancelled: Flag | None = None,
        stopping: Flag | None = None,
        progress: Callable[[str], None] | None = None,
        first_time: FirstTimeCheck | None = None,
    ) -> None:
        self.task_id = task_id
        self.lambda_name = lambda_name
        self.attempt = attempt
        self.run = run
        self.fence = fence
        self.scheduled_at = scheduled_at
        self.job = job
        self.tick = tick
        self.batch = batch
        self.deadline = deadline
        self.labels: Mapping[str, str] = dict(labels or {})
        self.log: logging.LoggerAdapter[logging.Logger] = _TaskLog(_log, {"task_id": task_id, "lambda": lambda_name})
        self._cancelled: Flag = cancelled or _Never()
        self._stopping: Flag = stopping or _Never()
        self._progress = progress
        self._first_time = first_time

    @property
    def cancelled(self) -> bool:
        """Whether this run should stop: it was cancelled, has timed out, or is not this executor's any more."""
        return self._cancelled.is_set()

    @property
    def stopping(self) -> bool:
        """Whether the executor is ending: it takes no more, and waits for this run as long as its drain_timeout lasts.

        A long run saves what it has and raises `atf.HandBack`, and goes on elsewhere at once; or it ends in time. One that does neither
        is cut off then, and runs again. None of these counts an attempt or a loss. (`cancelled` is another matter: what is cancelled is
        not wanted any more.)
        """
        return self._stopping.is_set()

    def progress(self, value: str | float | dict[str, Any]) -> None:
        """Says how far the run is; the task's record shows it from the next heartbeat on.

        Args:
            value: a sentence, a number, or what JSON can hold; at most 1 KiB.

        Raises:
            InvalidArgument: it is longer, or JSON can't hold it.
        """
        try:
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            size = len(text.encode())
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidArgument(f"progress of {self.lambda_name}: {error}") from None
        if size > MAX_PROGRESS_BYTES:
            raise InvalidArgument(f"progress of {self.lambda_name}: {size} bytes; at most {MAX_PROGRESS_BYTES}")
        if self._progress is not None:
            self._progress(text)

    def first_time(self, key: str, *, ttl: Duration = DEFAULT_FIRST_TIME_US / US) -> bool:
        """Whether this task is the first of its namespace that asks for a key: `if not ctx.first_time("charge-42"): return`.

        The key belongs to the task that asked first, for `ttl`. Every run of that task gets True, so that one that was cut off
        can be finished by the next; every other task gets False, another tick or another id among them. It does not say
        whether the work was done, and of what a cut-off run had done already it knows nothing: for that there are `fence`, the
        task's id, and what the target itself offers.

        In an `async def` await `first_time_async`.

        Args:
            key: 1 to 255 characters that can be seen.
            ttl: seconds, a timedelta or text such as "5m" that the key is kept from its first time on; default a day, at most 366 days.

        Raises:
            InvalidArgument: the key or the ttl breaks its rule.
            Unavailable: there was no answer within ten seconds; the run may fail with it, which uses up the attempt, and be tried again.
            ResourceExhausted: the task store is full; likewise.
            RuntimeError: it was called in an `async def`, and would block its loop.
        """
        ttl_us = _checked(key, ttl)
        return self._first_time is None or self._first_time.ask(key, ttl_us)

    async def first_time_async(self, key: str, *, ttl: Duration = DEFAULT_FIRST_TIME_US / US) -> bool:
        """Like `first_time`, in an `async def`."""
        ttl_us = _checked(key, ttl)
        return self._first_time is None or await self._first_time.ask_async(key, ttl_us)


def _checked(key: str, ttl: Duration) -> int:
    ttl_us = duration_us(ttl, "ttl of first_time")
    check_first_time(key, ttl_us)
    return ttl_us


def local_context(lambda_name: str) -> Context:
    """The context of a handler that is called as a plain function: a first run that nobody times or cancels, and the first to
    ask for any key.
    """
    return Context(
        task_id="local",
        lambda_name=lambda_name,
        attempt=1,
        run=1,
        fence=0,
        scheduled_at=datetime.now(UTC),  # noqa: TID251  a plain call happens now, by the clock of whoever calls
    )


class _TaskLog(logging.LoggerAdapter[logging.Logger]):
    """Puts the task's id before the message, and its id and lambda into the record for structured output."""

    def process(self, msg: Any, kwargs: Any) -> tuple[Any, Any]:
        extra = self.extra or {}
        kwargs["extra"] = {**extra, **(kwargs.get("extra") or {})}
        return f"[{extra['task_id']}] {msg}", kwargs
