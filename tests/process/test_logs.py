"""`atf logs` on a real cluster: threads, coroutines and isolated runs, kept and followed."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .test_up import running, schedule

SHOP = """
import asyncio, logging, os, time
import atf

app = atf.App("shop")
OPTIONS = {"max_attempts": 1, "redact": ["pin"]}

@app.task(**OPTIONS)
def pay(pin: str) -> None:
    print("pin is", pin)
    logging.getLogger("till").warning("no change")
    raise RuntimeError("no")

@app.task(**OPTIONS)
async def pay_async(pin: str) -> None:
    print("pin is", pin)
    await asyncio.sleep(0)
    print("half", end="")
    raise RuntimeError("no")

@app.task(isolate=True, **OPTIONS)
def pay_alone(pin: str) -> None:
    print("pin is", pin)
    os.write(2, b"by C\\n")
    os.abort()

@app.task
def long() -> None:
    for number in range(4):
        print("step", number)
        time.sleep(0.7)
"""


def lines(said: str) -> list[str]:
    """Without the times of day."""
    return [re.sub(r"^\d\d:\d\d:\d\d\.\d\d\d ", "", line) for line in said.splitlines()]


@pytest.mark.timeout(120)
async def test_what_runs_print_is_kept_where_they_fail_and_can_be_followed_while_they_go_on(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    async with running(tmp_path, env, executors=1) as cluster:
        frontend = cluster.frontend_address

        async def logs(*words: str) -> tuple[int | None, str, str]:
            command = [sys.executable, "-P", "-m", "atf.cli", *words, "--frontend", frontend]
            made = await asyncio.create_subprocess_exec(
                *command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env
            )
            out, err = await made.communicate()
            return made.returncode, out.decode(), err.decode()

        long = await schedule(frontend, "shop/long", {})
        ids = [await schedule(frontend, f"shop/{name}", {"pin": "98765"}) for name in ("pay", "pay_async", "pay_alone")]
        code, out, _ = await logs("logs", long, "--follow")
        assert (code, lines(out)) == (0, ["--- run 1, attempt 1 ---", *(f"step {number}" for number in range(4))])
        assert (await logs("logs", long))[1] == out, "it was watched, so it is kept"
        await logs("wait", *ids)
        said = [lines(shown) for _, shown, _ in await asyncio.gather(*(logs("logs", each) for each in ids))]
        assert said[0] == ["--- run 1, attempt 1 ---", "pin is [redacted]", "WARNING till: no change"]
        assert said[1] == ["--- run 1, attempt 1 ---", "pin is [redacted]", "half"]
        assert {"pin is [redacted]", "by C", "Fatal Python error: Aborted"} <= set(said[2])
        assert f"atf logs {ids[0]}" in (await logs("get", ids[0]))[1]
