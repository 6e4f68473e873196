"""The SDK's calling side: clients and handles. Loads no gRPC until the first call."""

from __future__ import annotations

from atf.sdk.batch_handle import Batch
from atf.sdk.batch_info import BatchProgress, ItemInfo
from atf.sdk.chain_handle import ChainHandle
from atf.sdk.handle import Handle

from .async_client import AsyncClient
from .blocking_client import Client
from .info import KeyInfo, LambdaInfo, TaskInfo

__all__ = [
    "AsyncClient",
    "Batch",
    "BatchProgress",
    "ChainHandle",
    "Client",
    "Handle",
    "ItemInfo",
    "KeyInfo",
    "LambdaInfo",
    "TaskInfo",
]
