"""Draws docs/reference/modules.md: one line for every module and Lua file, by folder, from its docstring or header; `--check` only compares."""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs" / "reference" / "modules.md"
PRODUCT: Final = ("atf", "frontend", "store_consumer", "hsc", "controller", "executor")
PROOF: Final = ("tests/sim", "tests/chaos", "tests/bench", "tests/dapr", "proof", "tools")
INTRO: Final = """# Every module

One line for each file, drawn from its docstring or header by `tools/draw_modules.py`. Folders stand in the order in which they build on each other:
what every process uses first, then what declares, calls and stores tasks, then the roles, then what runs and proves them.
"""
ORDER: Final = (
    "atf", "atf/config", "atf/process", "atf/schedule", "atf/cores", "atf/rpc", "atf/sdk", "atf/client", "atf/store",
    "atf/intake", "frontend", "store_consumer", "hsc", "controller", "executor", "atf/builtin", "atf/testing", "atf/cli", "atf/embedded",
    "atf/demo", "atf/verify", "atf/bench", "proof", *PROOF[:4], "tools",
)  # fmt: skip
"""A folder that is not named here stands behind its parent, by name."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the map of all modules from their docstrings.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is not what would be written"
    )
    args = parser.parse_args()
    new = draw()
    if PAGE.exists() and PAGE.read_text(encoding="utf-8") == new:
        return
    if args.check:
        sys.exit(f"{PAGE.relative_to(ROOT)} is not what the docstrings say. Run tools/draw_modules.py and commit it.")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(new, encoding="utf-8")
    print(f"wrote {PAGE}")


def draw() -> str:
    """The page."""
    folders: dict[str, list[Path]] = {}
    for path in modules():
        folders.setdefault(path.parent.relative_to(ROOT).as_posix(), []).append(path)
    parts = [INTRO]
    for name in sorted(folders, key=_place):
        parts.append(f"## {name}/\n")
        about = ROOT / name / "__init__.py"
        if about in folders[name] and (said := first_sentence(about)):
            parts.append(f"{said}\n")
        rest = [path for path in folders[name] if path.name != "__init__.py"]
        lines = [f"| `{path.name}` | {first_sentence(path).replace('|', chr(92) + '|')} |" for path in rest]
        if lines:
            parts.append("\n".join(["| file | what it does |", "|---|---|", *lines]) + "\n")
    return "\n".join(parts)


def _place(folder: str) -> tuple[int, str]:
    known = [place for place, name in enumerate(ORDER) if folder == name or folder.startswith(f"{name}/")]
    return max(known, default=len(ORDER)), folder


def modules() -> Iterator[Path]:
    """Every Python module and Lua file of the product, and of what proves it but for tests and generated code; each once, though roles are linked."""
    for top in (*PRODUCT, *PROOF):
        for path in sorted((ROOT / top).rglob("*")):
            generated = path.name.endswith(("_pb2.py", "_pb2_grpc.py"))
            if path.suffix not in {".py", ".lua"} or generated or path.name.startswith("test_"):
                continue
            if path == path.resolve() and "__pycache__" not in path.parts:
                yield path


def first_sentence(path: Path) -> str:
    """What a file says of itself first; "" for a package that says nothing.

    Raises:
        SystemExit: a module says nothing.
    """
    text = path.read_text(encoding="utf-8")
    said = ast.get_docstring(ast.parse(text)) if path.suffix == ".py" else _lua_header(text)
    if not said:
        if path.name == "__init__.py":
            return ""
        sys.exit(f"{path.relative_to(ROOT)} has no docstring: say in one sentence what it does.")
    paragraph = " ".join(said.split("\n\n", 1)[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0].rstrip(".:;,") + "."


def _lua_header(text: str) -> str:
    """The comment that a file begins with, without the verb's name, up to its first empty line, its KEYS, or its next sentence."""
    lines: list[str] = []
    for line in text.splitlines():
        words = line.removeprefix("--").strip()
        ends = not line.startswith("--") or not words or re.match(r"(KEYS|ARGV|RETURNS|MOVES)\b", words)
        if ends or (lines and re.match(r"[A-Z][a-z]+ ", words)):
            break
        lines.append(words)
    said = re.sub(r"^\w+: ", "", " ".join(lines))
    return said[:1].upper() + said[1:]


if __name__ == "__main__":
    main()
