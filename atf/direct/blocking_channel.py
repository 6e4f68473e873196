"""Calls a frontend in this process on the calling thread, by connections that block it.

No event loop of another thread and no selector takes part: that halves the time of a call. Only a store on one server has such connections.
"""

from __future__ import annotations

import threading
from typing import Any, TypeVar, cast

from google.protobuf.message import Message

from atf.errors import AtfError, DeadlineExceeded, Unavailable
from atf.runtime import SystemRuntime
from atf.store.servers.blocking import BlockingLink

from .own_frontend import Opener, OwnFrontend, told
from .stepping_loop import SteppingLoop

R = TypeVar("R", bound=Message)


class DirectBlockingChannel:
    """A client.transport.ForkSafeBlockingChannel without a connection of gRPC's. Calls of several threads take turns.

    Args:
        opener: opens a frontend whose store blocks.
    """

    def __init__(self, opener: Opener) -> None:
        self._opener = opener
        self._turn = threading.Lock()
        self._loop = SteppingLoop()
        self._runtime = SystemRuntime()
        self._frontend: OwnFrontend | None = None
        self._closed = False

    def call(self, path: str, request: Message, reply: type[R], timeout: float) -> R:  # noqa: ARG002
        """One unary call; `timeout` in seconds.

        Raises:
            AtfError: what a frontend would raise; Unavailable, DeadlineExceeded: the task store was not reached, or did not answer.
        """
        until = self._loop.time() + timeout
        if not self._turn.acquire(timeout=timeout):
            raise DeadlineExceeded(f"{path.rpartition('/')[2]}: another thread's call took more than {timeout:g} s")
        try:
            if self._closed:
                raise Unavailable("the client is closed")
            frontend = self._frontend
            if frontend is None:
                frontend = self._frontend = self._loop.run(self._opener(self._runtime))
            _link(frontend).until(until)
            answer: R = self._loop.step(frontend.method(path)(request))
        except AtfError:
            raise
        except Exception as error:
            raise told(path, error) from error
        finally:
            self._turn.release()
        return answer

    def close(self) -> None:
        """Ends the connections. The call that is under way, and later ones, raise Unavailable."""
        self._closed = True
        frontend = self._frontend
        if frontend is not None:
            _link(frontend).cut()
        with self._turn:
            frontend, self._frontend = self._frontend, None
            if frontend is not None:
                self._loop.run(frontend.store.close())

    def forked(self) -> list[Any]:
        """What a child process must leave untouched; it opens a frontend of its own."""
        inherited = [self._frontend, self._loop]
        self._turn, self._loop, self._frontend = threading.Lock(), SteppingLoop(), None
        return inherited


def _link(frontend: OwnFrontend) -> BlockingLink:
    return cast("BlockingLink", frontend.store.link)
