"""A laboratory of hosts on one machine: network namespaces on switches, whose links can be cut and healed.

It owns namespaces, addresses and links, and leaves nothing of them behind; what runs in its hosts is others' matter.

    with Lab() as lab:
        a, b = lab.host("a", site="east"), lab.host("b", site="west")
        with a.inside():
            Popen(...)            # a process on that host; sockets opened here belong to it too
        lab.cut("west")           # every packet to and from that site vanishes; within it nothing changes
        lab.heal()
        lab.split("a", "b")       # these two on one side, everybody else on the other

A cut is a switch's port that neither takes nor gives: no reset, no "unreachable", and the carrier stays. For the same reason
the hosts know each other's hardware addresses beforehand: a question that nobody answers would end as "host unreachable".
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

_PREFIX: Final = "atf-lab-"
_NAMED: Final = Path("/run/netns")
_CLONE_NEWNET: Final = 0x40000000
_DISABLED, _FORWARDING = 0, 3
"""States of a port of a bridge."""
_CORE: Final = "core"
"""The namespace of the switches: nothing of a lab is in the machine's own."""
_WAN: Final = "wan"
_APART: Final = "apart"
"""The site of those that a split has moved."""
_GONE_S: Final = 5.0
"""Seconds that killed processes get to be gone."""


def available() -> str:
    """Why there can be no lab here; "" where there can."""
    if sys.platform != "linux":
        return "network namespaces are Linux's"
    missing = [name for name in ("ip", "bridge") if shutil.which(name) is None]
    if missing:
        return f"no `{missing[0]}` command (iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    try:
        with Lab() as lab:
            lab.host("probe")
    except LabError as error:
        return str(error)
    return ""


class LabError(OSError):
    """A command that builds or changes the lab failed; the text has its words."""


@dataclass(frozen=True)
class LabHost:
    """A host of the lab: a namespace with one interface and one address."""

    name: str
    namespace: str
    address: str
    hardware: str

    @contextlib.contextmanager
    def inside(self) -> Iterator[None]:
        """Until its end, sockets that this thread opens and processes that it starts are on this host. Never await within."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            there = os.open(_NAMED / self.namespace, os.O_RDONLY | os.O_CLOEXEC)
            try:
                _enter(there)
            finally:
                os.close(there)
            try:
                yield
            finally:
                _enter(before)
        finally:
            os.close(before)

    def pids(self) -> list[int]:
        """Every process that runs on it."""
        return _pids(self.namespace)


class Lab:
    """Hosts, each on the switch of its site; the switches of all sites are joined by one more.

    Raises:
        LabError: there can be none here; `available` says why.
    """

    def __init__(self) -> None:
        sweep()
        self.hosts: dict[str, LabHost] = {}
        self.cut_now: set[str] = set()
        self._name = f"{_PREFIX}{os.getpid()}.{_started(os.getpid())}.{os.urandom(2).hex()}"
        self._ports: dict[str, str] = {}  # by host or site: its port on the next switch
        self._switches: dict[str, str] = {}  # by site
        self._homes: dict[str, str] = {}  # by host: its site
        self._apart: set[str] = set()  # the hosts that a split has moved
        self._numbers = itertools.count(1)
        _ip("netns", "add", self._core)
        try:
            self._switch(_WAN)
        except BaseException:
            self.close()
            raise

    @property
    def _core(self) -> str:
        return f"{self._name}-{_CORE}"

    def host(self, name: str, site: str = "lan") -> LabHost:
        """A new host in a site, which is made where it is new. A name stands for one host or one site."""
        if site not in self._switches:
            self._site(site)
        if name in self._ports:
            raise LabError(f"there is a host or site {name} already")
        number = next(self._numbers)
        namespace, port = f"{self._name}-{name}", f"h{number}"
        host = LabHost(name, namespace, f"10.77.0.{number}", f"02:00:00:00:00:{number:02x}")
        _ip("netns", "add", namespace)
        self.hosts[name] = host
        wire = ["type", "veth", "peer", "name", "eth0", "address", host.hardware, "netns", namespace]
        self._in_core("link", "add", port, *wire)
        self._in_core("link", "set", port, "master", self._switches[site], "up")
        _ip("-n", namespace, "link", "set", "lo", "up")
        _ip("-n", namespace, "link", "set", "eth0", "up")
        _ip("-n", namespace, "addr", "add", f"{host.address}/24", "dev", "eth0")
        for other in self.hosts.values():
            if other is not host:
                _acquaint(host, other)
                _acquaint(other, host)
        self._ports[name], self._homes[name] = port, site
        return host

    def cut(self, *names: str) -> None:
        """Cuts hosts, or whole sites, off from everything else. Each side goes on in itself."""
        for name in names:
            self._set(name, _DISABLED)
            self.cut_now.add(name)

    def split(self, *names: str) -> None:
        """Parts these hosts from all others, whatever their sites; among themselves they stay joined. One split at a time."""
        if _APART not in self._switches:
            self._site(_APART)
        self.cut(_APART)
        for name in names:
            self._plug(name, _APART)
            self._apart.add(name)

    def heal(self, *names: str) -> None:
        """Joins what was cut; without names, all of it, and ends a split."""
        if not names:
            for host in self._apart:
                self._plug(host, self._homes[host])
            self._apart.clear()
        for name in names or sorted(self.cut_now):
            self._set(name, _FORWARDING)
            self.cut_now.discard(name)

    def close(self) -> None:
        """Kills what still runs in the lab, and removes it."""
        _remove([name for name in _all() if name.startswith(f"{self._name}-")])
        self.hosts.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _site(self, site: str) -> None:
        number = next(self._numbers)
        switch, near, far = f"s{number}", f"u{number}", f"w{number}"
        self._switch(switch)
        self._in_core("link", "add", near, "type", "veth", "peer", "name", far)
        self._in_core("link", "set", near, "master", switch, "up")
        self._in_core("link", "set", far, "master", _WAN, "up")
        self._ports[site], self._switches[site] = far, switch

    def _switch(self, name: str) -> None:
        self._in_core("link", "add", name, "type", "bridge", "stp_state", "0", "mcast_snooping", "0")
        self._in_core("link", "set", name, "up")

    def _plug(self, host: str, site: str) -> None:
        if host not in self._homes:
            raise LabError(f"no host {host}")
        self._in_core("link", "set", self._ports[host], "nomaster")
        self._in_core("link", "set", self._ports[host], "master", self._switches[site])

    def _set(self, name: str, state: int) -> None:
        if name not in self._ports:
            raise LabError(f"no host or site {name}")
        _run("bridge", "-n", self._core, "link", "set", "dev", self._ports[name], "state", str(state))

    def _in_core(self, *words: str) -> None:
        _ip("-n", self._core, *words)


def sweep() -> list[str]:
    """Removes the labs whose owner is gone; their namespaces' names."""
    left = []
    for name in _all():
        pid, _, rest = name.removeprefix(_PREFIX).partition(".")
        if _started(int(pid)) != rest.partition(".")[0]:
            left.append(name)
    _remove(left)
    return left


def _all() -> list[str]:
    return sorted(each.name for each in _NAMED.iterdir() if each.name.startswith(_PREFIX)) if _NAMED.exists() else []


def _remove(names: list[str]) -> None:
    until = time.monotonic() + _GONE_S
    while (pids := [pid for name in names for pid in _pids(name)]) and time.monotonic() < until:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    for name in names:
        with contextlib.suppress(LabError):  # another sweep was faster
            _ip("netns", "del", name)


def _pids(namespace: str) -> list[int]:
    said = subprocess.run(["ip", "netns", "pids", namespace], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in said.split()]


def _acquaint(host: LabHost, other: LabHost) -> None:
    _ip(
        "-n", host.namespace, "neigh", "add", other.address, "lladdr", other.hardware, "dev", "eth0", "nud", "permanent"
    )


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"{' '.join(command)}: {done.stderr.strip() or f'exit code {done.returncode}'}")


def _started(pid: int) -> str:
    """When a process started, in the kernel's own ticks; "" where there is none: a number may be given again."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[19]
    except OSError:
        return ""


_libc: Any = ctypes.CDLL(None, use_errno=True)


def _enter(namespace: int) -> None:
    if _libc.setns(namespace, _CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
