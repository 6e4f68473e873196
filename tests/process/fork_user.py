"""A program that schedules, forks, and schedules on both sides, as a preforked web server does. Exit code 0: all went well.

python fork_user.py idle | busy | waiting | own_loop
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable

import atf

app = atf.App("fork")
HANG = 20.0
"""Seconds after which a child that has not ended hangs."""


@app.task
def echo(number: int) -> dict[str, int]:
    return {"number": number}


@app.task
def slow() -> None: ...


def check(number: int) -> None:
    assert echo.schedule(number).result(timeout=10) == {"number": number}


def check_on_own_loops(number: int) -> None:
    async def ask() -> None:
        async with atf.AsyncClient() as client:
            handle = await client.schedule(echo.prepare(number))
            assert await handle.result_async(timeout=10) == {"number": number}
        handle = await echo.schedule_async(number)
        assert await handle.result_async(timeout=10) == {"number": number}

    asyncio.run(ask())
    asyncio.run(ask())


def child(number: int, ask: Callable[[int], None]) -> None:
    for each in range(10):
        ask(number + each)
    if number == 2000:  # a child that forks again
        wait_for([fork(3000, ask)])
        ask(number)


def fork(number: int, ask: Callable[[int], None]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        child(number, ask)
        code = 0
    except Exception:  # noqa: BLE001  the parent learns of it by the exit code
        traceback.print_exc()
    if number == 1000:
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)  # through the interpreter's own end


def wait_for(pids: list[int]) -> None:
    end = time.monotonic() + HANG
    for pid in pids:
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
            if time.monotonic() > end:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                sys.exit(f"child {pid} hangs")
            time.sleep(0.005)
        if status:
            sys.exit(f"child {pid} ended with status {status}")


def main(mode: str) -> None:
    ask = check_on_own_loops if mode == "own_loop" else check
    done = threading.Event()
    failed: list[BaseException] = []

    def keep_busy() -> None:
        try:
            while not done.is_set():
                ask(7)
        except BaseException as error:
            failed.append(error)
            raise

    def wait_long() -> None:
        try:
            slow.schedule().result(timeout=3)
        except TimeoutError:
            return
        except BaseException as error:
            failed.append(error)
            raise

    ask(1)
    target = {"busy": keep_busy, "waiting": wait_long, "own_loop": keep_busy}.get(mode)
    threads = [threading.Thread(target=target, daemon=True) for _ in range(2 if target else 0)]
    for thread in threads:
        thread.start()
    begun = time.monotonic()
    children = []
    for number in (1000, 2000, 4000):
        children.append(fork(number, ask))
        ask(number)
    forked = time.monotonic() - begun
    wait_for(children)
    ask(2)
    done.set()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert not failed, failed
    print(f"ok {forked:.3f}")


if __name__ == "__main__":
    main(sys.argv[1])
