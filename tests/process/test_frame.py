"""The frame around a role, in real processes: signals, readiness, exit codes, and what an ending says."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import textwrap
from asyncio.subprocess import DEVNULL, PIPE, Process

import pytest

from .roles import end, line

PRELUDE = """
import asyncio
from atf.config.settings import LogSettings
from atf.errors import *
from atf.process.role import run_role

async def body(process):
{body}

raise SystemExit(run_role("tester", body, LogSettings(log_format="json")))
"""


async def start(body: str, **environment: str) -> Process:
    code = PRELUDE.format(body=textwrap.indent(textwrap.dedent(body), "    "))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-c", code, stderr=PIPE, env={**os.environ, **environment}
    )


WAITS = """
process.ready("127.0.0.1:1")
await process.stopping.wait()
process.log.info("drained")
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
async def test_a_signal_drains_and_ends_with_0(number: signal.Signals) -> None:
    process = await start(WAITS)
    ready = await line(process, "ready")
    assert (ready["role"], ready["pid"], ready["address"]) == ("tester", process.pid, "127.0.0.1:1")
    process.send_signal(number)
    assert (await line(process, "stopping"))["why"] == number.name
    await line(process, "drained")
    assert await end(process) == 0


async def test_signals_within_a_second_are_one_and_another_one_ends_at_once() -> None:
    process = await start(
        """
        process.ready()
        await process.stopping.wait()
        await asyncio.sleep(600)
        """
    )
    await line(process, "ready")
    process.send_signal(signal.SIGTERM)
    await line(process, "stopping")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGHUP)
    await asyncio.sleep(1.05)
    assert process.returncode is None
    process.send_signal(signal.SIGHUP)  # never asks for more than the first signal
    process.send_signal(signal.SIGTERM)
    await line(process, "ending at once")
    assert await end(process) == 128 + signal.SIGTERM


async def test_a_parent_s_word_is_no_signal() -> None:
    process = await start(
        """
        asyncio.get_running_loop().call_later(0.1, process.stop, "the parent asks for it")
        process.ready()
        await process.stopping.wait()
        await asyncio.sleep(2)
        """
    )
    await line(process, "stopping")
    await asyncio.sleep(1.1)
    process.send_signal(signal.SIGTERM)
    assert await end(process) == 0


@pytest.mark.parametrize("ends", [True, False])
async def test_a_role_may_do_something_before_it_ends_at_once(ends: bool) -> None:
    process = await start(
        f"""
        hurry = asyncio.Event()
        process.at_once = lambda: hurry.set() or {ends}
        process.ready()
        await hurry.wait()
        process.log.info("told all")
        """
    )
    await line(process, "ready")
    process.send_signal(signal.SIGTERM)
    await line(process, "stopping")
    await asyncio.sleep(1.05)
    process.send_signal(signal.SIGINT)
    await line(process, "ending at once")
    if ends:
        await line(process, "told all")
    assert await end(process) == 128 + signal.SIGINT


async def test_readiness_is_written_to_the_descriptor_that_the_environment_names() -> None:
    reading, writing = os.pipe()
    code = PRELUDE.format(body=textwrap.indent(WAITS, "    "))
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", code),
        stderr=PIPE,
        env={**os.environ, "ATF_READY_FD": str(writing)},
        pass_fds=(writing,),
    )
    os.close(writing)
    await line(process, "ready")
    written = json.loads(os.read(reading, 4096))
    assert written == {"role": "tester", "address": "127.0.0.1:1", "pid": process.pid}
    assert os.read(reading, 1) == b""  # and closed: whoever reads knows that nothing else will come
    os.close(reading)
    process.terminate()
    assert await end(process) == 0


async def test_a_role_that_never_serves_writes_why_to_that_descriptor() -> None:
    reading, writing = os.pipe()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", PRELUDE.format(body="    raise ConfigError('the sentence')")),
        stderr=DEVNULL,
        env={**os.environ, "ATF_READY_FD": str(writing)},
        pass_fds=(writing,),
    )
    os.close(writing)
    assert await end(process) == 2
    assert json.loads(os.read(reading, 4096)) == {"role": "tester", "error": "the sentence", "pid": process.pid}
    assert os.read(reading, 1) == b""
    os.close(reading)


FIRST = """
import asyncio, os, signal, sys
from atf.config.settings import LogSettings
from atf.process.role import run_role

def first():
    asyncio.run(asyncio.sleep(0))
    {what}

async def body(process):
    process.ready()
    await process.stopping.wait()

sys.exit(run_role("tester", body, LogSettings(log_format="json"), first=first, told=lambda: {told}))
"""


async def test_what_comes_before_the_loop_may_run_one_and_a_stop_meanwhile_is_carried_out_after_it() -> None:
    what = "os.kill(os.getpid(), signal.SIGTERM); print('goes on', file=sys.stderr, flush=True)"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-c", FIRST.format(what=what, told=False)), stderr=PIPE
    )
    assert process.stderr is not None
    assert await process.stderr.readline() == b"goes on\n"
    await line(process, "stopping")
    assert await end(process) == 0


@pytest.mark.parametrize(("told", "level"), [(False, "error"), (True, "info")])
async def test_what_fails_before_the_loop_ends_the_role_like_its_body(told: bool, level: str) -> None:
    what = "from atf.errors import ConfigError; raise ConfigError('the sentence')"
    code = FIRST.format(what=what, told=told)
    process = await asyncio.create_subprocess_exec(*(sys.executable, "-P", "-c", code), stderr=PIPE)
    said = await line(process, "can't go on")
    assert (said["error"], said["level"]) == ("the sentence", level)
    assert await end(process) == 2


@pytest.mark.parametrize(
    ("error", "code"),
    [
        ("ConfigError", 2),
        ("InvalidArgument", 2),
        ("TaskNotFound", 3),
        ("FailedPrecondition", 4),
        ("Unavailable", 4),
        ("Internal", 1),
    ],
)
async def test_an_error_of_ours_ends_with_its_code_and_one_sentence(error: str, code: int) -> None:
    process = await start(f"raise {error}('the sentence')")
    said = await line(process, "can't go on")
    assert (said["error"], said["kind"]) == ("the sentence", error)
    assert "exception" not in said
    assert await end(process) == code


async def test_a_bug_ends_with_1_and_a_traceback() -> None:
    process = await start("1 / 0")
    assert "ZeroDivisionError" in str((await line(process, "ended by a bug"))["exception"])
    assert await end(process) == 1


async def test_the_body_may_choose_the_code() -> None:
    process = await start("return 75")
    assert await end(process) == 75


PERSISTS = """
tries = 0

async def attempt():
    nonlocal tries
    tries += 1
    if tries < 4:
        raise (Unavailable, ResourceExhausted)[tries % 2]("away")
    return tries

assert await process.retry_until_available(attempt, "the thing") == 4
"""


async def test_what_is_away_is_waited_for_and_said_once() -> None:
    process = await start(PERSISTS)
    _, errors = await process.communicate()
    said = [json.loads(each) for each in errors.decode().splitlines()]
    assert [(each["event"], each["need"], each["error"]) for each in said] == [("waiting", "the thing", "away")]
    assert process.returncode == 0


async def test_a_process_that_waits_for_what_is_away_can_be_stopped() -> None:
    process = await start(
        """
        async def attempt():
            raise Unavailable("away")

        await process.retry_until_available(attempt, "the thing")
        """
    )
    await line(process, "waiting")
    process.terminate()
    assert await end(process) == 0
