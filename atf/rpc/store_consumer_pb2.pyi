from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class PollRequest(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, partitions: _Optional[_Iterable[int]] = ...) -> None: ...

class PollReply(_message.Message):
    __slots__ = ("enqueued", "enqueued_again", "lost", "ticks", "more", "next_in_us")
    ENQUEUED_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AGAIN_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    TICKS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    NEXT_IN_US_FIELD_NUMBER: _ClassVar[int]
    enqueued: int
    enqueued_again: int
    lost: int
    ticks: int
    more: bool
    next_in_us: int
    def __init__(self, enqueued: _Optional[int] = ..., enqueued_again: _Optional[int] = ..., lost: _Optional[int] = ..., ticks: _Optional[int] = ..., more: bool = ..., next_in_us: _Optional[int] = ...) -> None: ...
