"""The trial of the pages in a browser leaves nothing behind when it is asked to end."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = """
import contextlib, time
from proof.browser.cluster import end_in_order

end_in_order()
with contextlib.ExitStack() as ends:
    ends.callback(lambda: print("ended", flush=True))
    print("runs", flush=True)
    time.sleep(60)
"""


@pytest.mark.timeout(30)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_has_clusters_end(number: signal.Signals) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CODE], cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "runs\n"
        child.send_signal(number)
        assert child.stdout.read() == "ended\n"
    assert child.returncode == 128 + number
