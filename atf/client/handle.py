"""A handle: one scheduled task, to be asked for its status and its result."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from atf.durability import Durability
from atf.errors import TaskCancelled, TaskFailed
from atf.rpc import task_pb2 as t
from atf.sdk.payload import decode_result
from atf.task import Status

from .loop_bridge import LoopBridge, blocking

if TYPE_CHECKING:
    from .async_client import AsyncClient

R = TypeVar("R")
T = TypeVar("T")

_WORDS: Final = {int(each): each.word for each in Durability}


class Handle(Generic[R]):
    """One scheduled task.

    Attributes:
        id: the task's id as every call and command takes it, "<partition>-<id>".
        durability: how safe the task was when its scheduling was answered: "relaxed", "disk" or "replicated"; "" for a handle
            that came by its id alone.
    """

    def __init__(
        self,
        client: AsyncClient,
        loop_bridge: LoopBridge,
        task_id: str,
        decode: Callable[[bytes, int], R] | None,
        durability: int = 0,
    ) -> None:
        self.id = task_id
        self.durability = _WORDS.get(durability, "")
        self._client = client
        self._loop_bridge = loop_bridge
        self._decode = decode

    def __repr__(self) -> str:
        return f"<Handle {self.id}>"

    async def status_async(self) -> Status:
        """Where the task stands.

        Raises:
            TaskNotFound: its record has expired.
        """
        task = await self._loop_bridge.hop(self._client.get_task(self.id))
        return Status(task.status)

    async def result_async(self, timeout: float | None = None) -> R:
        """Waits until the task has finished, and gives what its handler returned.

        Args:
            timeout: seconds; None: for ever.

        Raises:
            TaskFailed: it failed for good; the message is its last error.
            TaskCancelled: it was cancelled.
            TimeoutError: it has not finished yet.
            TaskNotFound: its record has expired.
        """
        finished = await self._loop_bridge.hop(self._client.wait_tasks([self.id], timeout=timeout))
        if not finished:
            raise TimeoutError(f"task {self.id} has not finished within {timeout:g} s")
        return self._result(finished[0])

    async def cancel_async(self) -> bool:
        """Cancels the task if it has not started, or asks it to stop; False: it has finished before."""
        return await self._loop_bridge.hop(self._client.cancel(self.id))

    async def retry_async(self) -> bool:
        """Starts the failed or cancelled task afresh; False: it has succeeded, or has not finished yet."""
        return await self._loop_bridge.hop(self._client.retry(self.id))

    status = blocking(status_async)
    result = blocking(result_async)
    cancel = blocking(cancel_async)
    retry = blocking(retry_async)

    def _result(self, task: t.Task) -> R:
        match Status(task.status):
            case Status.SUCCESS if self._decode is not None:
                return self._decode(task.result, task.result_encoding)
            case Status.SUCCESS:
                value: R = decode_result(self.id, task.result, task.result_encoding)
                return value
            case Status.CANCELLED:
                raise TaskCancelled(f"task {self.id} was cancelled")
            case _:
                raise TaskFailed.of(task.error or f"task {self.id} failed")

    def _block(self, method: Callable[..., Coroutine[Any, Any, T]], args: Any, kwargs: Any) -> T:
        return self._loop_bridge.run(method(self, *args, **kwargs))
