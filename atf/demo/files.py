"""Makes the files that the demo hashes, and computes their hashes itself.

A Dropbox content hash is the SHA-256 of the concatenated SHA-256 digests of the file's blocks of 4 MiB. The lambda computes
it by code of its own (lambdas.py), which this module must not use.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from atf.errors import InvalidArgument

BLOCK_BYTES: Final = 4 << 20


class KnownFile(NamedTuple):
    """A regular file as the demo found it."""

    path: str
    size: int
    modified_ns: int
    hash: str

    def changed(self) -> bool:
        """Whether it is gone or another file now: then no hash of it can be expected."""
        try:
            now = os.lstat(self.path)
        except OSError:
            return True
        return (now.st_size, now.st_mtime_ns) != (self.size, self.modified_ns)


def directories(given: Path | None) -> list[Path]:
    """Where to look: the directory given, or the running Python's standard library and installed packages.

    Raises:
        InvalidArgument: it is no directory, or may not be read.
    """
    if given is None:
        found = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        return sorted(each for each in found if not any(each.is_relative_to(other) for other in found - {each}))
    if not given.exists():
        raise InvalidArgument(f"{given}: there is no such directory")
    if not given.is_dir():
        raise InvalidArgument(f"{given} is no directory; give one with files to hash")
    try:
        next(os.scandir(given), None)
    except OSError as error:
        raise InvalidArgument(f"{given} can't be read: {error.strerror}") from error
    return [given.resolve()]


def read_files(roots: Sequence[Path], most: int) -> Iterator[KnownFile]:
    """Hashes up to `most` regular files under the roots, in an order that repeats. Files that can't be read are passed over."""
    count = 0
    for path in _regular_files(roots):
        if count == most:
            return
        try:
            before = os.lstat(path)
            yield KnownFile(path, before.st_size, before.st_mtime_ns, content_hash(path))
        except OSError:
            continue
        count += 1


def content_hash(path: str) -> str:
    """The Dropbox content hash of a file, in hexadecimal."""
    digests = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(BLOCK_BYTES):
            digests.update(hashlib.sha256(block).digest())
    return digests.hexdigest()


def _regular_files(roots: Iterable[Path]) -> Iterator[str]:
    for root in roots:
        for folder, folders, names in os.walk(root):
            folders.sort()
            for name in sorted(names):
                path = os.path.join(folder, name)  # noqa: PTH118  a Path per file would take longer than its hash
                if _is_regular(path):
                    yield path


def _is_regular(path: str) -> bool:
    try:
        path.encode()  # a payload is JSON: a name that is no UTF-8 can't travel in it
        return stat.S_ISREG(os.lstat(path).st_mode)
    except (OSError, UnicodeEncodeError):
        return False
