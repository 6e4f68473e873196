"""`make fuzz-doors [COUNT=20000] [SEED=1]`: damaged tokens, metadata and cookies at every door; none lets anybody in, ends anything, or is logged."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from atf.bench import proc
from proof.benchmarks.stores import LoopbackStore
from proof.chaos import frame

from .trials import FuzzTally, fuzz, fuzzed_server

_ROOT: Final = Path(__file__).parents[2]
_RESULTS: Final = _ROOT / "proof" / "results" / "fuzz"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="make fuzz-doors", description="Shows what is not valid at every door of a server."
    )
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--results", type=Path, default=_RESULTS)
    return asyncio.run(_run(parser.parse_args()))


async def _run(given: argparse.Namespace) -> int:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="atf-fuzz-") as folder:
        store = LoopbackStore(Path(folder) / "store", cluster=False)
        await store.start()
        try:
            async with fuzzed_server(store.url, given.seed) as server:
                tally = await fuzz(server, given.count, given.seed)
        finally:
            await store.stop(0)
    path = _write(given, tally, time.monotonic() - began)
    print(path.read_text(encoding="utf-8"), path)
    return 1 if tally.findings else 0


def _write(given: argparse.Namespace, tally: FuzzTally, seconds: float) -> Path:
    result = {
        "status": f"failed: {len(tally.findings)} findings" if tally.findings else "ok",
        "code": frame.code(),
        "seed": given.seed,
        **asdict(tally) | {"answers": {door: dict(sorted(each.items())) for door, each in tally.answers.items()}},
        "seconds": round(seconds, 1),
        "cpu": proc.cpu_model(),
        "cores": os.cpu_count(),
    }
    given.results.mkdir(parents=True, exist_ok=True)
    path: Path = given.results / f"{datetime.now(UTC):%Y-%m-%d}-fuzz-{frame.code()}.json"
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return path


if __name__ == "__main__":
    sys.exit(main())
