from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Status(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STATUS_UNSPECIFIED: _ClassVar[Status]
    NEW: _ClassVar[Status]
    ENQUEUED: _ClassVar[Status]
    CLAIMED: _ClassVar[Status]
    PROCESSING: _ClassVar[Status]
    SUCCESS: _ClassVar[Status]
    RETRIABLE_FAILURE: _ClassVar[Status]
    FATAL_FAILURE: _ClassVar[Status]
    CANCELLED: _ClassVar[Status]

class Encoding(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    JSON: _ClassVar[Encoding]
    RAW: _ClassVar[Encoding]

class Durability(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    DURABILITY_UNSPECIFIED: _ClassVar[Durability]
    RELAXED: _ClassVar[Durability]
    DISK: _ClassVar[Durability]
    REPLICATED: _ClassVar[Durability]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    SUCCEEDED: _ClassVar[Outcome]
    FAILED: _ClassVar[Outcome]
    FAILED_FATAL: _ClassVar[Outcome]
    TIMED_OUT: _ClassVar[Outcome]
    STOPPED: _ClassVar[Outcome]
    HANDED_BACK: _ClassVar[Outcome]
    MISFIT: _ClassVar[Outcome]

class KeptLogs(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOGS_OF_FAILED: _ClassVar[KeptLogs]
    LOGS_OF_ALL: _ClassVar[KeptLogs]
    LOGS_OF_NONE: _ClassVar[KeptLogs]
STATUS_UNSPECIFIED: Status
NEW: Status
ENQUEUED: Status
CLAIMED: Status
PROCESSING: Status
SUCCESS: Status
RETRIABLE_FAILURE: Status
FATAL_FAILURE: Status
CANCELLED: Status
JSON: Encoding
RAW: Encoding
DURABILITY_UNSPECIFIED: Durability
RELAXED: Durability
DISK: Durability
REPLICATED: Durability
OUTCOME_UNSPECIFIED: Outcome
SUCCEEDED: Outcome
FAILED: Outcome
FAILED_FATAL: Outcome
TIMED_OUT: Outcome
STOPPED: Outcome
HANDED_BACK: Outcome
MISFIT: Outcome
LOGS_OF_FAILED: KeptLogs
LOGS_OF_ALL: KeptLogs
LOGS_OF_NONE: KeptLogs

class Backoff(_message.Message):
    __slots__ = ("base_us", "factor", "max_us", "jitter")
    BASE_US_FIELD_NUMBER: _ClassVar[int]
    FACTOR_FIELD_NUMBER: _ClassVar[int]
    MAX_US_FIELD_NUMBER: _ClassVar[int]
    JITTER_FIELD_NUMBER: _ClassVar[int]
    base_us: int
    factor: float
    max_us: int
    jitter: float
    def __init__(self, base_us: _Optional[int] = ..., factor: _Optional[float] = ..., max_us: _Optional[int] = ..., jitter: _Optional[float] = ...) -> None: ...

class TaskOptions(_message.Message):
    __slots__ = ("priority", "max_attempts", "max_losses", "timeout_us", "backoff", "retention_us")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSSES_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_FIELD_NUMBER: _ClassVar[int]
    RETENTION_US_FIELD_NUMBER: _ClassVar[int]
    priority: int
    max_attempts: int
    max_losses: int
    timeout_us: int
    backoff: Backoff
    retention_us: int
    def __init__(self, priority: _Optional[int] = ..., max_attempts: _Optional[int] = ..., max_losses: _Optional[int] = ..., timeout_us: _Optional[int] = ..., backoff: _Optional[_Union[Backoff, _Mapping]] = ..., retention_us: _Optional[int] = ...) -> None: ...

class TaskSpec(_message.Message):
    __slots__ = ("payload", "encoding", "options", "labels", "ordering_key", "tick", "concurrency", "unique", "affinity_key", "batch", "traceparent", "tracestate", "traced_at_us")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ORDERING_KEY_FIELD_NUMBER: _ClassVar[int]
    TICK_FIELD_NUMBER: _ClassVar[int]
    CONCURRENCY_FIELD_NUMBER: _ClassVar[int]
    UNIQUE_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_KEY_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    TRACED_AT_US_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    encoding: Encoding
    options: TaskOptions
    labels: _containers.ScalarMap[str, str]
    ordering_key: str
    tick: TickInfo
    concurrency: Concurrency
    unique: Unique
    affinity_key: str
    batch: BatchInfo
    traceparent: str
    tracestate: str
    traced_at_us: int
    def __init__(self, payload: _Optional[bytes] = ..., encoding: _Optional[_Union[Encoding, str]] = ..., options: _Optional[_Union[TaskOptions, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., ordering_key: _Optional[str] = ..., tick: _Optional[_Union[TickInfo, _Mapping]] = ..., concurrency: _Optional[_Union[Concurrency, _Mapping]] = ..., unique: _Optional[_Union[Unique, _Mapping]] = ..., affinity_key: _Optional[str] = ..., batch: _Optional[_Union[BatchInfo, _Mapping]] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., traced_at_us: _Optional[int] = ..., **kwargs) -> None: ...

class BatchInfo(_message.Message):
    __slots__ = ("id", "number", "follows")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    FOLLOWS_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    follows: str
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., follows: _Optional[str] = ...) -> None: ...

class Concurrency(_message.Message):
    __slots__ = ("key", "limit", "policy")
    class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        QUEUE: _ClassVar[Concurrency.Policy]
        SKIP: _ClassVar[Concurrency.Policy]
        CANCEL_RUNNING: _ClassVar[Concurrency.Policy]
    QUEUE: Concurrency.Policy
    SKIP: Concurrency.Policy
    CANCEL_RUNNING: Concurrency.Policy
    KEY_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    key: str
    limit: int
    policy: Concurrency.Policy
    def __init__(self, key: _Optional[str] = ..., limit: _Optional[int] = ..., policy: _Optional[_Union[Concurrency.Policy, str]] = ...) -> None: ...

class Unique(_message.Message):
    __slots__ = ("key", "window_us", "policy")
    class Policy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        THROTTLE: _ClassVar[Unique.Policy]
        DEBOUNCE: _ClassVar[Unique.Policy]
    THROTTLE: Unique.Policy
    DEBOUNCE: Unique.Policy
    KEY_FIELD_NUMBER: _ClassVar[int]
    WINDOW_US_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    key: str
    window_us: int
    policy: Unique.Policy
    def __init__(self, key: _Optional[str] = ..., window_us: _Optional[int] = ..., policy: _Optional[_Union[Unique.Policy, str]] = ...) -> None: ...

class TickInfo(_message.Message):
    __slots__ = ("job", "number", "at_us")
    JOB_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_US_FIELD_NUMBER: _ClassVar[int]
    job: str
    number: int
    at_us: int
    def __init__(self, job: _Optional[str] = ..., number: _Optional[int] = ..., at_us: _Optional[int] = ...) -> None: ...

class Token(_message.Message):
    __slots__ = ("counter", "nonce")
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    counter: int
    nonce: str
    def __init__(self, counter: _Optional[int] = ..., nonce: _Optional[str] = ...) -> None: ...

class ClaimRef(_message.Message):
    __slots__ = ("task_id", "token")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    token: Token
    def __init__(self, task_id: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("task_id", "token", "spec", "attempt", "run", "losses", "scheduled_at_us", "alone", "logs")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ALONE_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    token: Token
    spec: bytes
    attempt: int
    run: int
    losses: int
    scheduled_at_us: int
    alone: bool
    logs: KeptLogs
    def __init__(self, task_id: _Optional[str] = ..., token: _Optional[_Union[Token, _Mapping]] = ..., spec: _Optional[bytes] = ..., attempt: _Optional[int] = ..., run: _Optional[int] = ..., losses: _Optional[int] = ..., scheduled_at_us: _Optional[int] = ..., alone: bool = ..., logs: _Optional[_Union[KeptLogs, str]] = ...) -> None: ...

class EndedRun(_message.Message):
    __slots__ = ("owner", "started_at_us", "ended_at_us", "why", "attempt")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    owner: str
    started_at_us: int
    ended_at_us: int
    why: str
    attempt: int
    def __init__(self, owner: _Optional[str] = ..., started_at_us: _Optional[int] = ..., ended_at_us: _Optional[int] = ..., why: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class RunLog(_message.Message):
    __slots__ = ("run", "attempt", "text", "cut_bytes")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CUT_BYTES_FIELD_NUMBER: _ClassVar[int]
    run: int
    attempt: int
    text: str
    cut_bytes: int
    def __init__(self, run: _Optional[int] = ..., attempt: _Optional[int] = ..., text: _Optional[str] = ..., cut_bytes: _Optional[int] = ...) -> None: ...

class Task(_message.Message):
    __slots__ = ("id", "priority", "status", "attempts", "losses", "runs", "scheduled_at_us", "next_at_us", "created_at_us", "enqueued_at_us", "claimed_at_us", "started_at_us", "finished_at_us", "owner", "cancel_requested", "result", "result_encoding", "error", "ended_runs", "spec", "progress", "fence", "failed_at_us", "error_type", "error_message", "has_log", "withheld", "failure_group")
    ID_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    SCHEDULED_AT_US_FIELD_NUMBER: _ClassVar[int]
    NEXT_AT_US_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENQUEUED_AT_US_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_US_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_US_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_ENCODING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ENDED_RUNS_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    FENCE_FIELD_NUMBER: _ClassVar[int]
    FAILED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    HAS_LOG_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    FAILURE_GROUP_FIELD_NUMBER: _ClassVar[int]
    id: str
    priority: int
    status: Status
    attempts: int
    losses: int
    runs: int
    scheduled_at_us: int
    next_at_us: int
    created_at_us: int
    enqueued_at_us: int
    claimed_at_us: int
    started_at_us: int
    finished_at_us: int
    owner: str
    cancel_requested: bool
    result: bytes
    result_encoding: Encoding
    error: str
    ended_runs: _containers.RepeatedCompositeFieldContainer[EndedRun]
    spec: TaskSpec
    progress: str
    fence: int
    failed_at_us: int
    error_type: str
    error_message: str
    has_log: bool
    withheld: bool
    failure_group: str
    def __init__(self, id: _Optional[str] = ..., priority: _Optional[int] = ..., status: _Optional[_Union[Status, str]] = ..., attempts: _Optional[int] = ..., losses: _Optional[int] = ..., runs: _Optional[int] = ..., scheduled_at_us: _Optional[int] = ..., next_at_us: _Optional[int] = ..., created_at_us: _Optional[int] = ..., enqueued_at_us: _Optional[int] = ..., claimed_at_us: _Optional[int] = ..., started_at_us: _Optional[int] = ..., finished_at_us: _Optional[int] = ..., owner: _Optional[str] = ..., cancel_requested: bool = ..., result: _Optional[bytes] = ..., result_encoding: _Optional[_Union[Encoding, str]] = ..., error: _Optional[str] = ..., ended_runs: _Optional[_Iterable[_Union[EndedRun, _Mapping]]] = ..., spec: _Optional[_Union[TaskSpec, _Mapping]] = ..., progress: _Optional[str] = ..., fence: _Optional[int] = ..., failed_at_us: _Optional[int] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ..., has_log: bool = ..., withheld: bool = ..., failure_group: _Optional[str] = ..., **kwargs) -> None: ...

class Credential(_message.Message):
    __slots__ = ("secret", "valid_for_us")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    VALID_FOR_US_FIELD_NUMBER: _ClassVar[int]
    secret: str
    valid_for_us: int
    def __init__(self, secret: _Optional[str] = ..., valid_for_us: _Optional[int] = ...) -> None: ...
