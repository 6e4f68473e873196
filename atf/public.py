"""What a program that declares or schedules tasks needs: `import atf` gives these names.

Loads neither gRPC nor any server library.
"""

from __future__ import annotations

from typing import cast as _cast

from atf.sdk.app import App as App
from atf.sdk.batch import BatchStatus as BatchStatus, ItemStatus as ItemStatus
from atf.sdk.chains import Chain as Chain, Step as Step
from atf.sdk.context import Context as Context
from atf.sdk.default_client import (
    default_client as _default_client,
    register_client as _register_client,
    use_client as use_client,
)
from atf.sdk.lambdas import Lambda as Lambda
from atf.sdk.options import Backoff as Backoff, Concurrency as Concurrency, Unique as Unique
from atf.sdk.schedulable import Prepared as Prepared

from .client import (
    AsyncClient as AsyncClient,
    Batch as Batch,
    BatchProgress as BatchProgress,
    ChainHandle as ChainHandle,
    Client as Client,
    Handle as Handle,
    ItemInfo as ItemInfo,
    KeyInfo as KeyInfo,
    LambdaInfo as LambdaInfo,
    TaskInfo as TaskInfo,
)
from .errors import (
    AlreadyExists as AlreadyExists,
    AtfError as AtfError,
    ClaimsPaused as ClaimsPaused,
    ConfigError as ConfigError,
    DeadlineExceeded as DeadlineExceeded,
    FailedPrecondition as FailedPrecondition,
    Fatal as Fatal,
    HandBack as HandBack,
    Internal as Internal,
    InvalidArgument as InvalidArgument,
    NotDecrypted as NotDecrypted,
    NotFound as NotFound,
    PermissionDenied as PermissionDenied,
    ResourceExhausted as ResourceExhausted,
    Retry as Retry,
    TaskCancelled as TaskCancelled,
    TaskError as TaskError,
    TaskFailed as TaskFailed,
    TaskNotFound as TaskNotFound,
    TooManyPending as TooManyPending,
    Unauthenticated as Unauthenticated,
    Unavailable as Unavailable,
    UnknownLambda as UnknownLambda,
)
from .task import Status as Status

_register_client(Client)


def default_client() -> Client:
    """The client of ATF_FRONTEND or localhost:7401, unless `use_client` says otherwise."""
    return _cast("Client", _default_client())
