"""A handle: one scheduled task, to be asked for its status and its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from atf.durability import Durability
from atf.errors import TaskCancelled, TaskFailed
from atf.rpc import task_pb2 as t
from atf.task import Status

from .blocking import Bridged, LoopBridge, blocking
from .payload import decode_result, withheld

R = TypeVar("R")

_WORDS: Final = {int(each): each.word for each in Durability}


class TaskClient(Protocol):
    """What a handle asks of a client; AsyncClient says what each call does."""

    async def get_task(self, task_id: str, /) -> t.Task: ...
    async def wait_tasks(self, ids: Sequence[str], /, *, timeout: float | None) -> Sequence[t.Task]: ...
    async def cancel(self, task_id: str, /) -> bool: ...
    async def retry(self, task_id: str, /) -> bool: ...


class Handle(Bridged, Generic[R]):
    """One scheduled task.

    Attributes:
        id: the task's id as every call and command takes it, "<partition>-<id>".
        durability: how safe the task was when its scheduling was answered: "relaxed", "disk" or "replicated"; "" for a handle
            that came by its id alone.
    """

    def __init__(
        self,
        client: TaskClient,
        loop_bridge: LoopBridge,
        task_id: str,
        decode: Callable[[bytes, int], R] | None,
        durability: int = 0,
    ) -> None:
        super().__init__(loop_bridge)
        self.id = task_id
        self.durability = _WORDS.get(durability, "")
        self._client = client
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
            NotDecrypted: its result is encrypted, and can't be decrypted here.
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
            case Status.SUCCESS if task.withheld:
                raise withheld(self.id)
            case Status.SUCCESS if self._decode is not None:
                return self._decode(task.result, task.result_encoding)
            case Status.SUCCESS:
                value: R = decode_result(self.id, task.result, task.result_encoding)
                return value
            case Status.CANCELLED:
                raise TaskCancelled(f"task {self.id} was cancelled")
            case _:
                raise TaskFailed.of(task.error or f"task {self.id} failed")
