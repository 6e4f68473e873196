"""The SDK's calling side: clients and handles. Loads no gRPC until the first call."""

from __future__ import annotations

from .batch import Batch, BatchProgress, ItemInfo
from .chain import ChainHandle
from .core import AsyncClient
from .handle import Handle
from .info import KeyInfo, LambdaInfo, TaskInfo
from .sync import Client

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
