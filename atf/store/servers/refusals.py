"""Turns errors of the redis library into AtfErrors: one table from the server's word to an error and its sentence."""

from __future__ import annotations

from typing import Final

import redis.exceptions as rx

from atf.errors import AtfError, FailedPrecondition, Internal, ResourceExhausted, Unavailable
from atf.process import descriptors

_REFUSALS: Final = {
    "OOM": (
        ResourceExhausted,
        "the task store is full (maxmemory); nothing was stored. Wait until tasks drain, or raise maxmemory",
    ),
    "READONLY": (Unavailable, "the task store is a read-only replica; point the roles at the primary"),
    "MISCONF": (Unavailable, "the task store refuses writes because it can't save to disk; see the server's log"),
    "LOADING": (Unavailable, "the task store is still loading its data"),
    "NOREPLICAS": (Unavailable, "the task store has too few replicas to accept writes"),
    "MASTERDOWN": (Unavailable, "the task store's primary is down"),
    "CLUSTERDOWN": (Unavailable, "the task store's cluster is down"),
    "ASK": (Unavailable, "this partition of the task store is being moved"),
    "TRYAGAIN": (Unavailable, "this partition of the task store is being moved"),
    "MOVED": (Unavailable, "this partition of the task store lies on another node"),
    "BUSY": (Unavailable, "the task store is busy with somebody's script"),
    "NOAUTH": (FailedPrecondition, "the task store wants a password; put it into the redis URL"),
    "WRONGPASS": (FailedPrecondition, "the task store refuses this user name or password"),
    "NOPERM": (
        FailedPrecondition,
        "the task store's ACL forbids this user a command or key that ATF needs; atf doctor names what is missing",
    ),
}


_CODES: Final = {
    rx.OutOfMemoryError: "OOM",
    rx.ReadOnlyError: "READONLY",
    rx.BusyLoadingError: "LOADING",
    rx.MasterDownError: "MASTERDOWN",
    rx.ClusterDownError: "CLUSTERDOWN",
    rx.AskError: "ASK",
    rx.MovedError: "MOVED",
    rx.TryAgainError: "TRYAGAIN",
    rx.NoPermissionError: "NOPERM",
}
"""The library gives some refusals a class and takes the code out of their text."""

_FORBIDDEN_IN_FUNCTION: Final = ("ACL failure in script", "The user executing the script can't")
"""What servers say where a function is allowed and a command or key in it is not; Redis 7.0's words are the second."""


def translate(error: Exception, where: str) -> AtfError:
    """The AtfError that an error of the redis library stands for."""
    text = str(error)
    code = _CODES.get(type(error), text.split(" ", 1)[0])
    if "OOM command not allowed" in text:
        code = "OOM"
    if any(each in text for each in _FORBIDDEN_IN_FUNCTION):
        code = "NOPERM"
    if code in _REFUSALS:
        kind, sentence = _REFUSALS[code]
        said = f": {text}" if code == "NOPERM" else ""
        return kind(f"{sentence} ({where}{said})")
    if isinstance(error, rx.AuthenticationError) or isinstance(error.__cause__, rx.AuthenticationError):
        return FailedPrecondition(f"the task store refuses this user: {error}; see the redis URL ({where})")
    if isinstance(error, rx.ResponseError):
        return Internal(f"the task store answered with an error: {text}")
    if descriptors.is_out_of_descriptors(error):
        return Unavailable(f"{descriptors.sentence()}; so it can't connect to the task store at {where}")
    return Unavailable(f"the task store at {where} can't be reached: {error or type(error).__name__}")
