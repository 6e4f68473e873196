"""Sets, lifts and lists gates of lambdas.

A gate is written in the registry partition, whose outbox has it for the others, like a lambda's record. What people wrote is kept there alone.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from atf.errors import Unavailable
from atf.store.servers.sockets import Arg

from . import keys, library
from .calls import by_partition
from .lambdas import LambdaVerbs
from .partitions import REGISTRY_PARTITION
from .values.lambdas import Gate, GateAction, NewGate

AUTOMATIC: Final = "atf"
"""Who sets automatic gates."""


_READ_AT_ONCE: Final = 32
"""Lambdas whose gates one call reads: few enough to hold up nobody in the store."""


class KeepExisting(enum.IntEnum):
    """Which gate about the same is left as it is where another one is set; `set_gate` takes these numbers."""

    NEVER = 0  # none: it is replaced
    SET = 1  # any
    ENDLESS = 2  # one that stands until it is lifted


class _GateReason(msgspec.Struct, omit_defaults=True):
    """What people said of a gate when they set it."""

    who: str = ""
    why: str = ""
    automatic: bool = False


class GateSet(NamedTuple):
    """The answer to set_gate."""

    number: int  # of the gate; 0: the lambda has as many as it may have
    until_us: int = 0  # the instant at which it ends; 0: when it is lifted
    made: bool = False  # by this call; False: it stood before


class GateVerbs(LambdaVerbs):
    """The verbs of Store about gates."""

    async def set_gate(self, gate: NewGate, *, unless: KeepExisting = KeepExisting.NEVER) -> GateSet | None:
        """Sets a gate, in the place of the one of its lambda with the same action and labels.

        Args:
            gate: the gate.
            unless: which one about the same is left as it is.

        Returns:
            The gate; its number is 0 where the lambda has as many as it may have, which a pause of all its tasks may always join. None
            where there is no such lambda.
        """
        said = _GateReason(gate.who, gate.why, gate.automatic)
        until: Arg = "" if gate.until_us is None else gate.until_us
        args: list[Arg] = [self.partitions, gate.lambda_name, _about(gate.action, gate.labels)]
        args += (_amount(gate), until, gate.for_us, int(unless), gate.request_id, msgspec.json.encode(said))
        reply = [int(each) for each in await self._call("set_gate", REGISTRY_PARTITION, args)]
        await self._apply_all_outboxes()
        if not reply:
            return None
        return GateSet(reply[0], reply[1], reply[2] == 1) if reply[0] else GateSet(0)

    async def lift_gate(self, name: str, labels: Mapping[str, str], actions: Collection[GateAction]) -> int | None:
        """Lifts the gates of a lambda with these labels and one of these actions. Returns how many; None where there is no such lambda."""
        args: list[Arg] = [self.partitions, name]
        args += (_about(action, labels) for action in actions)
        lifted = int(await self._call("lift_gate", REGISTRY_PARTITION, args))
        await self._apply_all_outboxes()
        return None if lifted < 0 else lifted

    async def dropped(self, name: str, labels: Mapping[str, str], actions: Collection[GateAction]) -> str:
        """What a drop among these gates has dropped, in words; its count goes with it when it is lifted or replaced. Empty where there is none."""
        if GateAction.DROP not in actions:
            return ""
        replies = await self._gates_in(REGISTRY_PARTITION, [name])
        number = _number_of(_about(GateAction.DROP, labels), replies[0][3].decode())
        if number is None:
            return ""
        try:
            for partition in range(REGISTRY_PARTITION + 1, self.partitions):
                replies += await self._gates_in(partition, [name])
        except Unavailable:  # which keeps nobody from lifting it
            return "tasks dropped: unknown, as a partition was away"
        here = (zip(reply[4::4], reply[6::4], strict=True) for reply in replies)
        dropped = sum(int(count) for counts in here for each, count in counts if int(each) == number)
        so_far = sum(int(reply[2]) for reply in replies)
        return f"tasks dropped: {dropped}, by all gates of the lambda so far: {so_far}"

    async def pause_lambda(self, name: str, who: str = "", why: str = "") -> GateSet | None:
        """Pauses a lambda, by a gate; None where there is none of this name."""
        gate = NewGate(name, GateAction.PAUSE, {}, who=who, why=why)
        return await self.set_gate(gate, unless=KeepExisting.ENDLESS)

    async def resume_lambda(self, name: str) -> int | None:
        """Lifts the pause of a lambda. Returns how many were lifted; None where there is none of this name."""
        return await self.lift_gate(name, {}, [GateAction.PAUSE])

    async def list_gates(self, *names: str, counted: bool = True) -> list[Gate]:
        """The gates of some lambdas: lambda by lambda, oldest first.

        Args:
            names: the lambdas'.
            counted: with what each keeps and has dropped, for which every partition is asked; else with what the registry partition alone knows.
        """
        registry, *others = await asyncio.gather(
            *(self._gates_in(each, names) for each in (range(self.partitions) if counted else [REGISTRY_PARTITION]))
        )
        return [gate for name, *here in zip(names, registry, *others, strict=True) for gate in _together(name, here)]

    async def _gates_in(self, partition: int, names: Sequence[str]) -> list[list[Any]]:
        found: list[list[Any]] = []
        for start in range(0, len(names), _READ_AT_ONCE):
            found += await self._call("list_gates", partition, list(names[start : start + _READ_AT_ONCE]))
        return found

    async def judge(self, name: str) -> Gate | None:
        """Closes the automatic gate of a lambda if it has to by what all partitions know. Returns it; None: it stays open, or has been closed."""
        ended, fatal, share = 0, 0, ""
        for partition in range(self.partitions):
            some, failed, threshold, paused = await self._call("judge", partition, [name])
            if paused:
                return None
            ended, fatal, share = ended + some, fatal + failed, threshold.decode() or share
        if not share or ended < library.MIN_ENDED or fatal < float(share) * ended:
            return None
        why = f"{fatal} of {ended} runs within a minute failed for good; its gate_at_fatal is {float(share) * 100:g} %"
        gate = NewGate(name, GateAction.PAUSE, {}, who=AUTOMATIC, why=why, automatic=True)
        answer = await self.set_gate(gate, unless=KeepExisting.SET)
        if answer is None or not answer.made:
            return None
        return Gate(answer.number, name, GateAction.PAUSE, {}, 0, 0, AUTOMATIC, why, True, 0, 0, 0)

    async def redrive(self, tasks: Sequence[tuple[str, int]], begun_us: int, within: Sequence[str] = ()) -> list[bool]:
        """FATAL_FAILURE, CANCELLED → NEW, each due so many µs after the redrive began, at `begun_us`. Which were one of these. `within` as of
        `cancel_tasks`.
        """
        bound = " ".join(within)

        async def call(partition: int, batch: list[tuple[str, int]]) -> list[bool]:
            args: list[Arg] = [bound, begun_us, *(each for task in batch for each in task)]
            return [each == 1 for each in await self._call("redrive", partition, args)]

        return await by_partition(tasks, lambda task: self._partition(task[0]), call)


def _about(action: GateAction, labels: Mapping[str, str]) -> str:
    return f"{action.value} {keys.labels(labels)}".rstrip()


def _amount(gate: NewGate) -> str:
    return f"{gate.amount:.9f}" if gate.action is GateAction.ADMIT else str(int(gate.amount))


def _number_of(about: str, text: str) -> int | None:
    """The number of the gate about this, among the gates as the store's functions keep them."""
    for line in filter(None, text.split(";")):
        number, action, _, _, *labels = line.split()
        if " ".join([action, *labels]) == about:
            return int(number)
    return None


def _parse(name: str, text: str, now_us: int) -> list[Gate]:
    """The gates of a lambda as the store's functions keep them, without those that have ended."""
    found = []
    for line in filter(None, text.split(";")):
        number, action, ends, amount, *labels = line.split()
        said = dict(each.split("=", 1) for each in labels)
        named = {unquote(label): unquote(value) for label, value in said.items()}
        if int(ends) == 0 or int(ends) > now_us:
            kind = GateAction(action)
            found.append(Gate(int(number), name, kind, named, float(amount), int(ends), "", "", False, 0, 0, 0))
    return found


def _together(name: str, replies: Sequence[list[Any]]) -> list[Gate]:
    """The gates of a lambda by what each partition says of them, the registry partition first."""
    now, _, _, text, *_ = replies[0]
    found = {each.number: each for each in _parse(name, text.decode(), int(now))}
    for reply in replies:
        for number, kept, dropped, said in zip(reply[4::4], reply[5::4], reply[6::4], reply[7::4], strict=True):
            gate = found.get(int(number))
            if gate is not None:
                gate = gate._replace(waiting=gate.waiting + int(kept), dropped=gate.dropped + int(dropped))
                found[gate.number] = _with_record(gate, said) if reply is replies[0] else gate
    due = sum(int(reply[1]) for reply in replies)
    return [each._replace(waiting=due) if _whole_pause(each) else each for each in found.values()]


def _whole_pause(gate: Gate) -> bool:
    """Whether it pauses the whole lambda: then all that is due waits for it."""
    return gate.action is GateAction.PAUSE and not gate.labels


def _with_record(gate: Gate, said: bytes) -> Gate:
    at, _, record = said.partition(b" ")
    known = msgspec.json.decode(record.partition(b" ")[2], type=_GateReason)
    return gate._replace(who=known.who, why=known.why, automatic=known.automatic, set_at_us=int(at))
