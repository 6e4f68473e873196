"""How much of this machine its host takes away: a machine that gets no processor recovers from nothing, whatever runs on it.

On virtual machines the kernel counts the time in which something wanted to run and the host ran others instead ("steal", proc(5)).
Elsewhere, and on systems without /proc, nothing is ever stolen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple, Self

STARVED: Final = 0.2
"""Share of the wanted processor time that was stolen, from which on a trial says nothing about times."""
CALM: Final = 0.1
"""Share below which the machine is calm enough for the next trial."""
_STAT: Final = Path("/proc/stat")


class ProcessorTime(NamedTuple):
    """Processor time of all cores since the machine started, in ticks."""

    used: int
    stolen: int

    @classmethod
    def now(cls) -> Self:
        """As the kernel counts it."""
        try:
            first = _STAT.read_text("ascii").partition("\n")[0]
        except OSError:
            return cls(0, 0)
        return cls.parsed(first)

    @classmethod
    def parsed(cls, line: str) -> Self:
        """From the first line of /proc/stat: user nice system idle iowait irq softirq steal ..."""
        ticks = [int(each) for each in line.split()[1:9]]
        ticks += [0] * (8 - len(ticks))
        user, nice, system, _idle, _iowait, irq, softirq, steal = ticks
        return cls(user + nice + system + irq + softirq, steal)

    def since(self, before: ProcessorTime) -> float:
        """The share of the time wanted since then that was stolen."""
        used, stolen = self.used - before.used, self.stolen - before.stolen
        return stolen / (used + stolen) if stolen > 0 else 0.0
