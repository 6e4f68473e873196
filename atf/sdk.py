"""What a program that declares or schedules tasks needs: `import atf` gives these names.

Loads neither gRPC nor any server library.
"""

from __future__ import annotations

from .app import App
from .batch import BatchStatus, ItemStatus
from .chains import Chain, Step
from .client import (
    AsyncClient,
    Batch,
    BatchProgress,
    ChainHandle,
    Client,
    Handle,
    ItemInfo,
    KeyInfo,
    LambdaInfo,
    TaskInfo,
)
from .client.default import default_client, use_client
from .context import Context
from .errors import (
    AlreadyExists,
    AtfError,
    ConfigError,
    DeadlineExceeded,
    FailedPrecondition,
    Fatal,
    Internal,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
    Retry,
    StoreSettling,
    TaskCancelled,
    TaskError,
    TaskFailed,
    TaskNotFound,
    TooManyPending,
    Unavailable,
    UnknownLambda,
)
from .lambdas import Lambda, Prepared
from .options import Backoff, Concurrency, Unique
from .task import Status

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
    "Client",
    "Concurrency",
    "ConfigError",
    "Context",
    "DeadlineExceeded",
    "FailedPrecondition",
    "Fatal",
    "Handle",
    "Internal",
    "InvalidArgument",
    "ItemInfo",
    "ItemStatus",
    "KeyInfo",
    "Lambda",
    "LambdaInfo",
    "NotFound",
    "Prepared",
    "ResourceExhausted",
    "Retry",
    "Status",
    "Step",
    "StoreSettling",
    "TaskCancelled",
    "TaskError",
    "TaskFailed",
    "TaskInfo",
    "TaskNotFound",
    "TooManyPending",
    "Unavailable",
    "Unique",
    "UnknownLambda",
    "default_client",
    "use_client",
]
