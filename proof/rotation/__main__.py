"""`make rotation [SECONDS=300]`: certificates and token replaced every 5 s under 500 calls a second; no call may fail.

What was counted is kept after each minute: a run that was ended goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from atf.bench import proc
from proof.benchmarks.stores import LoopbackStore
from proof.chaos import frame

from .calls import rotate_under_load
from .secured import secured_frontend

_ROOT: Final = Path(__file__).parents[2]
_RESULTS: Final = _ROOT / "proof" / "results" / "rotation"
_PART_S: Final = 60.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="make rotation", description="Replaces certificates and token under load.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--every", type=float, default=5, help="seconds between two replacements")
    parser.add_argument("--rate", type=int, default=500, help="calls a second")
    parser.add_argument("--results", type=Path, default=_RESULTS)
    parser.add_argument("--progress", type=Path, default=_ROOT / ".build" / "rotation.json")
    return asyncio.run(_run(parser.parse_args()))


async def _run(given: argparse.Namespace) -> int:
    asked = {"seconds": given.seconds, "every": given.every, "rate": given.rate, "code": frame.code()}
    before = json.loads(given.progress.read_text()) if given.progress.exists() else {}
    parts: list[dict[str, Any]] = before["parts"] if before.get("asked") == asked else []
    with tempfile.TemporaryDirectory(prefix="atf-rotation-") as folder:
        store = LoopbackStore(Path(folder) / "store", cluster=False)
        await store.start()
        try:
            async with secured_frontend(store.url, Path(folder)) as (secured, authority):
                while (left := given.seconds - sum(each["seconds"] for each in parts)) > 0:
                    seconds = min(left, _PART_S)
                    tally = await rotate_under_load(
                        secured, authority, seconds=seconds, every=given.every, rate=given.rate
                    )
                    parts.append({"seconds": seconds, **asdict(tally)})
                    given.progress.parent.mkdir(parents=True, exist_ok=True)
                    given.progress.write_text(json.dumps({"asked": asked, "parts": parts}))
                    print(parts[-1], flush=True)
        finally:
            await store.stop(0)
    path = _write(given, asked, parts)
    print(path)
    given.progress.unlink()
    return 1 if json.loads(path.read_text())["status"] != "ok" else 0


def _write(given: argparse.Namespace, asked: dict[str, Any], parts: list[dict[str, Any]]) -> Path:
    failed, calls = (sum(each[name] for each in parts) for name in ("failed", "calls"))
    result = {
        "status": f"failed: {failed} calls" if failed else "ok",
        **asked,
        "calls": calls,
        "rate_reached": round(calls / sum(each["seconds"] for each in parts), 1),
        "failed": failed,
        "rotations": sum(each["rotations"] for each in parts),
        "slowest_ms": max(each["slowest_ms"] for each in parts),
        "errors": [error for each in parts for error in each["errors"]],
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
    }
    given.results.mkdir(parents=True, exist_ok=True)
    path: Path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-rotation-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n")
    return path


if __name__ == "__main__":
    sys.exit(main())
