"""Finds which node of a Redis Cluster serves which slot. Connects to nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from redis.crc import key_slot

from .address import Host

SLOTS: Final = 16_384


class Claim(NamedTuple):
    """A master's word that it serves some slots; of two for one slot, the one with the higher epoch holds."""

    epoch: int
    first: int
    last: int
    host: Host


@dataclass
class SlotMap:
    """The master of every slot that has one."""

    masters: list[Host | None] = field(default_factory=lambda: [None] * SLOTS)
    nodes: set[Host] = field(default_factory=set)
    """Every node that was named, replicas too: whom to ask next time."""

    def of(self, key: str) -> Host | None:
        """The master of a key's slot."""
        return self.masters[slot_of(key)]

    def all(self) -> list[Host]:
        """The masters, in the order of their first slots."""
        return list(dict.fromkeys(each for each in self.masters if each is not None))


def slot_of(key: str) -> int:
    """The slot of a key or channel: of its hash tag, if it has one."""
    return int(key_slot(key.encode()))


def read(views: Iterable[tuple[Host, str]], *, hostnames: bool = False) -> SlotMap:
    """One map of what some nodes answered to CLUSTER NODES.

    Args:
        views: each node's address, as it was asked at, and its answer.
        hostnames: whether to go by the names that nodes announce rather than by addresses, as certificates do.
    """
    claims: list[Claim] = []
    found = SlotMap()
    for asked, answer in views:
        for line in answer.splitlines():
            fields = line.split()
            if len(fields) < 8:
                continue
            flags = set(fields[2].split(","))
            host = _host(fields[1], asked, mine="myself" in flags, hostnames=hostnames)
            if host is None or flags & {"noaddr", "handshake"}:
                continue
            found.nodes.add(host)
            if "master" in flags:
                claims += [Claim(int(fields[6]), *_range(each), host) for each in fields[8:] if each[0] != "["]
    for claim in sorted(claims):
        found.masters[claim.first : claim.last + 1] = [claim.host] * (claim.last - claim.first + 1)
    return found


def _host(text: str, asked: Host, *, mine: bool, hostnames: bool) -> Host | None:
    """The address in "ip:port@busport,hostname,…"; a node that does not know its own is where it was asked."""
    address, _, names = text.partition(",")
    ip, _, port = address.partition("@")[0].rpartition(":")
    name = names.split(",")[0]
    if hostnames and name and "=" not in name:
        ip = name
    if not ip or ip == "?":
        return asked if mine else None
    return (ip.strip("[]"), int(port)) if port.isdigit() and port != "0" else None


def _range(text: str) -> tuple[int, int]:
    first, _, last = text.partition("-")
    return int(first), int(last or first)
