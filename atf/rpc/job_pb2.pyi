from atf.rpc import task_pb2 as _task_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Misfire(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MISFIRE_UNSPECIFIED: _ClassVar[Misfire]
    ALL: _ClassVar[Misfire]
    LATEST: _ClassVar[Misfire]
    SKIP: _ClassVar[Misfire]

class Overlap(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OVERLAP_UNSPECIFIED: _ClassVar[Overlap]
    ALLOW: _ClassVar[Overlap]
    PASS_OVER: _ClassVar[Overlap]
    QUEUE: _ClassVar[Overlap]
    CANCEL_RUNNING: _ClassVar[Overlap]
MISFIRE_UNSPECIFIED: Misfire
ALL: Misfire
LATEST: Misfire
SKIP: Misfire
OVERLAP_UNSPECIFIED: Overlap
ALLOW: Overlap
PASS_OVER: Overlap
QUEUE: Overlap
CANCEL_RUNNING: Overlap

class FailurePolicy(_message.Message):
    __slots__ = ("drop", "interval_us", "max_retries")
    DROP_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_US_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    drop: bool
    interval_us: int
    max_retries: int
    def __init__(self, drop: bool = ..., interval_us: _Optional[int] = ..., max_retries: _Optional[int] = ...) -> None: ...

class JobSpec(_message.Message):
    __slots__ = ("name", "task", "schedule", "due_time", "ttl", "repeats", "tz", "format", "gap", "fold", "misfire", "grace_us", "overlap", "failure_policy", "jitter_us", "retention_us", "base_at_us", "code")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    TZ_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    GAP_FIELD_NUMBER: _ClassVar[int]
    FOLD_FIELD_NUMBER: _ClassVar[int]
    MISFIRE_FIELD_NUMBER: _ClassVar[int]
    GRACE_US_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_FIELD_NUMBER: _ClassVar[int]
    FAILURE_POLICY_FIELD_NUMBER: _ClassVar[int]
    JITTER_US_FIELD_NUMBER: _ClassVar[int]
    RETENTION_US_FIELD_NUMBER: _ClassVar[int]
    BASE_AT_US_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    name: str
    task: _task_pb2.TaskSpec
    schedule: str
    due_time: str
    ttl: str
    repeats: int
    tz: str
    format: str
    gap: str
    fold: str
    misfire: Misfire
    grace_us: int
    overlap: Overlap
    failure_policy: FailurePolicy
    jitter_us: int
    retention_us: int
    base_at_us: int
    code: str
    def __init__(self, name: _Optional[str] = ..., task: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ..., schedule: _Optional[str] = ..., due_time: _Optional[str] = ..., ttl: _Optional[str] = ..., repeats: _Optional[int] = ..., tz: _Optional[str] = ..., format: _Optional[str] = ..., gap: _Optional[str] = ..., fold: _Optional[str] = ..., misfire: _Optional[_Union[Misfire, str]] = ..., grace_us: _Optional[int] = ..., overlap: _Optional[_Union[Overlap, str]] = ..., failure_policy: _Optional[_Union[FailurePolicy, _Mapping]] = ..., jitter_us: _Optional[int] = ..., retention_us: _Optional[int] = ..., base_at_us: _Optional[int] = ..., code: _Optional[str] = ...) -> None: ...

class Job(_message.Message):
    __slots__ = ("spec", "generation", "created_at_us", "next_tick_at_us", "ticks", "last_tick_at_us", "last_task_id", "last_status", "skipped", "skipped_why", "paused", "withheld")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_TICK_AT_US_FIELD_NUMBER: _ClassVar[int]
    TICKS_FIELD_NUMBER: _ClassVar[int]
    LAST_TICK_AT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_STATUS_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_FIELD_NUMBER: _ClassVar[int]
    SKIPPED_WHY_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    spec: JobSpec
    generation: int
    created_at_us: int
    next_tick_at_us: int
    ticks: int
    last_tick_at_us: int
    last_task_id: str
    last_status: _task_pb2.Status
    skipped: int
    skipped_why: str
    paused: bool
    withheld: bool
    def __init__(self, spec: _Optional[_Union[JobSpec, _Mapping]] = ..., generation: _Optional[int] = ..., created_at_us: _Optional[int] = ..., next_tick_at_us: _Optional[int] = ..., ticks: _Optional[int] = ..., last_tick_at_us: _Optional[int] = ..., last_task_id: _Optional[str] = ..., last_status: _Optional[_Union[_task_pb2.Status, str]] = ..., skipped: _Optional[int] = ..., skipped_why: _Optional[str] = ..., paused: bool = ..., withheld: bool = ...) -> None: ...
