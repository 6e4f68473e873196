"""What lambdas write is in the log of their executor, also when the worker is killed."""

from __future__ import annotations

import json
import os
import subprocess
import sys

PROGRAM = """
import os, signal
from atf.config.settings import LogSettings
from atf.process.streams import protect, protect_stdout
from atf import log
from atf.executor.output import capture, current_run
from atf.executor.output.log_handlers import take_logging

class Run:
    task_id, lambda_name, redact, ended_at, keeps_log, encrypts = "id-1", "shop/print", str, 0.0, False, False

protect(); protect_stdout()
log.setup(LogSettings(log_format="json"), "executor")
capture.capture()
take_logging()
current_run.current.set(Run())
for number in range(300):
    print("line", number)
os.kill(os.getpid(), signal.SIGKILL)
"""

CHILD = """
import multiprocessing
from atf.config.settings import LogSettings
from atf.process.streams import protect
from atf import log
from atf.executor.output import capture, current_run

class Run:
    task_id, lambda_name, redact, ended_at, keeps_log, encrypts = "id-1", "shop/print", str, 0.0, False, False


def child():
    print("whole")
    print("half", end="")

protect()
log.setup(LogSettings(log_format="json"), "executor")
capture.capture()
current_run.current.set(Run())
each = multiprocessing.get_context("fork").Process(target=child)
each.start()
each.join()
"""


def test_prints_before_a_kill_are_all_there() -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM], stderr=subprocess.PIPE, env=dict(os.environ), check=False
    )
    assert done.returncode == -9
    assert [json.loads(line)["event"] for line in done.stderr.splitlines()] == [f"line {n}" for n in range(300)]


def test_what_a_forked_child_prints_is_there_with_the_tasks_id() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", CHILD], stderr=subprocess.PIPE, env=dict(os.environ), check=True)
    found = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(each["event"], each["task_id"]) for each in found] == [("whole", "id-1"), ("half", "id-1")]
