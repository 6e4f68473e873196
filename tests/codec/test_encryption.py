"""Encrypted tasks through the whole pipeline: what their caller and their lambda see, and what nobody else does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import fakeredis
import pytest

from atf import AlreadyExists, App, Backoff, Batch, Context, InvalidArgument, Status, TaskFailed, Unique
from atf.codec.key_file import Keys, read_keys, rotated, with_key, write_keys
from atf.sdk.failure import failure_of
from atf.testing import Harness

SECRET = "Zanzibar"
"""In everything that these tasks carry, and in no line of code that runs."""

app = App("vault")
told_of: list[Any] = []


@app.task(search=["who"], logs="all")
def greet(ctx: Context, who: str) -> str:
    print(f"greeting {who}")
    ctx.progress(f"at {who}")
    return f"hello {who}"


@app.task(logs="all", max_attempts=1)
def refuse(who: str) -> None:
    print(f"refusing {who}")
    complaint = f"no card of {who}"
    try:
        raise KeyError(complaint)
    except KeyError as error:
        error.add_note(f"a note on {who}")
        raise ValueError(complaint) from error


@app.task()
def fold(parts: list[str], end: str) -> str:
    return "+".join(parts) + end


@app.task()
def join(part: str, end: str) -> str:
    return part + end


@app.task()
def told(batch: dict[str, Any], who: str) -> None:
    told_of.append((batch["done"], who))


@app.task(max_attempts=2, backoff=Backoff(base=1, jitter=0))
def turn(data: bytes) -> bytes:
    return data[::-1]


@pytest.fixture
def harness(key_file: str, stored: Callable[[], str]) -> Iterator[Harness]:
    """A pipeline with keys."""
    assert key_file
    assert stored() == "{}"
    with Harness(app) as harness:
        yield harness


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Has the client show from now on what the frontend sent, as to one without keys."""

    def shut() -> None:
        for name in ("open_task", "open_item"):
            monkeypatch.setattr(f"atf.client.encrypted_calls.{name}", lambda _cipher, each: each)

    return shut


def test_caller_and_lambda_see_what_nobody_else_does(
    harness: Harness, stored: Callable[[], str], blind: Callable[[], None], capfd: pytest.CaptureFixture[str]
) -> None:
    done, failed = greet.schedule(who=SECRET), refuse.schedule(who=SECRET)
    assert done.result() == f"hello {SECRET}"
    with pytest.raises(TaskFailed, match=f"no card of {SECRET}"):
        failed.result()
    record = harness.client.get(failed.id)
    assert (record.error_type, record.error_message) == ("ValueError", f"no card of {SECRET}")
    assert f"a note on {SECRET}" in record.error
    assert harness.client.get(done.id).progress in {"", f"at {SECRET}"}
    assert SECRET not in stored()
    assert "vault/refuse" in stored()
    blind()
    shown = harness.client.get(failed.id)
    assert failure_of(shown.error).type == "ValueError"
    assert "raise KeyError(complaint)" in shown.error
    assert "Caused by: KeyError: [encrypted]" in shown.error
    assert SECRET not in repr(shown) + repr(harness.client.get(done.id))
    said = capfd.readouterr()
    assert SECRET not in "".join(line for line in (said.out + said.err).splitlines() if line.startswith("{"))


@pytest.mark.usefixtures("harness")
def test_bytes_stay_bytes(stored: Callable[[], str]) -> None:
    assert turn.schedule(SECRET.encode()).result() == SECRET[::-1].encode()
    assert SECRET not in stored()
    assert SECRET[::-1] not in stored()


@pytest.mark.usefixtures("harness")
def test_the_same_request_twice_is_one_task(stored: Callable[[], str]) -> None:
    first = greet.options(key="once").schedule(who=SECRET)
    again = greet.options(key="once").schedule(who=SECRET)
    assert first.id == again.id
    with pytest.raises(AlreadyExists):
        greet.options(key="once").schedule(who="Lamu")
    assert SECRET not in stored()


def test_search_finds_by_a_hash(harness: Harness, stored: Callable[[], str]) -> None:
    wanted = greet.schedule(who=SECRET)
    greet.schedule(who="Lamu")
    found = harness.client.list(search={"who": SECRET})
    assert [each.id for each in found] == [wanted.id]
    assert not harness.client.list(search={"who": "Kilwa"})
    assert SECRET not in stored()


@pytest.mark.usefixtures("harness")
def test_a_chain_passes_on_results_that_it_can_not_read(stored: Callable[[], str]) -> None:
    chain = (greet.map_s([SECRET, "Lamu"]) | fold.s(end=f"!{SECRET}") | join.s(end="?")).submit()
    assert chain.result() == f"hello {SECRET}+hello Lamu!{SECRET}?"
    assert SECRET not in stored()


def test_items_of_a_batch_and_its_callback(harness: Harness, stored: Callable[[], str]) -> None:
    batch = greet.map([SECRET, "Lamu"], on_complete=told.s(who=SECRET), batch_id="b1")
    assert list(batch.results()) == [f"hello {SECRET}", "hello Lamu"]
    assert batch.result_of(SECRET) == f"hello {SECRET}"
    again = greet.map([SECRET, "Lamu"], on_complete=told.s(who=SECRET), batch_id="b1")
    assert again.progress().items == 2
    batch.extend(["Kilwa"])
    assert batch.result_of("Kilwa") == "hello Kilwa"
    harness.run_until_idle()
    assert told_of[0] == (2, SECRET)
    assert SECRET not in stored()


def test_a_target_is_a_hash(harness: Harness, stored: Callable[[], str]) -> None:
    batch = greet.map([SECRET, SECRET, "Lamu"], target="who", pause=2, batch_id="b3")
    harness.advance(1)
    assert (batch.progress().done, len(list(batch.items("done")))) == (2, 2)
    harness.advance(2)
    assert batch.progress().done == 3
    assert SECRET not in stored()


def test_items_of_programs_are_encrypted_too(key_file: str, stored: Callable[[], str]) -> None:
    assert key_file
    assert stored() == "{}"
    programs = App("atf")

    @programs.task
    def command(argv: list[str]) -> dict[str, Any]:
        return {"arguments": argv}

    with Harness(programs) as harness:
        batch: Batch[Any] = harness.client.batch("atf/command", [["echo", SECRET]])
        assert list(batch.results()) == [{"arguments": ["echo", SECRET]}]
        assert batch.result_of("echo", SECRET) == {"arguments": ["echo", SECRET]}
        (item,) = batch.items(arguments=True)
        assert (item.payload, item.arguments) == ({"argv": ["echo", SECRET]}, ("echo", SECRET))
        assert SECRET not in stored()


def test_jobs_and_debounced_tasks_know_what_they_are_of(harness: Harness, stored: Callable[[], str]) -> None:
    harness.client.schedule_job("vault/daily", greet.prepare(who=SECRET), "@every 10s", repeats=1)
    debounced = greet.options(unique=Unique("u", window=5, policy="debounce"))
    first = debounced.schedule(who="Lamu")
    last = debounced.schedule(who=SECRET)
    assert (first.id, last.result()) == (last.id, f"hello {SECRET}")
    harness.advance(30)
    (tick,) = [each for each in harness.client.list("vault/greet") if each.id != last.id]
    assert harness.client.handle(tick.id).result() == f"hello {SECRET}"
    assert SECRET not in stored()


def test_rotation_reads_what_was_and_writes_with_the_new_key(harness: Harness, key_file: str) -> None:
    old = greet.options(delay=60).schedule(who=SECRET)
    before = read_keys(key_file)
    after = rotated(with_key(before))
    write_keys(key_file, after, new=False)
    assert greet.options(key="k").schedule(who=SECRET).result() == f"hello {SECRET}"
    assert old.result() == f"hello {SECRET}"
    assert [each.id for each in harness.client.list(search={"who": SECRET}, limit=5)].count(old.id) == 1
    write_keys(
        key_file, Keys(after.hashing, {k: v for k, v in after.by_id.items() if k not in before.by_id}), new=False
    )
    assert greet.schedule(who=SECRET).result() == f"hello {SECRET}"


def test_a_task_waits_for_a_missing_key_and_counts_no_attempt(
    harness: Harness, key_file: str, capfd: pytest.CaptureFixture[str]
) -> None:
    handle = turn.options(delay=60).schedule(SECRET.encode())
    whole = read_keys(key_file)
    (key_id,) = whole.by_id
    write_keys(key_file, rotated(with_key(Keys(whole.hashing, {}))), new=False)
    harness.advance(200)
    record = harness.client.get(handle.id)
    assert (record.status, record.attempts, record.losses) == (Status.NEW, 0, 0)
    began = [each.started_at.timestamp() for each in record.ended_runs if each.started_at is not None]
    assert [round(later - at) for at, later in pairwise(began)] == [10, 20, 40, 60]
    why = f"with the key {key_id}, which {key_file} does not have"
    assert why in record.ended_runs[-1].why
    assert f"with the key {key_id}" in harness.client.explain(handle.id).sentence
    assert capfd.readouterr().err.count("tasks wait for a key") == 1
    write_keys(key_file, whole, new=False)
    harness.advance(60)
    assert handle.result() == SECRET[::-1].encode()
    assert harness.client.get(handle.id).attempts == 1


def test_damaged_arguments_fail_the_attempt(harness: Harness, key_file: str) -> None:
    handle = turn.options(delay=60).schedule(SECRET.encode())
    whole = read_keys(key_file)
    (key_id,) = whole.by_id
    write_keys(key_file, Keys(whole.hashing, {key_id: bytes(32)}), new=False)
    harness.advance(100)
    record = harness.client.get(handle.id)
    assert (record.status, record.attempts) == (Status.FATAL_FAILURE, 2)
    assert "or the key of this id is another one" in record.error
    write_keys(key_file, whole, new=False)
    assert harness.client.retry(handle.id)
    assert handle.result() == SECRET[::-1].encode()


@pytest.mark.usefixtures("harness")
def test_moved_arguments_are_refused(stored: Callable[[], str]) -> None:
    one = greet.options(delay=60, max_attempts=1).schedule(who=SECRET)
    two = greet.options(delay=60, max_attempts=1).schedule(who="Lamu")
    assert stored()
    client = fakeredis.FakeRedis(server=fakeredis.FakeServer())
    specs = [f"atf:{{0}}:v:{each.id}:spec" for each in (one, two)]
    assert client.exists(*specs) == 2
    client.set(specs[0], client.get(specs[1]) or b"")
    with pytest.raises(TaskFailed, match="somebody has moved it here"):
        one.result()
    assert two.result() == "hello Lamu"


def test_an_executor_without_keys_says_so(key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert key_file
    monkeypatch.setattr("atf.executor.executor.cipher_of", lambda _path: None)
    with Harness(app) as harness:
        handle = turn.schedule(b"a")
        harness.advance(10)
        record = harness.client.get(handle.id)
        assert (record.status, record.attempts) == (Status.NEW, 0)
        assert "this executor has no codec_keys" in record.ended_runs[-1].why


def test_what_is_too_large_once_it_is_encrypted_is_refused(harness: Harness) -> None:
    assert harness
    with pytest.raises(InvalidArgument, match="768 KiB of plain ones"):
        greet.schedule(who="x" * 900_000)
    with pytest.raises(TaskFailed, match="once they are encrypted"):
        turn.schedule(b"x" * 60_000).result()


@pytest.fixture(autouse=True)
def _look_always(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.rpc.tls_files.LOOK_EVERY_S", 0.0)
