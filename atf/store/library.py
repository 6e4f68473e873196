"""Puts the Lua function library together from lua/*/*.lua, and loads it once per server.

Functions outlive a restart and replicate with the data. Their names are global to the server, so they carry VERSION and a
digest of the code: a library that a running role may use is never replaced, a changed one stands beside it.
"""

from __future__ import annotations

import functools
import hashlib
import re
from importlib.resources import files
from typing import Final, NamedTuple

from atf import task as t

_PLAIN: Final = ("basics", "keys")
"""Files of lua/shared whose local variables all others see; each of the others is a table of its name."""
VERSION: Final = 1
"""Of the data: roles whose libraries differ in it must not share a store."""

VISITS_PER_PASS: Final = 64
"""Queues that one pass of a store consumer visits at most."""
STRETCH: Final = 10_000
"""Entries of a queue. For each so many that stand before it, an entry is left alone for one enqueue timeout more."""
FULL_REVISIT_US: Final = t.US
"""When a full queue is looked at again, should no call that takes tasks do it sooner."""
UNBELIEVED_REVISIT_US: Final = t.US
"""When a queue is looked at again whose leases are over only by a clock that is not believed yet."""
UNKNOWN_REVISIT_US: Final = t.US
"""When a queue is looked at again whose lambda its partition does not know."""
CLOCK_IDLE_US: Final = 10 * t.US
"""So often is noted, where no leases are given, how far TIME has come."""
CLOCK_NOTED_US: Final = t.US // 100
"""So exactly is noted, where leases are given, how far TIME has come."""
CLOCK_STEP_US: Final = t.US // 20
"""By no more TIME may go back: with what is noted inexactly that is within the drift for which holders of leases allow."""
CLOCK_APART_US: Final = 2 * t.US
"""TIME that is so far behind what a store consumer believes of it was set back. By less a slow answer may have misled it."""
ROSTER_SPEAKS_US: Final = 20 * t.US
"""A holder of leases that has nothing to say says so often that it lives."""
ROSTER_SILENT_US: Final = 60 * t.US
"""Whoever has said nothing for so long is struck off the roster. Should it live, it is put there again with its next call."""
PERMIT_REVISIT_US: Final = t.US
"""When a queue is looked at again that waits for a permit, should nobody say that there is one."""
PERMIT_KEPT_US: Final = t.US // 10
"""How long a partition keeps a permit at least where there is less than one for each."""
RATE_STEP_US: Final = t.US // 100
"""A queue is looked at no sooner again for the sake of its rate: what became free meanwhile is pushed in one go."""
OUTBOX_RETRY_US: Final = 5 * t.US
JOBS_PER_PASS: Final = 128
"""Due jobs that one pass tells of."""
JOBS_BYTES: Final = 1 << 20
"""Of the specs of jobs that one pass tells of, about."""
JOB_RETRY_US: Final = 2 * t.US
"""When a job is told of again whose tick nobody has dealt with: a consumer may have ended in the middle."""
JOB_WAIT_US: Final = 30 * t.US
"""When a job is looked at again that waits for the end of its tick, should that end not be heard of."""
JOB_ENDS_US: Final = 60 * t.US
"""When the record of a job that has ended is looked at again whose retention is over while tasks of it are alive."""
TICKS_PER_CALL: Final = t.MAX_BATCH
"""Live tasks of jobs that one call cancels, holds or lets go on: a few milliseconds' work."""
LINE_CHECK_US: Final = 30 * t.US
"""When a concurrency key for which tasks wait is looked at again, should nobody have said that a slot of it is free."""
LINES_PER_PASS: Final = 4
"""Such keys that one pass looks at."""
DRAINING_LAPSES: Final = 3
"""Ends of leases in a row that count nothing, since the executor had said that it drained."""
UNSTARTED_LAPSES: Final = 2
"""Ends of leases in a row that count nothing, since the run had not said that it started."""
CLAIM_OVERHEAD: Final = 256
"""Bytes that a claim weighs in an answer beside its spec: id, token, numbers."""

ITEM_RETENTION_US: Final = 1 << 52
"""Of items of batches, which go with their batch and are never swept by themselves: an instant that none of a task's comes to."""
BATCH_CHECK_US: Final = 60 * t.US
"""When a batch's own partition asks its parts how they stand, should it not have heard that all items have ended; and then again."""
BATCH_PATIENCE_US: Final = 300 * t.US
"""After which a batch's partition no longer waits for items of extensions that were announced, if no others have been meanwhile."""
BATCHES_PER_SWEEP: Final = 4
"""Batches that one sweep begins to delete: each is told to every partition."""
EXACT_LISTS: Final = 48
"""Finished sets of a lambda in a partition, one for each status and retention; of any more the retention is rounded up."""
LOOKED_AT_ITEMS: Final = 512
"""Items that one call looks at where some statuses are asked for."""

MAX_GATES: Final = 32
"""Of one lambda, beside the pause of it as a whole: every task that one of them may keep is held against all of them."""
GATE_BYTES: Final = 1 << 19
"""Of labels that gates look at in one visit of a queue, about."""
ENDS_STEP_US: Final = 10 * t.US
"""Ended runs are counted by spans of this length."""
ENDS_STEPS: Final = 6
"""Of which so many are looked at, the present one among them."""
MIN_ENDED: Final = 20
"""Ended runs below which no automatic gate closes: a share of few says nothing."""
JUDGE_AGAIN_US: Final = t.US
"""When a failing lambda is told of again, should nobody have dealt with it."""
RECORD_INLINE_BYTES: Final = 64
"""Longer values of a task's record lie apart: more is what Redis' default `hash-max-listpack-value` allows no compact hash."""
AUDIT_KEPT: Final = 10_000
"""Entries of the audit log."""
AUDIT_BYTES: Final = 16 << 20
"""Of all of them: most have some 300, and one that names 256 tasks some 7,000."""
PLACE_PATIENCE_US: Final = t.US // 4
"""How long a task is left to the host that is to have it, once another one would take it."""
PLACE_AWAY_US: Final = 2 * t.US
"""How long a host that let this pass is waited for no more."""
SPREAD_HOSTS: Final = 256
"""Hosts that have their parts of a lambda at once when it becomes spread; others when they say next what they serve."""
SPREAD_LOOKS: Final = 2048
"""How much one call looks at for that, in units of what it takes to read a host's count: some 2 µs."""
MISFIT_WAIT_US: Final = t.US
"""When a task is looked at again whose payload fits no executor that is alive. The wait doubles from look to look."""
MOST_MISFIT_WAIT_US: Final = 30 * t.US
MOST_MISFIT_RETRY_US: Final = 600 * t.US
"""The wait between two attempts of such a task doubles up to this, once its time of grace is over, unless it was longer from the start."""
MISFITS_KEPT: Final = 16
"""Signatures of a lambda that are known to run, and of which a task remembers that it does not fit them: as many, or it would be offered to
the others again and again."""
MISFITS_TIDIED: Final = 16
"""Of each set of such tasks, those that one sweep looks at."""
MISFITS_PART: Final = 4
"""Of what is asked for, a fourth may be such tasks: else they would never be reached beside a long queue."""
MISFIT_LATELY_US: Final = 3600 * t.US
"""How long pushes of a lambda look for such tasks after the last one."""
NEAR_LIFE_US: Final = 3600 * t.US
"""How long it is remembered which host had the last task of an affinity key."""
NEAR_KEPT: Final = 50_000
"""Affinity keys of which it is, in one partition."""


@functools.lru_cache(maxsize=1024)  # most tasks have the same, and a call is made for every task
def limits(max_attempts: int, max_losses: int, retention_us: int) -> str:
    """The task field `lim`; empty where all three have their defaults."""
    text = f"{max_attempts} {max_losses} {retention_us}"
    return "" if text == _DEFAULT_LIMITS else text


_DEFAULT_LIMITS: Final = f"{t.DEFAULT_MAX_ATTEMPTS} {t.DEFAULT_MAX_LOSSES} {t.DEFAULT_RETENTION_US}"

_LUA: Final = files("atf.store") / "lua"
_FOLDERS: Final = ("task", "lambda", "batch", "job", "partition")


def _texts(*folders: str) -> dict[str, str]:
    """The texts of the files in some folders, by their names and in the order of these."""
    entries = [entry for folder in folders for entry in (_LUA / folder).iterdir() if entry.name.endswith(".lua")]
    return {
        each.name.removesuffix(".lua"): each.read_text(encoding="utf-8")
        for each in sorted(entries, key=lambda entry: entry.name)
    }


def verbs() -> dict[str, str]:
    """The verbs, each with the text of its file: one function of the same name."""
    return _texts(*_FOLDERS)


def shared() -> dict[str, str]:
    """What the verbs share, each with the text of its file."""
    return _texts("shared")


_OF_ROOMS: Final[dict[str, dict[str, int]]] = {
    "record": {"INLINE": RECORD_INLINE_BYTES},
    "kept_log": {"BYTES": t.MAX_LOG_BYTES},
    "run_log": {
        "ATTEMPTS": t.DEFAULT_MAX_ATTEMPTS,
        "LOSSES": t.DEFAULT_MAX_LOSSES,
        "RETENTION": t.DEFAULT_RETENTION_US,
    },
    "store_clock": {
        "IDLE": CLOCK_IDLE_US,
        "NOTED": CLOCK_NOTED_US,
        "STEP": CLOCK_STEP_US,
        "REVISIT": UNBELIEVED_REVISIT_US,
        "APART": CLOCK_APART_US,
    },
    "lists": {"EXACT": EXACT_LISTS},
    "roster": {"SPEAKS": ROSTER_SPEAKS_US, "SILENT": ROSTER_SILENT_US},
    "loss": {"DRAINING": DRAINING_LAPSES, "UNSTARTED": UNSTARTED_LAPSES},
    "batches": {"CHECK": BATCH_CHECK_US, "PATIENCE": BATCH_PATIENCE_US},
    "run_ends": {"STEP": ENDS_STEP_US, "STEPS": ENDS_STEPS},
    "misfits": {
        "FIRST": MISFIT_WAIT_US,
        "MOST": MOST_MISFIT_WAIT_US,
        "MOST_RETRY": MOST_MISFIT_RETRY_US,
        "KEPT": MISFITS_KEPT,
        "LATELY": MISFIT_LATELY_US,
        "TIDIED": MISFITS_TIDIED,
        "PART": MISFITS_PART,
    },
    "placement": {
        "PATIENCE": PLACE_PATIENCE_US,
        "AWAY": PLACE_AWAY_US,
        "LIFE": NEAR_LIFE_US,
        "KEPT": NEAR_KEPT,
        "HOSTS": SPREAD_HOSTS,
        "LOOKS": SPREAD_LOOKS,
    },
}
"""Constants that stand in the table of a file of lua/shared."""
_CONSTANTS: Final[dict[str, int]] = {
    "DEFAULT_QUEUE_LIMIT": t.DEFAULT_QUEUE_LIMIT,
    "DEFAULT_ENQUEUE_TIMEOUT": t.DEFAULT_ENQUEUE_TIMEOUT_US,
    "DEFAULT_PRIORITY": t.DEFAULT_PRIORITY,
    "MAX_PRIORITY": t.MAX_PRIORITY,
    "ENDED_RUNS_KEPT": t.ENDED_RUNS_KEPT,
    "TOMBSTONE": t.TOMBSTONE_US,
    "VISITS_PER_PASS": VISITS_PER_PASS,
    "STRETCH": STRETCH,
    "FULL_REVISIT": FULL_REVISIT_US,
    "UNKNOWN_REVISIT": UNKNOWN_REVISIT_US,
    "PERMIT_REVISIT": PERMIT_REVISIT_US,
    "PERMIT_KEPT": PERMIT_KEPT_US,
    "RATE_STEP": RATE_STEP_US,
    "OUTBOX_RETRY": OUTBOX_RETRY_US,
    "JOBS_BYTES": JOBS_BYTES,
    "JOB_RETRY": JOB_RETRY_US,
    "JOB_WAIT": JOB_WAIT_US,
    "JOB_ENDS": JOB_ENDS_US,
    "TICKS_PER_CALL": TICKS_PER_CALL,
    "LINE_CHECK": LINE_CHECK_US,
    "LINES_PER_PASS": LINES_PER_PASS,
    "CLAIM_OVERHEAD": CLAIM_OVERHEAD,
    "ITEM_RETENTION": ITEM_RETENTION_US,
    "BATCHES_PER_SWEEP": BATCHES_PER_SWEEP,
    "LOOKED_AT_ITEMS": LOOKED_AT_ITEMS,
    "MAX_GATES": MAX_GATES,
    "GATE_BYTES": GATE_BYTES,
    "AUDIT_KEPT": AUDIT_KEPT,
    "AUDIT_BYTES": AUDIT_BYTES,
    "JUDGE_AGAIN": JUDGE_AGAIN_US,
}
"""All others: local variables of the library, or of the one verb that uses them."""


def _names(text: str) -> set[str]:
    """The constants that a text uses."""
    return _CONSTANTS.keys() & set(re.findall(r"\b[A-Z_]+\b", text))


def _declared(names: set[str]) -> str:
    return "".join(f"local {name} = {value}\n" for name, value in _CONSTANTS.items() if name in names)


def _code() -> str:
    common = shared()
    everywhere = _names("\n".join(common.values()))
    parts = [
        _declared(everywhere) + "local function register(name, flags, callback)\n"
        "  redis.register_function{function_name = LIBRARY .. '_' .. name, callback = callback, flags = flags}\n"
        "end"
    ]
    rooms = [name for name in common if name not in _PLAIN]
    for name in rooms:
        constants = ", ".join(f"{each} = {value}" for each, value in _OF_ROOMS.get(name, {}).items())
        parts.append(f"local {name} = {{{constants}}}")
    parts += (common[name] for name in _PLAIN)
    # Lua allows 200 local variables at once: those of a file end with it, but for its table.
    parts += (f"do\n{common[name]}end" for name in rooms)
    for text in verbs().values():
        parts.append(f"do local function verb()\n{_declared(_names(text) - everywhere)}{text}end verb() end")
    return "\n".join(parts) + "\n"


class Library(NamedTuple):
    """A function library.

    Attributes:
        name: begins the names of its functions.
        utf8: its text, as FUNCTION LOAD takes it. As bytes, since a role keeps it: one letter beyond Latin-1 makes a text twice as large.
    """

    name: str
    utf8: bytes

    @property
    def source(self) -> str:
        """Its text."""
        return self.utf8.decode()


def _built() -> Library:
    code = _code()
    name = f"atf_{VERSION}_{hashlib.blake2b(code.encode(), digest_size=4).hexdigest()}"
    return Library(name, f"#!lua name={name}\nlocal LIBRARY = '{name}'\n{code}".encode())


CURRENT = _built()
"""What a new Link loads and calls: this release's library. Tests put another one in its place."""
NAME: Final = CURRENT.name
