"""ATF: an async task framework. What a program that declares or schedules tasks needs; the roles are in subpackages.

Loads neither gRPC nor any server library, and what is named here (from public.py) only once some of it is used: the roles, which are
started again while work waits for them, need none of it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

__all__ = [
    "AlreadyExists",
    "App",
    "AsyncClient",
    "AtfError",
    "Backoff",
    "Batch",
    "BatchProgress",
    "BatchStatus",
    "Chain",
    "ChainHandle",
    "ClaimsPaused",
    "Client",
    "Concurrency",
    "ConfigError",
    "Context",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Fatal",
    "HandBack",
    "Handle",
    "Internal",
    "InvalidArgument",
    "ItemInfo",
    "ItemStatus",
    "KeyInfo",
    "Lambda",
    "LambdaInfo",
    "NotDecrypted",
    "NotFound",
    "PermissionDenied",
    "Prepared",
    "ResourceExhausted",
    "Retry",
    "Status",
    "Step",
    "TaskCancelled",
    "TaskError",
    "TaskFailed",
    "TaskInfo",
    "TaskNotFound",
    "TooManyPending",
    "Unauthenticated",
    "Unavailable",
    "Unique",
    "UnknownLambda",
    "__version__",
    "default_client",
    "use_client",
]

if TYPE_CHECKING:
    from .public import *
else:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = globals()[name] = getattr(import_module(".public", __name__), name)
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
