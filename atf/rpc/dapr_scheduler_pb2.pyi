from atf.rpc import dapr_runtime_pb2 as _dapr_runtime_pb2
from google.protobuf import any_pb2 as _any_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class JobTargetType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JOB_TARGET_TYPE_JOB: _ClassVar[JobTargetType]
    JOB_TARGET_TYPE_ACTOR_REMINDER: _ClassVar[JobTargetType]

class WatchJobsRequestResultStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SUCCESS: _ClassVar[WatchJobsRequestResultStatus]
    FAILED: _ClassVar[WatchJobsRequestResultStatus]
JOB_TARGET_TYPE_JOB: JobTargetType
JOB_TARGET_TYPE_ACTOR_REMINDER: JobTargetType
SUCCESS: WatchJobsRequestResultStatus
FAILED: WatchJobsRequestResultStatus

class Job(_message.Message):
    __slots__ = ("schedule", "repeats", "due_time", "ttl", "data", "failure_policy")
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    REPEATS_FIELD_NUMBER: _ClassVar[int]
    DUE_TIME_FIELD_NUMBER: _ClassVar[int]
    TTL_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    FAILURE_POLICY_FIELD_NUMBER: _ClassVar[int]
    schedule: str
    repeats: int
    due_time: str
    ttl: str
    data: _any_pb2.Any
    failure_policy: _dapr_runtime_pb2.JobFailurePolicy
    def __init__(self, schedule: _Optional[str] = ..., repeats: _Optional[int] = ..., due_time: _Optional[str] = ..., ttl: _Optional[str] = ..., data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., failure_policy: _Optional[_Union[_dapr_runtime_pb2.JobFailurePolicy, _Mapping]] = ...) -> None: ...

class JobMetadata(_message.Message):
    __slots__ = ("app_id", "namespace", "target", "concurrency_key")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    namespace: str
    target: JobTargetMetadata
    concurrency_key: str
    def __init__(self, app_id: _Optional[str] = ..., namespace: _Optional[str] = ..., target: _Optional[_Union[JobTargetMetadata, _Mapping]] = ..., concurrency_key: _Optional[str] = ...) -> None: ...

class JobTargetMetadata(_message.Message):
    __slots__ = ("job", "actor")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    job: TargetJob
    actor: TargetActorReminder
    def __init__(self, job: _Optional[_Union[TargetJob, _Mapping]] = ..., actor: _Optional[_Union[TargetActorReminder, _Mapping]] = ...) -> None: ...

class TargetJob(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TargetActorReminder(_message.Message):
    __slots__ = ("id", "type")
    ID_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    id: str
    type: str
    def __init__(self, id: _Optional[str] = ..., type: _Optional[str] = ...) -> None: ...

class ScheduleJobRequest(_message.Message):
    __slots__ = ("name", "job", "metadata", "overwrite")
    NAME_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    name: str
    job: Job
    metadata: JobMetadata
    overwrite: bool
    def __init__(self, name: _Optional[str] = ..., job: _Optional[_Union[Job, _Mapping]] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ..., overwrite: bool = ...) -> None: ...

class ScheduleJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    metadata: JobMetadata
    def __init__(self, name: _Optional[str] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ...) -> None: ...

class GetJobResponse(_message.Message):
    __slots__ = ("job",)
    JOB_FIELD_NUMBER: _ClassVar[int]
    job: Job
    def __init__(self, job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("name", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    metadata: JobMetadata
    def __init__(self, name: _Optional[str] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ...) -> None: ...

class DeleteJobResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class NamedJob(_message.Message):
    __slots__ = ("name", "metadata", "job")
    NAME_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    JOB_FIELD_NUMBER: _ClassVar[int]
    name: str
    metadata: JobMetadata
    job: Job
    def __init__(self, name: _Optional[str] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ..., job: _Optional[_Union[Job, _Mapping]] = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("metadata",)
    METADATA_FIELD_NUMBER: _ClassVar[int]
    metadata: JobMetadata
    def __init__(self, metadata: _Optional[_Union[JobMetadata, _Mapping]] = ...) -> None: ...

class ListJobsResponse(_message.Message):
    __slots__ = ("jobs",)
    JOBS_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[NamedJob]
    def __init__(self, jobs: _Optional[_Iterable[_Union[NamedJob, _Mapping]]] = ...) -> None: ...

class WatchJobsRequest(_message.Message):
    __slots__ = ("initial", "result")
    INITIAL_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    initial: WatchJobsRequestInitial
    result: WatchJobsRequestResult
    def __init__(self, initial: _Optional[_Union[WatchJobsRequestInitial, _Mapping]] = ..., result: _Optional[_Union[WatchJobsRequestResult, _Mapping]] = ...) -> None: ...

class WatchJobsRequestInitial(_message.Message):
    __slots__ = ("app_id", "namespace", "actor_types", "accept_job_types", "concurrency_limits")
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    ACTOR_TYPES_FIELD_NUMBER: _ClassVar[int]
    ACCEPT_JOB_TYPES_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_LIMITS_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    namespace: str
    actor_types: _containers.RepeatedScalarFieldContainer[str]
    accept_job_types: _containers.RepeatedScalarFieldContainer[JobTargetType]
    concurrency_limits: _containers.RepeatedCompositeFieldContainer[ConcurrencyLimit]
    def __init__(self, app_id: _Optional[str] = ..., namespace: _Optional[str] = ..., actor_types: _Optional[_Iterable[str]] = ..., accept_job_types: _Optional[_Iterable[_Union[JobTargetType, str]]] = ..., concurrency_limits: _Optional[_Iterable[_Union[ConcurrencyLimit, _Mapping]]] = ...) -> None: ...

class ConcurrencyLimit(_message.Message):
    __slots__ = ("max_concurrent", "name", "actor")
    MAX_CONCURRENT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    max_concurrent: int
    name: str
    actor: ConcurrencyLimitActor
    def __init__(self, max_concurrent: _Optional[int] = ..., name: _Optional[str] = ..., actor: _Optional[_Union[ConcurrencyLimitActor, _Mapping]] = ...) -> None: ...

class ConcurrencyLimitActor(_message.Message):
    __slots__ = ("type",)
    TYPE_FIELD_NUMBER: _ClassVar[int]
    type: str
    def __init__(self, type: _Optional[str] = ...) -> None: ...

class WatchJobsRequestResult(_message.Message):
    __slots__ = ("id", "status")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    id: int
    status: WatchJobsRequestResultStatus
    def __init__(self, id: _Optional[int] = ..., status: _Optional[_Union[WatchJobsRequestResultStatus, str]] = ...) -> None: ...

class WatchJobsResponse(_message.Message):
    __slots__ = ("name", "id", "data", "metadata")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name: str
    id: int
    data: _any_pb2.Any
    metadata: JobMetadata
    def __init__(self, name: _Optional[str] = ..., id: _Optional[int] = ..., data: _Optional[_Union[_any_pb2.Any, _Mapping]] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ...) -> None: ...

class WatchHostsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WatchHostsResponse(_message.Message):
    __slots__ = ("hosts",)
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedCompositeFieldContainer[Host]
    def __init__(self, hosts: _Optional[_Iterable[_Union[Host, _Mapping]]] = ...) -> None: ...

class Host(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class DeleteByMetadataRequest(_message.Message):
    __slots__ = ("metadata", "id_prefix_match")
    METADATA_FIELD_NUMBER: _ClassVar[int]
    ID_PREFIX_MATCH_FIELD_NUMBER: _ClassVar[int]
    metadata: JobMetadata
    id_prefix_match: bool
    def __init__(self, metadata: _Optional[_Union[JobMetadata, _Mapping]] = ..., id_prefix_match: bool = ...) -> None: ...

class DeleteByMetadataResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteByNamePrefixRequest(_message.Message):
    __slots__ = ("name_prefix", "metadata")
    NAME_PREFIX_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    name_prefix: str
    metadata: JobMetadata
    def __init__(self, name_prefix: _Optional[str] = ..., metadata: _Optional[_Union[JobMetadata, _Mapping]] = ...) -> None: ...

class DeleteByNamePrefixResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
