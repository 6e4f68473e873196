"""What a program that declares or schedules tasks needs: `import atf` gives these names.

Loads neither gRPC nor any server library.
"""

from __future__ import annotations

from typing import cast as _cast

from atf.sdk.app import App as App
from atf.sdk.batch import BatchStatus as BatchStatus
from atf.sdk.batch import ItemStatus as ItemStatus
from atf.sdk.chains import Chain as Chain
from atf.sdk.chains import Step as Step
from atf.sdk.context import Context as Context
from atf.sdk.default_client import default_client as _default_client
from atf.sdk.default_client import register_client as _register_client
from atf.sdk.default_client import use_client as use_client
from atf.sdk.lambdas import Lambda as Lambda
from atf.sdk.options import Backoff as Backoff
from atf.sdk.options import Concurrency as Concurrency
from atf.sdk.options import Unique as Unique
from atf.sdk.schedulable import Prepared as Prepared

from .client import AsyncClient as AsyncClient
from .client import Batch as Batch
from .client import BatchProgress as BatchProgress
from .client import ChainHandle as ChainHandle
from .client import Client as Client
from .client import Handle as Handle
from .client import ItemInfo as ItemInfo
from .client import KeyInfo as KeyInfo
from .client import LambdaInfo as LambdaInfo
from .client import TaskInfo as TaskInfo
from .errors import AlreadyExists as AlreadyExists
from .errors import AtfError as AtfError
from .errors import ConfigError as ConfigError
from .errors import DeadlineExceeded as DeadlineExceeded
from .errors import FailedPrecondition as FailedPrecondition
from .errors import Fatal as Fatal
from .errors import HandBack as HandBack
from .errors import Internal as Internal
from .errors import InvalidArgument as InvalidArgument
from .errors import NotFound as NotFound
from .errors import ResourceExhausted as ResourceExhausted
from .errors import Retry as Retry
from .errors import StoreSettling as StoreSettling
from .errors import TaskCancelled as TaskCancelled
from .errors import TaskError as TaskError
from .errors import TaskFailed as TaskFailed
from .errors import TaskNotFound as TaskNotFound
from .errors import TooManyPending as TooManyPending
from .errors import Unavailable as Unavailable
from .errors import UnknownLambda as UnknownLambda
from .task import Status as Status

_register_client(Client)


def default_client() -> Client:
    """The client of ATF_FRONTEND or localhost:7401, unless `use_client` says otherwise."""
    return _cast("Client", _default_client())
