"""The content hash, by the demo and by its lambda; and which files are taken."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import pytest

from atf.demo import files, lambdas
from atf.errors import InvalidArgument

BLOCK = 4 * 1024 * 1024


def by_definition(data: bytes) -> str:
    blocks = [data[start : start + BLOCK] for start in range(0, len(data), BLOCK)]
    return hashlib.sha256(b"".join(hashlib.sha256(block).digest() for block in blocks)).hexdigest()


@pytest.mark.parametrize("size", [0, 1, 65_536, 65_537, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 2 * BLOCK + 70_000])
def test_both_computations_follow_the_definition(tmp_path: Path, size: int) -> None:
    data = (bytes(range(251)) * (size // 251 + 1))[:size]
    path = tmp_path / "file"
    path.write_bytes(data)
    assert files.content_hash(str(path)) == by_definition(data)
    assert lambdas.read_hash(str(path)) == (by_definition(data), size)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        (b"abc", "4f8b42c22dd3729b519ba6f68d2da7cc5b2d606d05daed5ad5128cc03e6c6358"),
        (b"hello", "9595c9df90075148eb06860365df33584b75bff782a510c6cd4883a419833d50"),
    ],
)
def test_known_hashes(tmp_path: Path, data: bytes, expected: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert files.content_hash(str(path)) == expected
    assert lambdas.read_hash(str(path))[0] == expected


def test_a_vanished_file_has_no_hash(tmp_path: Path) -> None:
    assert lambdas.read_hash(str(tmp_path / "none")) == ("", 0)


def test_only_regular_files_are_taken_in_an_order_that_repeats(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z", "b/y", "a"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / os.fsdecode(b"\xff")).write_text("no UTF-8")
    found = list(files.read_files([tmp_path], 10))
    assert [Path(each.path).name for each in found] == ["a", "z", "y"]
    assert [each.path for each in files.read_files([tmp_path], 2)] == [each.path for each in found[:2]]


def test_a_file_that_is_written_or_removed_has_changed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("one")
    (known,) = files.read_files([tmp_path], 1)
    assert not known.changed()
    path.write_text("more")
    assert known.changed()
    path.unlink()
    assert known.changed()


def test_a_directory_must_exist_and_be_one(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="no such directory"):
        files.directories(tmp_path / "none")
    with pytest.raises(InvalidArgument, match="no directory"):
        files.directories(tmp_path / "file")


def test_by_default_the_standard_library_is_read() -> None:
    roots = files.directories(None)
    assert any((root / "asyncio").is_dir() for root in roots)
    assert len(list(files.read_files(roots, 50))) == 50
