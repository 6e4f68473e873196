"""Where secrets are handled, none is compared by == or `in`: hmac.compare_digest takes as long wherever two differ; a dict looks up by a hash."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Final

import pytest

from tests.structure.test_layering import ROOT, sources

HANDLES: Final = re.compile(
    r"^import hmac|auth\.(secrets|executor_credentials|token_record|signing_keys)|^from \.(secrets|sessions|security) import",
    re.MULTILINE,
)
"""What a module imports that has secrets in its hands."""
SECRETS: Final = {
    "secret",
    "shown",
    "token",
    "cookie",
    "csrf",
    "password",
    "digest",
    "signature",
    "mac",
    "mine",
}
NO_SECRETS: Final = {
    "frontend/tokens.py: token.digest == request.digest": "both are hashes, and whoever asks has the verb admin",
    "atf/ui/app.py: token != cookie": "whether the browser has this cookie already, of which it has just told",
}


def compares(source: str) -> Iterator[str]:
    """The comparisons of what is called a secret, but with a constant."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            continue
        sides = [node.left, *node.comparators]
        names = {
            each.id if isinstance(each, ast.Name) else each.attr
            for each in sides
            if isinstance(each, ast.Name | ast.Attribute)
        }
        if names & SECRETS and not any(isinstance(each, ast.Constant) for each in sides):
            yield ast.unparse(node)


def test_no_secret_is_compared_in_a_time_that_tells_of_it() -> None:
    texts = {str(path): (ROOT / path).read_text(encoding="utf-8") for path in sources()}
    modules = {path for path, text in texts.items() if HANDLES.search(text)}
    assert {"atf/auth/token_record.py", "controller/entrance.py", "atf/ui/app.py", "hsc/credentials.py"} <= modules
    assert {f"{path}: {each}" for path in modules for each in compares(texts[path])} == NO_SECRETS.keys()


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("shown == self.digest", True),
        ("cookie in known", True),
        ("x.secret != y", True),
        ("token == ''", False),
        ("a == b", False),
        ("hmac.compare_digest(shown, digest)", False),
    ],
)
def test_what_counts_as_a_comparison(text: str, is_found: bool) -> None:
    assert bool(list(compares(text))) is is_found
