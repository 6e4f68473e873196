"""Runs the store's tests on every server that can be had here, and judges the slow logs: what `make contract` does.

    python tools/contract.py --limit-ms 20
    python tools/contract.py --acl             # only the pass as the user that ships; what `make acl` does

A server that is interrupted, by other work or by the host of a virtual machine, takes long for any call, and for another one each
time. So where a call took too long the tests run again, three times at most, and a function is too slow that was so in two of them.

Then the tests of real servers run once more, as the user that ships (atf/store/servers/atf.acl), who may do only what ATF needs; on a Redis
Cluster and behind Sentinels, too, and after them those of real processes (tests/process). That pass has no bar on time.

The result goes to proof/results/reliability/ as JSON. Beside fakeredis and the embedded server (Valkey) the tests run on Redis 7.0, which
tools/get_redis.py fetches; where that fails, the result says "not run: why", and is not "ok". Nor is it where no slow log tells of
calls: then nothing was judged. More servers: ATF_TEST_SERVERS, see CONTRIBUTING.md.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the frame of results is not installed

from proof.chaos import frame  # noqa: E402
from tests.store.modes import MODES  # noqa: E402

OLDEST: Final = ROOT / ".build" / "redis-7.0"
SUITE: Final = "tests/store"
PROCESSES: Final = "tests/process"
OF_ONE_SERVER: Final = ("contract", "upgrade")
"""Their tests listen to the calls of one server, or exchange its library: they fit no Cluster."""
WITHOUT_STORE: Final = ("embedded", "frame", "guard", "lab", "power")
"""Their tests have no role on a store, and need not be run as the user that ships."""
ALSO: Final = ("tools/contract.py", PROCESSES)
SHOWN: Final = 10
RUNS: Final = 3


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the store's tests on every server, and judges the slow logs.")
    parser.add_argument("--limit-ms", type=float, default=20, help="what no call of a function may exceed")
    parser.add_argument("--results", type=Path, default=frame.RESULTS)
    parser.add_argument("--acl", action="store_true", help="only the pass as the user that ships; without a result")
    args = parser.parse_args()
    if args.acl:
        sys.exit(not run(restricted=True).passed)
    limit_us, runs = round(args.limit_ms * 1000), list[ContractRun]()
    while not runs or undecided(runs, limit_us):
        if runs:
            print("functions took too long: once more, to tell them from interruptions")
        runs.append(run())
    print("once more, as the user that ships")
    found = judged(runs, limit_us, acl=run(restricted=True), not_run=missing(OLDEST))
    frame.write(found, args.results)
    show(found)
    sys.exit(found["status"] != "ok")


class ContractRun(NamedTuple):
    """What one run of the tests came to.

    Attributes:
        passed: whether pytest says so.
        tests: by backend, by what became of them.
        noted: what slow_log.keep wrote, of each server.
    """

    passed: bool
    tests: Mapping[str, Counter[str]]
    noted: Sequence[dict[str, Any]]


def run(*, restricted: bool = False) -> ContractRun:
    """Runs the tests; `restricted`: those of real servers and of real processes, as the user that ships, without slow logs."""
    if restricted:
        acl = {"ATF_TEST_ACL": "1"}
        stores = _run(SUITE, "-k", "not fake", env={**acl, "ATF_TEST_SERVERS": ""})
        only = [f"--ignore={SUITE}/test_{each}.py" for each in OF_ONE_SERVER]
        modes = _run(SUITE, "-k", " or ".join(MODES), *only, env={**acl, "ATF_TEST_SERVERS": ":".join(MODES)})
        others = [f"--ignore={PROCESSES}/test_{each}.py" for each in WITHOUT_STORE]
        processes = _run(PROCESSES, *others, env=acl)
        tests = {**modes.tests, **stores.tests, "processes": sum(processes.tests.values(), Counter[str]())}
        return ContractRun(stores.passed and modes.passed and processes.passed, tests, [])
    with tempfile.TemporaryDirectory() as logs:
        found = _run(SUITE, env={"ATF_TEST_CONTRACT": logs})
        return found._replace(
            noted=[json.loads(each.read_text(encoding="utf-8")) for each in Path(logs).glob("*.json")]
        )


def _run(suite: str, *options: str, env: Mapping[str, str]) -> ContractRun:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch, "tests.xml")
        words = [suite, "--quiet", f"--numprocesses={workers()}", f"--junitxml={report}", *options]
        code = subprocess.run(
            [sys.executable, "-P", "-m", "pytest", *words],
            cwd=ROOT,
            env={**os.environ, **env, "ATF_TEST_ALL": "1"},
            check=False,
        ).returncode
        return ContractRun(code == 0, counted(report) if report.exists() else {}, [])


def workers() -> int:
    """Processes that test: half as many as cores, so that none takes a core away from the server it waits for."""
    return max(1, len(os.sched_getaffinity(0)) // 2)


def counted(report: Path) -> dict[str, Counter[str]]:
    """Tests by backend, by what became of them; those that need no store, or one of their own, under "none"."""
    tests: dict[str, Counter[str]] = {}
    for case in ET.parse(report).iter("testcase"):
        match = re.search(r"\[(fake|embedded|redis-7\.0|[\w.-]+@\d+)(?:-|\])", case.get("name", ""))
        bad = case.find("failure") is not None or case.find("error") is not None
        result = "failed" if bad else "skipped" if case.find("skipped") is not None else "passed"
        tests.setdefault(match[1] if match else "none", Counter())[result] += 1
    return tests


def missing(oldest: Path) -> dict[str, str]:
    """Servers on which the tests were to run and did not, with the reason; none where ATF_TEST_SERVERS names some.

    Args:
        oldest: the folder of the oldest server.
    """
    if (oldest / "redis-server").exists() or os.environ.get("ATF_TEST_SERVERS"):
        return {}
    why = oldest / "why-not"
    return {"Redis 7.0": why.read_text(encoding="utf-8").strip() if why.exists() else "it was not fetched"}


def undecided(runs: Sequence[ContractRun], limit_us: int) -> bool:
    """Whether another run tells more: a function was too slow in one of them, none in two."""
    over = Counter(key for each in runs for key, took in _slowest(each.noted).items() if took > limit_us)
    return runs[-1].passed and len(runs) < RUNS and bool(over) and max(over.values()) == 1


def judged(
    runs: Sequence[ContractRun], limit_us: int, *, acl: ContractRun, not_run: Mapping[str, str]
) -> dict[str, Any]:
    """The result: tests by server, the slowest calls, and what is wrong.

    Args:
        runs: of the same tests; the last one tells what became of them.
        limit_us: what no call may exceed.
        acl: the pass as the user that ships.
        not_run: servers on which nothing was run, with the reason.
    """
    tests, noted = runs[-1].tests, runs[-1].noted
    slowest_of = [_slowest(each.noted) for each in runs]
    worst = {key: _second([each.get(key, 0) for each in slowest_of]) for key in set().union(*slowest_of)}
    calls: Counter[str] = Counter()
    for each in noted:
        calls[each["version"]] += each["calls"]
    slowest = sorted(worst.items(), key=lambda each: (-each[1], each[0]))
    failures = [] if runs[-1].passed else ["tests failed: see above"]
    told = {each["backend"] for each in noted if each["calls"]}
    silent = {"embedded": not told - {OLDEST.name}, OLDEST.name: OLDEST.name in tests and OLDEST.name not in told}
    failures += [
        f"{server}: no slow log tells of a call: nothing was judged" for server, nothing in silent.items() if nothing
    ]
    failures += [] if acl.passed else ["tests failed as the user that ships: see above"]
    failures += [
        f"{name}: no test ran as the user that ships" for name in _restricted(tests) if not _any(acl.tests, name)
    ]
    failures += [
        f"{server}: {verb} took {took / 1000:.1f} ms, the bar is {limit_us / 1000:g} ms"
        for (server, verb), took in slowest
        if took > limit_us
    ]
    left_out = "; ".join(f"{server}: {why}" for server, why in not_run.items())
    return {
        "row": "contract",
        "bar": f"no function's slowest call takes more than {limit_us / 1000:g} ms; where one did the tests run up to {RUNS} times, and one that"
        " did in two of them fails",
        "status": "failed" if failures else f"not run: {left_out}" if left_out else "ok",
        "asked": 1,
        "done": 1,
        "full": 1,
        "figures": {
            "too_slow": sum(took > limit_us for _, took in slowest),
            "interrupted": sum(
                took > limit_us >= worst.get(key, 0) for each in slowest_of for key, took in each.items()
            ),
            "runs": len(runs),
            "calls": sum(calls.values()),
        },
        "tests": {name: dict(count) for name, count in sorted(tests.items())},
        "acl": {name: dict(count) for name, count in sorted(acl.tests.items())},
        "calls": dict(calls),
        "slowest": [
            {"server": server, "function": verb, "ms": took / 1000} for (server, verb), took in slowest[:SHOWN]
        ],
        "limit_ms": limit_us / 1000,
        "load": round(os.getloadavg()[1], 1),
        "not_run": dict(not_run),
        "failures": failures,
        **frame.circumstances(*ALSO, harness=SUITE),
    }


def _restricted(tests: Mapping[str, Counter[str]]) -> list[str]:
    """Where tests are to run as the user that ships."""
    return ["embedded", *([OLDEST.name] if OLDEST.name in tests else []), *MODES, "processes"]


def _any(tests: Mapping[str, Counter[str]], name: str) -> bool:
    """Whether a test ran there and was not skipped; those of a mode are under name@number."""
    found = (count for each, count in tests.items() if each == name or re.fullmatch(rf"{re.escape(name)}@\d+", each))
    return any(count["passed"] or count["failed"] for count in found)


def _second(took: Sequence[int]) -> int:
    """What was reached in two runs; of a single one, in that."""
    return sorted(took)[-2:][0]


def _slowest(noted: Sequence[dict[str, Any]]) -> dict[tuple[str, str], int]:
    """The slowest call in µs, by the server's version and the function."""
    worst: dict[tuple[str, str], int] = {}
    for each in noted:
        for took, function in each["noted"]:
            key = each["version"], re.sub(r"^atf_\d+_[0-9a-f]+_", "", function)
            worst[key] = max(worst.get(key, 0), took)
    return worst


def show(found: dict[str, Any]) -> None:
    for name, count in found["tests"].items():
        print(f"{name:12} " + ", ".join(f"{number} {what}" for what, number in sorted(count.items())))
    for name, count in found["acl"].items():
        print(
            f"{name:12} as the user that ships: "
            + ", ".join(f"{number} {what}" for what, number in sorted(count.items()))
        )
    for name, why in found["not_run"].items():
        print(f"{name:12} not run: {why}")
    print(f"\nthe slowest of {found['figures']['calls']:,} calls on real servers, in ms:")
    for each in found["slowest"]:
        print(f"{each['ms']:8.1f}  {each['function']:10} {each['server']}")
    print("\n" + ("\n".join(found["failures"]) or f"no call took more than {found['limit_ms']:g} ms"))
    if found["figures"]["interrupted"]:
        print(
            f"in {found['figures']['runs']} runs {found['figures']['interrupted']} functions took longer once, and not again:"
            f" servers are interrupted here (load {found['load']} on {found['cores']} cores)"
        )


if __name__ == "__main__":
    main()
