"""No module imports another one that leads back to it, wherever in a file the import stands.

Counted are imports at the top and within functions. Not counted are those under TYPE_CHECKING, which never run, and a package's own
`__init__`, which every import of one of its modules runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from tests.structure.test_layering import ROLES, ROOT, sources

LOOSE_MODULES = 12
"""That may stand in atf/ itself, beside its packages."""


def name_of(path: Path) -> str:
    parts = path.with_suffix("").parts
    parts = (*(("atf",) if parts[0] in ROLES else ()), *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Every import that may run."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            for each in child.orelse:
                yield from statements(ast.Module([each], []))
        else:
            yield from statements(child)


def targets(path: Path, text: str, known: Mapping[str, object]) -> set[str]:
    """Our modules that a file imports."""
    name = name_of(path)
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    found: set[str] = set()
    for each in statements(ast.parse(text)):
        if isinstance(each, ast.Import):
            found.update(alias.name for alias in each.names)
        else:
            base = package[: len(package) - each.level + 1] if each.level else []
            module = ".".join([*base, *([each.module] if each.module else [])])
            names = {f"{module}.{alias.name}" for alias in each.names}
            found |= (names & known.keys()) or {module}
            if names - known.keys():
                found.add(module)
    return (found & known.keys()) - {name}


def circle(texts: Mapping[Path, str]) -> list[str]:
    """Modules each of which imports the next, the last one the first; empty: there is no circle."""
    names = {name_of(path): path for path in texts}
    graph = {name: targets(path, texts[path], names) for name, path in names.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def test_no_module_leads_back_to_itself() -> None:
    assert circle({path: (ROOT / path).read_text(encoding="utf-8") for path in sources()}) == []


def test_a_circle_through_a_function_and_a_package_is_seen() -> None:
    texts = {
        Path("atf/a.py"): "from .b import one\n",
        Path("atf/b/__init__.py"): "from atf.b import c\n",
        Path("atf/b/c.py"): "def f():\n    import atf.a\n",
    }
    assert sorted(set(circle(texts))) == ["atf.a", "atf.b", "atf.b.c"]
    texts[Path("atf/b/c.py")] = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import atf.a\n"
    assert circle(texts) == []


def test_few_modules_stand_in_no_room() -> None:
    loose = [path for path in sources() if path.parent == Path("atf") and path.name != "__init__.py"]
    assert len(loose) <= LOOSE_MODULES, f"move what not everything uses into a package: {[each.name for each in loose]}"
