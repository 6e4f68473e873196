"""The pages at the top of the repository name only files, links and make targets that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "CHANGELOG.md")
FOLDERS = "deploy|atf|frontend|store_consumer|hsc|controller|executor|tests|proof|tools|docs|requirements"


def text_of(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page))
    missing = [each for each in links if "://" not in each and not (ROOT / each).exists()]
    assert missing == []


def test_every_file_that_contributors_are_sent_to_exists() -> None:
    named = re.findall(rf"`((?:{FOLDERS})/[\w./-]*)`", text_of("CONTRIBUTING.md"))
    assert len(named) > 50
    assert [each for each in named if not (ROOT / each).exists()] == []


def test_every_make_target_is_explained_to_contributors() -> None:
    there = set(re.findall(r"^([a-z-]+):.*## ", text_of("Makefile"), re.MULTILINE)) - {"help", "venv"}
    assert there <= set(re.findall(r"(?:^|`|\$ )make ([a-z-]+)", text_of("CONTRIBUTING.md"), re.MULTILINE))
