"""Lambdas with isolate=True on a real worker: a process for each run, which ends alone, and with everything that it started."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import atf
from atf.errors import Internal
from atf.executor.guarding.start_notes import StartNotes
from atf.executor.isolation.packets import pair, receive, unpack
from atf.executor.isolation.runs import IsolatedRuns
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t

from .test_guard import ROOT, FakeFrontend, Guarded, alive, call, guarded

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolated runs need Linux")


async def ended(world: Guarded, *calls: t.Claim) -> dict[str, h.Result]:
    """How tasks have ended with the first worker."""
    await world.give(*calls)
    await world.until(lambda: len(world.hsc.results) == len(calls) or world.process.returncode is not None)
    found = {each.claim.task_id: each for each in world.hsc.results}
    world.hsc.results.clear()
    return found


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def number_in(file: Path) -> int:
    return int(file.read_text())


def value(result: h.Result) -> Any:
    assert result.error == ""
    return json.loads(result.result)


async def test_each_run_has_a_process_of_its_own_and_ends_alone(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    scheduled: list[f.ScheduleRequest] = []

    async def schedule(_self: FakeFrontend, request: f.ScheduleRequest) -> f.ScheduleReply:
        scheduled.append(request)
        return f.ScheduleReply(id="0-made")

    monkeypatch.setattr(FakeFrontend, "schedule", schedule, raising=False)
    async with guarded(app="isolated:app") as world:
        worker = (await world.event())["pid"]
        found = await ended(
            world,
            *(call(f"0-{n}", "whose_alone") for n in range(3)),
            call("0-here", "whose"),
            call("0-store", "reaches_the_store"),
            call("0-store-alone", "reaches_the_store_alone"),
            call("0-context", "context", timeout=60),
            call("0-schedules", "schedules"),
            call("0-more", "starts_more"),
            call("0-wrapped", "wrapped", timeout=60),
            call("0-writes", "writes_past_python", json.dumps({"password": "hunter2"})),
        )
        pids = [value(found[f"0-{n}"]) for n in range(3)]
        assert len({each[0] for each in pids}) == 3
        assert [each[1:] for each in pids] == [[1, False, 1]] * 3, "a fresh process each, without gRPC or threads"
        assert value(found["0-here"])[0] == worker
        for each in ("0-store", "0-store-alone"):
            assert "must not hold the key to everybody's tasks" in value(found[each])
        assert value(found["0-context"]) == ["0-context", "g/context", 1, 1, 1, True, {}, True, False, False]
        assert value(found["0-schedules"]) == "0-made"
        assert value(found["0-more"]) == [14, -signal.SIGTERM, 3]
        assert value(found["0-wrapped"])[1] is True, "what it returned was awaited, with its context"
        assert value(found["0-wrapped"])[0] not in {worker, os.getpid()}, "in its own process"
        assert [getattr(each.spec, "lambda") for each in scheduled] == ["g/nothing_here"]
        inherited = await ended(world, call("0-inherits", "inherits"))
        assert value(inherited["0-inherits"]) == [[], 0, True], "nothing of the run before, or for its programs"
        await every_end_is_a_value(world)
        await the_end_of_the_fork_server_is_an_ordered_end(world, tmp_path / "slow")
    output = capfd.readouterr().out
    assert "printed by 0-1" in output, "what it prints and logs goes where the worker's goes"
    for said in ("printed by 0-1", "logged by it", "half a line of 0-1"):
        assert any('"task_id": "0-1"' in line for line in output.splitlines() if said in line), said
    said_past_python(output)
    assert output.count('"event": "imported"') == 2, "once in the worker, once in the fork server"
    assert '"code": -9, "event": "the fork server of isolated runs has ended' in output


def said_past_python(output: str) -> None:
    """What runs write to the descriptors themselves is said as theirs, line by line."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    said = {each["event"]: each["stream"] for each in lines if each.get("task_id") == "0-writes"}
    assert said == {
        "by descriptor 1": "stdout",
        "half, by a program with [redacted]": "stdout",
        "by C": "stdout",
        "by the first stdout": "stdout",
        "half a line by C": "stdout",
        "by descriptor 2": "stderr",
    }
    crashed = [each["event"] for each in lines if each.get("task_id") == "0-crash"]
    assert "Fatal Python error: Segmentation fault" in crashed
    assert any("in fails" in each for each in crashed), "where it was"


async def every_end_is_a_value(world: Guarded) -> None:
    """However a run ends, it ends alone."""
    hows = ["raise", "fatal", "retry", "hand back", "exit", "crash", "no outputs", "big"]
    found = await ended(world, *(call(f"0-{each}", "fails", json.dumps({"how": each})) for each in hows))
    told = {each[2:]: (result.outcome, result.error.partition("\n")[0]) for each, result in found.items()}
    assert told["raise"] == (t.FAILED, "ValueError: no good")
    assert "isolated.py" in found["0-raise"].error, "its traceback comes along"
    assert told["fatal"] == (t.FAILED_FATAL, "Fatal: never")
    assert told["retry"] == (t.FAILED, "later")
    assert found["0-retry"].retry_in_us == 7_000_000
    assert told["hand back"] == (t.HANDED_BACK, "not mine")
    assert told["exit"] == (t.FAILED, "the run's process ended with exit code 3 before the lambda returned")
    assert told["crash"] == (t.FAILED, "the run's process was killed by SIGSEGV (signal 11)")
    assert value(found["0-no outputs"]) == "ran"
    assert told["big"][0] == t.FAILED_FATAL
    assert world.process.returncode is None


async def the_end_of_the_fork_server_is_an_ordered_end(world: Guarded, file: Path) -> None:
    await world.give(call("0-slow", "sleeps", json.dumps({"file": str(file), "seconds": 600})))
    await world.until(lambda: file.exists() and file.read_text())
    run = number_in(file)
    os.kill(parent_of(run), signal.SIGKILL)
    await world.until(lambda: world.hsc.results)
    assert world.hsc.results[0].error == "the run's process ended with the fork server of its executor"
    # It runs no more code from the end of the fork server on. On a busy machine the kernel takes a moment longer to take it apart.
    await world.until(lambda: not alive(run))
    assert (await world.death())["code"] == 0


async def test_a_run_is_killed_alone_with_all_that_it_started_and_a_stop_waits_for_runs(tmp_path: Path) -> None:
    files = {each: tmp_path / each for each in ("hangs", "waits", "cancelled", "lost", "leaves", "beside")}
    given = {name: json.dumps({"file": str(path)}) for name, path in files.items()}
    slow = {name: json.dumps({"file": str(files[name]), "seconds": 600}) for name in ("cancelled", "lost")}
    async with guarded("--stop-grace", "0.3", "--drain-timeout", "1", app="isolated:app") as world:
        worker = (await world.event())["pid"]
        beside = call("0-beside", "sleeps", json.dumps({"file": str(files["beside"]), "seconds": 1.5}))
        lasting = [call(f"0-{name}", "sleeps", slow[name]) for name in slow]
        hangs = call("0-hangs", "hangs", given["hangs"], timeout=0.3)
        await world.give(
            beside,
            hangs,
            call("0-waits", "waits", given["waits"]),
            call("0-leaves", "leaves", given["leaves"]),
            *lasting,
        )
        await world.until(lambda: all(each.exists() and each.read_text() for each in files.values()))
        world.hsc.verdicts |= {"0-waits": h.CANCEL, "0-cancelled": h.CANCEL, "0-lost": h.LOST}
        await world.until(lambda: len(world.hsc.results) == 5)
        found = {
            each.claim.task_id: (each.outcome, each.error or json.loads(each.result)) for each in world.hsc.results
        }
        assert found == {
            "0-hangs": (t.TIMED_OUT, "timed out after 0.3 s; its process was killed, since it did not end by itself"),
            "0-waits": (t.SUCCEEDED, "cancelled"),
            "0-cancelled": (t.STOPPED, "cancelled; its process was killed, since it did not end by itself"),
            "0-leaves": (t.SUCCEEDED, None),
            "0-beside": (t.SUCCEEDED, "woke"),
        }
        pids = {name: [int(pid) for pid in each.read_text().split()] for name, each in files.items()}
        alone = pids.pop("waits") + pids.pop("beside")
        for pid in itertools.chain(*pids.values()):
            assert not alive(pid), "its process, the program that it started, and the daemon that it left"
        await world.until(lambda: not any(map(alive, alone)))  # they left nothing, and had said so while they ended
        assert alive(worker)
        world.hsc.results.clear()
        await a_stop_waits_and_runs_end_with_the_executor(world, tmp_path / "told", tmp_path / "slow")


async def a_stop_waits_and_runs_end_with_the_executor(world: Guarded, told: Path, slow: Path) -> None:
    await world.give(
        call("0-told", "waits", json.dumps({"file": str(told)})),
        call("0-slow", "sleeps", json.dumps({"file": str(slow), "seconds": 600})),
    )
    await world.until(lambda: all(each.exists() and each.read_text() for each in (told, slow)))
    run = number_in(slow)
    server = parent_of(run)
    for pid in (number_in(told), run, server, world.process.pid):  # as a service manager does
        os.kill(pid, signal.SIGTERM)
    await world.until(lambda: world.hsc.results)
    assert world.hsc.results[0].result == b'"stopping"'
    assert (await world.drains())["started"] == 2
    dead = await world.death()
    assert dead["cut"] == [["0-slow", 1, "nonce"]]
    assert not alive(run)
    assert not alive(server)


LEAVES = """
import subprocess, threading
from pathlib import Path
from atf.executor.isolation.process import LITTLE_BYTES, holds, leaves_nothing
before = holds()
said = [leaves_nothing(before)]
with subprocess.Popen(["sleep", "60"]) as child:
    said.append(leaves_nothing(before))
    child.kill()
said.append(leaves_nothing(before))
with open("/dev/null") as file:
    said.append(leaves_nothing(before))
memory = bytearray(LITTLE_BYTES)
said.append(leaves_nothing(before))
del memory
said.append(leaves_nothing(before))
threading.Thread(target=threading.Event().wait, daemon=True).start()
print(*said, leaves_nothing(before))
"""


def test_the_end_of_a_run_is_awaited_that_leaves_a_child_a_thread_an_open_file_or_much_memory() -> None:
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([sys.executable, "-c", LEAVES], env=env, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["True", "False", "True", "False", "False", "True", "False"]


def test_imports_that_start_threads_are_refused_by_name() -> None:
    ours, theirs = pair()
    with ours, theirs, contextlib.closing(StartNotes.new()) as notes:
        descriptors = [theirs.fileno(), notes.descriptor]
        command = [
            sys.executable,
            "-P",
            "-m",
            "atf.executor.isolation.fork_server",
            *map(str, descriptors),
            "-",
            "threaded:app",
        ]
        subprocess.run(command, pass_fds=descriptors, cwd=Path(__file__).parent, timeout=30, check=True)
        word, why = unpack(receive(ours))
    assert word == "refused"
    assert "isolate=True of g/alone: importing threaded:app, or a start hook, starts threads" in why
    assert "flusher" in why
    assert "short" not in why, "it has ended by itself"


EXITS = """
import atf, os, sys
app = atf.App("g")

@app.task(isolate=True)
def alone() -> None: ...

@app.on_worker_start
def connect() -> None:
    if "fork_server" in " ".join(sys.orig_argv):
        os._exit(0)
"""


async def test_a_fork_server_that_user_code_ends_is_said_to_have_ended_in_that_hook(tmp_path: Path) -> None:
    (tmp_path / "exits.py").write_text(EXITS, encoding="utf-8")
    app = atf.App("g")

    @app.task(isolate=True)
    def alone() -> None: ...

    why = r"ended with exit code 0 while running @app.on_worker_start exits.connect once more, for isolated runs$"
    with pytest.raises(Internal, match=why):
        await IsolatedRuns.start(["exits:app"], app.lambdas, tmp_path)
