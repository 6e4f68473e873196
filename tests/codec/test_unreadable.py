"""What can't be decrypted: each record says so by itself, with the key that it takes, and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from atf import App, FailedPrecondition, NotDecrypted, Status
from atf.codec.key_file import Keys, read_keys, rotated, with_key, write_keys
from atf.rpc import task_pb2 as t
from atf.sdk.payload import decode_result
from atf.sdk.sealed import as_stored, is_sealed, key_of, why_of, with_why, without_sealed
from atf.testing import Harness

SECRET = "Zanzibar"
app = App("vault")


@app.task(search=["who"])
def greet(who: str) -> str:
    return f"hello {who}"


@pytest.fixture
def harness(key_file: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Harness]:
    assert key_file
    monkeypatch.setattr("atf.rpc.tls_files.LOOK_EVERY_S", 0.0)
    with Harness(app) as harness:
        yield harness


@pytest.fixture
def lose_first(key_file: str) -> Callable[[], str]:
    """Puts a new key in the place of all that there are; gives the id of the one that encrypted before."""

    def lose() -> str:
        before = read_keys(key_file)
        after = rotated(with_key(before))
        newest = dict([next(iter(after.by_id.items()))])
        write_keys(key_file, Keys(after.hashing, newest), new=False)
        return next(iter(before.by_id))

    return lose


def test_one_result_that_can_not_be_read_spoils_no_other(harness: Harness, lose_first: Callable[[], str]) -> None:
    old = greet.schedule(who=SECRET)
    assert old.result() == f"hello {SECRET}"
    key_id = lose_first()
    new = greet.schedule(who="Lamu")
    harness.run_until_idle()
    found = {each.id: each for each in harness.client.wait([old, new])}
    assert found[new.id].result == "hello Lamu"
    unread = found[old.id].result
    assert isinstance(unread, NotDecrypted)
    assert unread.key_id == key_id
    assert f"encrypted with the key {key_id}" in str(unread)
    assert f"add the line `key {key_id}: …`" in str(unread)
    assert is_sealed(unread.data)
    assert why_of(unread.data) == ""
    assert {each.id for each in harness.client.list("vault/greet")} == {old.id, new.id}
    with pytest.raises(NotDecrypted, match=key_id):
        old.result()
    assert harness.client.get(old.id).status is Status.SUCCESS


def test_items_of_a_batch_say_so_one_by_one(harness: Harness, key_file: str, lose_first: Callable[[], str]) -> None:
    batch = greet.map([SECRET], keep_open=True)
    harness.run_until_idle()
    whole = read_keys(key_file)
    key_id = lose_first()
    batch.extend(["Lamu"])
    batch.close()
    unread: Any
    unread, read = batch.results(failed="yield")
    assert (read, unread.key_id) == ("hello Lamu", key_id)
    with pytest.raises(NotDecrypted, match=key_id):
        list(batch.results())
    with pytest.raises(NotDecrypted, match=key_id):
        list(batch.results(failed="skip"))
    first, second = batch.items(arguments=True)
    assert isinstance(first.result, NotDecrypted)
    assert isinstance(first.payload, NotDecrypted)
    assert (second.result, second.payload, second.arguments) == ("hello Lamu", {"who": "Lamu"}, ('"Lamu"',))
    write_keys(key_file, whole, new=False)
    assert batch.result_of(SECRET) == f"hello {SECRET}"


def test_a_client_without_keys_is_told_which_one_it_lacks(
    harness: Harness, key_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = greet.schedule(who=SECRET)
    harness.run_until_idle()
    (key_id,) = read_keys(key_file).by_id
    monkeypatch.setattr("atf.client.encrypted_calls.open_task", lambda _cipher, each: each)
    with pytest.raises(NotDecrypted, match=f"with the key {key_id}, and this client has no key file: set ATF_CODEC"):
        handle.result()


def test_a_search_of_encrypted_arguments_says_so(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = greet.schedule(who=SECRET)
    harness.run_until_idle()
    assert [each.id for each in harness.client.list(search={"who": SECRET})] == [wanted.id]
    assert harness.client.list(search={"who": "Kilwa"}) == []
    monkeypatch.setattr("atf.client.encrypted_calls.seal_filter", lambda _cipher, _asked: None)
    client, search = harness.client, {"who": SECRET}
    for asked in (
        lambda: client.list(search=search),
        lambda: client.list("vault/*", search=search),
        lambda: client.cancel_matching(search=search, dry_run=True),
        lambda: client.redrive(search=search, dry_run=True),
    ):
        with pytest.raises(FailedPrecondition, match=r"arguments of vault/greet are encrypted.*--codec-keys"):
            asked()


def test_a_reason_stands_beside_what_is_encrypted_and_goes_again() -> None:
    sealed = b'{"$encrypted":["f","task a","AWFiY2RlZjAxAAAA"],"who":"hash"}'
    said = 'no key in "/etc/{a}": ask'
    told = with_why(with_why(sealed, "another"), said)
    assert why_of(told) == said
    assert as_stored(told) == sealed
    assert key_of(told) == "abcdef01"
    assert without_sealed(told) == rb'"[encrypted: no key in \"/etc/{a}\": ask]"'
    assert without_sealed(b"[1," + sealed + b"]") == b'[1,"[encrypted]"]'
    assert key_of("ValueError: [encrypted:AWFiY2RlZjAxAAAA]") == "abcdef01"
    assert key_of(b'{"a":1}') == ""
    with pytest.raises(NotDecrypted, match="no key in"):
        decode_result("vault/greet", told, t.JSON)
    assert decode_result("vault/greet", sealed, t.RAW) == sealed
