"""A frontend without a store, in a process of its own: prints its address, then answers until its input ends."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable

from google.protobuf.message import Message

from atf.errors import Internal
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.server import Service, serve


class Frontend:
    """Takes every task; those of the lambda fork/slow never finish."""

    def __init__(self) -> None:
        self.payloads: dict[str, bytes] = {}

    def __getattr__(self, method: str) -> Callable[[object], Awaitable[Message]]:
        return self._refuse

    async def _refuse(self, request: object) -> Message:
        raise Internal("this frontend only schedules and waits")

    async def schedule(self, request: f.ScheduleRequest) -> f.ScheduleReply:
        if getattr(request.spec, "lambda") != "fork/slow":
            self.payloads[f"0-{request.id}"] = request.spec.payload
        return f.ScheduleReply(id=f"0-{request.id}")

    async def schedule_many(self, request: f.ScheduleManyRequest) -> f.ScheduleManyReply:
        return f.ScheduleManyReply(
            results=[f.ScheduleResult(reply=await self.schedule(each)) for each in request.requests]
        )

    async def wait_tasks(self, request: f.WaitTasksRequest) -> f.WaitTasksReply:
        done = [each for each in request.ids if each in self.payloads]
        if not done:
            await asyncio.sleep(request.timeout_us / 1e6)
        return f.WaitTasksReply(tasks=[t.Task(id=each, status=t.SUCCESS, result=self.payloads[each]) for each in done])


async def main() -> None:
    server = await serve("127.0.0.1:0", [Service(f.DESCRIPTOR.services_by_name["Frontend"], Frontend())])
    print(server.address, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await server.stop(0)


if __name__ == "__main__":
    asyncio.run(main())
