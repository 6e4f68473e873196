"""The notes of a worker's start: what it did, what ended it, and where it stood, as its guard reads them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from atf.errors import ConfigError
from atf.executor.guarding.start_notes import MAX_WHY_BYTES, StartNotes


@pytest.fixture
def notes() -> Iterator[StartNotes]:
    made = StartNotes.new()
    yield made
    os.close(made.descriptor)


def worker(notes: StartNotes, folder: Path, code: str, start_timeout: float = 0.5) -> int:
    """Runs code in a process that has these notes; its exit code."""
    path = folder / "shop.py"
    path.write_text(textwrap.dedent(code), encoding="utf-8")
    prelude = (
        "import sys\nfrom atf.executor.guarding.start_notes import StartNotes\nnotes = StartNotes(int(sys.argv[1]))\n"
        f"notes.watch({start_timeout})\nnotes.doing('importing shop:app')\n"
        "try:\n    import shop\nexcept ValueError as error:\n    notes.failed(error)\n    raise\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    env.pop("PYTHONFAULTHANDLER", None)
    command = [sys.executable, "-P", "-c", prelude, str(notes.descriptor)]
    return subprocess.run(command, env=env, pass_fds=[notes.descriptor], timeout=60, check=False).returncode


def test_empty_notes_say_nothing(notes: StartNotes) -> None:
    assert (notes.last(), notes.error(), notes.place()) == ("", "", "")


def test_the_last_thing_that_it_did_counts(notes: StartNotes) -> None:
    notes.doing("importing shop:app")
    notes.doing("running its start hooks")
    assert (notes.last(), notes.error()) == ("running its start hooks", "")


def test_an_error_of_ours_is_its_sentence_and_any_other_one_has_its_type(notes: StartNotes) -> None:
    notes.failed(ConfigError("app shop:app: two\nlines"))
    assert notes.error() == "app shop:app: two\nlines"
    assert notes.told
    notes.failed(ValueError("no é\udcff"))
    assert notes.error() == "ValueError: no é?"


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("no")


def test_an_error_whose_text_raises_is_noted_all_the_same(notes: StartNotes) -> None:
    notes.failed(Mute())
    assert notes.error() == "Mute: its text can't be read"


def test_a_long_text_is_clipped(notes: StartNotes) -> None:
    notes.failed(ValueError("é" * 10_000))
    assert len(notes.error().encode()) <= MAX_WHY_BYTES


@pytest.mark.parametrize("garbage", [b"!not json\n", b"!" + b"[" * 50_000 + b"\n", b"\xff\x00\n!\n"])
def test_what_user_code_wrote_over_it_is_no_error(notes: StartNotes, garbage: bytes) -> None:
    os.write(notes.descriptor, garbage)
    assert notes.error() == ""
    assert notes.place() == ""


def test_where_it_stood_before_is_not_where_it_stands(notes: StartNotes) -> None:
    stood = b'Thread 0x1 (most recent call first):\n  File "/srv/shop.py", line 3 in load\n'
    notes.doing("importing shop:app")
    os.write(notes.descriptor, stood)
    assert notes.place() == "/srv/shop.py line 3 in load"
    notes.doing("running @app.on_worker_start shop.connect")
    assert notes.place() == ""


def test_notes_that_user_code_has_closed_are_left_out() -> None:
    notes = StartNotes.new()
    os.close(notes.descriptor)
    notes.doing("importing shop:app")
    notes.failed(ValueError("x"))
    assert not notes.told


def test_more_than_is_read_at_once_still_has_its_ends(notes: StartNotes) -> None:
    notes.doing("importing shop:app")
    os.write(notes.descriptor, b"x" * 200_000 + b"\n")
    notes.failed(ConfigError("why"))
    assert (notes.last(), notes.error()) == ("importing shop:app", "why")


@pytest.mark.processes
def test_a_crash_of_native_code_has_its_line(notes: StartNotes, tmp_path: Path) -> None:
    code = worker(
        notes,
        tmp_path,
        """
        import os, signal
        def load():
            os.kill(os.getpid(), signal.SIGSEGV)
        load()
        """,
    )
    assert code == -11
    assert notes.place() == notes.place(crash=True) == f"{tmp_path}/shop.py line 4 in load"
    assert notes.last() == "importing shop:app"


@pytest.mark.processes
def test_an_import_that_hangs_has_the_line_at_which_it_stands(notes: StartNotes, tmp_path: Path) -> None:
    code = worker(
        notes,
        tmp_path,
        """
        import os, sys
        def connect():
            while not os.pread(int(sys.argv[1]), 200_000, 0).count(b"in connect"):
                pass
            os._exit(7)
        connect()
        """,
    )
    assert code == 7
    assert notes.place().startswith(f"{tmp_path}/shop.py line ")
    assert notes.place().endswith(" in connect")
    assert notes.place(crash=True) == "", "it has not crashed there"


@pytest.mark.processes
def test_an_import_that_closes_what_its_parent_left_open_still_has_its_reason(
    notes: StartNotes, tmp_path: Path
) -> None:
    assert worker(notes, tmp_path, "import os\nos.closerange(3, 256)\nraise ValueError('no')\n") == 1
    assert notes.error() == "ValueError: no"


@pytest.mark.processes
def test_without_start_timeout_it_is_looked_at_all_the_same(notes: StartNotes, tmp_path: Path) -> None:
    assert worker(notes, tmp_path, "", start_timeout=0) == 0
    assert notes.error() == ""


def test_below_a_low_limit_of_descriptors_the_notes_have_any_number() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        made = StartNotes.new()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    made.doing("importing shop:app")
    assert made.last() == "importing shop:app"
    os.close(made.descriptor)
