"""The table of stolen secrets: it names deeds that are tried, and its newest result is that of the table as it stands."""

from __future__ import annotations

import json
from pathlib import Path

from atf.store.servers.permissions import STORE_USERS
from proof.blast.expected import DEEDS, EXPECTED, SECRETS, USER

RESULTS = Path(__file__).parents[2] / "proof" / "results" / "blast"
CELLS = {
    f"{deed}: {whose}" if both else deed
    for deed, both in DEEDS.items()
    for whose in (("own", "other") if both else ("",))
}


def test_every_secret_has_a_row_and_every_deed_is_one() -> None:
    assert EXPECTED.keys() == SECRETS.keys()
    assert set().union(*EXPECTED.values()) <= CELLS
    assert {each.removeprefix(USER) for each in SECRETS if each.startswith(USER)} == set(STORE_USERS)


def test_nobody_flushes_the_store_and_callers_keep_to_their_namespace() -> None:
    assert not any("flush the store" in can for can in EXPECTED.values())
    for what in (
        "client token",
        "operator token",
        "worker token",
        "executor credential",
        "Enter secret",
        "page session cookie",
    ):
        assert not {each for each in EXPECTED[what] if not each.endswith(": own")}, what


def test_the_newest_result_is_of_this_table() -> None:
    results = [json.loads(each.read_text("utf-8")) for each in RESULTS.glob("*.json")]
    newest = max(results, key=lambda each: each["at"])
    assert newest["status"] == "ok"
    assert newest["cells"] == len(CELLS) * len(SECRETS)
    assert {what: set(can) for what, can in newest["can"].items()} == EXPECTED
