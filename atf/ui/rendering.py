"""Fills templates: what every page may use in one, and nothing that could put text of others out as markup."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from atf import __version__
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of, summary_of
from atf.sdk.sealed import words

from .actions.action import command_template
from .actions.table import ACTIONS
from .static_files import load_static
from .texts import command_line, cut, json_data, lines, number, quoted, readable, shown, size, traceback_lines
from .words import batch_word, item_word, lambda_of, task_word
from .zones import duration

TEMPLATES: Final = Path(__file__).parent / "templates"
NAV: Final = (
    ("overview", "/", "Overview"),
    ("lambdas", "/lambdas", "Lambdas"),
    ("tasks", "/tasks", "Tasks"),
    ("failures", "/failures", "Failures"),
    ("jobs", "/jobs", "Jobs"),
    ("batches", "/batches", "Batches"),
    ("cluster", "/cluster", "Cluster"),
)
"""The pages that stand at the top of each: the name, the path, the word."""


@functools.lru_cache(maxsize=4)
def make_environment(root: str) -> Environment:
    """The templates.

    Args:
        root: the path of the first page without its last slash.
    """
    static = load_static()
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )

    def url(path: str, **query: object) -> Markup:
        """A URL of these pages."""
        return with_values(root + quote(path), query)

    def static_url(path: str) -> Markup:
        return with_values(f"{root}/static/{path}", {"v": static[path].digest})

    made.globals |= {
        "ACTIONS": ACTIONS,
        "NAV": NAV,
        "VERSION": __version__,
        "batch_word": batch_word,
        "command_line": command_line,
        "command_template": command_template,
        "cut": cut,
        "duration": duration,
        "failure_of": lambda error: failure_of(words(error)),
        "item_word": item_word,
        "json_data": json_data,
        "lambda_of": lambda_of,
        "lines": lines,
        "number": number,
        "quoted": quoted,
        "readable": readable,
        "size": size,
        "static_url": static_url,
        "summary_of": summary_of,
        "words": words,
        "task_word": task_word,
        "traceback_lines": traceback_lines,
        "url": url,
        "wire": t,
        "wire_gate": gate_word,
    }
    return made


def with_values(path: str, values: Mapping[str, object]) -> Markup:
    """A URL of a path that is encoded, with those of the values that are not empty; whole, however long."""
    given = {name: value for name, value in values.items() if value not in ("", None)}
    return escape(path + (f"?{urlencode(given)}" if given else ""))


def gate_word(action: int) -> str:
    """What a gate does, in one word."""
    return f.Gate.Action.Name(action).lower() if action in f.Gate.Action.values() else f"action {action}"
