"""What real servers' slow logs say of the library's functions, for tools/contract.py.

With ATF_TEST_CONTRACT=FOLDER every server of the store's tests keeps a slow log, which is written to a file there when it ends.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import redis

FOLDER: Final = os.environ.get("ATF_TEST_CONTRACT", "")
NOTED_US: Final = 500
"""What takes longer is noted, so that the slowest calls are known also where none is too slow."""
SETTINGS: Final = ["--slowlog-log-slower-than", str(NOTED_US), "--slowlog-max-len", "100000"] if FOLDER else []


def keep(name: str, client: redis.Redis) -> None:
    """Writes down what a server noted, before it ends. One that a test has ended already says nothing, which fails where nobody else does."""
    if not FOLDER:
        return
    with contextlib.suppress(redis.ConnectionError):
        read: Any = client
        info = read.info("server")
        entries = [each for each in read.slowlog_get(100000) if each["command"].startswith(b"FCALL ")]
        found = {
            "backend": name,
            "version": f"{info.get('server_name', 'redis')} {info.get('valkey_version', info['redis_version'])}",
            "calls": read.info("commandstats").get("cmdstat_fcall", {}).get("calls", 0),
            "noted": [[each["duration"], each["command"].split()[1].decode()] for each in entries],
        }
        Path(FOLDER, f"{name}-{uuid4().hex}.json").write_text(json.dumps(found), encoding="utf-8")
