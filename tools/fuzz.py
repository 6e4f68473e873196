"""Runs the fuzz and torture tests with many examples, and writes what came of it as a dated JSON file under proof/results/reliability/.

make fuzz EXAMPLES=2000 SEED=1
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the frame of results is not installed

from proof.chaos import frame  # noqa: E402

SUITE: Final = "tests/torture"
ALSO: Final = ("tools/fuzz.py",)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--examples", type=int, default=2_000, help="of every fuzz test; the suite runs 40")
    parser.add_argument("--seed", type=int, default=0, help="another seed, other examples")
    parser.add_argument("--timeout", type=int, default=1_800, help="seconds that one test may take")
    parser.add_argument("--processes", type=int, default=2, help="tests that run at once")
    asked = parser.parse_args()
    began, where = time.monotonic(), circumstances()
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.xml"
        command = [sys.executable, "-P", "-m", "pytest", SUITE, "--quiet", f"--junit-xml={report}"]
        command += [f"--timeout={asked.timeout}", f"--numprocesses={asked.processes}", "--show-capture=no"]
        env = {**os.environ, "ATF_FUZZ_EXAMPLES": str(asked.examples), "ATF_FUZZ_SEED": str(asked.seed)}
        code = subprocess.run(command, cwd=ROOT, env=env, check=False).returncode
        result = {
            "what": "fuzz",
            "examples": asked.examples,
            "seed": asked.seed,
            "seconds": round(time.monotonic() - began, 1),
            "exit_code": code,
            **_counted(report),
            **where,
        }
    if circumstances()["proof"] != where["proof"]:
        sys.exit(f"{frame.CHANGED}: there is no result")
    path = frame.RESULTS / f"{where['date']}-fuzz-{where['proof']}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(f"{result['verdict']}: {result['tests']} tests, {len(result['failed'])} failed; see {path.relative_to(ROOT)}")
    return code


def circumstances() -> dict[str, Any]:
    """When, of which code, by which suite, and where; as of a row of `make chaos`."""
    return frame.circumstances(*ALSO, harness=SUITE)


def _counted(report: Path) -> dict[str, object]:
    """The tests of a report of pytest's; a run that left none is no success."""
    if not report.exists():
        return {"verdict": "not run: pytest left no report", "tests": 0, "failed": []}
    cases = list(ET.parse(report).iter("testcase"))
    failed = [
        f"{case.get('classname')}::{case.get('name')}"
        for case in cases
        if {each.tag for each in case} & {"failure", "error"}
    ]
    return {"verdict": "failed" if failed or not cases else "ok", "tests": len(cases), "failed": failed}


if __name__ == "__main__":
    sys.exit(main())
