"""Checks deploy/ by Prometheus' own tool: the scrape config, the rules, the tests of each alert, and that the board's expressions parse.

Exits with 4 where promtool is not installed: then nothing was checked.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
RULES: Final = ROOT / "deploy" / "prometheus"
BOARD: Final = ROOT / "deploy" / "grafana" / "atf.json"
NOT_RUN: Final = 4


def main() -> int:
    if shutil.which("promtool") is None:
        print("not run: promtool is not installed: apt-get install prometheus", file=sys.stderr)
        return NOT_RUN
    with tempfile.TemporaryDirectory() as folder:
        board = Path(folder) / "board.json"  # JSON is YAML, too
        rules = [{"record": f"board:{number}", "expr": each} for number, each in enumerate(plain_expressions())]
        board.write_text(json.dumps({"groups": [{"name": "board", "rules": rules}]}))
        commands = [
            ["check", "config", "prometheus.yml"],
            ["check", "rules", str(board)],
            ["test", "rules", *sorted(f"tests/{each.name}" for each in (RULES / "tests").glob("*.yml"))],
        ]
        return max(subprocess.run(["promtool", *each], cwd=RULES, check=False).returncode for each in commands)


def expressions() -> Iterator[str]:
    """Every expression of the board, as Grafana has it."""
    board: dict[str, Any] = json.loads(BOARD.read_text(encoding="utf-8"))
    for panel in board["panels"]:
        yield from (target["expr"] for target in panel.get("targets", ()))
    yield from (each["expr"] for each in board["annotations"]["list"])


def plain_expressions() -> Iterator[str]:
    """The same with Grafana's variables filled in."""
    for each in expressions():
        filled = each.replace("$__rate_interval", "5m").replace("$lambda", ".*")
        assert not re.search(r"\$", filled), f"a variable that nobody fills in: {each}"
        yield filled


if __name__ == "__main__":
    raise SystemExit(main())
