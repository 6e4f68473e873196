"""Makes a virtual environment from a file of pinned requirements, with nothing but Python 3.11 and its pip.

    python3 tools/make_venv.py .venv requirements/dev.txt --project .

Owns the one way environments are made here. The interpreter it is run with is the one that the environment gets. Where
Python comes without `ensurepip` (Debian without python3-venv) its own pip fills the environment; where it comes without
pip, `ensurepip` does.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import re
import subprocess
import sys
from pathlib import Path

OLDEST_PIP = (22, 3)  # the first with --python


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes a virtual environment from pinned requirements.")
    parser.add_argument("venv", type=Path)
    parser.add_argument("requirements", type=Path)
    parser.add_argument("--project", type=Path, help="the project to install into it, editable")
    args = parser.parse_args()
    make(args.venv, args.requirements, args.project)


def make(venv: Path, requirements: Path, project: Path | None) -> None:
    """Makes `venv` hold `requirements` and `project`; requirements that it holds already are left alone.

    `venv`/.pins says which it holds, and is written when all are in; `venv`/.ready, written last, is what make looks at.
    """
    pins, ready = venv / ".pins", venv / ".ready"
    wanted = stamp(venv, requirements)
    if not pins.exists() or pins.read_text(encoding="utf-8") != wanted:
        print(f"Setting up {venv} from {requirements} ...", flush=True)
        pip = create(venv)
        run([*pip, "install", "--require-hashes", "--requirement", str(requirements)])
        pins.write_text(wanted, encoding="utf-8")
    if project is not None:
        # Its requirements and its build backend are in the environment by now, so that nothing unpinned is fetched.
        run([*pip_of(venv), "install", "--no-deps", "--no-build-isolation", "--editable", str(project)])
    ready.touch()


def stamp(venv: Path, requirements: Path) -> str:
    """What an environment is made of: its pins, its place, and the build of the interpreter, which is not told by its version alone."""
    pins = hashlib.sha256(requirements.read_bytes()).hexdigest()
    return "\n".join([pins, str(venv.absolute()), " ".join(sys.version.split()), sys.base_prefix, ""])


def create(venv: Path) -> list[str]:
    """An empty environment in place of what is there, and the pip that installs into it."""
    lend = own_pip() >= OLDEST_PIP
    if not lend and importlib.util.find_spec("ensurepip") is None:
        sys.exit(
            f"{sys.executable} has neither pip 22.3 or newer nor ensurepip. On Debian or Ubuntu: apt install python3-pip"
        )
    run([sys.executable, "-m", "venv", "--clear", *(["--without-pip"] if lend else []), str(venv)])
    return pip_of(venv)


def pip_of(venv: Path) -> list[str]:
    """The pip that installs into `venv`: its own if it has one, else this interpreter's."""
    inner = str(venv / "bin" / "python")
    if list(venv.glob("lib/python*/site-packages/pip")):
        return [inner, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    return [sys.executable, "-m", "pip", "--python", inner, "--quiet", "--disable-pip-version-check"]


def own_pip() -> tuple[int, ...]:
    """The version of this interpreter's pip; (0,) if it has none."""
    answer = subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True, text=True, check=False)
    found = re.match(r"pip (\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0,)


def run(command: list[str]) -> None:
    """Runs a command with its output let through; a failure of its ends this process too."""
    code = subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    if code:
        sys.exit(f"set-up failed (exit code {code}): {' '.join(command)}")


if __name__ == "__main__":
    main()
