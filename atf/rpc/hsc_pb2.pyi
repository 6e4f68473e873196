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

class ClaimTasksRequest(_message.Message):
    __slots__ = ("executor_id", "nonce", "task_ids", "heartbeat_timeout_us", "signatures")
    class SignaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    TASK_IDS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    nonce: str
    task_ids: _containers.RepeatedScalarFieldContainer[str]
    heartbeat_timeout_us: int
    signatures: _containers.ScalarMap[str, str]
    def __init__(self, executor_id: _Optional[str] = ..., nonce: _Optional[str] = ..., task_ids: _Optional[_Iterable[str]] = ..., heartbeat_timeout_us: _Optional[int] = ..., signatures: _Optional[_Mapping[str, str]] = ...) -> None: ...

class ClaimTasksReply(_message.Message):
    __slots__ = ("claims", "lost", "deferred")
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    DEFERRED_FIELD_NUMBER: _ClassVar[int]
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.Claim]
    lost: _containers.RepeatedScalarFieldContainer[str]
    deferred: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, claims: _Optional[_Iterable[_Union[_task_pb2.Claim, _Mapping]]] = ..., lost: _Optional[_Iterable[str]] = ..., deferred: _Optional[_Iterable[str]] = ...) -> None: ...

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
    __slots__ = ("executor_id", "claims", "unclaimed")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    UNCLAIMED_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.ClaimRef]
    unclaimed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executor_id: _Optional[str] = ..., claims: _Optional[_Iterable[_Union[_task_pb2.ClaimRef, _Mapping]]] = ..., unclaimed: _Optional[_Iterable[str]] = ...) -> None: ...

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
