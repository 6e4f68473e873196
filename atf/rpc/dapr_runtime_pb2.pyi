import datetime

from google.protobuf import any_pb2 as _any_pb2
from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import struct_pb2 as _struct_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Job(_message.Message):
    __slots__ = ("name", "schedule", "repeats", "due_time", "ttl", "data", "failure_policy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FAILURE_POLICY_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedule: str
    repeats: int
    due_time: str
    ttl: str
    data: _any_pb2.Any
    failure_policy: JobFailurePolicy
    def __init__(self, name: _Optional[str] = ..., schedule: _Optional[str] = ..., repeats: _Optional[int] = ..., due_time: _Optional[str] = ..., ttl: _Optional[str] = ..., data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., failure_policy: _Optional[_Union[JobFailurePolicy, _Mapping]] = ...) -> None: ...

class JobFailurePolicy(_message.Message):
    __slots__ = ("drop", "constant")
    DROP_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    drop: JobFailurePolicyDrop
    constant: JobFailurePolicyConstant
    def __init__(self, drop: _Optional[_Union[JobFailurePolicyDrop, _Mapping]] = ..., constant: _Optional[_Union[JobFailurePolicyConstant, _Mapping]] = ...) -> None: ...

class JobFailurePolicyDrop(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class JobFailurePolicyConstant(_message.Message):
    __slots__ = ("interval", "max_retries")
    INTERVAL_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    interval: _duration_pb2.Duration
    max_retries: int
    def __init__(self, interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_retries: _Optional[int] = ...) -> None: ...

class ScheduleJobRequest(_message.Message):
    __slots__ = ("job", "overwrite")
    JOB_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    job: Job
    overwrite: bool
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ..., overwrite: bool = ...) -> None: ...

class ScheduleJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteJobsByPrefixRequest(_message.Message):
    __slots__ = ("name_prefix",)
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    name_prefix: str
    def __init__(self, name_prefix: _Optional[str] = ...) -> None: ...

class DeleteJobsByPrefixResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[Job]
    def __init__(self, jobs: _Optional[_Iterable[_Union[Job, _Mapping]]] = ...) -> None: ...

class JobBody(_message.Message):
    __slots__ = ("name", "schedule", "repeats", "due_time", "ttl", "data", "overwrite", "failure_policy")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    FAILURE_POLICY_FIELD_NUMBER: _ClassVar[int]
    name: str
    schedule: str
    repeats: int
    due_time: str
    ttl: str
    data: _struct_pb2.Value
    overwrite: bool
    failure_policy: JobFailurePolicy
    def __init__(self, name: _Optional[str] = ..., schedule: _Optional[str] = ..., repeats: _Optional[int] = ..., due_time: _Optional[str] = ..., ttl: _Optional[str] = ..., data: _Optional[_Union[_struct_pb2.Value, _Mapping]] = ..., overwrite: bool = ..., failure_policy: _Optional[_Union[JobFailurePolicy, _Mapping]] = ...) -> None: ...

class JobEventRequest(_message.Message):
    __slots__ = ("name", "data", "method", "content_type", "http_extension")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CONTENT_TYPE_FIELD_NUMBER: _ClassVar[int]
    HTTP_EXTENSION_FIELD_NUMBER: _ClassVar[int]
    name: str
    data: _any_pb2.Any
    method: str
    content_type: str
    http_extension: HTTPExtension
    def __init__(self, name: _Optional[str] = ..., data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., method: _Optional[str] = ..., content_type: _Optional[str] = ..., http_extension: _Optional[_Union[HTTPExtension, _Mapping]] = ...) -> None: ...

class HTTPExtension(_message.Message):
    __slots__ = ("verb", "querystring")
    class Verb(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        NONE: _ClassVar[HTTPExtension.Verb]
        GET: _ClassVar[HTTPExtension.Verb]
        HEAD: _ClassVar[HTTPExtension.Verb]
        POST: _ClassVar[HTTPExtension.Verb]
        PUT: _ClassVar[HTTPExtension.Verb]
        DELETE: _ClassVar[HTTPExtension.Verb]
        CONNECT: _ClassVar[HTTPExtension.Verb]
        OPTIONS: _ClassVar[HTTPExtension.Verb]
        TRACE: _ClassVar[HTTPExtension.Verb]
        PATCH: _ClassVar[HTTPExtension.Verb]
    NONE: HTTPExtension.Verb
    GET: HTTPExtension.Verb
    HEAD: HTTPExtension.Verb
    POST: HTTPExtension.Verb
    PUT: HTTPExtension.Verb
    DELETE: HTTPExtension.Verb
    CONNECT: HTTPExtension.Verb
    OPTIONS: HTTPExtension.Verb
    TRACE: HTTPExtension.Verb
    PATCH: HTTPExtension.Verb
    VERB_FIELD_NUMBER: _ClassVar[int]
    QUERYSTRING_FIELD_NUMBER: _ClassVar[int]
    verb: HTTPExtension.Verb
    querystring: str
    def __init__(self, verb: _Optional[_Union[HTTPExtension.Verb, str]] = ..., querystring: _Optional[str] = ...) -> None: ...

class JobEventResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
