"""Keeps what an executor holds in memory that outlives it: the worker writes it, its guard reads it once the worker is dead.

Owns the layout of that memory, and nothing else: which task goes into which slot is the ledger's business. A slot is filled
first, and its state byte set last; so a worker killed in between leaves a free slot, never half a task. Only the worker
writes. While it lives, the guard reads its header, and no slot but those that have started.

Layout, in the byte order of the host, since both live on it:
    header, 64 bytes
        0   int64       CLOCK_BOOTTIME in microseconds at which the oldest lease among the held claims was asked for; 0: none held
        8   uint8       stage: 0 imports, 1 joins, 2 works, 3 drains, 4 cuts short what still runs
    slot, 512 bytes each
        0   uint8       state: 0 free, 1 held, 2 started, 3 timed out, 4 stopped
        1   uint8       length of the task id
        2   uint8       length of the nonce
        3   uint8       1: a suspect, which has been lost before
        4   uint16      length of the error
        8   int64       counter of the token
        16  int64       retry_in_us
        24  72 bytes    task id
        96  64 bytes    nonce
        160 352 bytes   error
"""

from __future__ import annotations

import enum
import mmap
import os
import struct
from typing import Final, NamedTuple

from atf.task import MAX_BATCH, MAX_NONCE_CHARS

SPARE_SLOTS: Final = 2 * MAX_BATCH
"""Slots beyond the tasks that run at once: for what waits to start, and for what waits to be reported."""

HEADER_BYTES: Final = 64
SLOT_BYTES: Final = 512

_STAGE_AT: Final = 8
_SLOT: Final = struct.Struct("=BBBBHxxqq72s64s")
_ERROR_AT: Final = _SLOT.size
_ERROR_BYTES: Final = SLOT_BYTES - _ERROR_AT
_LENGTHS: Final = struct.Struct("=H")
_LENGTH_AT: Final = 4
_RETRY: Final = struct.Struct("=q")
_RETRY_AT: Final = 16
_NONCE_BYTES: Final = MAX_NONCE_CHARS


class Stage(enum.IntEnum):
    """Where an executor is in its life."""

    IMPORTS = 0
    """It imports the apps: it has asked for nothing yet."""
    JOINS = 1
    """It has imported them, and makes itself known."""
    WORKS = 2
    DRAINS = 3
    """It takes no more."""
    CUTS = 4
    """Its process ends now, by its own decision, with what has started and not ended: that counts nothing and runs again."""


class SlotState(enum.IntEnum):
    """What is known of a claim should its executor die now."""

    FREE = 0
    HELD = 1
    """It has not started: it may be handed back."""
    STARTED = 2
    """It may have run."""
    TIMED_OUT = 3
    """It ran past its timeout and did not end."""
    STOPPED = 4
    """Its cancellation was asked for, and it did not end."""


_STAGES: Final = frozenset(Stage)


class TableEntry(NamedTuple):
    """One slot that is not free."""

    state: SlotState
    task_id: str
    counter: int
    nonce: str
    retry_in_us: int
    error: str
    suspect: bool = False


class Table:
    """The slots, over any writable buffer. A method costs a microsecond or less, `entries` apart."""

    def __init__(self, buffer: bytearray | mmap.mmap) -> None:
        self._buffer = buffer
        # Written and read as one machine word: the guard never sees half of it.
        self._oldest = memoryview(buffer)[:8].cast("q")
        self.slots = (len(buffer) - HEADER_BYTES) // SLOT_BYTES

    @classmethod
    def in_memory(cls, slots: int) -> Table:
        """A table that nobody else can read, for an executor without a guard, which works."""
        made = cls(bytearray(HEADER_BYTES + slots * SLOT_BYTES))
        made.stage = Stage.WORKS
        return made

    @classmethod
    def mapped(cls, descriptor: int) -> Table:
        """The table in the memory file that `memory_file` made, in this process or its parent; a child forked later can't write it."""
        memory = mmap.mmap(descriptor, os.fstat(descriptor).st_size)
        if hasattr(mmap, "MADV_DONTFORK"):  # Linux
            memory.madvise(mmap.MADV_DONTFORK)
        return cls(memory)

    @property
    def oldest_lease_us(self) -> int:
        """CLOCK_BOOTTIME at which the oldest lease was asked for, in microseconds; 0: nothing is held."""
        return self._oldest[0]

    @oldest_lease_us.setter
    def oldest_lease_us(self, instant_us: int) -> None:
        self._oldest[0] = instant_us

    @property
    def stage(self) -> Stage:
        """Where the executor is in its life; WORKS where native code has written over it."""
        found = self._buffer[_STAGE_AT]
        return Stage(found) if found in _STAGES else Stage.WORKS

    @stage.setter
    def stage(self, stage: Stage) -> None:
        self._buffer[_STAGE_AT] = stage

    def fill(self, slot: int, task_id: str, counter: int, nonce: str, *, suspect: bool = False) -> None:
        """Records a claim as held.

        Raises:
            ValueError: the id or the nonce is longer than the slot has room for.
        """
        name, secret = task_id.encode(), nonce.encode()
        if len(name) > 72 or len(secret) > _NONCE_BYTES:
            raise ValueError(f"task id of {len(name)} bytes, nonce of {len(secret)}: at most 72 and {_NONCE_BYTES}")
        at = HEADER_BYTES + slot * SLOT_BYTES
        _SLOT.pack_into(self._buffer, at, 0, len(name), len(secret), suspect, 0, counter, 0, name, secret)
        self._buffer[at] = SlotState.HELD

    def mark(self, slot: int, state: SlotState) -> None:
        """Changes the state alone."""
        self._buffer[HEADER_BYTES + slot * SLOT_BYTES] = state

    def overrun(self, slot: int, state: SlotState, error: str, retry_in_us: int = 0) -> None:
        """Records how a run that does not end is to be reported once its process is dead. A long error is cut."""
        at = HEADER_BYTES + slot * SLOT_BYTES
        text = error.encode("utf-8", "replace")[:_ERROR_BYTES]
        self._buffer[at + _ERROR_AT : at + _ERROR_AT + len(text)] = text
        _LENGTHS.pack_into(self._buffer, at + _LENGTH_AT, len(text))
        _RETRY.pack_into(self._buffer, at + _RETRY_AT, retry_in_us)
        self._buffer[at] = state

    def free(self, slot: int) -> None:
        """Forgets a claim whose end is recorded."""
        self._buffer[HEADER_BYTES + slot * SLOT_BYTES] = SlotState.FREE

    def entries(self) -> list[TableEntry]:
        """All slots that are not free."""
        found = []
        for slot in range(self.slots):
            at = HEADER_BYTES + slot * SLOT_BYTES
            slot_fields = _SLOT.unpack_from(self._buffer, at)
            state, name, secret, suspect, error, counter, retry_in_us, task_id, nonce = slot_fields
            if state != SlotState.FREE:
                text = bytes(self._buffer[at + _ERROR_AT : at + _ERROR_AT + min(error, _ERROR_BYTES)])
                try:
                    known, name_text, secret_text = SlotState(state), task_id[:name].decode(), nonce[:secret].decode()
                except ValueError:
                    continue  # native code has written over it: the claim's lease will end, and what it was is unknown
                shown = text.decode("utf-8", "ignore")
                found.append(TableEntry(known, name_text, counter, secret_text, retry_in_us, shown, bool(suspect)))
        return found


def memory_file(slots: int) -> int:
    """The descriptor of a memory file for a table."""
    descriptor = nameless_file("atf-executor")
    os.truncate(descriptor, HEADER_BYTES + slots * SLOT_BYTES)
    return descriptor


def nameless_file(what: str) -> int:
    """The descriptor of a file in memory that has no name, so nothing is left of it when its processes end. `what`: for those who list descriptors."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create(what, os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:  # no Linux
        return os.dup(file.fileno())
