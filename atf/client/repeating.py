"""Gives a client's calls the form of an interface's method that is repeated while the frontend is away."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from atf.rpc import api

Q = TypeVar("Q")
A = TypeVar("A")
Q_contra = TypeVar("Q_contra", contravariant=True)
A_co = TypeVar("A_co", covariant=True)


class RepeatingCalls(ABC):
    """Who repeats calls."""

    @abstractmethod
    def connected(self) -> api.Frontend:
        """What one try of a call is made of."""

    @abstractmethod
    def repeat(self, call: Callable[[float], Awaitable[A]], until: float | None = None) -> Awaitable[A]:
        """Calls until it is answered.

        Args:
            call: is given the seconds that one try may take.
            until: of what belongs to a wait: when the caller's time is over, on the monotonic clock; infinite: never. None: the client's
                `timeout` counts.

        Raises:
            Unavailable, DeadlineExceeded: it was not answered within the client's `timeout`.
            TimeoutError: it was not answered by `until`; the cause is the last failure.
        """


class RepeatedCall(Protocol[Q_contra, A_co]):
    """A call of one message and one answer. `until`: as of RepeatingCalls."""

    def __call__(self, request: Q_contra, until: float | None = None, /) -> Awaitable[A_co]: ...


class repeated(Generic[Q, A]):  # noqa: N801  as `property` is
    """A method of the frontend's interface, repeated."""

    def __init__(self, method: Callable[[Any, Q], Awaitable[A]]) -> None:
        self._name = method.__name__

    def __get__(self, calls: RepeatingCalls, _owner: object) -> RepeatedCall[Q, A]:
        def call(request: Q, until: float | None = None, /) -> Awaitable[A]:
            return calls.repeat(lambda timeout: getattr(calls.connected(), self._name)(request, timeout=timeout), until)

        return call
