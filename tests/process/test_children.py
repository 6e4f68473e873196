"""What lambdas start: children that are forked have no part in the worker's signals, and nothing of it outlives the executor."""

from __future__ import annotations

import json
import os
import pwd
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from atf.rpc import task_pb2 as t

from .children import signals_of_program
from .test_guard import Guarded, alive, call, guarded

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux hands orphans to a process of one's choice")


async def results(world: Guarded, *calls: t.Claim) -> list[Any]:
    """What came of tasks, in their order, all of which must have succeeded with the first worker."""
    await world.give(*calls)
    await world.until(lambda: len(world.hsc.results) == len(calls) or world.process.returncode is not None)
    found = {each.claim.task_id: each for each in world.hsc.results}
    assert {each.error for each in found.values()} == {""}
    return [json.loads(found[each.task_id].result) for each in calls]


async def test_a_signal_to_a_child_ends_the_child_and_not_the_executor() -> None:
    by_signal = [
        (name, number)
        for name in ("signal_child", "signal_async_child", "signal_program")
        for number in (signal.SIGTERM, signal.SIGINT)
    ]
    calls = [call(f"0-{n}", name, json.dumps({"number": number})) for n, (name, number) in enumerate(by_signal)]
    # One by one: `multiprocessing` polls the children of all threads, so that two of them may reap one child, and one finds no exit code.
    alone = {"pool": 14, "executor": 14, "terminate": [-signal.SIGTERM] * 10}
    async with guarded(app="children:app") as world:
        # Python turns SIGINT into KeyboardInterrupt, as in any child; a program ends by it.
        assert await results(world, *calls) == [-signal.SIGTERM, 77] * 2 + [-signal.SIGTERM, -signal.SIGINT]
        for name, right in alone.items():
            world.hsc.results.clear()
            assert await results(world, call(f"0-{name}", name)) == [right]
        assert world.process.returncode is None
        world.hsc.results.clear()
        assert await results(world, call("0-after", "note", '{"word":"still here"}')) == ["still here"]


async def test_what_children_of_lambdas_inherit_do_and_leave_behind(tmp_path: Path) -> None:
    plain, file = signals_of_program()[0], tmp_path / "written"
    async with guarded(app="children:app") as world:
        worker = (await world.event())["pid"]
        names = ["signals_of_program", "descriptors_of_program", "table_of_child"]
        beside = [call(f"0-{n}", "write_later", json.dumps({"file": str(file), "seconds": 0.3})) for n in range(3)]
        forks = call("0-forks", "wait_in_child", json.dumps({"file": str(file), "seconds": 0.6}))
        leaving = [call(f"0-leaves-{n}", "grandchild") for n in range(10)]
        calls = [*(call(f"0-{name}", name) for name in names), *beside, forks, *leaving]
        signals, descriptors, mappings, _, _, _, code, *left = await results(world, *calls)
        assert signals == [plain] * 3, "a program has those that it would have if a shell had started it"
        assert [each for each in descriptors if "/proc" not in each] == []
        assert mappings == 0, "no child can write the table"
        assert code == 70, "a child of an async def ends where it would have awaited"
        assert file.read_text().split() == [str(worker)] * 3, "it does not go on with the lambdas beside it"
        if sys.platform == "linux":
            await world.until(lambda: not any(Path(f"/proc/{each}").exists() for each in left))
        assert world.process.returncode is None


@linux
@pytest.mark.parametrize("leave", [True, False])
async def test_a_daemon_that_a_lambda_made_is_gone_before_the_executor_counts_as_dead(
    tmp_path: Path, *, leave: bool
) -> None:
    """It has left the session, and its parents are gone."""
    file = tmp_path / "daemon"
    async with guarded(app="children:app") as world:
        await world.event()
        await world.give(call("0-a", "daemon", json.dumps({"file": str(file), "leave": leave})))
        await world.until(lambda: file.exists() and file.read_text())
        daemon = int(file.read_text())  # its own word: where the executor leaves, the guard may have ended it by now
        if not leave:
            await world.until(lambda: world.hsc.results)
            assert alive(daemon), "the end of a task ends nothing that it has started"
            world.process.send_signal(signal.SIGTERM)
        dead = await world.death()
        assert dead["code"] == (9 if leave else 0)
        assert not alive(daemon)


@linux
def test_a_process_of_another_user_does_not_keep_a_guard_for_ever() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start a process that it may not kill later")
    code = """
import os, time
from atf.executor.guarding.group import Group
others = os.fork()
if not others:
    os.closerange(0, 3)
    time.sleep(30)
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
group = Group(["/bin/sleep", "30"], env={}, keep=[])
print(group.kill(), others, flush=True)
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=30, check=True, cwd="/"
    )
    killed, others = map(int, done.stdout.split())
    os.kill(others, signal.SIGKILL)
    assert killed == -signal.SIGKILL
    assert done.stderr == f"executor: still running, since they belong to another user: {others}\n"


@linux
def test_another_user_s_process_has_nothing_of_this_one_s_and_is_killed_all_the_same() -> None:
    if os.getuid() != 0:
        pytest.skip("only root can start a process of another user")
    code = """
import os, pathlib
from atf.executor.guarding.group import Group
from atf.process.other_user import check_may_start, user_of
user = user_of("nobody")
check_may_start(user)
read_end, write_end = os.pipe()
group = Group(["/bin/sh", "-c", "id -u; grep CapEff /proc/self/status; echo $HOME; exec sleep 30"],
    env=user.environment | {"PATH": "/usr/bin:/bin"}, keep=[], output=(write_end, None), user=user)
os.close(write_end)
lines = os.fdopen(read_end)
print(*(lines.readline().split()[-1] for _ in range(3)), group.kill())
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=30, check=True, cwd="/"
    )
    uid, capabilities, home, killed = done.stdout.split()
    nobody = pwd.getpwnam("nobody")
    assert (int(uid), int(capabilities, 16), home) == (nobody.pw_uid, 0, nobody.pw_dir)
    assert int(killed) == -signal.SIGKILL


@linux
def test_a_command_that_is_process_1_reaps_what_others_leave_behind() -> None:
    reading, writing = os.pipe()
    process = subprocess.Popen(
        [sys.executable, "-P", str(Path(__file__).with_name("orphans.py"))],
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=(writing,),
        env={**os.environ, "READY": str(writing)},
    )
    os.close(writing)
    with process, os.fdopen(reading, "rb") as ready:
        assert process.stdout is not None
        assert process.stdout.readline() == f"0 [0, 3] {process.pid} 0\n", (
            "process 1 has the token in its environment still"
        )
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 7, "the signal is passed on, and the exit code comes back"
        assert ready.read() == b"x"


@linux
def test_a_command_under_process_1_hears_that_its_terminal_is_gone() -> None:
    """The kernel tells the first process of a session alone."""
    code = """
import os, pty, sys
child, terminal = pty.fork()
if not child:
    os.execv(sys.executable, [sys.executable, "-P", sys.argv[1]])
while not os.read(terminal, 100).endswith(b"\\n"):
    pass
os.close(terminal)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    command = [sys.executable, "-P", "-c", code, str(Path(__file__).with_name("orphans.py"))]
    assert subprocess.run(command, timeout=30, check=False).returncode == 8


@linux
def test_process_1_of_a_container_is_atf() -> None:
    space = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
    try:
        possible = subprocess.run([*space, "true"], capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError:
        pytest.skip("there is no program unshare to make a container with")
    if possible.returncode:
        pytest.skip(f"no container can be made here: {possible.stderr.strip()}")
    # What `atf` runs in it says how many processes there are, and that it is not the first.
    code = "import os, atf.cli; import atf.cli.commands as c; c.cli.main = lambda **_: os.getpid(); raise SystemExit(atf.cli.main())"
    done = subprocess.run([*space, sys.executable, "-P", "-c", code], timeout=30, check=False)
    assert done.returncode == 2
