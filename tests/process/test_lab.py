"""The laboratory of network namespaces: its cuts drop every packet, and nothing of it stays behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from itertools import count
from pathlib import Path

import pytest

from proof.chaos.lab import Lab, LabError, LabHost, available, sweep

PORT = 4000
QUIET_S = 0.1


@pytest.fixture(scope="module", autouse=True)
def _possible() -> None:
    if why := available():
        pytest.skip(f"not run: {why}")


@pytest.fixture
def lab() -> Iterator[Lab]:
    with Lab() as lab:
        yield lab


class Ears:
    """A datagram socket on every host."""

    def __init__(self, stack: ExitStack, *hosts: LabHost) -> None:
        self._sockets: dict[LabHost, socket.socket] = {}
        self._words = (b"%d" % number for number in count())
        for host in hosts:
            with host.inside():
                ear = stack.enter_context(closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)))
            ear.bind((host.address, PORT))
            self._sockets[host] = ear

    def hears(self, speaker: LabHost, listener: LabHost, *, expected: bool) -> bool:
        """Whether a word arrives. Silence is waited for shortly, a word for as long as a busy machine may take; it is said again
        meanwhile, since any network may lose a datagram.
        """
        word, ear = next(self._words), self._sockets[listener]
        ear.settimeout(QUIET_S)
        for _ in range(100 if expected else 1):
            self._sockets[speaker].sendto(word, (listener.address, PORT))
            try:
                while ear.recv(99) != word:
                    pass  # an older one, said twice
            except TimeoutError:
                continue
            return True
        return False


def test_a_cut_host_hears_nobody_and_a_cut_site_only_itself(lab: Lab) -> None:
    a, b, c = lab.host("a", "east"), lab.host("b", "east"), lab.host("c", "west")
    with ExitStack() as stack:
        ears = Ears(stack, a, b, c)

        def check(within: bool, across: bool) -> None:
            heard = [ears.hears(*pair, expected=within) for pair in ((a, b), (b, a))]
            assert heard == [within, within]
            heard = [ears.hears(*pair, expected=across) for pair in ((a, c), (c, a))]
            assert heard == [across, across]

        check(within=True, across=True)
        lab.cut("east")
        check(within=True, across=False)
        lab.heal()
        lab.cut("a")
        check(within=False, across=False)
        assert ears.hears(b, c, expected=True)
        lab.heal("a")
        check(within=True, across=True)


def test_a_split_parts_hosts_of_any_sites_from_the_others(lab: Lab) -> None:
    a, b, c, d = (lab.host(name, site) for name, site in ("ae", "be", "cw", "dw"))
    with ExitStack() as stack:
        ears = Ears(stack, a, b, c, d)

        def check(together: bool, across: bool) -> None:
            heard = [ears.hears(*pair, expected=together) for pair in ((a, c), (c, a), (b, d), (d, b))]
            assert heard == [together] * 4
            heard = [ears.hears(*pair, expected=across) for pair in ((a, b), (b, a), (a, d), (c, b))]
            assert heard == [across] * 4

        check(together=True, across=True)
        lab.split("a", "c")
        check(together=True, across=False)
        lab.heal()
        check(together=True, across=True)


def test_a_cut_is_silent_and_what_was_sent_during_it_arrives_after_it(lab: Lab) -> None:
    a, b = lab.host("a", "east"), lab.host("b", "west")
    with ExitStack() as stack:
        with b.inside():
            server = stack.enter_context(closing(socket.create_server((b.address, PORT))))
        with a.inside():
            client = stack.enter_context(closing(socket.create_connection((b.address, PORT), 5)))
        accepted = stack.enter_context(closing(server.accept()[0]))

        lab.cut("west")
        client.send(b"x")
        accepted.settimeout(QUIET_S)
        with pytest.raises(TimeoutError):
            accepted.recv(1)
        with a.inside(), pytest.raises(TimeoutError):  # neither refused nor unreachable
            socket.create_connection((b.address, PORT), QUIET_S)

        lab.heal()
        accepted.settimeout(5)
        assert accepted.recv(1) == b"x"


def test_hosts_are_apart_from_the_machine(lab: Lab) -> None:
    a = lab.host("a")
    with closing(socket.create_server(("127.0.0.1", 0))) as ours:
        with a.inside(), pytest.raises(ConnectionRefusedError):
            socket.create_connection(ours.getsockname(), 5)
        socket.create_connection(ours.getsockname(), 5).close()  # back outside


def test_a_name_is_one_host_or_site(lab: Lab) -> None:
    lab.host("a", "east")
    with pytest.raises(LabError, match="east already"):
        lab.host("east")
    with pytest.raises(LabError, match="no host or site b"):
        lab.cut("b")
    with pytest.raises(LabError, match="no host b"):
        lab.split("b")


def test_nothing_is_left_of_a_lab_nor_of_one_whose_owner_was_killed() -> None:
    with Lab() as lab:
        a = lab.host("a")
        with a.inside():
            process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
        mine = {each.namespace for each in lab.hosts.values()}
        assert a.pids() == [process.pid]
        sweep()
        assert mine <= _namespaces()  # this one's owner lives
    assert process.wait(5) == -signal.SIGKILL
    assert not mine & _namespaces()

    program = "from proof.chaos.lab import Lab; lab = Lab(); lab.host('a'); print(lab.hosts['a'].namespace, flush=True); input()"
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=root,
        env=os.environ | {"PYTHONPATH": str(root)},
    ) as owner:
        assert owner.stdout is not None
        theirs = owner.stdout.readline().strip()
        assert theirs in _namespaces()
        owner.kill()
        owner.wait()
        sweep()
    assert theirs not in _namespaces()


def _namespaces() -> set[str]:
    return {each.name for each in Path("/run/netns").iterdir()}
