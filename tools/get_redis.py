"""Fetches Debian's or Ubuntu's Redis for tests, without root and without installing anything.

    python3 tools/get_redis.py .build/redis-7.0 7.0

What apt offers is unpacked into the folder, with a starter `redis-server` in it. Where that is not to be had, or is of another
version, the file `why-not` says why and is printed; that is no failure, since the tests run on other servers all the same.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PACKAGE = "redis-tools"
"""Holds the server's program, too; the package redis-server starts it with the system."""
NEEDED = ("apt-get", "apt-cache", "dpkg-deb")
TIMEOUT_S = 300


class NotFetched(Exception):
    """Why there is no such Redis here."""


def main() -> None:
    folder, version = Path(sys.argv[1]), sys.argv[2]
    if (folder / "redis-server").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        fetch(folder, version)
    except NotFetched as error:
        (folder / "why-not").write_text(f"{error}\n", encoding="utf-8")
        print(f"not run on Redis {version}: {error}", file=sys.stderr)


def fetch(folder: Path, version: str) -> None:
    """Unpacks the server into `folder`.

    Raises:
        Unavailable: apt is not there, does not answer, or has another version.
    """
    missing = [name for name in NEEDED if shutil.which(name) is None]
    if missing:
        raise NotFetched(f"this system has no {missing[0]} to fetch it with")
    with tempfile.TemporaryDirectory() as scratch:
        lists = own_lists(Path(scratch)) if not offered([]) else []
        found = offered(lists)
        if not found:
            raise NotFetched(f"apt knows no package {PACKAGE}")
        if not re.match(rf"(\d+:)?{re.escape(version)}\.", found):
            raise NotFetched(f"apt has Redis {found.rpartition(':')[2]}")
        try:
            run("apt-get", *lists, "download", *wanted(lists), cwd=scratch)
        except NotFetched:
            if lists:
                raise
            lists = own_lists(Path(scratch))  # the system's lists may be older than what the mirror keeps
            run("apt-get", *lists, "download", *wanted(lists), cwd=scratch)
        for each in Path(scratch).glob("*.deb"):
            run("dpkg-deb", "-x", str(each), str(folder.absolute()))
    start(folder.absolute())


def offered(options: list[str]) -> str:
    """The version that apt would install; empty where it knows none."""
    match = re.search(r"Candidate: (\d\S*)", run("apt-cache", *options, "policy", PACKAGE))
    return match[1] if match else ""


def wanted(options: list[str]) -> list[str]:
    """The package, and what it needs that the system lacks."""
    told = run("apt-get", *options, "install", "--simulate", "--reinstall", "--no-install-recommends", PACKAGE)
    return re.findall(r"^Inst (\S+) ", told, re.MULTILINE)


def own_lists(scratch: Path) -> list[str]:
    """Options for apt to go by lists of packages of its own, which are fetched now: nobody but root may renew the system's."""
    for name in ("lists/partial", "cache/archives/partial"):
        (scratch / name).mkdir(parents=True, exist_ok=True)
    options = ["-o", f"Dir::State::lists={scratch}/lists", "-o", f"Dir::Cache={scratch}/cache"]
    run("apt-get", *options, "update")
    return options


def start(folder: Path) -> None:
    """Writes the starter, which finds the libraries, and tries it."""
    library = next(iter(folder.glob("usr/lib/*-linux-gnu*")), folder / "usr/lib")
    program = folder / "usr/bin/redis-server"
    if not program.exists():
        program.symlink_to("redis-check-rdb")  # one program; it goes by the name that it is called by
    starter = folder / "redis-server.new"
    starter.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={library} exec {program} "$@"\n', encoding="utf-8")
    starter.chmod(0o755)
    print(run(str(starter), "--version").strip())
    starter.rename(folder / "redis-server")


def run(*command: str, cwd: str | None = None) -> str:
    """What a program writes.

    Raises:
        Unavailable: it failed.
    """
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotFetched(f"{command[0]}: {error}") from None
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "no word").splitlines()[-1]
        raise NotFetched(f"{command[0]} failed: {said}")
    return done.stdout


if __name__ == "__main__":
    main()
