"""Work-item ids: a caller finds an item from its inputs, by a form that anybody can compute."""

from __future__ import annotations

import json
from hashlib import md5
from pathlib import Path

import pytest

import atf.store
from atf.errors import InvalidArgument
from atf.sdk.work_items import (
    EXTRA_FIRST,
    MAX_ITEMS,
    ItemId,
    check_batch_id,
    check_work_item_id,
    digest_of,
    parse,
    stored_id,
    texts_of,
)
from atf.task import partition_of

PUBLISHED = "268a4145a50ade48aed2b1147d3518c6"


def test_the_published_vector_holds() -> None:
    url = "https://example.com/dir1/dir2/resource/some-random-slug-1"
    assert digest_of("bafybeie3nlygbnuxhvqv3gvwa2hmd4tcfzk5jtvscwl6qs3ljn5tknlt4q/echo.wasm", [url]) == PUBLISHED


def test_it_is_the_md5_of_the_lambda_and_its_arguments_with_spaces_between_them() -> None:
    assert digest_of("atf/command", ["echo", "grüß dich"]) == md5("atf/command echo grüß dich".encode()).hexdigest()
    assert digest_of("a/b", []) == md5(b"a/b").hexdigest()


@pytest.mark.parametrize(
    ("payload", "texts"),
    [
        (b"", []),
        (b"{}", []),
        (b'{ "path" : "cat.jpg", "size":128 }', ['"cat.jpg"', "128"]),
        (b'{"size":128,"path":"cat.jpg"}', ["128", '"cat.jpg"']),
        (b'{"o":{"b":[true, null], "a":{"d":1,"c":2}}}', ['{"a":{"c":2,"d":1},"b":[true,null]}']),
        (b'{"s":"\\u00e9\\/\\n\\u0001\\u007f"}', ['"é/\\n\\u0001\x7f"']),
        (b'{"a":1.0,"b":10E-1,"c":-0,"d":1e16,"e":0.000001}', ["1.0", "1.0", "0", "1e16", "1e-6"]),
        (b'{"a":123456789012345678901234567890}', ["123456789012345678901234567890"]),
        (
            b'{"a":1e-5,"b":0.0000099,"c":1e15,"d":15e15,"e":-0.0}',
            ["0.00001", "9.9e-6", "1000000000000000.0", "1.5e16", "-0.0"],
        ),
        (b'{"s":"\\b\\f\\r\\t\\"\\\\\\u001F\\u2028"}', ['"\\b\\f\\r\\t\\"\\\\\\u001f\u2028"']),
        (b'{"o":{"\\ud83d\\ude00":1,"\\uffff":2,"\\u00e9":3,"z":4}}', ['{"z":4,"é":3,"\uffff":2,"\U0001f600":1}']),
        (b'{"a":1,"a":2}', ["2"]),
    ],
)
def test_arguments_have_one_canonical_form(payload: bytes, texts: list[str]) -> None:
    assert texts_of(payload) == texts
    again = json.dumps({str(place): json.loads(each) for place, each in enumerate(texts)}).encode()
    assert texts_of(again) == texts, "the canonical form of a canonical form is itself"


@pytest.mark.parametrize(
    ("payload", "digest"),
    [
        (b'{"value":0.00001}', "344d0b0cf04c9d3654ac5c9f9ac55407"),
        (b'{"value":1E-5}', "344d0b0cf04c9d3654ac5c9f9ac55407"),
        (b'{"value":-0.0}', "75c90e9507d085ed2638d2136ce069d2"),
        (b'{"value":-0}', "5928982808e8c7c39f312464387aed48"),
        (b'{"value":1e16}', "be635ab7a50ec6041c0347a576a83a68"),
        (b'{"value":0.000001}', "6f2901fd0c2e189f9af04ce9c001574b"),
        (b'{"value":"caf\\u00e9\\/\\n\\u001F"}', "d74c4a0e3c38efeb6a1e4cd5145139c6"),
    ],
)
def test_ids_of_numbers_and_texts_are_what_md5sum_says(payload: bytes, digest: str) -> None:
    """As `printf 'lab/measure 0.00001' | md5sum` prints them."""
    assert digest_of("lab/measure", texts_of(payload)) == digest


@pytest.mark.parametrize(
    "payload", [b"[]", b"1", b"null", b'{"a":NaN}', b'{"a":1e999}', b"{", b"\xff", b'{"a":"\xff"}']
)
def test_what_is_no_object_of_arguments_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidArgument, match="payload: give the arguments by name as a JSON object: "):
        texts_of(payload)


@pytest.mark.parametrize("work_item_id", [PUBLISHED, f"{PUBLISHED}-7", f"{PUBLISHED}-{MAX_ITEMS}"])
def test_an_item_s_task_is_known_by_its_id(work_item_id: str) -> None:
    task_id = stored_id(12, "nightly-2026_11-22", check_work_item_id(work_item_id))
    assert parse(task_id) == ItemId(12, "nightly-2026_11-22", work_item_id)
    assert partition_of(task_id, 16) == 12


def test_other_tasks_are_no_items() -> None:
    assert parse("3-a-b_c") is None


def test_the_store_knows_where_extensions_begin() -> None:
    code = (Path(atf.store.__file__).parent / "lua" / "shared" / "batches.lua").read_text(encoding="utf-8")
    assert f"batches.EXTRA_FIRST = {EXTRA_FIRST} " in code


def test_the_longest_id_fits_into_the_executors_table() -> None:
    assert len(stored_id(65_535, check_batch_id("b" * 20), f"{PUBLISHED}-{MAX_ITEMS - 1}")) <= 72


@pytest.mark.parametrize("batch_id", ["", "b" * 21, "a.b", "a b", "ä", "a\n"])
def test_a_batch_id_has_its_form(batch_id: str) -> None:
    with pytest.raises(InvalidArgument, match="use 1 to 20"):
        check_batch_id(batch_id)


@pytest.mark.parametrize("work_item_id", ["", PUBLISHED[1:], PUBLISHED.upper(), f"{PUBLISHED}-", f"{PUBLISHED}-x", "x"])
def test_a_work_item_id_has_its_form(work_item_id: str) -> None:
    with pytest.raises(InvalidArgument, match="32 hexadecimal digits"):
        check_work_item_id(work_item_id)
    with pytest.raises(InvalidArgument, match="task id"):
        partition_of(f"0-b.{work_item_id}", 1)
