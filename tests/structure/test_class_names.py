"""One class, one name: who looks for a class finds one, and who reads a name knows which class is meant."""

from __future__ import annotations

import ast

from tests.structure.test_layering import ROOT, sources


def test_each_class_has_a_name_of_its_own() -> None:
    found: dict[str, list[str]] = {}
    for path in sources():
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, []).append(f"{path}:{node.lineno}")
    assert len(found) > 500
    assert {name: places for name, places in found.items() if len(places) > 1} == {}
