"""Generates atf/rpc/*_pb2.py and their stubs from atf/rpc/*.proto; `--check` only compares.

Run by `make proto` and `make check` in the environment of requirements/proto.txt, from the top of the repository.
No *_pb2_grpc.py: servers and stubs are built from the service descriptors, in atf/rpc/server.py and channel.py.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from importlib.resources import files
from pathlib import Path

from grpc_tools import protoc

FOLDER = Path("atf/rpc")


def main() -> None:
    parser = argparse.ArgumentParser(description="Generates the code in atf/rpc from its .proto files.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the code is not what would be written"
    )
    args = parser.parse_args()
    fresh = generate()
    stale = [path for path, text in fresh.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    left_over = sorted({*FOLDER.glob("*_pb2*.py"), *FOLDER.glob("*_pb2*.pyi")} - fresh.keys())
    if args.check:
        if stale or left_over:
            names = ", ".join(str(path) for path in (*stale, *left_over))
            sys.exit(f"not what {FOLDER}/*.proto says: {names}\nRun `make proto` and commit what it writes.")
        return
    for path in stale:
        path.write_text(fresh[path], encoding="utf-8")
        print(f"wrote {path}")
    for path in left_over:
        path.unlink()
        print(f"removed {path}: it has no .proto")


def generate() -> dict[Path, str]:
    """What each generated file should hold, by its path."""
    protos = sorted(str(path) for path in FOLDER.glob("*.proto"))
    with tempfile.TemporaryDirectory() as folder:
        includes = ["-I.", f"-I{files('grpc_tools') / '_proto'}"]  # the second holds google/protobuf/*.proto
        code = protoc.main(["protoc", *includes, f"--python_out={folder}", f"--pyi_out={folder}", *protos])
        if code:
            sys.exit(f"protoc failed with exit code {code}")
        return {
            path.relative_to(folder): path.read_text(encoding="utf-8")
            for path in sorted(Path(folder).rglob("*_pb2.py*"))
        }


if __name__ == "__main__":
    main()
