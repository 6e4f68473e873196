"""Plays seeds in processes of their own, several at a time: what one seed leaves behind is gone with its process."""

from __future__ import annotations

import gc
import json
import os
import select
import traceback
from collections.abc import Iterable, Iterator

from .play import Result, play


def play_all(seeds: Iterable[tuple[int, str]], jobs: int) -> Iterator[tuple[str, Result]]:
    """Plays seeds, each with the mutant given beside it ("" for none), as they come to their ends.

    Args:
        seeds: seed and mutant.
        jobs: how many at a time.
    """
    waiting = iter(seeds)
    running: dict[int, tuple[int, str, int, bytearray]] = {}  # pipe -> seed, mutant, pid, what came
    while True:
        while len(running) < jobs and (following := next(waiting, None)) is not None:
            pipe, pid = _start(*following)
            running[pipe] = (*following, pid, bytearray())
        if not running:
            return
        for pipe in select.select(list(running), [], [])[0]:
            seed, mutant, pid, came = running[pipe]
            data = os.read(pipe, 1 << 20)
            if data:
                came += data
                continue
            os.close(pipe)
            del running[pipe]
            _, status = os.waitpid(pid, 0)
            yield mutant, _result(seed, bytes(came), status)


def _start(seed: int, mutant: str) -> tuple[int, int]:
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write_end)
        return read_end, pid
    code = 1
    try:
        gc.disable()  # nothing of a killed process may be finalized, and all of it goes soon
        with os.fdopen(write_end, "w", encoding="utf-8") as file:
            json.dump(play(seed, mutant).as_json(), file)
        code = 0
    except BaseException:  # noqa: BLE001  the last place that can say it
        traceback.print_exc()
    finally:
        os._exit(code)


def _result(seed: int, came: bytes, status: int) -> Result:
    if status:
        return Result(seed, wrong=[("BROKEN", "", f"its process ended with status {status}")])
    return Result.from_json(json.loads(came))
