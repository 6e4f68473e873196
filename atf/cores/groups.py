"""Divides a pool's executors into groups, and rotates them over its cores. Pure.

n cores have n groups. At the k-th rotation group i works on core (i + k) mod n, so that no group owns a lambda for long, and
everybody knows beforehand who will be where.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec


def deal(members: Iterable[str], groups: int, seed: bytes) -> list[list[str]]:
    """Shuffles members into groups whose sizes differ by one at most; the first ones are the larger.

    Args:
        members: names; the order does not matter.
        groups: how many.
        seed: up to 64 bytes. The same seed deals the same members alike; who does not know it can't tell what it will deal.
    """
    order = sorted(set(members), key=lambda each: hashlib.blake2b(each.encode(), key=seed).digest())
    return [order[first::groups] for first in range(groups)]


def core_of(group: int, rotation: int, cores: int) -> int:
    """The core that a group works on."""
    return (group + rotation) % cores


def group_on(core: int, rotation: int, cores: int) -> int:
    """The group that works on a core."""
    return (core - rotation) % cores


class CoreRotation(msgspec.Struct):
    """Counts rotations by the store's clock; a changed interval loses none."""

    since_us: int  # when the rotation `first` began
    every_us: int
    first: int = 0

    def at(self, now_us: int) -> int:
        """Rotations so far; before the first, or after a step back of the clock, as many as when it was set."""
        return self.first + max((now_us - self.since_us) // self.every_us, 0)

    def next_us(self, now_us: int) -> int:
        """The instant of the next rotation."""
        return self.since_us + (self.at(now_us) - self.first + 1) * self.every_us

    def changed(self, every_us: int, now_us: int) -> CoreRotation:
        """The same count with another interval, whose first one begins now."""
        return self if every_us == self.every_us else CoreRotation(now_us, every_us, self.at(now_us))
