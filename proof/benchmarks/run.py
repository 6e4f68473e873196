"""The order of a benchmark: rounds, and within a round every system in turn, each on a store of its own, beside what it is compared with."""

from __future__ import annotations

import asyncio
import functools
import os
import signal
import sys
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from atf.errors import AtfError
from proof.chaos import frame

from . import installed, results
from .known import PEERS, ROOT, SYSTEMS, System, prepare
from .question import Question, Sizes
from .roles import BenchError
from .stats import figure
from .verdict import QUESTION as KILL, verdict
from .world import NotAsked

Say = Callable[[str], None]


@dataclass
class BenchmarkRun:
    """One run of `make bench`.

    Attributes:
        sizes: of its measurements.
        rounds: of each system; None: as many as each question has where nobody says how many.
        peers: who takes part beside ATF; None: all.
        say: takes lines.
        rounds_folder: where rounds are kept.
        results_folder: where results go.
        stopping: set to end after the measurement that runs.
    """

    sizes: Sizes
    rounds: int | None
    peers: Sequence[str] | None
    say: Say
    rounds_folder: Path
    results_folder: Path
    stopping: bool = False
    began: str = ""

    def __post_init__(self) -> None:
        self.began = results.now()
        self._unready: dict[str, str] = {}

    async def ask(self, question: Question) -> dict[str, Any]:
        """Asks until every system has its rounds, those of earlier runs included; the result."""
        wanted = self.rounds or question.rounds
        systems = [
            each
            for each in map(SYSTEMS.__getitem__, question.systems)
            if self.peers is None or each.module not in PEERS or each.module in self.peers
        ]
        self.say(f"{question.name}: {question.what}; {', '.join(each.name for each in systems)}; {wanted} rounds")
        path = self.rounds_folder / f"{question.name}.jsonl"
        if self.rounds_folder.parent == results.ROUNDS and self.rounds_folder != results.rounds_folder():
            raise BenchError(
                "the code has changed since this run began: what is measured now is not what was; run it again"
            )
        given_up: set[str] = set()
        for number in range(1, wanted + 1):
            for group, names in enumerate(self._groups(question, systems, number, given_up), 1):
                for name in names:
                    if self.stopping or name in given_up:
                        continue
                    one = await self._round(question, SYSTEMS[name], number)
                    one |= {"group": group} if question.paired else {}
                    frame.append(path, [one])
                    if "figures" not in one:
                        given_up.add(name)
                    self._tell(question, name, number, wanted, one)
        rounds = results.rounds_of(self.rounds_folder, question, self.sizes)
        safe = verdict(results.latest(self.results_folder).get(KILL)).safe
        found = results.result(question, self.sizes, wanted, rounds, safe)
        where = results.write(found, self.results_folder)
        self.say(f"{question.name}: {found['status']}; {where}")
        return found

    def _groups(
        self, question: Question, systems: Sequence[System], number: int, given_up: Container[str]
    ) -> list[list[str]]:
        """What is to be measured in a round, in its order; what earlier runs have done of it is left out."""
        names = [each.name for each in systems if each.name not in given_up]
        rounds = results.rounds_of(self.rounds_folder, question, self.sizes)
        missing = results.lacking(question, names, [each for each in rounds if each["round"] == number])
        return results.groups(question, number, names, missing)

    async def _round(self, question: Question, system: System, number: int) -> results.Round:
        one: results.Round = {
            "run": self.began,
            "at": results.now(),
            "round": number,
            "system": system.name,
            "sizes": self.sizes.as_json(question.sizes),
            "load": round(os.getloadavg()[0], 2),
        }
        if system.name not in self._unready:
            self._unready[system.name] = await asyncio.to_thread(prepare, system)
        if why := self._unready[system.name]:
            return one | {"not_run": why}
        try:
            figures = await question.measure(system, self.sizes)
        except NotAsked as why_not:
            return one | {"not_run": str(why_not)}
        except (AtfError, OSError, TimeoutError) as error:
            return one | {"error": f"{type(error).__name__}: {error}"}
        return one | {"figures": figures, "versions": await versions(system), "settings": settings(system)}

    def _tell(self, question: Question, name: str, number: int, wanted: int, one: results.Round) -> None:
        shown = one.get("not_run") or one.get("error") or told(question, one.get("figures", {}))
        self.say(f"{question.name:<15} {number}/{wanted} {name:<12} {shown}")


def told(question: Question, figures: Mapping[str, Any]) -> str:
    """The figures that matter to a question, on one line; those of a count that is not 0, too."""
    paths = [question.figure, *question.also, *(name for name in ("never", "twice") if figures.get(name))]
    found = {path: figure(figures, path) for path in dict.fromkeys(paths)}
    said = [f"{path} {value:,g}" for path, value in found.items() if value is not None]
    return ", ".join([*said, question.unit]) if said else "no figure"


known_versions: dict[str, dict[str, str]] = {}


async def versions(system: System) -> dict[str, str]:
    """What a system's environment holds of what matters: its own packages, and what its environment has of the libraries below; asked once.

    What is no process that takes tasks runs in ours.
    """
    if system.name not in known_versions:
        ours = system.ours or not system.module
        names = installed.OF_OURS if ours else installed.OF_ALL
        own = await _lines(*system.entry, "versions") if system.module else {}
        python = sys.executable if ours else system.python
        known_versions[system.name] = own | await _lines(python, "-P", "-m", installed.__name__, *names)
    return known_versions[system.name]


async def _lines(*command: str) -> dict[str, str]:
    """What a command says, by the first word of each line.

    Raises:
        BenchError: it failed.
    """
    asked = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    said, _ = await asked.communicate()
    if asked.returncode:
        raise BenchError(f"{' '.join(command)} does not say its versions: it ended with {asked.returncode}")
    return dict(line.split(" ", 1) for line in said.decode().splitlines())


@functools.cache
def settings(system: System) -> str:
    """How a system is set, and why: the docstring of its module, which can't be imported here."""
    if not system.module:
        return ""
    import ast

    path = Path(__file__).parent / "systems" / f"{system.module}.py"
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


async def run_all(run: BenchmarkRun, questions: Sequence[Question]) -> list[dict[str, Any]]:
    """Asks them all. The first Ctrl-C ends it after the measurement that runs, the second at once."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()

    def interrupted() -> None:
        if run.stopping and this is not None:
            this.cancel()
        run.stopping = True
        run.say("stopping after this measurement; Ctrl-C again ends at once; the next run goes on from here")

    loop.add_signal_handler(signal.SIGINT, interrupted)
    found = []
    for question in questions:
        if run.stopping:
            break
        found.append(await run.ask(question))
    return found
