"""`make bench [ASK=question,…] [PEERS=system,…] [ROUNDS=n] [TASKS=n]`: measures, and ends with 0 if nothing failed."""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from pathlib import Path

from proof.chaos import frame
from tests import surroundings

from . import results
from .known import PEERS
from .question import FULL_ROUNDS, Question, Sizes, all_questions, smaller
from .roles import BenchError
from .run import BenchmarkRun, run_all
from .verdict import QUESTION as KILL, verdict


def main() -> int:
    questions, sizes = all_questions(), Sizes()
    parser = argparse.ArgumentParser(prog="make bench", description="Measures ATF and its peers side by side.")
    parser.add_argument("--ask", default="", help="questions, separated by commas; default: all that are not done")
    parser.add_argument(
        "--peers", default="", help="peers beside ATF, separated by commas; none: ATF alone; default: all"
    )
    parser.add_argument(
        "--rounds",
        type=_at_least_one,
        help=f"of each system; a full measurement has {FULL_ROUNDS}. Default: {FULL_ROUNDS}, fewer of what takes very long and has no bar",
    )
    parser.add_argument("--tasks", type=int, default=sizes.tasks, help="of a measurement of throughput or cost")
    parser.add_argument(
        "--seconds", type=float, default=sizes.seconds, help="of a measurement that watches for a while"
    )
    parser.add_argument("--burst", type=int, default=sizes.burst, help="tasks due at one instant")
    parser.add_argument("--per-s", type=int, default=sizes.per_s, help="tasks a second that are scheduled ahead")
    parser.add_argument(
        "--pending", default=",".join(map(str, sizes.pending)), help="numbers of tasks that wait meanwhile"
    )
    parser.add_argument("--million", type=int, default=sizes.million, help="tasks of the question about memory")
    parser.add_argument(
        "--singles", type=int, default=sizes.singles, help="single tasks of the question about wake-ups"
    )
    parser.add_argument("--jobs", type=int, default=sizes.jobs, help="recurring jobs that are registered")
    parser.add_argument("--ticks", type=int, default=sizes.ticks, help="jobs whose ticks are due at one instant")
    parser.add_argument("--batch", type=int, default=sizes.batch, help="items of a batch")
    parser.add_argument("--million-jobs", type=int, default=sizes.million_jobs, help="of the question about very many")
    parser.add_argument(
        "--kill-within", type=float, default=sizes.kill_within_s, help="seconds that tasks get after a kill"
    )
    parser.add_argument("--results", type=Path, default=results.RESULTS, help="the folder of results")
    parser.add_argument("--list", action="store_true", help="list the questions")
    given = parser.parse_args()
    surroundings.pin_server()
    if given.list:
        for each in questions.values():
            print(f"{each.name:<16} {each.what}")
        return 0
    asked, peers = _words(given.ask), _words(given.peers)
    if given.results == results.RESULTS and results.origin()["commit"] == results.UNKNOWN:
        return _refuse(
            "git can't say of which commit these results would be: run it in a git clone that git may read, or keep them elsewhere with --results"
        )
    if unknown := [each for each in asked if each not in questions]:
        return _refuse(f"no question is called {', '.join(unknown)}; there are {', '.join(questions)}")
    if unknown := [each for each in peers if each not in {*PEERS, "none"}]:
        return _refuse(f"no peer is called {', '.join(unknown)}; there are {', '.join(PEERS)}, and none")
    sizes = Sizes(
        tasks=given.tasks,
        seconds=given.seconds,
        burst=given.burst,
        per_s=given.per_s,
        pending=tuple(int(each) for each in _words(given.pending)),
        million=given.million,
        singles=given.singles,
        kill_within_s=given.kill_within,
        jobs=given.jobs,
        ticks=given.ticks,
        million_jobs=given.million_jobs,
        batch=given.batch,
    )
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - began:7.1f} s  {line}", flush=True)

    run = BenchmarkRun(sizes, given.rounds, peers or None, say, results.rounds_folder(), given.results)
    wanted = [questions[name] for name in asked] or [
        each for each in questions.values() if not _is_done(each, given.results, given.rounds or each.rounds)
    ]
    try:
        found = asyncio.run(run_all(run, wanted))
    except BenchError as error:
        return _refuse(str(error))
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    if run.stopping:
        return 130
    return 1 if any(each["status"].startswith(results.FAILED) for each in found) else 0


def _words(text: str) -> list[str]:
    return [each for each in text.split(",") if each]


def _at_least_one(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text} is no number of rounds: 1 is the least")
    return int(text)


def _refuse(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2


def _is_done(question: Question, folder: Path, rounds: int) -> bool:
    """Whether there is a result of the code as it is now at full sizes, of every system, with so many rounds of those that count."""
    found = results.latest(folder, frame.code())
    newest = found.get(question.name)
    if question.bars:
        rounds = max(rounds, FULL_ROUNDS)  # a bar is judged by medians
    return bool(
        newest
        and not smaller(newest["sizes"])
        and results.rounds_that_count(question, newest["systems"], verdict(found.get(KILL)).safe) >= rounds
        and set(question.systems) <= set(newest["systems"])
    )


if __name__ == "__main__":
    sys.exit(main())
