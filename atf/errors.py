"""Every error that ATF raises.

    AtfError
    ├── InvalidArgument          a field breaks a rule
    │   ├── ConfigError          a setting breaks a rule; the process does not start
    │   └── Misfit               a payload does not fit the lambda's parameters
    ├── NotFound
    │   ├── TaskNotFound         no task of this id, or its record has expired
    │   └── UnknownLambda        no such lambda is registered
    ├── AlreadyExists            the id is taken by another request
    ├── FailedPrecondition       the call does not fit the state of the system
    │   └── NotDecrypted         it is encrypted, and can't be decrypted here
    ├── Unauthenticated          the caller shows no token, or one that is not valid
    ├── PermissionDenied         the caller may not do this
    ├── ResourceExhausted        the task store is full
    │   └── TooManyPending       the lambda has as many unfinished tasks as it may have
    ├── Unavailable              a role or the task store can't be reached; calling again is safe
    │   ├── ClaimsPaused         no claims for a while after a restart of the store
    │   └── TooManyCalls         the caller asks for more at once than the server's limits allow
    ├── DeadlineExceeded         no answer in time; whether the call took effect is unknown
    ├── Internal                 a bug in ATF
    └── TaskError                raised where a result was asked for
        ├── TaskFailed           the task is in the dead-letter set
        └── TaskCancelled        the task was cancelled

A handler raises these to say how its run ended; they are no AtfErrors, since no caller ever sees them:

    Retry                        it failed: try again, after a given wait if one is named
    Fatal                        it failed: never try again
    HandBack                     it has not been done: run it again, and count nothing
"""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar, Self

from atf.sdk.durations import in_seconds
from atf.sdk.failure import failure_of


def message_of(error: BaseException) -> str:
    """What an exception says of itself. Its class may be a user's, whose `__str__` raises."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001  whatever it raises, SystemExit too
        return "its text can't be read"


class AtfError(Exception):
    """Base of all errors; `code` is the name of the gRPC status it travels as."""

    code: ClassVar[str] = "UNKNOWN"
    domain: str = "atf"
    """Whose word `reason` is: google.rpc.ErrorInfo carries both."""
    _reason: str = ""

    @property
    def reason(self) -> str:
        """The name of the class, which brings it back at the caller; or the word of another domain."""
        return self._reason or type(self).__name__

    def with_reason(self, reason: str, domain: str) -> Self:
        """Itself, from now on with a reason of another API's, whose clients look for that."""
        self._reason, self.domain = reason, domain
        return self


class InvalidArgument(AtfError):
    """A field breaks a rule; the message names the field, the rule and what was given."""

    code = "INVALID_ARGUMENT"


class ConfigError(InvalidArgument):
    """A setting breaks a rule; the process does not start."""


class Misfit(InvalidArgument):
    """A payload does not fit a lambda's parameters, as where they have changed since it was made; the message says where."""


class NotFound(AtfError):
    """What was asked for does not exist."""

    code = "NOT_FOUND"


class TaskNotFound(NotFound):
    """No task of this id, or its record has expired."""


class UnknownLambda(NotFound):
    """No such lambda is registered; the message names the nearest ones."""


class AlreadyExists(AtfError):
    """The id is taken by another request."""

    code = "ALREADY_EXISTS"


class FailedPrecondition(AtfError):
    """The call does not fit the state of the system."""

    code = "FAILED_PRECONDITION"


class NotDecrypted(FailedPrecondition):
    """A result or arguments that are encrypted, and can't be decrypted here; the message names the key and what to do.

    Attributes:
        key_id: of the key that it takes; empty where the data is damaged.
        data: the result or the arguments as they are stored, encrypted.
    """

    key_id: str = ""
    data: bytes = b""


class Unauthenticated(AtfError):
    """The caller shows no token, or one that is unknown, expired or revoked."""

    code = "UNAUTHENTICATED"


class PermissionDenied(AtfError):
    """The caller may not do this; the message names the verb and the namespace."""

    code = "PERMISSION_DENIED"


class ResourceExhausted(AtfError):
    """The task store is full; nothing was stored."""

    code = "RESOURCE_EXHAUSTED"


class TooManyPending(ResourceExhausted):
    """The lambda has as many unfinished tasks as it may have; nothing was stored."""

    retry_after_s: float = 0.0
    """Seconds after which trying again may be of use."""


class Unavailable(AtfError):
    """A role or the task store can't be reached, or takes no writes; calling again is safe."""

    code = "UNAVAILABLE"


class ClaimsPaused(Unavailable):
    """The store restarted and may have forgotten claims; none are given until their executors must have ended."""


class TooManyCalls(Unavailable):
    """The caller has more under way, or calls more often, than a limit of the server allows; nothing was done. The message names the limit."""

    code = "RESOURCE_EXHAUSTED"


class DeadlineExceeded(AtfError):
    """No answer in time; whether the call took effect is unknown."""

    code = "DEADLINE_EXCEEDED"


class Internal(AtfError):
    """A bug in ATF."""

    code = "INTERNAL"


class TaskError(AtfError):
    """A result was asked for of a task that has none."""

    code = "FAILED_PRECONDITION"


class TaskFailed(TaskError):
    """The task failed for good. Its text is the last error: type and message, then the traceback that its executor recorded.

    Attributes:
        error_type: the name of the exception's class; empty where none was raised.
        error_message: what the exception said, or else what happened.
    """

    error_type: str = ""
    error_message: str = ""

    @classmethod
    def of(cls, error: str, what: str = "") -> Self:
        """The error of a recorded text; `what` says in front what has failed."""
        failure, failed = failure_of(error), cls(what + error)
        failed.error_type, failed.error_message = failure.type, failure.message
        return failed


class TaskCancelled(TaskError):
    """The task was cancelled."""


class _WithWait(Exception):
    """Raised by a handler that says how long to wait before the next run."""

    def __init__(self, message: str = "", *, after: float | timedelta | str | None = None) -> None:
        super().__init__(message)
        self.after_s = in_seconds(after)


class Retry(_WithWait):
    """Raised by a handler: this attempt failed, try again.

    Args:
        message: the error to record.
        after: the wait before the next attempt: seconds, a timedelta, or text such as "5m"; None: the task's backoff.

    Raises:
        ValueError: `after` is a text that is no length of time.
    """


class Fatal(Exception):
    """Raised by a handler: this task can never succeed."""


class HandBack(_WithWait):
    """Raised by a handler: give the task back undone. It runs again, and neither an attempt nor a loss is counted, however often.

    Where the executor is ending (`ctx.stopping`), another one runs it at once. Where it is not, the task waits a second: one that gives
    itself back each time must not keep everybody busy.

    Args:
        message: why; it stands among the task's ended runs.
        after: the wait: seconds, a timedelta, or text such as "5m"; None: as above. Where the executor is not ending it is 0.1 s at least.

    Raises:
        ValueError: `after` is a text that is no length of time.
    """


def _tree(root: type[AtfError]) -> dict[str, type[AtfError]]:
    found = {root.__name__: root}
    for child in root.__subclasses__():
        found |= _tree(child)
    return found


BY_REASON: dict[str, type[AtfError]] = _tree(AtfError)
"""Class by name: how an error that came over the wire becomes itself again."""
BY_CODE: dict[str, type[AtfError]] = {kind.code: kind for kind in reversed(AtfError.__subclasses__())}
"""Class by the name of the gRPC status, for a reason that this version does not know; the first of several above."""
