"""A booted machine within this one: systemd as process 1 over a copy of the root, where deploy/systemd runs.

It has namespaces of its own for processes, mounts, IPC and names; the network is this machine's. What it writes lies in an overlay in memory and
is gone with it. /out is shared: there its services write what is to be judged.

    async with BootedMachine(folder) as machine:
        machine.install("a")
        await machine.boot()
        await machine.systemctl("start", "atf.target")
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, Self

from atf import __version__

from .frame import ROOT

UNITS: Final = ROOT / "deploy" / "systemd"
PYTHON: Final = Path(f"/usr/bin/python3.{sys.version_info.minor}")
"""Units see no interpreter in somebody's home."""
_SYSTEMD: Final = Path("/lib/systemd/systemd")
_BOOT_S: Final = 60.0
_PREPARE: Final = r"""
set -e
mount --make-rprivate /
mount -t tmpfs -o size=3g tmpfs "$1"
cd "$1" && mkdir up work root
mount -t overlay -o lowerdir=/,upperdir=up,workdir=work overlay root
cd root
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
for each in run tmp dev; do mount -t tmpfs -o mode=755 tmpfs $each; done
chmod 1777 tmp
for each in null zero full random urandom tty; do touch dev/$each; mount --bind /dev/$each dev/$each; done
mkdir dev/shm dev/pts && mount -t tmpfs tmpfs dev/shm && ln -s /proc/self/fd dev/fd
mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts && ln -s pts/ptmx dev/ptmx
mount -t tmpfs tmpfs sys/fs/cgroup && mkdir sys/fs/cgroup/systemd
mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
mkdir -p out opt etc/atf .before
mount --bind "$2" out
rm -rf etc/systemd/system/*
cp -r out/machine/. .
pivot_root . .before
umount -l /.before
export container=other
exec /lib/systemd/systemd --system --unit=booted.target --log-target=journal --show-status=no < /dev/null
"""
_TARGET: Final = """\
[Unit]
Description=What runs before ATF does
Requires=basic.target
After=basic.target
AllowIsolate=yes
"""
_MASKED: Final = (
    "systemd-udevd.service", "systemd-udev-trigger.service", "systemd-sysctl.service", "systemd-journal-flush.service", "systemd-timesyncd.service", "systemd-tmpfiles-clean.timer",
    "network-online.target", "getty.target",
)  # fmt: skip
"""What would reach for this machine's kernel, clock, devices or network."""


def available() -> str:
    """Why no machine can be booted here; "" where one can."""
    if sys.platform != "linux" or not _SYSTEMD.exists():
        return "no systemd is installed"
    if not PYTHON.exists():
        return f"no {PYTHON}"
    if os.geteuid() != 0:
        return "a machine of one's own needs root"
    missing = [each for each in ("unshare", "nsenter", "pivot_root") if shutil.which(each) is None]
    if missing:
        return f"no `{missing[0]}` command (util-linux)"
    tried = subprocess.run(
        ["unshare", "-pmiuCf", "mount", "--make-rprivate", "/"], capture_output=True, text=True, check=False
    )
    return f"no namespaces: {tried.stderr.strip()}" if tried.returncode else ""


class BootedMachine:
    """A machine that runs the units of deploy/systemd. Args: folder: of its own; what it shares with us is there, in `out`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.out = folder, folder / "out"
        self._root = folder / "root"
        self.files = self.out / "machine"
        """What is laid over the root when it boots: etc/atf/atf.toml is /etc/atf/atf.toml there."""
        self._process: asyncio.subprocess.Process | None = None
        self._init = 0
        for each in (self._root, self.files / "etc" / "systemd" / "system", self.files / "etc" / "atf"):
            each.mkdir(parents=True)
        self.out.chmod(0o777)

    def write(self, path: str, text: str) -> None:
        """A file of the machine. Before it boots."""
        to = self.files / path
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(text, "utf-8")

    def install(self, name: str) -> None:
        """ATF as a user has it, from a wheel, with what it needs from our environment, in /opt/NAME. Before the machine boots."""
        home = self.files / "opt" / name
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "python").symlink_to(PYTHON)
        (home / "pyvenv.cfg").write_text(f"home = {PYTHON.parent}\ninclude-system-site-packages = false\n", "utf-8")
        pins = self._folder / "pins.txt"
        lines = (ROOT / "requirements" / "dev.txt").read_text("utf-8").splitlines()
        pins.write_text("\n".join(line.split()[0] for line in lines if line[:1].isalnum()), "utf-8")
        python = [sys._base_executable, "-m", "pip", "--python", home / "bin" / "python"]  # type: ignore[attr-defined]  # noqa: SLF001
        _run(*python, "install", "-q", "--no-compile", "--constraint", pins, f"{self._wheel()}[server]")
        # As the script is that pip makes, whose first line names where it was made.
        atf = home / "bin" / "atf"
        atf.write_text(f"#!/opt/{name}/bin/python\nimport sys\nfrom atf.cli import main\nsys.exit(main())\n", "utf-8")
        atf.chmod(0o755)

    def _wheel(self) -> Path:
        """Of the code under test."""
        source, made = self._folder / "source", self._folder / "wheel"
        if not made.exists():
            left_out = shutil.ignore_patterns(".*", "__pycache__", "build", "docs", "proof", "tests")
            shutil.copytree(ROOT, source, ignore=left_out)
            command = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
            made.mkdir()
            _run(sys.executable, "-c", command, made, cwd=source)
        return next(made.glob("*.whl"))

    def copy(self, name: str, to: str) -> None:
        """The same code again, which calls itself another version."""
        there = self.files / "opt" / to
        shutil.copytree(self.files / "opt" / name, there, symlinks=True)
        script = there / "bin" / "atf"
        script.write_text(script.read_text("utf-8").replace(f"/opt/{name}/", f"/opt/{to}/"), "utf-8")
        version = there / "lib" / PYTHON.name / "site-packages" / "atf" / "__init__.py"
        version.write_text(version.read_text("utf-8").replace(__version__, f"{__version__}.post1"), "utf-8")

    def link(self, path: str, to: str) -> None:
        """A symbolic link. Before it boots."""
        (self.files / path).symlink_to(to)

    async def boot(self) -> None:
        """Returns once systemd takes commands.

        Raises:
            TimeoutError: it does not.
        """
        shutil.copytree(UNITS, self.files / "etc" / "systemd" / "system", dirs_exist_ok=True)
        self.write("etc/systemd/system/booted.target", _TARGET)
        for each in _MASKED:
            (self.files / "etc" / "systemd" / "system" / each).symlink_to("/dev/null")
        command = ["unshare", "-pmiuCf", "--kill-child", "sh", "-c", _PREPARE, "booted", self._root, self.out]
        with (self.out / "boot.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *map(str, command), stdout=log, stderr=log, start_new_session=True
            )
        async with asyncio.timeout(_BOOT_S):
            while not self._init or (await self.inside("systemctl", "is-active", "booted.target"))[0]:
                await asyncio.sleep(0.2)
                self._init = _child_of(self._process.pid)

    async def systemctl(self, *words: str) -> str:
        """What it says.

        Raises:
            OSError: it has failed; the text has its words.
        """
        code, said = await self.inside("systemctl", *words)
        if code:
            raise OSError(f"systemctl {' '.join(words)}: {said}")
        return said

    async def inside(self, *words: str) -> tuple[int, str]:
        """Runs a command there; its exit code, and what it says."""
        process = await asyncio.create_subprocess_exec(
            *("nsenter", "-t", str(self._init), "-p", "-m", "-i", "-u", "-C", *words),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        said, _ = await process.communicate()
        return process.returncode or 0, said.decode("utf-8", "replace")

    async def journal(self) -> str:
        """What everything there has logged."""
        return (await self.inside("journalctl", "--no-pager", "--boot"))[1]

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()  # --kill-child: the machine's process 1 goes with it, and with that all others
            await self._process.wait()


def _run(*words: Any, cwd: Path | None = None) -> None:
    done = subprocess.run([*map(str, words)], cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{words[0]} … {words[-1]}: {done.stderr[-2000:]}")


def _child_of(pid: int) -> int:
    """Its only child; 0: it has none yet."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("utf-8").split()
    return int(children[0]) if children else 0
