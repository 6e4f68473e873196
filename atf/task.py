"""Defines what a task is: its states, the moves between them, and the rules for its names and limits. Pure data, no I/O.

`MOVES` is the one table of moves: the store's functions name the rows they carry out, docs/reference/lifecycle.md is drawn from it,
and the tests walk it.
"""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass
from typing import Final

from .errors import InvalidArgument


class NamedNumber(enum.IntEnum):
    """A number that `print`, f-strings, `str.format` and `%s` show by its name: "SUCCESS", not "5"."""

    def __str__(self) -> str:
        return self.name

    def __format__(self, spec: str) -> str:
        return format(self.name, spec)


class Status(NamedNumber):
    """The states of a task; the numbers are those of the wire, the names those of the store."""

    NEW = 1
    ENQUEUED = 2
    CLAIMED = 3
    PROCESSING = 4
    SUCCESS = 5
    RETRIABLE_FAILURE = 6
    FATAL_FAILURE = 7
    CANCELLED = 8

    @property
    def finished(self) -> bool:
        """Whether the task is at rest: no process will look at it again."""
        return self in FINISHED


@dataclass(frozen=True)
class Move:
    """One way for a task to change.

    Attributes:
        name: what the move is called everywhere.
        sources: the states it starts from; None stands for "no record yet".
        target: the state it ends in; None: the state stays.
        guard: what else must hold.
        who: the role that makes it.
        next_at: the new next_timestamp; None: the task leaves the due index.
    """

    name: str
    sources: tuple[Status | None, ...]
    target: Status | None
    guard: str
    who: str
    next_at: str | None


_S = Status
_HELD = (_S.CLAIMED, _S.PROCESSING)

# fmt: off
MOVES: Final[tuple[Move, ...]] = (
    Move("schedule", (None,), _S.NEW, "the id is free", "frontend", "the instant asked for"),
    Move("enqueue", (_S.NEW, _S.RETRIABLE_FAILURE), _S.ENQUEUED, "due, queue not full", "store consumer, or who made it due", "now + enqueue_timeout"),
    Move("enqueue again", (_S.ENQUEUED,), _S.ENQUEUED, "expired and gone from its queue", "store consumer", "now + enqueue_timeout"),
    Move("claim", (_S.ENQUEUED,), _S.CLAIMED, "gives a new token", "hsc", "now + heartbeat_timeout"),
    Move("heartbeat", _HELD, None, "same token", "hsc", "now + heartbeat_timeout"),
    Move("start", (_S.CLAIMED,), _S.PROCESSING, "same token; a heartbeat says it has started", "hsc", "now + heartbeat_timeout"),
    Move("succeed", _HELD, _S.SUCCESS, "same token", "hsc", None),
    Move("fail", _HELD, _S.RETRIABLE_FAILURE, "same token, attempts left", "hsc", "now + backoff"),
    Move("fail for good", _HELD, _S.FATAL_FAILURE, "same token; the lambda says so, or no attempts left", "hsc", None),
    Move("cut", _HELD, _S.ENQUEUED, "same token; an ordered stop cut the run, or it handed itself back", "hsc", "now"),
    Move("put off", _HELD, _S.NEW, "same token; it handed itself back, to run later", "hsc", "now + the wait that it asked for"),
    Move("misfit", _HELD, _S.NEW, "same token; the payload does not fit the executor's signature", "hsc", "after 1 s, doubling to 30 s; now where an executor runs another signature"),
    Move("hand back", (_S.CLAIMED,), _S.ENQUEUED, "same token, never started", "hsc", "now"),
    Move("lapse", _HELD, _S.ENQUEUED, "lease expired, and that counts nothing: the executor drained, or the run had not said that it started", "store consumer", "now"),
    Move("lose", _HELD, _S.ENQUEUED, "lease expired, or executor dead; losses left", "store consumer, hsc", "now"),
    Move("lose for good", _HELD, _S.FATAL_FAILURE, "lease expired, or executor dead; no losses left", "store consumer, hsc", None),
    Move("cancel", (_S.NEW, _S.ENQUEUED, _S.RETRIABLE_FAILURE), _S.CANCELLED, "", "frontend", None),
    Move("cancel a running task", _HELD, None, "flags it; the next heartbeat tells", "frontend", "unchanged"),
    Move("stop", _HELD, _S.CANCELLED, "flagged: any end but success, or lost", "hsc, store consumer", None),
    Move("gate", (_S.NEW, _S.RETRIABLE_FAILURE), None, "due, and a gate keeps it", "store consumer, or who made it due", "none until the gate lets it pass"),
    Move("park", (_S.ENQUEUED,), _S.NEW, "pushed before the gate that keeps it was set", "hsc", "none until the gate lets it pass"),
    Move("leave to others", (_S.ENQUEUED,), _S.NEW, "it did not fit the signature of the executor that would get it; or those have gone whose signature it might fit", "hsc, store consumer", "as for misfit"),
    Move("misfit fails", (_S.NEW, _S.RETRIABLE_FAILURE), _S.RETRIABLE_FAILURE, "due, deploy_grace is over, and no executor runs a signature that it has not met; attempts left", "store consumer", "now + backoff"),
    Move("misfit fails for good", (_S.NEW, _S.RETRIABLE_FAILURE), _S.FATAL_FAILURE, "as for misfit fails; no attempts left", "store consumer", None),
    Move("drop", (_S.NEW, _S.ENQUEUED, _S.RETRIABLE_FAILURE), _S.CANCELLED, "due, and a gate drops it, or its concurrency key has no slot for it or needs its slot", "store consumer, hsc, or who made it due", None),
    Move("let through", (_S.NEW, _S.RETRIABLE_FAILURE), None, "its gate was lifted or has ended, or its delay is over", "store consumer", "when it was due"),
    Move("hold", (_S.NEW, _S.RETRIABLE_FAILURE), None, "a tick whose job is paused", "frontend", "none until its job goes on"),
    Move("hold back", (_S.ENQUEUED, *_HELD), _S.NEW, "a tick whose job is paused: it stands in its queue, or its run was cut, handed back or lost", "frontend, hsc, store consumer", "none until its job goes on"),
    Move("go on", (_S.NEW, _S.RETRIABLE_FAILURE), None, "a tick whose job goes on", "frontend", "when it would have been due"),
    Move("run for the last time", _HELD, None, "a task whose job was deleted: flags it", "frontend", "unchanged"),
    Move("redrive", (_S.FATAL_FAILURE, _S.CANCELLED), _S.NEW, "matches the filter of a redrive; as for retry", "frontend", "when its turn comes"),
    Move("retry", (_S.FATAL_FAILURE, _S.CANCELLED), _S.NEW, "attempts and losses start again", "frontend", "now"),
)
# fmt: on


def sources(move: str) -> frozenset[Status]:
    """The states that a move starts from."""
    return frozenset(source for row in MOVES if row.name == move for source in row.sources if source is not None)


FINISHED: Final = frozenset(move.target for move in MOVES if move.target is not None and move.next_at is None)
"""No process looks at these again, unless somebody starts the task afresh."""
LIVE: Final = frozenset(Status) - FINISHED
WAITING: Final = sources("enqueue")
"""To be pushed when they are due."""
HELD: Final = sources("heartbeat")
"""Claimed by an executor."""

WORDS: Final[dict[str, tuple[Status, ...]]] = {
    "waiting": (_S.NEW, _S.ENQUEUED, _S.RETRIABLE_FAILURE),
    "running": (_S.CLAIMED, _S.PROCESSING),
    "failed": (_S.RETRIABLE_FAILURE, _S.FATAL_FAILURE),
    "dead": (_S.FATAL_FAILURE,),
    "done": (_S.SUCCESS,),
    "cancelled": (_S.CANCELLED,),
}
"""The words that people know tasks by, on pages and on the command line, and what each means."""


def statuses_called(name: str) -> tuple[Status, ...]:
    """The states that a word means, or the one of this name.

    Raises:
        InvalidArgument: it is neither.
    """
    found = WORDS.get(name.lower()) or tuple(each for each in Status if each.name == name.upper())
    if not found:
        states = ", ".join(each.name.lower() for each in Status if each.name.lower() not in WORDS)
        raise InvalidArgument(f"status {clip(repr(name), 80)}: use {', '.join(WORDS)}, or one of the states {states}")
    return found


# --- limits -----------------------------------------------------------------------------------------------------------

US: Final = 1_000_000
"""Microseconds in a second."""

MAX_PAYLOAD_BYTES: Final = 1 << 20
MAX_RESULT_BYTES: Final = 64 << 10
MAX_ERROR_BYTES: Final = 4 << 10
MAX_PROGRESS_BYTES: Final = 1 << 10
MAX_LOG_BYTES: Final = 16 << 10
"""Of what is kept with a task of what its runs said."""
MAX_NONCE_CHARS: Final = 64
"""Of a token's nonce: an executor keeps it in a table of fixed slots."""
STARTS: Final = "="
"""In place of why no executor can start on a host: they start, and none has worked yet."""
MAX_WHY_NOT_CHARS: Final = 1 << 11
"""Of why no executor can start on a host: more than the start of one says."""
MAX_WHY_CHARS: Final = 256
"""Of the reason for a loss."""
MAX_BATCH: Final = 256
"""Items one call of the task store or of the HSC takes."""
MAX_HELD: Final = 4_096
"""Claims that one executor holds at most: all of them go into one heartbeat."""
MAX_RUNNING: Final = MAX_HELD - 2 * MAX_BATCH
"""Tasks that one executor runs at most: it also holds what waits to start, and what waits to be reported."""
MAX_BATCH_BYTES: Final = 4 << 20
"""Bytes of one message between roles; gRPC's own default bound."""
MAX_AHEAD_US: Final = 10 * 366 * 86_400 * US
"""How far ahead a task may be scheduled: ten years."""
MAX_LABELS: Final = 16
MAX_SEARCH: Final = 8
"""Arguments by which the tasks of a lambda can be searched."""
MIN_WINDOW_US: Final = 1_000
"""Of a unique key."""
MAX_CONCURRENCY: Final = 10_000
"""Tasks of one concurrency key that run at once: the most that a limit may be."""
MAX_JOB_CHARS: Final = 255
"""Of a job\'s name, behind the slash."""
MAX_KEY_CHARS: Final = 255
"""Of a key that a user gives: an order number, an address, a URL."""
MAX_FIRST_TIME_US: Final = 366 * 86_400 * US
"""How long such a key is kept at most: a year."""
DEFAULT_FIRST_TIME_US: Final = 86_400 * US
ENDED_RUNS_KEPT: Final = 10
TOMBSTONE_US: Final = 600 * US
"""How long an id stays taken after its task finished, whatever its retention: a retried Schedule finds its own task."""

MIN_PRIORITY: Final = 0
MAX_PRIORITY: Final = 9
PRIORITIES: Final = {"high": 0, "normal": 1, "low": 2}

DEFAULT_MAX_ATTEMPTS: Final = 10
DEFAULT_MAX_LOSSES: Final = 3
DEFAULT_PRIORITY: Final = 1
DEFAULT_RETENTION_US: Final = 86_400 * US
DEFAULT_QUEUE_LIMIT: Final = 100_000
DEFAULT_ENQUEUE_TIMEOUT_US: Final = 10 * US

DEFAULT_POOL: Final = "default"
"""The pool of the worker hosts that were given none, wherever pools are named; empty in the store, and where code and hosts name their own."""

_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NO_ID = re.compile(r"[^A-Za-z0-9_-]")
_ID_START: Final = 39
"""Characters of an idempotency key that stay readable in the id made from it."""
_STORED_ID = re.compile(r"(\d{1,5})-(?:[A-Za-z0-9_-]{1,64}|[A-Za-z0-9_-]{1,20}\.[0-9a-f]{32}(?:-\d{1,12})?)")
"""A task's; the second form is that of an item of a batch (work_items.py)."""


def check_name(name: str, what: str) -> str:
    """A namespace, or the name of a lambda within it.

    Raises:
        InvalidArgument: it is not 1 to 64 of the characters A-Z a-z 0-9 . _ -
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidArgument(f"{what} {name!r}: use 1 to 64 of the characters A-Z a-z 0-9 . _ -")
    return name


def pool_called(name: str) -> str:
    """What callers know a pool by; the one of the worker hosts that were given none is `default`."""
    return name or DEFAULT_POOL


def pool_stored(name: str) -> str:
    """What the store knows a pool by: the other way round."""
    return "" if name == DEFAULT_POOL else name


def check_pool(name: str) -> str:
    """A pool of worker hosts.

    Raises:
        InvalidArgument: it is no name, or the word for those hosts that have none.
    """
    if check_name(name, "pool") == DEFAULT_POOL:
        raise InvalidArgument(
            f"pool {name!r}: that is what the hosts without a pool are called; leave the pool out, or give it another name"
        )
    return name


@functools.lru_cache(maxsize=8192)  # of those that pass: a call is made for every task
def check_lambda(name: str) -> str:
    """A lambda's full name, "namespace/name".

    Raises:
        InvalidArgument: it is not two names with a slash between them.
    """
    namespace, slash, rest = name.partition("/")
    if not slash or not _NAME.fullmatch(namespace) or not _NAME.fullmatch(rest):
        raise InvalidArgument(
            f"lambda {name!r}: write namespace/name, each 1 to 64 of the characters A-Z a-z 0-9 . _ -; atf lambda lists those that are"
        )
    return name


def check_job(name: str) -> str:
    """The name of a job.

    Raises:
        InvalidArgument: it is not namespace/name, or has a character that has no place in one.
    """
    namespace, slash, rest = name.partition("/")
    if len(rest) > MAX_JOB_CHARS:
        raise InvalidArgument(f"job {clip(name, 200)!r}…: after the namespace come 1 to {MAX_JOB_CHARS} characters")
    if not slash or not _NAME.fullmatch(namespace):
        raise InvalidArgument(
            f"job {clip(name, 600)!r}: write namespace/name, the namespace of 1 to 64 of the characters A-Z a-z 0-9 . _ -"
        )
    for at, character in enumerate(rest, len(namespace) + 2):
        if character in "/\\#?" or not character.isprintable():
            raise InvalidArgument(
                f"job {name!r}: character {at}, {character!r}, has no place in a name: neither have / \\ # ? and what nobody"
                " can see"
            )
    if rest in {"", ".", ".."}:
        raise InvalidArgument(
            f"job {name!r}: after the namespace come 1 to {MAX_JOB_CHARS} characters, and neither . nor .. alone"
        )
    return name


def check_key(key: str, what: str) -> str:
    """A key as a user gives it: an ordering, concurrency, unique, affinity or idempotency key.

    Raises:
        InvalidArgument: it is empty, too long, or has a character that nobody can see.
    """
    if not isinstance(key, str) or not 1 <= len(key) <= MAX_KEY_CHARS or not key.isprintable():
        raise InvalidArgument(f"{what} {clip(repr(key), 300)}: use 1 to {MAX_KEY_CHARS} characters that can be seen")
    return key


def id_of_key(key: str, what: str = "key") -> str:
    """The id of the task of an idempotency key: the key itself, or what it can be read by and a digest of it.

    Raises:
        InvalidArgument: as check_key.
    """
    if isinstance(key, str) and _ID.fullmatch(key):
        return key
    start = _NO_ID.sub("_", check_key(key, what))[:_ID_START]
    import hashlib  # here: it loads OpenSSL, and a guard has no keys

    return f"{start}-{hashlib.blake2b(key.encode(), digest_size=12).hexdigest()}"


def check_first_time(key: str, ttl_us: int) -> None:
    """A key of first_time, and how long it is kept.

    Raises:
        InvalidArgument: the key is empty, too long, or has a character that nobody can see; or the time is none.
    """
    check_key(key, "key of first_time")
    if not 0 < ttl_us <= MAX_FIRST_TIME_US:
        raise InvalidArgument(f"ttl of first_time, {ttl_us / US:g} s: use more than 0 and at most 366 days")


def check_id(task_id: str) -> str:
    """A task id as a client makes it.

    Raises:
        InvalidArgument: it is not 1 to 64 of the characters A-Z a-z 0-9 _ -
    """
    if not isinstance(task_id, str) or not _ID.fullmatch(task_id):
        raise InvalidArgument(f"task id {task_id!r}: use 1 to 64 of the characters A-Z a-z 0-9 _ -")
    return task_id


@functools.lru_cache(maxsize=16_384)  # of those that pass: every role that moves a task asks several times
def partition_of(stored_id: str, partitions: int) -> int:
    """The partition that a stored id ("<partition>-<id>") names.

    Raises:
        InvalidArgument: it has another form, or the partition does not exist.
    """
    match = _STORED_ID.fullmatch(stored_id)
    if match is None:
        meant = f"; the failed tasks of a lambda: atf ls {stored_id} --status dead" if "/" in stored_id else ""
        raise InvalidArgument(
            f"task id {stored_id!r}: give the id that scheduling answered with, <partition>-<id>{meant}"
        )
    partition = int(match[1])
    if partition >= partitions:
        raise InvalidArgument(f"task id {stored_id!r}: there is no partition {partition}; the store has {partitions}")
    return partition


def check_priority(priority: int) -> int:
    """A priority number.

    Raises:
        InvalidArgument: it is not within 0 to 9.
    """
    if not MIN_PRIORITY <= priority <= MAX_PRIORITY:
        raise InvalidArgument(f"priority {priority}: use 0 (high) to 9, or high, normal, low")
    return priority


def key_held(task_id: str) -> str:
    """Why a task can't start afresh that has a unique key, which a task of this id holds."""
    return f"its unique key is held by task {task_id}, which has not finished: cancel that one, or wait for its end"


def clip(text: str, most_bytes: int = MAX_ERROR_BYTES) -> str:
    """The start of a text, in at most `most_bytes` of UTF-8."""
    return text.encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")
