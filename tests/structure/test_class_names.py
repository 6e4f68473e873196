"""One class, one name: who looks for a class finds one, and who reads a name knows which class is meant."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.structure.test_layering import ROOT, sources

SAME_BY_INTERFACE = {"Client": "proof/benchmarks/systems/"}
"""What each module of a folder has to offer under one name, as the benchmark's driver asks for it."""


def proving() -> Iterator[Path]:
    """Every file of what proves, and every tool; generated code is left out."""
    for folder in ("proof", "tools"):
        yield from (path.relative_to(ROOT) for path in sorted((ROOT / folder).rglob("*.py")) if "_pb2" not in path.stem)


def test_each_class_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for path in (*sources(), *proving()):
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not str(path).startswith(SAME_BY_INTERFACE.get(node.name, "-")):
                found.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert len(found) > 600
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
