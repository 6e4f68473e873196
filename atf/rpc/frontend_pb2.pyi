from atf.rpc import batch_pb2 as _batch_pb2
from atf.rpc import job_pb2 as _job_pb2
from atf.rpc import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Placement(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ANY: _ClassVar[Placement]
    STICKY: _ClassVar[Placement]
    SPREAD: _ClassVar[Placement]

class CoreState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    FREE: _ClassVar[CoreState]
    SCHEDULED: _ClassVar[CoreState]
    OCCUPIED: _ClassVar[CoreState]
ANY: Placement
STICKY: Placement
SPREAD: Placement
FREE: CoreState
SCHEDULED: CoreState
OCCUPIED: CoreState

class ScheduleJobRequest(_message.Message):
    __slots__ = ("job", "overwrite", "request_id", "anew", "who", "why")
    JOB_FIELD_NUMBER: _ClassVar[int]
    OVERWRITE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ANEW_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.JobSpec
    overwrite: bool
    request_id: str
    anew: bool
    who: str
    why: str
    def __init__(self, job: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., overwrite: bool = ..., request_id: _Optional[str] = ..., anew: bool = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class ScheduleJobsRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ScheduleJobRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ScheduleJobRequest, _Mapping]]] = ...) -> None: ...

class ScheduleJobsReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ScheduleJobResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ScheduleJobResult, _Mapping]]] = ...) -> None: ...

class ScheduleJobResult(_message.Message):
    __slots__ = ("job", "error")
    JOB_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.Job
    error: Error
    def __init__(self, job: _Optional[_Union[_job_pb2.Job, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class GetJobRequest(_message.Message):
    __slots__ = ("name", "unredacted")
    NAME_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    name: str
    unredacted: bool
    def __init__(self, name: _Optional[str] = ..., unredacted: bool = ...) -> None: ...

class ListJobsRequest(_message.Message):
    __slots__ = ("prefix", "page_size", "page_token", "unredacted")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    page_size: int
    page_token: str
    unredacted: bool
    def __init__(self, prefix: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., unredacted: bool = ...) -> None: ...

class ListJobsReply(_message.Message):
    __slots__ = ("jobs", "next_page_token")
    JOBS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    jobs: _containers.RepeatedCompositeFieldContainer[_job_pb2.Job]
    next_page_token: str
    def __init__(self, jobs: _Optional[_Iterable[_Union[_job_pb2.Job, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeleteJobRequest(_message.Message):
    __slots__ = ("name", "who", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    who: str
    why: str
    def __init__(self, name: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class DeleteJobReply(_message.Message):
    __slots__ = ("existed",)
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    def __init__(self, existed: bool = ...) -> None: ...

class DeleteJobsByPrefixRequest(_message.Message):
    __slots__ = ("prefix", "who", "why")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    prefix: str
    who: str
    why: str
    def __init__(self, prefix: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class DeleteJobsByPrefixReply(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: int
    def __init__(self, deleted: _Optional[int] = ...) -> None: ...

class PauseJobRequest(_message.Message):
    __slots__ = ("name", "who", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    who: str
    why: str
    def __init__(self, name: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class ResumeJobRequest(_message.Message):
    __slots__ = ("name", "who", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    who: str
    why: str
    def __init__(self, name: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RunJobNowRequest(_message.Message):
    __slots__ = ("name", "task_id", "who", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    task_id: str
    who: str
    why: str
    def __init__(self, name: _Optional[str] = ..., task_id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class PreviewScheduleRequest(_message.Message):
    __slots__ = ("job", "from_at_us", "count")
    JOB_FIELD_NUMBER: _ClassVar[int]
    FROM_AT_US_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    job: _job_pb2.JobSpec
    from_at_us: int
    count: int
    def __init__(self, job: _Optional[_Union[_job_pb2.JobSpec, _Mapping]] = ..., from_at_us: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class PreviewScheduleReply(_message.Message):
    __slots__ = ("ticks_at_us",)
    TICKS_AT_US_FIELD_NUMBER: _ClassVar[int]
    ticks_at_us: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ticks_at_us: _Optional[_Iterable[int]] = ...) -> None: ...

class ScheduleRequest(_message.Message):
    __slots__ = ("id", "spec", "at_us", "delay_us", "durability")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: _task_pb2.TaskSpec
    at_us: int
    delay_us: int
    durability: _task_pb2.Durability
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ..., at_us: _Optional[int] = ..., delay_us: _Optional[int] = ..., durability: _Optional[_Union[_task_pb2.Durability, str]] = ...) -> None: ...

class ScheduleReply(_message.Message):
    __slots__ = ("id", "existed", "scheduled_at_us", "durability")
    ID_FIELD_NUMBER: _ClassVar[int]
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_US_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    existed: bool
    scheduled_at_us: int
    durability: _task_pb2.Durability
    def __init__(self, id: _Optional[str] = ..., existed: bool = ..., scheduled_at_us: _Optional[int] = ..., durability: _Optional[_Union[_task_pb2.Durability, str]] = ...) -> None: ...

class ScheduleManyRequest(_message.Message):
    __slots__ = ("requests",)
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    requests: _containers.RepeatedCompositeFieldContainer[ScheduleRequest]
    def __init__(self, requests: _Optional[_Iterable[_Union[ScheduleRequest, _Mapping]]] = ...) -> None: ...

class ScheduleManyReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ScheduleResult]
    def __init__(self, results: _Optional[_Iterable[_Union[ScheduleResult, _Mapping]]] = ...) -> None: ...

class ScheduleResult(_message.Message):
    __slots__ = ("reply", "error")
    REPLY_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    reply: ScheduleReply
    error: Error
    def __init__(self, reply: _Optional[_Union[ScheduleReply, _Mapping]] = ..., error: _Optional[_Union[Error, _Mapping]] = ...) -> None: ...

class Error(_message.Message):
    __slots__ = ("code", "message", "reason", "retry_after_us")
    CODE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_US_FIELD_NUMBER: _ClassVar[int]
    code: str
    message: str
    reason: str
    retry_after_us: int
    def __init__(self, code: _Optional[str] = ..., message: _Optional[str] = ..., reason: _Optional[str] = ..., retry_after_us: _Optional[int] = ...) -> None: ...

class GetTaskRequest(_message.Message):
    __slots__ = ("id", "with_spec", "unredacted")
    ID_FIELD_NUMBER: _ClassVar[int]
    WITH_SPEC_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    with_spec: bool
    unredacted: bool
    def __init__(self, id: _Optional[str] = ..., with_spec: bool = ..., unredacted: bool = ...) -> None: ...

class TaskFilter(_message.Message):
    __slots__ = ("statuses", "priorities", "labels", "key", "error_type", "since_at_us", "until_at_us", "search", "failure_group")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SearchEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PRIORITIES_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    SINCE_AT_US_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_US_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    FAILURE_GROUP_FIELD_NUMBER: _ClassVar[int]
    statuses: _containers.RepeatedScalarFieldContainer[_task_pb2.Status]
    priorities: _containers.RepeatedScalarFieldContainer[int]
    labels: _containers.ScalarMap[str, str]
    key: str
    error_type: str
    since_at_us: int
    until_at_us: int
    search: _containers.ScalarMap[str, str]
    failure_group: str
    def __init__(self, statuses: _Optional[_Iterable[_Union[_task_pb2.Status, str]]] = ..., priorities: _Optional[_Iterable[int]] = ..., labels: _Optional[_Mapping[str, str]] = ..., key: _Optional[str] = ..., error_type: _Optional[str] = ..., since_at_us: _Optional[int] = ..., until_at_us: _Optional[int] = ..., search: _Optional[_Mapping[str, str]] = ..., failure_group: _Optional[str] = ..., **kwargs) -> None: ...

class ListTasksRequest(_message.Message):
    __slots__ = ("filter", "page_size", "page_token", "with_spec", "unredacted", "oldest_first")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WITH_SPEC_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    OLDEST_FIRST_FIELD_NUMBER: _ClassVar[int]
    filter: TaskFilter
    page_size: int
    page_token: str
    with_spec: bool
    unredacted: bool
    oldest_first: bool
    def __init__(self, filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., with_spec: bool = ..., unredacted: bool = ..., oldest_first: bool = ...) -> None: ...

class ListTasksReply(_message.Message):
    __slots__ = ("tasks", "next_page_token", "looked_at", "of")
    TASKS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    next_page_token: str
    looked_at: int
    of: int
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., looked_at: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...

class CountTasksRequest(_message.Message):
    __slots__ = ()
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    def __init__(self, **kwargs) -> None: ...

class CountTasksReply(_message.Message):
    __slots__ = ("at_us", "lambdas")
    AT_US_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    at_us: int
    lambdas: _containers.RepeatedCompositeFieldContainer[LambdaCounts]
    def __init__(self, at_us: _Optional[int] = ..., lambdas: _Optional[_Iterable[_Union[LambdaCounts, _Mapping]]] = ...) -> None: ...

class LambdaCounts(_message.Message):
    __slots__ = ("counts",)
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    counts: _containers.ScalarMap[str, int]
    def __init__(self, counts: _Optional[_Mapping[str, int]] = ..., **kwargs) -> None: ...

class WaitTasksRequest(_message.Message):
    __slots__ = ("ids", "timeout_us", "all")
    IDS_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    timeout_us: int
    all: bool
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., timeout_us: _Optional[int] = ..., all: bool = ...) -> None: ...

class WaitTasksReply(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[_task_pb2.Task]
    def __init__(self, tasks: _Optional[_Iterable[_Union[_task_pb2.Task, _Mapping]]] = ...) -> None: ...

class GetLogRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class WatchLogRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class GetLogReply(_message.Message):
    __slots__ = ("runs", "status", "why_none")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    WHY_NONE_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[_task_pb2.RunLog]
    status: _task_pb2.Status
    why_none: str
    def __init__(self, runs: _Optional[_Iterable[_Union[_task_pb2.RunLog, _Mapping]]] = ..., status: _Optional[_Union[_task_pb2.Status, str]] = ..., why_none: _Optional[str] = ...) -> None: ...

class CancelTasksRequest(_message.Message):
    __slots__ = ("ids", "who", "why")
    IDS_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    who: str
    why: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class CancelTasksReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[CancelResult]
    def __init__(self, results: _Optional[_Iterable[_Union[CancelResult, _Mapping]]] = ...) -> None: ...

class CancelResult(_message.Message):
    __slots__ = ("id", "status", "cancelled", "cancel_requested")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: _task_pb2.Status
    cancelled: bool
    cancel_requested: bool
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[_task_pb2.Status, str]] = ..., cancelled: bool = ..., cancel_requested: bool = ...) -> None: ...

class CancelMatchingRequest(_message.Message):
    __slots__ = ("filter", "dry_run", "page_token", "who", "why")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    filter: TaskFilter
    dry_run: bool
    page_token: str
    who: str
    why: str
    def __init__(self, filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., dry_run: bool = ..., page_token: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class CancelMatchingReply(_message.Message):
    __slots__ = ("matched", "cancelled", "requested", "looked_at", "of", "ids", "next_page_token")
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    matched: int
    cancelled: int
    requested: int
    looked_at: int
    of: int
    ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    def __init__(self, matched: _Optional[int] = ..., cancelled: _Optional[int] = ..., requested: _Optional[int] = ..., looked_at: _Optional[int] = ..., of: _Optional[int] = ..., ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class RetryTasksRequest(_message.Message):
    __slots__ = ("ids", "who", "why")
    IDS_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    who: str
    why: str
    def __init__(self, ids: _Optional[_Iterable[str]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RetryTasksReply(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[RetryResult]
    def __init__(self, results: _Optional[_Iterable[_Union[RetryResult, _Mapping]]] = ...) -> None: ...

class RetryResult(_message.Message):
    __slots__ = ("id", "status", "retried", "held_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    HELD_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: _task_pb2.Status
    retried: bool
    held_by: str
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[_task_pb2.Status, str]] = ..., retried: bool = ..., held_by: _Optional[str] = ...) -> None: ...

class LambdaSpec(_message.Message):
    __slots__ = ("name", "options", "queue_limit", "enqueue_timeout_us", "signature", "owner", "runbook", "rate", "burst", "max_pending", "max_running", "shares", "pool", "placement", "stop_on_fatal", "version", "gate_at_fatal", "schedule", "digest", "redact", "slo", "logs", "search")
    class SharesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: float
        def __init__(self, key: _Optional[int] = ..., value: _Optional[float] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    ENQUEUE_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    RUNBOOK_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    BURST_FIELD_NUMBER: _ClassVar[int]
    MAX_PENDING_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNNING_FIELD_NUMBER: _ClassVar[int]
    SHARES_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    STOP_ON_FATAL_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    GATE_AT_FATAL_FIELD_NUMBER: _ClassVar[int]
    SCHEDULE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    REDACT_FIELD_NUMBER: _ClassVar[int]
    SLO_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    SEARCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    options: _task_pb2.TaskOptions
    queue_limit: int
    enqueue_timeout_us: int
    signature: str
    owner: str
    runbook: str
    rate: float
    burst: int
    max_pending: int
    max_running: int
    shares: _containers.ScalarMap[int, float]
    pool: str
    placement: Placement
    stop_on_fatal: bool
    version: int
    gate_at_fatal: float
    schedule: str
    digest: str
    redact: _containers.RepeatedScalarFieldContainer[str]
    slo: str
    logs: _task_pb2.KeptLogs
    search: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., options: _Optional[_Union[_task_pb2.TaskOptions, _Mapping]] = ..., queue_limit: _Optional[int] = ..., enqueue_timeout_us: _Optional[int] = ..., signature: _Optional[str] = ..., owner: _Optional[str] = ..., runbook: _Optional[str] = ..., rate: _Optional[float] = ..., burst: _Optional[int] = ..., max_pending: _Optional[int] = ..., max_running: _Optional[int] = ..., shares: _Optional[_Mapping[int, float]] = ..., pool: _Optional[str] = ..., placement: _Optional[_Union[Placement, str]] = ..., stop_on_fatal: bool = ..., version: _Optional[int] = ..., gate_at_fatal: _Optional[float] = ..., schedule: _Optional[str] = ..., digest: _Optional[str] = ..., redact: _Optional[_Iterable[str]] = ..., slo: _Optional[str] = ..., logs: _Optional[_Union[_task_pb2.KeptLogs, str]] = ..., search: _Optional[_Iterable[str]] = ...) -> None: ...

class RegisterLambdasRequest(_message.Message):
    __slots__ = ("lambdas", "who", "why")
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    lambdas: _containers.RepeatedCompositeFieldContainer[LambdaSpec]
    who: str
    why: str
    def __init__(self, lambdas: _Optional[_Iterable[_Union[LambdaSpec, _Mapping]]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RegisterLambdasReply(_message.Message):
    __slots__ = ("warnings",)
    WARNINGS_FIELD_NUMBER: _ClassVar[int]
    warnings: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, warnings: _Optional[_Iterable[str]] = ...) -> None: ...

class DeleteLambdaRequest(_message.Message):
    __slots__ = ("cancel_waiting", "dry_run", "who", "why")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    CANCEL_WAITING_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    cancel_waiting: bool
    dry_run: bool
    who: str
    why: str
    def __init__(self, cancel_waiting: bool = ..., dry_run: bool = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class DeleteLambdaReply(_message.Message):
    __slots__ = ("deleted", "waiting", "cancelled")
    DELETED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    waiting: int
    cancelled: int
    def __init__(self, deleted: bool = ..., waiting: _Optional[int] = ..., cancelled: _Optional[int] = ...) -> None: ...

class ListLambdasRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListLambdasReply(_message.Message):
    __slots__ = ("lambdas", "next_page_token", "claims_paused")
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    lambdas: _containers.RepeatedCompositeFieldContainer[LambdaInfo]
    next_page_token: str
    claims_paused: str
    def __init__(self, lambdas: _Optional[_Iterable[_Union[LambdaInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., claims_paused: _Optional[str] = ...) -> None: ...

class LambdaInfo(_message.Message):
    __slots__ = ("spec", "paused", "counts", "queues", "overrides", "in_force", "served")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class OverridesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    OVERRIDES_FIELD_NUMBER: _ClassVar[int]
    IN_FORCE_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    spec: LambdaSpec
    paused: bool
    counts: _containers.ScalarMap[str, int]
    queues: _containers.RepeatedCompositeFieldContainer[QueueInfo]
    overrides: _containers.ScalarMap[str, str]
    in_force: LambdaSpec
    served: bool
    def __init__(self, spec: _Optional[_Union[LambdaSpec, _Mapping]] = ..., paused: bool = ..., counts: _Optional[_Mapping[str, int]] = ..., queues: _Optional[_Iterable[_Union[QueueInfo, _Mapping]]] = ..., overrides: _Optional[_Mapping[str, str]] = ..., in_force: _Optional[_Union[LambdaSpec, _Mapping]] = ..., served: bool = ...) -> None: ...

class SetLambdaRequest(_message.Message):
    __slots__ = ("set", "unset", "who", "why")
    class SetEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    UNSET_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    set: _containers.ScalarMap[str, str]
    unset: _containers.RepeatedScalarFieldContainer[str]
    who: str
    why: str
    def __init__(self, set: _Optional[_Mapping[str, str]] = ..., unset: _Optional[_Iterable[str]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class QueueInfo(_message.Message):
    __slots__ = ("name", "partition", "priority", "depth", "limit")
    NAME_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    DEPTH_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    name: str
    partition: int
    priority: int
    depth: int
    limit: int
    def __init__(self, name: _Optional[str] = ..., partition: _Optional[int] = ..., priority: _Optional[int] = ..., depth: _Optional[int] = ..., limit: _Optional[int] = ...) -> None: ...

class PauseLambdaRequest(_message.Message):
    __slots__ = ("who", "why")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    who: str
    why: str
    def __init__(self, who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class PauseLambdaReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ResumeLambdaRequest(_message.Message):
    __slots__ = ("who", "why")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    who: str
    why: str
    def __init__(self, who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class ResumeLambdaReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Gate(_message.Message):
    __slots__ = ("labels", "action", "delay_us", "share", "until_at_us", "who", "why", "automatic", "set_at_us", "waiting", "dropped", "number")
    class Action(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        ACTION_UNSPECIFIED: _ClassVar[Gate.Action]
        PAUSE: _ClassVar[Gate.Action]
        DROP: _ClassVar[Gate.Action]
        DELAY: _ClassVar[Gate.Action]
        ADMIT: _ClassVar[Gate.Action]
    ACTION_UNSPECIFIED: Gate.Action
    PAUSE: Gate.Action
    DROP: Gate.Action
    DELAY: Gate.Action
    ADMIT: Gate.Action
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_US_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    SET_AT_US_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    action: Gate.Action
    delay_us: int
    share: float
    until_at_us: int
    who: str
    why: str
    automatic: bool
    set_at_us: int
    waiting: int
    dropped: int
    number: int
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., action: _Optional[_Union[Gate.Action, str]] = ..., delay_us: _Optional[int] = ..., share: _Optional[float] = ..., until_at_us: _Optional[int] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., automatic: bool = ..., set_at_us: _Optional[int] = ..., waiting: _Optional[int] = ..., dropped: _Optional[int] = ..., number: _Optional[int] = ..., **kwargs) -> None: ...

class SetGateRequest(_message.Message):
    __slots__ = ("labels", "action", "delay_us", "share", "until_at_us", "for_us", "who", "why", "request_id")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    DELAY_US_FIELD_NUMBER: _ClassVar[int]
    SHARE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_US_FIELD_NUMBER: _ClassVar[int]
    FOR_US_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    action: Gate.Action
    delay_us: int
    share: float
    until_at_us: int
    for_us: int
    who: str
    why: str
    request_id: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., action: _Optional[_Union[Gate.Action, str]] = ..., delay_us: _Optional[int] = ..., share: _Optional[float] = ..., until_at_us: _Optional[int] = ..., for_us: _Optional[int] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., request_id: _Optional[str] = ..., **kwargs) -> None: ...

class LiftGateRequest(_message.Message):
    __slots__ = ("labels", "action", "who", "why")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    action: Gate.Action
    who: str
    why: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., action: _Optional[_Union[Gate.Action, str]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class LiftGateReply(_message.Message):
    __slots__ = ("lifted",)
    LIFTED_FIELD_NUMBER: _ClassVar[int]
    lifted: int
    def __init__(self, lifted: _Optional[int] = ...) -> None: ...

class ListGatesRequest(_message.Message):
    __slots__ = ()
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    def __init__(self, **kwargs) -> None: ...

class ListGatesReply(_message.Message):
    __slots__ = ("gates",)
    GATES_FIELD_NUMBER: _ClassVar[int]
    gates: _containers.RepeatedCompositeFieldContainer[Gate]
    def __init__(self, gates: _Optional[_Iterable[_Union[Gate, _Mapping]]] = ...) -> None: ...

class ListFailuresRequest(_message.Message):
    __slots__ = ("since_at_us", "page_size", "page_token")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    SINCE_AT_US_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    since_at_us: int
    page_size: int
    page_token: str
    def __init__(self, since_at_us: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListFailuresReply(_message.Message):
    __slots__ = ("groups", "next_page_token")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[FailureGroup]
    next_page_token: str
    def __init__(self, groups: _Optional[_Iterable[_Union[FailureGroup, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class FailureGroup(_message.Message):
    __slots__ = ("id", "error_type", "place", "message", "count", "first_at_us", "last_at_us", "task_id", "withheld")
    ID_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    PLACE_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_US_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_US_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    id: str
    error_type: str
    place: str
    message: str
    count: int
    first_at_us: int
    last_at_us: int
    task_id: str
    withheld: bool
    def __init__(self, id: _Optional[str] = ..., error_type: _Optional[str] = ..., place: _Optional[str] = ..., message: _Optional[str] = ..., count: _Optional[int] = ..., first_at_us: _Optional[int] = ..., last_at_us: _Optional[int] = ..., task_id: _Optional[str] = ..., withheld: bool = ..., **kwargs) -> None: ...

class RedriveRequest(_message.Message):
    __slots__ = ("filter", "error", "newer_version", "rate", "dry_run", "page_token", "who", "why")
    FILTER_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NEWER_VERSION_FIELD_NUMBER: _ClassVar[int]
    RATE_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    filter: TaskFilter
    error: str
    newer_version: bool
    rate: float
    dry_run: bool
    page_token: str
    who: str
    why: str
    def __init__(self, filter: _Optional[_Union[TaskFilter, _Mapping]] = ..., error: _Optional[str] = ..., newer_version: bool = ..., rate: _Optional[float] = ..., dry_run: bool = ..., page_token: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RedriveReply(_message.Message):
    __slots__ = ("matched", "redriven", "looked_at", "errors", "ids", "next_page_token", "last_due_at_us", "of")
    class ErrorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MATCHED_FIELD_NUMBER: _ClassVar[int]
    REDRIVEN_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    IDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    LAST_DUE_AT_US_FIELD_NUMBER: _ClassVar[int]
    OF_FIELD_NUMBER: _ClassVar[int]
    matched: int
    redriven: int
    looked_at: int
    errors: _containers.ScalarMap[str, int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    last_due_at_us: int
    of: int
    def __init__(self, matched: _Optional[int] = ..., redriven: _Optional[int] = ..., looked_at: _Optional[int] = ..., errors: _Optional[_Mapping[str, int]] = ..., ids: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ..., last_due_at_us: _Optional[int] = ..., of: _Optional[int] = ...) -> None: ...

class ListAuditRequest(_message.Message):
    __slots__ = ("page_size", "before", "who", "what", "task_id", "since_at_us", "until_at_us")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_AT_US_FIELD_NUMBER: _ClassVar[int]
    UNTIL_AT_US_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    before: int
    who: str
    what: str
    task_id: str
    since_at_us: int
    until_at_us: int
    def __init__(self, page_size: _Optional[int] = ..., before: _Optional[int] = ..., who: _Optional[str] = ..., what: _Optional[str] = ..., task_id: _Optional[str] = ..., since_at_us: _Optional[int] = ..., until_at_us: _Optional[int] = ..., **kwargs) -> None: ...

class ListAuditReply(_message.Message):
    __slots__ = ("entries", "before", "looked_at")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    LOOKED_AT_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    before: int
    looked_at: int
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., before: _Optional[int] = ..., looked_at: _Optional[int] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("number", "at_us", "what", "labels", "who", "why", "detail", "tasks", "task_count", "outcome")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    WHAT_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    TASKS_FIELD_NUMBER: _ClassVar[int]
    TASK_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    number: int
    at_us: int
    what: str
    labels: _containers.ScalarMap[str, str]
    who: str
    why: str
    detail: str
    tasks: _containers.RepeatedScalarFieldContainer[str]
    task_count: int
    outcome: str
    def __init__(self, number: _Optional[int] = ..., at_us: _Optional[int] = ..., what: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., detail: _Optional[str] = ..., tasks: _Optional[_Iterable[str]] = ..., task_count: _Optional[int] = ..., outcome: _Optional[str] = ..., **kwargs) -> None: ...

class ExplainTaskRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ExplainTaskReply(_message.Message):
    __slots__ = ("task", "reason", "sentence", "until_us", "position", "queue_depth", "queue_limit", "now_us", "behind", "waits")
    TASK_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    QUEUE_DEPTH_FIELD_NUMBER: _ClassVar[int]
    QUEUE_LIMIT_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    BEHIND_FIELD_NUMBER: _ClassVar[int]
    WAITS_FIELD_NUMBER: _ClassVar[int]
    task: _task_pb2.Task
    reason: str
    sentence: str
    until_us: int
    position: int
    queue_depth: int
    queue_limit: int
    now_us: int
    behind: str
    waits: _containers.RepeatedCompositeFieldContainer[WaitPart]
    def __init__(self, task: _Optional[_Union[_task_pb2.Task, _Mapping]] = ..., reason: _Optional[str] = ..., sentence: _Optional[str] = ..., until_us: _Optional[int] = ..., position: _Optional[int] = ..., queue_depth: _Optional[int] = ..., queue_limit: _Optional[int] = ..., now_us: _Optional[int] = ..., behind: _Optional[str] = ..., waits: _Optional[_Iterable[_Union[WaitPart, _Mapping]]] = ...) -> None: ...

class WaitPart(_message.Message):
    __slots__ = ("reason", "begun_us", "us")
    REASON_FIELD_NUMBER: _ClassVar[int]
    BEGUN_US_FIELD_NUMBER: _ClassVar[int]
    US_FIELD_NUMBER: _ClassVar[int]
    reason: str
    begun_us: int
    us: int
    def __init__(self, reason: _Optional[str] = ..., begun_us: _Optional[int] = ..., us: _Optional[int] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ("key", "page_size", "page_token")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: str
    page_size: int
    page_token: str
    def __init__(self, key: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListKeysReply(_message.Message):
    __slots__ = ("keys", "next_page_token")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[KeyInfo]
    next_page_token: str
    def __init__(self, keys: _Optional[_Iterable[_Union[KeyInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class KeyInfo(_message.Message):
    __slots__ = ("key", "stopped", "stopped_at_us", "task_id", "error", "unfinished", "withheld")
    KEY_FIELD_NUMBER: _ClassVar[int]
    STOPPED_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_US_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    UNFINISHED_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    key: str
    stopped: bool
    stopped_at_us: int
    task_id: str
    error: str
    unfinished: int
    withheld: bool
    def __init__(self, key: _Optional[str] = ..., stopped: bool = ..., stopped_at_us: _Optional[int] = ..., task_id: _Optional[str] = ..., error: _Optional[str] = ..., unfinished: _Optional[int] = ..., withheld: bool = ...) -> None: ...

class ListConcurrencyKeysRequest(_message.Message):
    __slots__ = ("key", "page_size", "page_token")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: str
    page_size: int
    page_token: str
    def __init__(self, key: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListConcurrencyKeysReply(_message.Message):
    __slots__ = ("keys", "next_page_token")
    KEYS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[ConcurrencyKeyInfo]
    next_page_token: str
    def __init__(self, keys: _Optional[_Iterable[_Union[ConcurrencyKeyInfo, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ConcurrencyKeyInfo(_message.Message):
    __slots__ = ("key", "taken", "limit", "waiting")
    KEY_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    key: str
    taken: int
    limit: int
    waiting: int
    def __init__(self, key: _Optional[str] = ..., taken: _Optional[int] = ..., limit: _Optional[int] = ..., waiting: _Optional[int] = ...) -> None: ...

class ResumeKeyRequest(_message.Message):
    __slots__ = ("key", "task_id", "who", "why")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: str
    task_id: str
    who: str
    why: str
    def __init__(self, key: _Optional[str] = ..., task_id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class ResumeKeyReply(_message.Message):
    __slots__ = ("task_id", "retried")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    RETRIED_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    retried: bool
    def __init__(self, task_id: _Optional[str] = ..., retried: bool = ...) -> None: ...

class SkipKeyRequest(_message.Message):
    __slots__ = ("key", "task_id", "who", "why")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    key: str
    task_id: str
    who: str
    why: str
    def __init__(self, key: _Optional[str] = ..., task_id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class SkipKeyReply(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class FindDaprAppRequest(_message.Message):
    __slots__ = ("app_id",)
    APP_ID_FIELD_NUMBER: _ClassVar[int]
    app_id: str
    def __init__(self, app_id: _Optional[str] = ...) -> None: ...

class FindDaprAppReply(_message.Message):
    __slots__ = ("address",)
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    address: str
    def __init__(self, address: _Optional[str] = ...) -> None: ...

class SetCapacityRequest(_message.Message):
    __slots__ = ("pool", "cores", "reserve", "lookahead", "max_retries", "hand_over_us", "reserved_timeout_us", "multiplexed_timeout_us", "rotation_us", "who", "why")
    class ReserveEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    POOL_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    RESERVE_FIELD_NUMBER: _ClassVar[int]
    LOOKAHEAD_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_US_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    MULTIPLEXED_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ROTATION_US_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    pool: str
    cores: int
    reserve: _containers.ScalarMap[str, int]
    lookahead: int
    max_retries: int
    hand_over_us: int
    reserved_timeout_us: int
    multiplexed_timeout_us: int
    rotation_us: int
    who: str
    why: str
    def __init__(self, pool: _Optional[str] = ..., cores: _Optional[int] = ..., reserve: _Optional[_Mapping[str, int]] = ..., lookahead: _Optional[int] = ..., max_retries: _Optional[int] = ..., hand_over_us: _Optional[int] = ..., reserved_timeout_us: _Optional[int] = ..., multiplexed_timeout_us: _Optional[int] = ..., rotation_us: _Optional[int] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class GetCapacityRequest(_message.Message):
    __slots__ = ("pool",)
    POOL_FIELD_NUMBER: _ClassVar[int]
    pool: str
    def __init__(self, pool: _Optional[str] = ...) -> None: ...

class ListCapacityRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListCapacityReply(_message.Message):
    __slots__ = ("pools",)
    POOLS_FIELD_NUMBER: _ClassVar[int]
    pools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pools: _Optional[_Iterable[str]] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ("recent_us",)
    RECENT_US_FIELD_NUMBER: _ClassVar[int]
    recent_us: int
    def __init__(self, recent_us: _Optional[int] = ...) -> None: ...

class GetStatusReply(_message.Message):
    __slots__ = ("now_us", "check_results", "memory", "claims_in_us", "partitions", "partitions_away", "roles", "hosts", "lambdas", "lambdas_known", "jobs", "more_jobs", "claims_paused", "counts", "cluster_withheld")
    class CountsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    CHECK_RESULTS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_IN_US_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_AWAY_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_KNOWN_FIELD_NUMBER: _ClassVar[int]
    JOBS_FIELD_NUMBER: _ClassVar[int]
    MORE_JOBS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_PAUSED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_WITHHELD_FIELD_NUMBER: _ClassVar[int]
    now_us: int
    check_results: _containers.RepeatedCompositeFieldContainer[StoreCheckResult]
    memory: _containers.RepeatedCompositeFieldContainer[StoreMemory]
    claims_in_us: int
    partitions: int
    partitions_away: int
    roles: _containers.RepeatedCompositeFieldContainer[RoleCount]
    hosts: _containers.RepeatedCompositeFieldContainer[WorkerHost]
    lambdas: _containers.RepeatedCompositeFieldContainer[LambdaStatus]
    lambdas_known: int
    jobs: _containers.RepeatedCompositeFieldContainer[JobWithoutCode]
    more_jobs: bool
    claims_paused: str
    counts: _containers.ScalarMap[str, int]
    cluster_withheld: bool
    def __init__(self, now_us: _Optional[int] = ..., check_results: _Optional[_Iterable[_Union[StoreCheckResult, _Mapping]]] = ..., memory: _Optional[_Iterable[_Union[StoreMemory, _Mapping]]] = ..., claims_in_us: _Optional[int] = ..., partitions: _Optional[int] = ..., partitions_away: _Optional[int] = ..., roles: _Optional[_Iterable[_Union[RoleCount, _Mapping]]] = ..., hosts: _Optional[_Iterable[_Union[WorkerHost, _Mapping]]] = ..., lambdas: _Optional[_Iterable[_Union[LambdaStatus, _Mapping]]] = ..., lambdas_known: _Optional[int] = ..., jobs: _Optional[_Iterable[_Union[JobWithoutCode, _Mapping]]] = ..., more_jobs: bool = ..., claims_paused: _Optional[str] = ..., counts: _Optional[_Mapping[str, int]] = ..., cluster_withheld: bool = ...) -> None: ...

class StoreCheckResult(_message.Message):
    __slots__ = ("check", "state", "sentence")
    CHECK_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    SENTENCE_FIELD_NUMBER: _ClassVar[int]
    check: str
    state: str
    sentence: str
    def __init__(self, check: _Optional[str] = ..., state: _Optional[str] = ..., sentence: _Optional[str] = ...) -> None: ...

class StoreMemory(_message.Message):
    __slots__ = ("where", "used_bytes", "max_bytes")
    WHERE_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    where: str
    used_bytes: int
    max_bytes: int
    def __init__(self, where: _Optional[str] = ..., used_bytes: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class RoleCount(_message.Message):
    __slots__ = ("role", "version", "processes")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    role: str
    version: str
    processes: int
    def __init__(self, role: _Optional[str] = ..., version: _Optional[str] = ..., processes: _Optional[int] = ...) -> None: ...

class LambdaStatus(_message.Message):
    __slots__ = ("paused", "gated", "served", "waiting", "later", "running", "due_since_us", "dead", "failed_recently", "failed_id", "retrying", "kept_by")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PAUSED_FIELD_NUMBER: _ClassVar[int]
    GATED_FIELD_NUMBER: _ClassVar[int]
    SERVED_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    LATER_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    DUE_SINCE_US_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    FAILED_RECENTLY_FIELD_NUMBER: _ClassVar[int]
    FAILED_ID_FIELD_NUMBER: _ClassVar[int]
    RETRYING_FIELD_NUMBER: _ClassVar[int]
    KEPT_BY_FIELD_NUMBER: _ClassVar[int]
    paused: bool
    gated: bool
    served: bool
    waiting: int
    later: int
    running: int
    due_since_us: int
    dead: int
    failed_recently: int
    failed_id: str
    retrying: int
    kept_by: str
    def __init__(self, paused: bool = ..., gated: bool = ..., served: bool = ..., waiting: _Optional[int] = ..., later: _Optional[int] = ..., running: _Optional[int] = ..., due_since_us: _Optional[int] = ..., dead: _Optional[int] = ..., failed_recently: _Optional[int] = ..., failed_id: _Optional[str] = ..., retrying: _Optional[int] = ..., kept_by: _Optional[str] = ..., **kwargs) -> None: ...

class JobWithoutCode(_message.Message):
    __slots__ = ("name", "why")
    NAME_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    name: str
    why: str
    def __init__(self, name: _Optional[str] = ..., why: _Optional[str] = ..., **kwargs) -> None: ...

class ListHostsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListHostsReply(_message.Message):
    __slots__ = ("hosts", "now_us")
    HOSTS_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    hosts: _containers.RepeatedCompositeFieldContainer[WorkerHost]
    now_us: int
    def __init__(self, hosts: _Optional[_Iterable[_Union[WorkerHost, _Mapping]]] = ..., now_us: _Optional[int] = ...) -> None: ...

class WorkerHost(_message.Message):
    __slots__ = ("name", "pool", "until_us", "quarantined", "signatures", "executors", "draining", "drain_until_us", "why_not", "starting")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    DRAIN_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    STARTING_FIELD_NUMBER: _ClassVar[int]
    name: str
    pool: str
    until_us: int
    quarantined: _containers.RepeatedCompositeFieldContainer[QuarantinedLambda]
    signatures: _containers.RepeatedCompositeFieldContainer[HostSignature]
    executors: int
    draining: bool
    drain_until_us: int
    why_not: str
    starting: bool
    def __init__(self, name: _Optional[str] = ..., pool: _Optional[str] = ..., until_us: _Optional[int] = ..., quarantined: _Optional[_Iterable[_Union[QuarantinedLambda, _Mapping]]] = ..., signatures: _Optional[_Iterable[_Union[HostSignature, _Mapping]]] = ..., executors: _Optional[int] = ..., draining: bool = ..., drain_until_us: _Optional[int] = ..., why_not: _Optional[str] = ..., starting: bool = ...) -> None: ...

class DrainHostRequest(_message.Message):
    __slots__ = ("host", "resume", "for_us", "who", "why")
    HOST_FIELD_NUMBER: _ClassVar[int]
    RESUME_FIELD_NUMBER: _ClassVar[int]
    FOR_US_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    host: str
    resume: bool
    for_us: int
    who: str
    why: str
    def __init__(self, host: _Optional[str] = ..., resume: bool = ..., for_us: _Optional[int] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class DrainHostReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class HostSignature(_message.Message):
    __slots__ = ("digests",)
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digests: _Optional[_Iterable[str]] = ..., **kwargs) -> None: ...

class QuarantinedLambda(_message.Message):
    __slots__ = ("until_us",)
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    until_us: int
    def __init__(self, until_us: _Optional[int] = ..., **kwargs) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("pool", "cores", "groups", "queue", "beyond", "reserved", "lookahead", "max_retries", "hand_over_us", "reserved_timeout_us", "multiplexed_timeout_us", "rotation_us", "rotation", "rotated_at_us", "next_rotation_at_us", "now_us", "dropped", "timed_out", "away")
    class ReservedEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    POOL_FIELD_NUMBER: _ClassVar[int]
    CORES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    BEYOND_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    LOOKAHEAD_FIELD_NUMBER: _ClassVar[int]
    MAX_RETRIES_FIELD_NUMBER: _ClassVar[int]
    HAND_OVER_US_FIELD_NUMBER: _ClassVar[int]
    RESERVED_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    MULTIPLEXED_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    ROTATION_US_FIELD_NUMBER: _ClassVar[int]
    ROTATION_FIELD_NUMBER: _ClassVar[int]
    ROTATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROTATION_AT_US_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    TIMED_OUT_FIELD_NUMBER: _ClassVar[int]
    AWAY_FIELD_NUMBER: _ClassVar[int]
    pool: str
    cores: _containers.RepeatedCompositeFieldContainer[Core]
    groups: _containers.RepeatedCompositeFieldContainer[CoreGroup]
    queue: _containers.RepeatedCompositeFieldContainer[CoreClaim]
    beyond: _containers.RepeatedCompositeFieldContainer[CoreClaim]
    reserved: _containers.ScalarMap[str, int]
    lookahead: int
    max_retries: int
    hand_over_us: int
    reserved_timeout_us: int
    multiplexed_timeout_us: int
    rotation_us: int
    rotation: int
    rotated_at_us: int
    next_rotation_at_us: int
    now_us: int
    dropped: int
    timed_out: int
    away: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, pool: _Optional[str] = ..., cores: _Optional[_Iterable[_Union[Core, _Mapping]]] = ..., groups: _Optional[_Iterable[_Union[CoreGroup, _Mapping]]] = ..., queue: _Optional[_Iterable[_Union[CoreClaim, _Mapping]]] = ..., beyond: _Optional[_Iterable[_Union[CoreClaim, _Mapping]]] = ..., reserved: _Optional[_Mapping[str, int]] = ..., lookahead: _Optional[int] = ..., max_retries: _Optional[int] = ..., hand_over_us: _Optional[int] = ..., reserved_timeout_us: _Optional[int] = ..., multiplexed_timeout_us: _Optional[int] = ..., rotation_us: _Optional[int] = ..., rotation: _Optional[int] = ..., rotated_at_us: _Optional[int] = ..., next_rotation_at_us: _Optional[int] = ..., now_us: _Optional[int] = ..., dropped: _Optional[int] = ..., timed_out: _Optional[int] = ..., away: _Optional[_Iterable[str]] = ...) -> None: ...

class Core(_message.Message):
    __slots__ = ("state", "reserved", "group", "since_us", "until_us", "retries", "next_up_on_available", "next_up_on_time_out")
    STATE_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    RESERVED_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SINCE_US_FIELD_NUMBER: _ClassVar[int]
    UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_UP_ON_AVAILABLE_FIELD_NUMBER: _ClassVar[int]
    NEXT_UP_ON_TIME_OUT_FIELD_NUMBER: _ClassVar[int]
    state: CoreState
    reserved: bool
    group: int
    since_us: int
    until_us: int
    retries: int
    next_up_on_available: str
    next_up_on_time_out: str
    def __init__(self, state: _Optional[_Union[CoreState, str]] = ..., reserved: bool = ..., group: _Optional[int] = ..., since_us: _Optional[int] = ..., until_us: _Optional[int] = ..., retries: _Optional[int] = ..., next_up_on_available: _Optional[str] = ..., next_up_on_time_out: _Optional[str] = ..., **kwargs) -> None: ...

class CoreGroup(_message.Message):
    __slots__ = ("executors",)
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    executors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executors: _Optional[_Iterable[str]] = ...) -> None: ...

class CoreClaim(_message.Message):
    __slots__ = ("core", "retries")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    CORE_FIELD_NUMBER: _ClassVar[int]
    RETRIES_FIELD_NUMBER: _ClassVar[int]
    core: int
    retries: int
    def __init__(self, core: _Optional[int] = ..., retries: _Optional[int] = ..., **kwargs) -> None: ...

class AccessToken(_message.Message):
    __slots__ = ("id", "verbs", "scopes", "pools", "subject", "expires_us", "revoked_us", "created_us", "before_until_us", "by", "note")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERBS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_US_FIELD_NUMBER: _ClassVar[int]
    REVOKED_US_FIELD_NUMBER: _ClassVar[int]
    CREATED_US_FIELD_NUMBER: _ClassVar[int]
    BEFORE_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    BY_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    id: str
    verbs: _containers.RepeatedScalarFieldContainer[str]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    pools: _containers.RepeatedScalarFieldContainer[str]
    subject: str
    expires_us: int
    revoked_us: int
    created_us: int
    before_until_us: int
    by: str
    note: str
    def __init__(self, id: _Optional[str] = ..., verbs: _Optional[_Iterable[str]] = ..., scopes: _Optional[_Iterable[str]] = ..., pools: _Optional[_Iterable[str]] = ..., subject: _Optional[str] = ..., expires_us: _Optional[int] = ..., revoked_us: _Optional[int] = ..., created_us: _Optional[int] = ..., before_until_us: _Optional[int] = ..., by: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class CreateTokenRequest(_message.Message):
    __slots__ = ("id", "digest", "verbs", "scopes", "pools", "subject", "expires_in_us", "note", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    VERBS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_US_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    digest: str
    verbs: _containers.RepeatedScalarFieldContainer[str]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    pools: _containers.RepeatedScalarFieldContainer[str]
    subject: str
    expires_in_us: int
    note: str
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., digest: _Optional[str] = ..., verbs: _Optional[_Iterable[str]] = ..., scopes: _Optional[_Iterable[str]] = ..., pools: _Optional[_Iterable[str]] = ..., subject: _Optional[str] = ..., expires_in_us: _Optional[int] = ..., note: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class ListTokensRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListTokensReply(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[AccessToken]
    def __init__(self, tokens: _Optional[_Iterable[_Union[AccessToken, _Mapping]]] = ...) -> None: ...

class RotateTokenRequest(_message.Message):
    __slots__ = ("id", "digest", "overlap_us", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_US_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    digest: str
    overlap_us: int
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., digest: _Optional[str] = ..., overlap_us: _Optional[int] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RevokeTokenRequest(_message.Message):
    __slots__ = ("id", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RotateSigningKeyRequest(_message.Message):
    __slots__ = ("who", "why")
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    who: str
    why: str
    def __init__(self, who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RotateSigningKeyReply(_message.Message):
    __slots__ = ("made_at_us", "others_until_us")
    MADE_AT_US_FIELD_NUMBER: _ClassVar[int]
    OTHERS_UNTIL_US_FIELD_NUMBER: _ClassVar[int]
    made_at_us: int
    others_until_us: int
    def __init__(self, made_at_us: _Optional[int] = ..., others_until_us: _Optional[int] = ...) -> None: ...

class GetCallerRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CallerInfo(_message.Message):
    __slots__ = ("name", "everything", "verbs", "scopes", "pools")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    VERBS_FIELD_NUMBER: _ClassVar[int]
    SCOPES_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    everything: bool
    verbs: _containers.RepeatedScalarFieldContainer[str]
    scopes: _containers.RepeatedScalarFieldContainer[str]
    pools: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., everything: bool = ..., verbs: _Optional[_Iterable[str]] = ..., scopes: _Optional[_Iterable[str]] = ..., pools: _Optional[_Iterable[str]] = ...) -> None: ...
