"""The key file, and the commands on it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner

from atf import ConfigError, FailedPrecondition, InvalidArgument, Retry
from atf.cli.commands import cli
from atf.codec.cipher import Cipher, bytes_of_text, cipher_of
from atf.codec.key_file import read_keys
from atf.codec.texts import open_text, seal_error, seal_text
from atf.executor.outcome import RunFailed, of_exception
from atf.sdk.sealed import words
from atf.task import MAX_ERROR_BYTES


def run(*arguments: str) -> str:
    result = CliRunner().invoke(cli, ["keyfile", *arguments], catch_exceptions=False)
    return result.output


def test_commands_make_add_and_rotate_keys(tmp_path: Path) -> None:
    path = str(tmp_path / "codec.keys")
    said = run("new", path)
    (first,) = read_keys(path).by_id
    assert f"{path}: {first} encrypts" in said
    hashing = read_keys(path).hashing
    run("add", path)
    assert next(iter(read_keys(path).by_id)) == first
    said = run("rotate", path)
    newest, kept = read_keys(path).by_id
    assert (kept, read_keys(path).hashing) == (first, hashing)
    assert f"{newest} encrypts; {first} only decrypt" in said
    before = Path(path).read_bytes()
    assert run("ls", path) == said
    assert Path(path).read_bytes() == before
    assert Path(path).stat().st_mode & 0o777 == 0o600
    with pytest.raises(InvalidArgument, match=f"{newest} encrypts: have another key do so first"):
        run("drop", path, newest)
    with pytest.raises(InvalidArgument, match=f"no key 'none'; {first} only decrypt"):
        run("drop", path, "none")
    assert f"{newest} encrypts\n" in run("drop", path, first)
    assert list(read_keys(path).by_id) == [newest]
    for key in Path(path).read_text().splitlines():
        assert key.partition(": ")[2] not in said or not key.partition(": ")[2]


def test_new_never_replaces_and_rotate_needs_two(tmp_path: Path) -> None:
    path = str(tmp_path / "codec.keys")
    run("new", path)
    before = Path(path).read_bytes()
    with pytest.raises(ConfigError, match="there is such a file"):
        run("new", path)
    with pytest.raises(Exception, match="has one key"):
        run("rotate", path)
    assert Path(path).read_bytes() == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "it needs one line"),
        ("index: AAAA\n", "line 1"),
        ("key zz: " + "A" * 43 + "=\n", "line 1"),
        ("index: " + "A" * 43 + "=\nkey 00000001: " + "A" * 43 + "=\nkey 00000001: " + "A" * 43 + "=\n", "line 3"),
        ("index: " + "A" * 43 + "=\n", "1 to 100 lines"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "codec.keys"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        Cipher(str(path))


def test_a_file_that_others_may_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "codec.keys"
    run("new", str(path))
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=f"chmod 600 {path}"):
        Cipher(str(path))
    with pytest.raises(ConfigError, match="atf keyfile new"):
        Cipher(str(tmp_path / "none"))


def test_envelopes_differ_and_open_where_they_belong(key_file: str) -> None:
    cipher = Cipher(key_file)
    one, two = cipher.seal("task a", b"x"), cipher.seal("task a", b"x")
    assert one != two
    assert cipher.open("task a", one) == cipher.open("task a", two) == b"x"
    damaged = one[:-1] + bytes([one[-1] ^ 1])
    for origin, envelope in (
        ("task b", one),
        ("task a", damaged),
        ("task a", one[:30]),
        ("task a", b"\x02" + one[1:]),
        ("task a", b""),
    ):
        with pytest.raises(FailedPrecondition):
            cipher.open(origin, envelope)
    assert read_keys(key_file).by_id.keys() == {one[1:9].decode()}


def test_a_damaged_file_does_not_stop_what_runs(key_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("atf.rpc.tls_files.LOOK_EVERY_S", 0.0)
    cipher = Cipher(key_file)
    sealed = cipher.seal("a", b"x")
    Path(key_file).write_text("half a fi")
    assert cipher.open("a", sealed) == b"x"


def test_hashes_are_of_one_kind_of_value(key_file: str) -> None:
    cipher = Cipher(key_file)
    assert cipher.hashed("search a", b"x") == cipher.hashed("search a", b"x") != cipher.hashed("search b", b"x")
    assert len(bytes_of_text(cipher.hashed("a", b"x"))) == 16


def test_an_error_keeps_types_and_lines_and_fits(key_file: str) -> None:
    cipher, message = Cipher(key_file), "Zanzibar\nis here" * 200
    frames = "\n".join(
        f'  File "/a/{number}.py", line {number}, in work\n    raise ValueError(x)' for number in range(60)
    )
    error = f"ValueError: {message}\nTraceback (most recent call last):\n{frames}\nCaused by: KeyError: Zanzibar\n  | Note: Zanzibar"
    sealed = seal_error(cipher, "error 1", error)
    assert len(sealed.encode()) <= MAX_ERROR_BYTES
    assert "Zanzibar" not in sealed
    assert '  File "/a/0.py", line 0, in work\n    raise ValueError(x)' in sealed
    assert words(sealed).startswith("ValueError: [encrypted]\nTraceback")
    assert open_text(cipher, "error 1", sealed).startswith("ValueError: Zanzibar\nis here")
    assert "moved here" in open_text(cipher, "error 2", sealed)
    assert open_text(cipher, "error 1", "plain") == "plain"
    assert seal_text(cipher, "log 1", "") == ""


LIKE_A_TRACEBACK: Final = """first
Traceback (most recent call last):
  File "ZANZIBAR", line 1, in ZANZIBAR
    ZANZIBAR
  |   File "ZANZIBAR", line 2, in ZANZIBAR
        ZANZIBAR
Caused by: ZANZIBAR: so it says
  | While handling: ZANZIBAR"""


def _raised_with(said: str) -> BaseException:
    cause = RuntimeError(said)
    cause.add_note(said)
    failed = ExceptionGroup("some", [ValueError(said), ExceptionGroup(said, [KeyError(said)])])
    failed.add_note(f"see\n{said}")
    try:
        raise failed from cause
    except ExceptionGroup as error:
        return error


@pytest.mark.parametrize("error", [_raised_with(LIKE_A_TRACEBACK), Retry(f"Later: {LIKE_A_TRACEBACK}")])
def test_a_message_that_looks_like_a_traceback_is_encrypted(error: BaseException, key_file: str) -> None:
    outcome = of_exception(error)
    assert isinstance(outcome, RunFailed)
    cipher = Cipher(key_file)
    sealed = seal_error(cipher, "error 1", outcome.error)
    assert "ZANZIBAR" not in sealed
    assert "ZANZIBAR" in open_text(cipher, "error 1", sealed)
    if not isinstance(error, Retry):
        assert "raise failed from cause" in sealed
        assert "Caused by: RuntimeError: [encrypted]" in sealed


def test_a_sentence_that_looks_like_a_traceback_is_encrypted(key_file: str) -> None:
    sealed = seal_error(Cipher(key_file), "error 1", f"a/b can't be called: {LIKE_A_TRACEBACK}")
    assert words(sealed) == "[encrypted]"


def test_without_keys_there_is_no_cipher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ATF_CODEC_KEYS", raising=False)
    assert cipher_of() is None
    assert cipher_of("") is None
