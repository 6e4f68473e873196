"""A result that its reader may not see is an error, and not None."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest

from atf.client.loop_bridge import OwnLoop
from atf.errors import PermissionDenied
from atf.rpc import task_pb2 as t
from atf.sdk.handle import Handle


async def test_a_withheld_result_is_refused() -> None:
    client = AsyncMock()
    client.wait_tasks.return_value = [t.Task(id="0-a", status=t.SUCCESS, withheld=True)]
    handle: Handle[int] = Handle(client, OwnLoop(), "0-a", None)
    with pytest.raises(PermissionDenied, match=r"result of task 0-a is withheld.*--can read_payload"):
        await handle.result_async()
