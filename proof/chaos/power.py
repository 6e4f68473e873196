"""Power losses of a store server's host: what the server had not synced when it was killed is gone when it starts again.

A launcher stands in for the server's program (`--store-bin`). It loads fsync_shim.c into the server, which notes what the server has
synced, and before each start it does to the files what `lose_power` asked for:

- of a file is left what a successful fsync or fdatasync of it had covered; one that was never synced is empty;
- in a directory that was synced once, the names are those of its last sync: what was made, renamed or removed since then is undone.

The disk keeps everything that was synced and nothing else, which is the worst that it may do. Not modelled: a disk that lies, a
write in the middle of a file (an append-only file has none), a truncation (it counts at once), and directories that were never
synced (theirs are the names that are there; the server makes its directory once, long before any accident).
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from atf.embedded import find_binary
from atf.errors import AtfError

_SOURCE: Final = Path(__file__).with_name("fsync_shim.c")
_ROOT: Final = Path(__file__).parents[2]
_COMPILERS: Final = ("cc", "gcc", "clang", "tcc")


class NotRun(Exception):
    """Power losses can't be played here; the text says what is missing."""


class Power:
    """The power supply of one store server.

    Args:
        binary: the server's program.
        files: the directory in which the server keeps its files.
        folder: for what is noted here; on the same file system as `files`, and not within.

    Raises:
        NotRun: there is no C compiler, or the program can't be followed.
    """

    def __init__(self, binary: Path, files: Path, folder: Path) -> None:
        self.state = folder
        (folder / "inodes").mkdir(parents=True)
        self.launcher = folder / "store-server"
        shim = compiled(folder)
        _loads(binary, shim)
        files.mkdir(parents=True, exist_ok=True)
        again = shlex.join([sys.executable, "-P", "-m", __spec__.name, str(files.resolve()), str(folder)])
        script = (
            f"#!/bin/sh\n[ -e {shlex.quote(str(folder / 'lost'))} ] && [ $# -gt 1 ] &&"
            f" {{ PYTHONPATH={shlex.quote(str(_ROOT))} {again} >>{shlex.quote(str(folder / 'said'))} 2>&1 || exit 1; }}\n"
            f"export LD_PRELOAD={shlex.quote(str(shim))} ATF_POWER_DIR={shlex.quote(str(files.resolve()))}"
            f" ATF_POWER_STATE={shlex.quote(str(folder))}\n"
            f'exec {shlex.quote(str(binary))} "$@"\n'
        )
        self.launcher.write_text(script, "utf-8")
        self.launcher.chmod(0o755)

    def lose_power(self) -> None:
        """From now on the server's next start finds only what was synced. The caller kills the server right after."""
        (self.state / "lost").touch()

    @property
    def said(self) -> list[str]:
        """A line for every power loss: what went."""
        path = self.state / "said"
        return path.read_text("utf-8").splitlines() if path.exists() else []


def available(binary: Path | None = None) -> str:
    """ "" or why no power loss can be played here."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            _loads(binary or find_binary().path, compiled(Path(folder)))
        except (NotRun, AtfError) as why:
            return str(why)
    return ""


def compiled(folder: Path) -> Path:
    """The shim as a library in `folder`.

    Raises:
        NotRun: there is no C compiler, or it fails.
    """
    compiler = next(filter(None, map(shutil.which, _COMPILERS)), None)
    if compiler is None:
        raise NotRun(f"no C compiler ({', '.join(_COMPILERS)})")
    library = folder / "fsync_shim.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(_SOURCE), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotRun(f"{compiler} can't compile the fsync shim: {done.stderr.strip()[-300:]}")
    return library


def _loads(binary: Path, shim: Path) -> None:
    """Raises NotRun unless the loader puts the shim into the program."""
    env = {**os.environ, "LD_PRELOAD": str(shim), "LD_TRACE_LOADED_OBJECTS": "1"}
    try:
        done = subprocess.run([binary, "--version"], env=env, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRun(f"{binary} does not start: {error}") from error
    if shim.name not in done.stdout:
        raise NotRun(f"{binary} is a static program: nothing can be loaded into it")


@dataclass(slots=True)
class Cut:
    """What a power loss took: bytes of files, and names that were made, removed or given to another file."""

    lost_bytes: int = 0
    names: int = 0


def rewind(files: Path, state: Path) -> Cut:
    """Takes from the files below `files` what the journal in `state` does not name as synced; starts a new journal."""
    synced, listings = _journal(state / "journal")
    cut = Cut()
    for directory, names in listings.items():
        for each in directory.iterdir() if directory.is_dir() else ():
            if each.is_file() and each.name not in names:
                each.unlink()
                cut.names += 1
        for name, inode in names.items():
            path = directory / name
            if not path.exists() or path.stat().st_ino != inode:
                path.unlink(missing_ok=True)
                os.link(state / "inodes" / str(inode), path)
                cut.names += 1
    for path in (each for each in sorted(files.rglob("*")) if each.is_file()):
        is_now = path.stat()
        keep = synced.get(is_now.st_ino, 0)
        if is_now.st_size > keep:
            os.truncate(path, keep)
            cut.lost_bytes += is_now.st_size - keep
    _settle(files, state, listings)
    return cut


def _journal(path: Path) -> tuple[dict[int, int], dict[Path, dict[str, int]]]:
    """Synced bytes by inode, and the names in each synced directory with their inodes."""
    synced: dict[int, int] = {}
    listings: dict[Path, dict[str, int]] = {}
    names: dict[str, int] = {}
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        kind, _, rest = line.partition(" ")
        if kind == "D":
            listings[Path(rest)] = names = {}
            continue
        inode, _, what = rest.partition(" ")
        if kind == "S":
            synced[int(inode)] = int(what)
        else:
            names[what] = int(inode)
    return synced, listings


def _settle(files: Path, state: Path, directories: dict[Path, dict[str, int]]) -> None:
    """A new journal: what is there now is on the disk."""
    shutil.rmtree(state / "inodes")
    (state / "inodes").mkdir()
    lines = []
    for path in (each for each in sorted(files.rglob("*")) if each.is_file()):
        inode = path.stat().st_ino
        os.link(path, state / "inodes" / str(inode))
        lines.append(f"S {inode} {path.stat().st_size}")
    for directory in directories:
        lines.append(f"D {directory}")
        lines += [f"E {each.stat().st_ino} {each.name}" for each in sorted(directory.iterdir()) if each.is_file()]
    (state / "journal").write_text("".join(f"{line}\n" for line in lines), "utf-8")


def main() -> None:
    """What the launcher calls: FILES STATE."""
    files, state = Path(sys.argv[1]), Path(sys.argv[2])
    cut = rewind(files, state)
    (state / "lost").unlink()
    print(f"{cut.lost_bytes} bytes and {cut.names} names", flush=True)


if __name__ == "__main__":
    main()
