"""The systems that are measured, by name, and the environments that they run in. What each does stands in systems/<name>.py."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from .driver import DEFAULTS, LATER

ROOT: Final = Path(__file__).parents[2]
PEERS: Final = ("taskiq", "huey", "dramatiq", "saq", "arq", "celery", "rq")
AT_DEFAULTS: Final = tuple(f"{each}-defaults" for each in PEERS if each != "huey")
"""The peers that can be at least once with their default settings, but for what a killed worker would cost them."""
OURS: Final = "atf"
NO_WAKEUPS: Final = "atf-polling"
DIRECT: Final = "atf-direct"
COMPACT: Final = "atf-compact"
COMPACT_DIRECT: Final = "atf-compact-direct"
CELERY_LATER: Final = "celery-later"
FLOOR: Final = "floor"
FLOOR_THEN: Final = "floor-then"
EMPTY_CALL: Final = "empty-call"


@dataclass(frozen=True, eq=False)
class System:
    """A system.

    Attributes:
        name: as in PEERS=.
        title: for people.
        module: in systems/, and of its environment; "": it is no process that takes tasks.
        env: variables of all its processes.
        loses: whether its documentation says that what a killed worker had taken is lost: no kill that found nothing proves otherwise.
        direct: of ATF, whether its client is its own frontend.
        compact: of ATF, whether its roles are one process, and its workers another.
    """

    name: str
    title: str
    module: str = ""
    env: dict[str, str] = field(default_factory=dict)
    loses: bool = False
    direct: bool = False
    compact: bool = False

    @property
    def ours(self) -> bool:
        """Whether it is ATF."""
        return self.module == OURS

    @property
    def python(self) -> str:
        """The interpreter of its environment."""
        return sys.executable if self.ours else str(self.folder / "bin" / "python")

    @property
    def folder(self) -> Path:
        """A peer's environment."""
        return ROOT / ".build" / "peers" / self.module

    @property
    def entry(self) -> list[str]:
        """The command that its module answers to."""
        return [self.python, "-P", "-m", f"proof.benchmarks.systems.{self.module}"]


_PEERS: Final = (
    System("taskiq", "taskiq (redis streams)", "taskiq"),
    # Guide "Consuming Tasks", "Consumer Shutdown": no at-least-once delivery, no acknowledgement, what was being run is lost.
    System("huey", "Huey", "huey", loses=True),
    System("dramatiq", "Dramatiq", "dramatiq"),
    System("saq", "SAQ", "saq"),
    System("arq", "arq", "arq"),
    System("celery", "Celery", "celery"),
    System("rq", "RQ", "rq"),
)
SYSTEMS: Final = {
    each.name: each
    for each in (
        System(OURS, "ATF", OURS),
        System(NO_WAKEUPS, "ATF, wake-ups off", OURS, {"ATF_WAKEUPS": "false"}),
        System(DIRECT, "ATF, direct client", OURS, direct=True),
        System(COMPACT, "ATF, compact", OURS, compact=True),
        System(COMPACT_DIRECT, "ATF, compact, direct client", OURS, direct=True, compact=True),
        *_PEERS,
        *(
            replace(each, name=name, title=f"{each.title}, at its defaults", env={DEFAULTS: "1"})
            for name in AT_DEFAULTS
            for each in _PEERS
            if each.name == name.removesuffix("-defaults")
        ),
        System(CELERY_LATER, "Celery, with its workers for what is due later", "celery", {LATER: "1"}),
        System(FLOOR, "the store's functions alone"),
        System(FLOOR_THEN, "the store's functions as the foundation had them"),
        System(EMPTY_CALL, "a gRPC call that does nothing"),
    )
}


def prepare(system: System) -> str:
    """Makes a peer's environment, if need be; why it can't be made, or ""."""
    if not system.module or system.ours:
        return ""
    pins = ROOT / "requirements" / "peers" / f"{system.module}.txt"
    # The interpreter that ours was made of: an environment may have no pip, and makes none from itself.
    base = Path(sys.base_prefix, "bin", f"python{sys.version_info.major}.{sys.version_info.minor}")
    python = str(base) if base.exists() else sys.executable
    command = [python, str(ROOT / "tools" / "make_venv.py"), str(system.folder), str(pins)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        return f"its environment can't be made: {said[-1][:300] if said else done.returncode}"
    return another_interpreter(system.python)


def another_interpreter(python: str) -> str:
    """Says so if a python is of another build than the one that runs this, and so of ATF's: figures of two builds can't be compared; else "" ."""
    asked = [python, "-c", "import sys; print(sys.version, end='')"]
    found = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    if found == sys.version:
        return ""
    return f"its environment has Python {found}, and ATF's has {sys.version}: remove .build/peers, and run it again"
