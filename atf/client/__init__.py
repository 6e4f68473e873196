"""The SDK's calling side: clients and handles. Loads no gRPC until the first call."""

from __future__ import annotations

from .async_client import AsyncClient
from .batch import Batch
from .batch_info import BatchProgress, ItemInfo
from .blocking_client import Client
from .chain import ChainHandle
from .handle import Handle
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
