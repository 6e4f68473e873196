from atf.rpc import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    OK: _ClassVar[Verdict]
    LOST: _ClassVar[Verdict]
    CANCEL: _ClassVar[Verdict]
    UNKNOWN: _ClassVar[Verdict]
    WATCHED: _ClassVar[Verdict]
VERDICT_UNSPECIFIED: Verdict
OK: Verdict
LOST: Verdict
CANCEL: Verdict
UNKNOWN: Verdict
WATCHED: Verdict

class NextClaimsRequest(_message.Message):
    __slots__ = ("executor_id", "nonce", "max_tasks", "max_bytes", "wait_us", "waited_us", "repeated", "lambda_set", "lambdas", "signatures", "without", "pool", "host", "heartbeat_timeout_us")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    WAITED_US_FIELD_NUMBER: _ClassVar[int]
    REPEATED_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_SET_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    nonce: str
    max_tasks: int
    max_bytes: int
    wait_us: int
    waited_us: int
    repeated: bool
    lambda_set: str
    lambdas: _containers.RepeatedScalarFieldContainer[str]
    signatures: _containers.RepeatedScalarFieldContainer[str]
    without: _containers.RepeatedScalarFieldContainer[str]
    pool: str
    host: str
    heartbeat_timeout_us: int
    def __init__(self, executor_id: _Optional[str] = ..., nonce: _Optional[str] = ..., max_tasks: _Optional[int] = ..., max_bytes: _Optional[int] = ..., wait_us: _Optional[int] = ..., waited_us: _Optional[int] = ..., repeated: bool = ..., lambda_set: _Optional[str] = ..., lambdas: _Optional[_Iterable[str]] = ..., signatures: _Optional[_Iterable[str]] = ..., without: _Optional[_Iterable[str]] = ..., pool: _Optional[str] = ..., host: _Optional[str] = ..., heartbeat_timeout_us: _Optional[int] = ...) -> None: ...

class NextClaimsReply(_message.Message):
    __slots__ = ("claims", "again", "unknown_set", "over")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    AGAIN_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_SET_FIELD_NUMBER: _ClassVar[int]
    OVER_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.Claim]
    again: bool
    unknown_set: bool
    over: bool
    def __init__(self, claims: _Optional[_Iterable[_Union[_task_pb2.Claim, _Mapping]]] = ..., again: bool = ..., unknown_set: bool = ..., over: bool = ...) -> None: ...

class HostExecutor(_message.Message):
    __slots__ = ("executor_id", "lambda_sets")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_SETS_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    lambda_sets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executor_id: _Optional[str] = ..., lambda_sets: _Optional[_Iterable[str]] = ...) -> None: ...

class NamedSet(_message.Message):
    __slots__ = ("digest", "lambdas", "signatures")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    lambdas: _containers.RepeatedScalarFieldContainer[str]
    signatures: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., lambdas: _Optional[_Iterable[str]] = ..., signatures: _Optional[_Iterable[str]] = ...) -> None: ...

class HostQuarantine(_message.Message):
    __slots__ = ("for_us",)
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    FOR_US_FIELD_NUMBER: _ClassVar[int]
    for_us: int
    def __init__(self, for_us: _Optional[int] = ..., **kwargs) -> None: ...

class ReportHostRequest(_message.Message):
    __slots__ = ("pool", "host", "executors", "sets", "quarantined", "why_not", "known_us", "drains", "wait_us", "leaves", "version", "process")
    POOL_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    EXECUTORS_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINED_FIELD_NUMBER: _ClassVar[int]
    WHY_NOT_FIELD_NUMBER: _ClassVar[int]
    KNOWN_US_FIELD_NUMBER: _ClassVar[int]
    DRAINS_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    pool: str
    host: str
    executors: _containers.RepeatedCompositeFieldContainer[HostExecutor]
    sets: _containers.RepeatedCompositeFieldContainer[NamedSet]
    quarantined: _containers.RepeatedCompositeFieldContainer[HostQuarantine]
    why_not: str
    known_us: int
    drains: bool
    wait_us: int
    leaves: bool
    version: str
    process: str
    def __init__(self, pool: _Optional[str] = ..., host: _Optional[str] = ..., executors: _Optional[_Iterable[_Union[HostExecutor, _Mapping]]] = ..., sets: _Optional[_Iterable[_Union[NamedSet, _Mapping]]] = ..., quarantined: _Optional[_Iterable[_Union[HostQuarantine, _Mapping]]] = ..., why_not: _Optional[str] = ..., known_us: _Optional[int] = ..., drains: bool = ..., wait_us: _Optional[int] = ..., leaves: bool = ..., version: _Optional[str] = ..., process: _Optional[str] = ...) -> None: ...

class ReportHostReply(_message.Message):
    __slots__ = ("drains", "everywhere", "unknown_sets")
    DRAINS_FIELD_NUMBER: _ClassVar[int]
    EVERYWHERE_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_SETS_FIELD_NUMBER: _ClassVar[int]
    drains: bool
    everywhere: bool
    unknown_sets: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, drains: bool = ..., everywhere: bool = ..., unknown_sets: _Optional[_Iterable[str]] = ...) -> None: ...

class HeldClaim(_message.Message):
    __slots__ = ("claim", "started", "progress", "log")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    claim: _task_pb2.ClaimRef
    started: bool
    progress: str
    log: _task_pb2.RunLog
    def __init__(self, claim: _Optional[_Union[_task_pb2.ClaimRef, _Mapping]] = ..., started: bool = ..., progress: _Optional[str] = ..., log: _Optional[_Union[_task_pb2.RunLog, _Mapping]] = ...) -> None: ...

class HeartbeatRequest(_message.Message):
    __slots__ = ("executor_id", "claims", "heartbeat_timeout_us", "draining")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    claims: _containers.RepeatedCompositeFieldContainer[HeldClaim]
    heartbeat_timeout_us: int
    draining: bool
    def __init__(self, executor_id: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[HeldClaim, _Mapping]]] = ..., heartbeat_timeout_us: _Optional[int] = ..., draining: bool = ...) -> None: ...

class HeartbeatReply(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ...) -> None: ...

class Result(_message.Message):
    __slots__ = ("claim", "outcome", "result", "encoding", "error", "retry_in_us", "ran_us", "ended_ago_us", "signature", "never_began", "log", "traceparent")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    ENCODING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RETRY_IN_US_FIELD_NUMBER: _ClassVar[int]
    RAN_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_AGO_US_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    NEVER_BEGAN_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    claim: _task_pb2.ClaimRef
    outcome: _task_pb2.Outcome
    result: bytes
    encoding: _task_pb2.Encoding
    error: str
    retry_in_us: int
    ran_us: int
    ended_ago_us: int
    signature: str
    never_began: bool
    log: _task_pb2.RunLog
    traceparent: str
    def __init__(self, claim: _Optional[_Union[_task_pb2.ClaimRef, _Mapping]] = ..., outcome: _Optional[_Union[_task_pb2.Outcome, str]] = ..., result: _Optional[bytes] = ..., encoding: _Optional[_Union[_task_pb2.Encoding, str]] = ..., error: _Optional[str] = ..., retry_in_us: _Optional[int] = ..., ran_us: _Optional[int] = ..., ended_ago_us: _Optional[int] = ..., signature: _Optional[str] = ..., never_began: bool = ..., log: _Optional[_Union[_task_pb2.RunLog, _Mapping]] = ..., traceparent: _Optional[str] = ...) -> None: ...

class SetResultsRequest(_message.Message):
    __slots__ = ("executor_id", "results")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    results: _containers.RepeatedCompositeFieldContainer[Result]
    def __init__(self, executor_id: _Optional[str] = ..., results: _Optional[_Iterable[_Union[Result, _Mapping]]] = ...) -> None: ...

class SetResultsReply(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ...) -> None: ...

class HandBackRequest(_message.Message):
    __slots__ = ("executor_id", "claims", "nonces")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    NONCES_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.ClaimRef]
    nonces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executor_id: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[_task_pb2.ClaimRef, _Mapping]]] = ..., nonces: _Optional[_Iterable[str]] = ...) -> None: ...

class HandBackReply(_message.Message):
    __slots__ = ("verdicts",)
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ...) -> None: ...

class ReportLossRequest(_message.Message):
    __slots__ = ("executor_id", "claims", "why", "shared")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.ClaimRef]
    why: str
    shared: bool
    def __init__(self, executor_id: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[_task_pb2.ClaimRef, _Mapping]]] = ..., why: _Optional[str] = ..., shared: bool = ...) -> None: ...

class ReportLossReply(_message.Message):
    __slots__ = ("verdicts", "runs")
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    verdicts: _containers.RepeatedScalarFieldContainer[Verdict]
    runs: _containers.RepeatedCompositeFieldContainer[LostRun]
    def __init__(self, verdicts: _Optional[_Iterable[_Union[Verdict, str]]] = ..., runs: _Optional[_Iterable[_Union[LostRun, _Mapping]]] = ...) -> None: ...

class LostRun(_message.Message):
    __slots__ = ("task_id", "attempt", "losses", "max_losses", "last")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    MAX_LOSSES_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    losses: int
    max_losses: int
    last: bool
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., losses: _Optional[int] = ..., max_losses: _Optional[int] = ..., last: bool = ..., **kwargs) -> None: ...

class FirstTimeKey(_message.Message):
    __slots__ = ("task_id", "namespace", "key", "ttl_us")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    TTL_US_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    namespace: str
    key: str
    ttl_us: int
    def __init__(self, task_id: _Optional[str] = ..., namespace: _Optional[str] = ..., key: _Optional[str] = ..., ttl_us: _Optional[int] = ...) -> None: ...

class FirstTimeRequest(_message.Message):
    __slots__ = ("executor_id", "keys")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    keys: _containers.RepeatedCompositeFieldContainer[FirstTimeKey]
    def __init__(self, executor_id: _Optional[str] = ..., keys: _Optional[_Iterable[_Union[FirstTimeKey, _Mapping]]] = ...) -> None: ...

class FirstTimeReply(_message.Message):
    __slots__ = ("first",)
    FIRST_FIELD_NUMBER: _ClassVar[int]
    first: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, first: _Optional[_Iterable[bool]] = ...) -> None: ...

class IssueCredentialRequest(_message.Message):
    __slots__ = ("executor_id",)
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    def __init__(self, executor_id: _Optional[str] = ...) -> None: ...
