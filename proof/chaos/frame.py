"""The frame of `make chaos`: rows, their trials, and the dated results. What a row tries is its own file's business, in rows/.

A row is tried in batches: `run(n, progress)` does n trials on real processes and returns one dictionary each, a Trial:

    "failures": sentences, each one a broken bar; [], as where nothing is said: the trial is good
    "late": sentences about bars on time; they hold if the machine could run: see steal.py. Of a trial that was starved these and all
        seconds are left out, and it is not counted, but repeated; its failures and counts stay
    names that end in _s: seconds (in _per_s: a rate), a number or a list of them; the result has their p50, p99, max
    other numbers: counts; the result has their sums. Text is left out.

Trials are appended to .build/chaos/<proof>/<row>.jsonl, so that a row which was interrupted goes on where it was; one whose figures are
sums goes on from what proof/results/reliability/ has of it, too. <proof> is a digest of
the product's files and of those that try it: after a change everything starts afresh. A batch that breaks down is a failure that stays,
too: what could not be judged did not hold. When all n are done, the result goes to proof/results/reliability/<date>-<row>-<proof>.json, beside which
one that has failed stays: the next result of the same day and proof is written to <date>-<row>-<proof>-2.json.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
import importlib
import itertools
import json
import os
import pkgutil
import platform
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from atf.embedded import find_binary
from atf.errors import AtfError

from . import rows
from .steal import CALM, STARVED, ProcessorTime

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "proof" / "results" / "reliability"
TRIALS: Final = ROOT / ".build" / "chaos"
PRODUCT: Final = ("atf", "controller", "executor", "frontend", "hsc", "store_consumer")
HARNESS: Final = "proof/chaos"
CALM_WAIT_S: Final = 300.0
"""Seconds to wait for a calm machine before a trial, at most."""
SPARE: Final = 10
"""Starved trials to put up with, beside as many as were asked for."""
EXCUSED: Final = 2
"""Batches of a row that may break down on a starved machine, by waiting too long, without being a failure: what they had done so far is not
judged."""
STOLEN: Final = "the host took the processors away"
CHANGED: Final = "the product, or what tries it, was changed meanwhile"

_LOOK_S: Final = 1.0

Trial = dict[str, Any]
Figures = dict[str, Any]


class Progress:
    """How a row goes, and whether it is to go on.

    Attributes:
        stolen: of each trial of this batch the share of the processors that the host took away while it went on.
        timed: whether trials wait for a calm machine.
    """

    def __init__(self, say: Callable[[str], None], taken: Callable[[], ProcessorTime] = ProcessorTime.now) -> None:
        self.say = say
        self.stopping = False
        self.stolen: list[float] = []
        self.timed = True
        self._taken = taken

    async def trials(self, count: int) -> AsyncIterator[int]:
        """0, 1, ... count - 1, each once the machine is calm; fewer if somebody asked to stop: what was done until then counts."""
        self.stolen = []
        for number in range(count):
            if self.timed:
                await self._calm()
            if self.stopping:
                return
            before = self._taken()
            self.stolen.append(0.0)
            yield number
            self.stolen[-1] = self._taken().since(before)

    @property
    def starved(self) -> bool:
        """Whether the host took too much away for a trial of this batch."""
        return any(each > STARVED for each in self.stolen)

    async def _calm(self) -> None:
        waited = 0.0
        before = self._taken()
        while waited < CALM_WAIT_S and not self.stopping:
            await asyncio.sleep(_LOOK_S)
            now = self._taken()
            if now.since(before) < CALM:
                break
            if waited == 0:
                self.say(f"the host takes {now.since(before):.0%} of the processors away; waiting for calm")
            before, waited = now, waited + _LOOK_S


@dataclass(frozen=True, kw_only=True)
class Row:
    """One thing that is tried.

    Attributes:
        name: for ROW=, of a-z, 0-9 and -.
        what: what is done to the system, for the page.
        bar: what must hold, in words, for the page.
        full: trials of a full run.
        batch: trials that one call of `run` does.
        run: tries so often (`progress.trials(n)` counts), and returns a Trial each. What it raises ends the row, and has failed; what was
            appended before stays.
        available: "" or why it can't run here; asked first.
        also: files and folders beside the product and `harness` that decide what its trials mean.
        timed: whether one of its bars is a time, which says nothing where the host takes the processors away.
        harness: the file or folder that tries and judges it.
        sums: whether all its figures are sums: then a run goes on from a recorded result, too, so that what takes many hours can be done on
            several days and machines.
        verdict: what of the bar the figures of all trials break; for bars that a single trial can't tell.
    """

    name: str
    what: str
    bar: str
    full: int
    batch: int
    run: Callable[[int, Progress], Awaitable[Sequence[Trial]]]
    available: Callable[[], str] = lambda: ""
    verdict: Callable[[Figures], Sequence[str]] = lambda _figures: ()
    also: tuple[str, ...] = ()
    timed: bool = True
    harness: str = HARNESS
    sums: bool = False

    def proof(self) -> str:
        """See `proof`, of this row."""
        return proof(*self.also, harness=self.harness)


def all_rows() -> dict[str, Row]:
    """Every row by name, in the order of the modules in rows/, each of which has a list ROWS."""
    found: dict[str, Row] = {}
    for module in sorted(pkgutil.iter_modules(rows.__path__), key=lambda each: each.name):
        for row in importlib.import_module(f"{rows.__name__}.{module.name}").ROWS:
            if row.name in found:
                raise ValueError(f"two rows are called {row.name}")
            found[row.name] = row
    return found


# --- running ----------------------------------------------------------------------------------------------------------


async def try_row(row: Row, count: int, progress: Progress, *, trials: Path, results: Path) -> dict[str, Any]:
    """Runs a row until `count` trials are done, those of earlier runs included, and writes its result; {} if it was stopped before. Where
    files of the proof change meanwhile it ends, and writes none.

    Args:
        row: which.
        count: trials to come to.
        progress: takes lines.
        trials: the folder of the trials of this proof.
        results: the folder of results.
    """
    say = progress.say
    if why := row.available():
        say(f"not run: {why}")
        return write(result(row, count, [], not_run=why), results)
    path = trials / f"{row.name}.jsonl"
    if row.sums and not path.exists():
        append(path, recorded(row, results))
    before = read_trials(path)
    done, broken = whole(before), [each for each in before if each.get("broke_down")]
    if before:
        say(f"{len(done)} trials were done before; {len(broken)} batches broke down")
    this = row.proof()
    starved = [each for each in before if each.get("starved")]
    while len(done) < count:
        if len(starved) > count + SPARE:
            say(f"{STOLEN} in {len(starved)} trials")
            return write(result(row, count, [*done, *starved, *broken], not_run=STOLEN), results)
        began, taken, progress.stolen = time.monotonic(), ProcessorTime.now(), []
        progress.timed = row.timed
        try:
            new = await row.run(min(row.batch, count - len(done)), progress)
        except Exception as raised:  # noqa: BLE001  whatever it is: it must not be gone when the row is run again
            failure = f"a batch broke down: {type(raised).__name__}: {raised}"
            say(failure)
            excused = sum(bool(each.get("said")) for each in starved)
            share = ProcessorTime.now().since(taken)
            if share > STARVED and isinstance(raised, TimeoutError) and excused < EXCUSED:
                say(f"not counted: {STOLEN} ({share:.0%})")
                starved.append({"failures": [], "starved": 1, "said": failure})
                append(path, starved[-1:])
                continue
            broken.append({"failures": [failure], "broke_down": 1, "took_s": round(time.monotonic() - began, 3)})
            append(path, broken[-1:])
            break
        if row.proof() != this:
            failed = [said for each in new for said in (*each.get("failures", []), *each.get("late", []))]
            say(f"{CHANGED}: the last {len(new)} trials are not kept; they said: {'; '.join(failed) or 'ok'}")
            return result(row, count, [*done, *broken], not_run=CHANGED)
        seconds = time.monotonic() - began
        new = [{**each, "took_s": round(seconds / len(new), 3)} for each in new]
        stolen = progress.stolen or [0.0] * len(new)  # a row in virtual time counts its trials by itself
        new = [weighed(each, share, say, timed=row.timed) for each, share in zip(new, stolen, strict=True)]
        append(path, new)
        done += whole(new)
        starved += [each for each in new if each.get("starved")]
        left = seconds / max(len(new), 1) * (count - len(done))
        say(f"{len(done)} of {count} trials, {seconds:.0f} s for the last {len(new)}; {left:.0f} s to go")
        if progress.stopping and len(done) < count:
            say("stopped; the next run goes on from here")
            return {}
    return write(result(row, count, [*done[:count], *starved, *broken]), results)


def weighed(trial: Trial, stolen: float, say: Callable[[str], None], *, timed: bool = True) -> Trial:
    """A trial as it is kept: bars on time are failures too, if the machine could run.

    Args:
        trial: as the row gave it.
        stolen: the share of the processors that the host took away meanwhile.
        say: takes what is left out.
        timed: see Row.
    """
    late = trial.get("late", [])
    trial = {name: value for name, value in trial.items() if name != "late"}
    if stolen <= STARVED:
        return trial | {"failures": [*trial.get("failures", []), *late]}
    kept = {name: value for name, value in trial.items() if not name.endswith(("_s", _RATE)) or name == "took_s"}
    if not timed:
        return {"failures": [], **kept}
    say(f"a trial is not counted: {STOLEN} ({stolen:.0%}); it would have said: {'; '.join(late) or 'ok'}")
    return {"failures": [], **kept, "starved": 1}


def whole(trials: Iterable[Trial]) -> list[Trial]:
    """The trials that came to their end on a machine that could run."""
    return [each for each in trials if not each.get("broke_down") and not each.get("starved")]


def read_trials(path: Path) -> list[Trial]:
    """The trials of a file; none where there is no such file. A half line, of a run that was killed, is left out."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


def recorded(row: Row, results: Path) -> list[Trial]:
    """The trials that the largest recorded result of this proof stands for: the first has all its sums and failures, the others nothing."""
    found = [each for each in _of_this_proof(row, results) if each["done"]]
    if not found:
        return []
    largest = max(found, key=lambda each: (each["done"], each["status"] == "failed"))
    sums = {name: value for name, value in largest["figures"].items() if isinstance(value, int | float)}
    each = {"failures": [], "took_s": round(largest["seconds"] / largest["done"], 3)}
    return [{**each, **sums, "failures": largest["failures"]}, *([each] * (largest["done"] - 1))]


def append(path: Path, trials: Iterable[Trial]) -> None:
    """Adds trials to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = path.read_bytes() if path.exists() else b""
    if whole and not whole.endswith(b"\n"):
        path.write_bytes(whole[: whole.rfind(b"\n") + 1])
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(each) + "\n" for each in trials)


# --- results ----------------------------------------------------------------------------------------------------------


def result(row: Row, asked: int, trials: Sequence[Trial], not_run: str = "") -> dict[str, Any]:
    """A row's result: "ok", "failed", or "not run: why"."""
    figures, done = summarise(trials), len(whole(trials))
    failures = [
        each if trial.get("broke_down") else f"trial {number}: {each}"
        for number, trial in enumerate(trials, 1)
        for each in trial["failures"]
    ]
    failures += row.verdict(figures) if done else []
    kept = f"not run: {not_run}" if not_run else "ok" if done >= asked else "failed"
    return {
        "row": row.name,
        "what": row.what,
        "bar": row.bar,
        "status": "failed" if failures else kept,
        "asked": asked,
        "done": done,
        "full": row.full,
        "figures": figures,
        "failures": failures[:50],
        "excused": [trial["said"] for trial in trials if trial.get("said")],
        **({"found": found} if (found := [trial["found"] for trial in trials if trial.get("found")]) else {}),
        "seconds": round(sum(each.get("took_s", 0.0) for each in trials), 1),
        **circumstances(*row.also, harness=row.harness),
    }


_MOST: Final = re.compile(r"^most_|_in_a_second$|_longest$|_permille$")
"""Figures of which a sum over trials means nothing."""
_RATE: Final = "_per_second"
"""Ends the names of rates, of which the lowest counts."""


def summarise(trials: Sequence[Trial]) -> Figures:
    """Sums of counts; p50, p99 and max of seconds; the largest of what a trial had the most of; the lowest of rates."""
    figures: Figures = {}
    for name in dict.fromkeys(name for trial in trials for name in trial):
        values = [value for trial in trials for value in _numbers(trial.get(name))]
        if not values:
            continue
        if name.endswith("_s"):
            ordered = sorted(values)
            figures[name] = {"p50": _at(ordered, 50), "p99": _at(ordered, 99), "max": ordered[-1], "n": len(ordered)}
        elif _MOST.search(name):
            figures[name] = max(values)
        elif name.endswith(_RATE):
            figures[name] = min(values)
        else:
            figures[name] = sum(values)
    return figures


def _numbers(value: object) -> list[float]:
    if isinstance(value, list):
        return [each for each in value if isinstance(each, int | float)]
    return [value] if isinstance(value, int | float) else []


def _at(ordered: Sequence[float], percent: int) -> float:
    return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)]


def circumstances(*also: str, harness: str = HARNESS) -> dict[str, Any]:
    """When, of which code, tried by which, and where.

    Args:
        also: see `proof`.
        harness: see `proof`.
    """
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "code": code(),
        "proof": proof(*also, harness=harness),
        "commit": _said("git", "rev-parse", "--short=12", "HEAD"),
        "dirty": bool(_said("git", "status", "--porcelain", "--", *PRODUCT, harness, *also)),
        "cores": len(os.sched_getaffinity(0)),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "server": _server(),
    }


def code() -> str:
    """A digest of the product's files."""
    files = [path for folder in PRODUCT for path in _files(folder) if path.suffix in {".py", ".lua", ".proto", ".acl"}]
    return _digest("", files)


def proof(*also: str, harness: str = HARNESS) -> str:
    """A digest of the product's files, and of those that try and judge it: trials of one proof can be put together.

    Args:
        also: files and folders beside `harness` that take part in that.
        harness: the file or folder that tries and judges.
    """
    return _digest(code(), [path for each in (harness, *also) for path in _files(each)])


def _files(where: str) -> list[Path]:
    found = [ROOT / where, *sorted((ROOT / where).rglob("*"))]
    of_it = [path for path in found if path.is_file() and path == path.resolve() and path.suffix != ".pyc"]
    return [path for path in of_it if not path.name.startswith("test_")]  # these test what tries and judges


def _digest(start: str, paths: Iterable[Path]) -> str:
    digest = hashlib.sha256(start.encode())
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def write(found: dict[str, Any], results: Path) -> dict[str, Any]:
    """Writes a result, unless that day's result of the same proof has more trials and all its failures.

    What it does not go on from stays, and the result gets a name of its own with a number behind it: a failure is not forgotten because
    somebody tried again.
    """
    results.mkdir(parents=True, exist_ok=True)
    for number in itertools.count(1):
        again = f"-{number}" if number > 1 else ""
        path = results / f"{found['date']}-{found['row']}-{found['proof']}{again}.json"
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if before is None or _goes_on_from(before, found):
            path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
            break
        if found["done"] < before["done"] and set(found["failures"]) <= set(before["failures"]):
            break
    return found


def _goes_on_from(before: dict[str, Any], found: dict[str, Any]) -> bool:
    """Whether a result may take another one's place: it has as many trials and the same failures, and contradicts no full run."""
    more = before["done"] <= found["done"] and set(before["failures"]) <= set(found["failures"])
    return more and (before["status"] == found["status"] or before["done"] < before["full"])


def by_row(results: Path) -> dict[str, list[dict[str, Any]]]:
    """The results of each row that has some; the one that counts comes last: the newest full one, else the newest.

    What other tools keep there is no row's.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    read = [json.loads(path.read_text(encoding="utf-8")) for path in results.glob("*.json")]
    for each in sorted(
        (each for each in read if "row" in each), key=lambda each: (each["done"] >= each["full"], each["at"])
    ):
        found.setdefault(each["row"], []).append(each)
    return found


def is_done(row: Row, count: int, results: Path) -> bool:
    """Whether a row has a result of everything as it is now, with so many trials."""
    return any(each["done"] >= count for each in _of_this_proof(row, results))


def _of_this_proof(row: Row, results: Path) -> list[dict[str, Any]]:
    paths = results.glob(f"*-{row.name}-{row.proof()}*.json")
    read = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return [each for each in read if each["row"] == row.name]


def _server() -> str:
    try:
        return _said(str(find_binary("").path), "--version")
    except AtfError as error:
        return str(error)


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def run(names: Sequence[str], count: int, say: Callable[[str, str], None]) -> list[dict[str, Any]]:
    """Runs rows by name; none: all that have no result of this proof with their full number of trials.

    Args:
        names: which.
        count: trials of each; 0: the row's own number.
        say: takes a row's name and a line.

    Raises:
        KeyboardInterrupt: somebody asked to stop.
    """
    known = all_rows()
    wanted = list(names) or [name for name, row in known.items() if not is_done(row, count or row.full, RESULTS)]
    found = []
    for name in wanted:
        row = known[name]
        progress = Progress(functools.partial(say, name))
        progress.say(f"{row.what}; {count or row.full} trials")
        one = asyncio.run(_stoppable(row, count or row.full, progress, TRIALS / row.proof()))
        if one:
            progress.say(one["status"])
        if progress.stopping or not one:
            raise KeyboardInterrupt
        found.append(one)
    return found


async def _stoppable(row: Row, count: int, progress: Progress, trials: Path) -> dict[str, Any]:
    """Tries a row. The first Ctrl-C ends it after the trial that runs, the second at once."""
    loop, this = asyncio.get_running_loop(), asyncio.current_task()

    def interrupted() -> None:
        if progress.stopping and this is not None:
            this.cancel()
        progress.stopping = True
        progress.say("stopping after this trial; Ctrl-C again ends at once, without the trials that are not judged")

    loop.add_signal_handler(signal.SIGINT, interrupted)
    try:
        return await try_row(row, count, progress, trials=trials, results=RESULTS)
    except asyncio.CancelledError:
        return {}
