"""What whoever is on call has: `atf`, whose calls are noted, and `fleet`, which stands for all that is not ATF.

    fleet hosts | start HOST | releases | deploy RELEASE     machines, and what runs on them
    fleet redis WORD...                                       a command of the task store's server
    fleet tell WHO TEXT                                       write to a person or another team; prints the answer
    fleet cause TEXT | fleet done TEXT                        what it was; that it is over, and the drill with it

It owns those commands and the notes of their calls. What the machines and people do is incident.py's part.
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
_ATF: Final = """#!/bin/sh
began=$(date +%s.%N)
if [ "$1" = schedule ]; then
  made=$("{python}" -P -m atf.cli "$@")
  code=$?
  [ -z "$made" ] || printf '%s\\n' "$made" | tee -a "{folder}/made"
else
  "{python}" -P -m atf.cli "$@"
  code=$?
fi
printf '%s\\t%s\\t%s\\n' "$began" "$code" "$(printf %s "atf $*" | tr '\\n' ' ')" >> "{folder}/calls"
exit $code
"""
_FLEET: Final = """#!/bin/sh
PYTHONPATH="{root}" exec "{python}" -P -m proof.drills.oncall "{folder}" "$@"
"""
_PATIENCE_S: Final = 120.0
USAGE: Final = (
    "use: fleet hosts | start HOST | releases | deploy RELEASE | redis WORD... | tell WHO TEXT | cause TEXT | done TEXT"
)


@dataclass(frozen=True)
class OperatorCall:
    """A command that was run: when it began, how it ended, and its words."""

    at: float
    code: int
    words: str

    def does(self, pattern: str) -> bool:
        """Whether it is such a command, was carried out, and no mere question."""
        asks = re.search(r" (--dry-run|--help|-h)\b", self.words)
        return self.code == 0 and not asks and re.search(pattern, self.words) is not None


def write_tools(folder: Path, env: Mapping[str, str]) -> None:
    """`folder`/bin with both commands, and `folder`/env to be sourced by a shell."""
    (folder / "bin").mkdir()
    (folder / "calls").touch()
    (folder / "made").touch()
    (folder / "asked").mkdir()
    for name, text in (("atf", _ATF), ("fleet", _FLEET)):
        path = folder / "bin" / name
        path.write_text(text.format(python=sys.executable, folder=folder, root=ROOT), "utf-8")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    ours = {name: env[name] for name in ("ATF_FRONTEND", "ATF_REDIS_URL", "ATF_CONFIG", "ATF_PROMETHEUS")}
    lines = [f"export {name}='{value}'" for name, value in ours.items()]
    (folder / "env").write_text("\n".join([*lines, f"export PATH='{folder}/bin':\"$PATH\"", ""]), "utf-8")


def calls(folder: Path) -> list[OperatorCall]:
    """All calls so far, in the order of their ends."""
    written = (folder / "calls").read_text("utf-8", "replace").rpartition("\n")[0]
    rows = (line.split("\t", 2) for line in written.splitlines() if line.count("\t") >= 2)
    return [OperatorCall(float(at), int(code), words.strip()) for at, code, words in rows]


def made(folder: Path) -> set[str]:
    """Ids of the tasks that the operator scheduled, as a trial; a runbook says to cancel those."""
    noted = folder / "made"
    return set(noted.read_text("utf-8", "replace").split()) if noted.exists() else set()


def cancels_only(words: str, ids: set[str]) -> bool:
    """Whether a command cancels some of these tasks, and none beside them."""
    found = re.fullmatch(r"atf cancel((?: [0-9]+-\S+)+)(?: --yes)?", words)
    return found is not None and set(found[1].split()) <= ids


def main(arguments: list[str]) -> int:
    """`fleet`: hands its words to the drill, and prints the answer."""
    folder, words = Path(arguments[0]), arguments[1:]
    began = time.time()
    if not words:
        print(USAGE, file=sys.stderr)
        return 2
    name = f"{os.getpid()}-{time.time_ns()}"
    asked, answered = folder / "asked" / f"{name}.tmp", folder / "asked" / f"{name}.answer"
    asked.write_text(json.dumps(words), "utf-8")
    asked.rename(asked.with_suffix(".json"))
    code, said = 1, "the drill is over"
    while time.time() < began + _PATIENCE_S:
        if answered.exists():
            code, said = json.loads(answered.read_text("utf-8"))
            break
        time.sleep(0.1)
    with (folder / "calls").open("a", encoding="utf-8") as noted:
        noted.write(f"{began}\t{code}\tfleet {' '.join(' '.join(words).split())}\n")
    print(said, file=sys.stderr if code else sys.stdout)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
