from atf.rpc import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NextWorkRequest(_message.Message):
    __slots__ = ("executor_id", "ack", "max_tasks", "wait_us", "lambdas", "boot_id", "call", "heartbeat_timeout_us", "pool", "stream", "draining", "signatures", "nonce", "set")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    MAX_TASKS_FIELD_NUMBER: _ClassVar[int]
    WAIT_US_FIELD_NUMBER: _ClassVar[int]
    LAMBDAS_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_TIMEOUT_US_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SIGNATURES_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    ack: int
    max_tasks: int
    wait_us: int
    lambdas: _containers.RepeatedScalarFieldContainer[str]
    boot_id: str
    call: int
    heartbeat_timeout_us: int
    pool: str
    stream: str
    draining: bool
    signatures: _containers.RepeatedScalarFieldContainer[str]
    nonce: str
    set: int
    def __init__(self, executor_id: _Optional[str] = ..., ack: _Optional[int] = ..., max_tasks: _Optional[int] = ..., wait_us: _Optional[int] = ..., lambdas: _Optional[_Iterable[str]] = ..., boot_id: _Optional[str] = ..., call: _Optional[int] = ..., heartbeat_timeout_us: _Optional[int] = ..., pool: _Optional[str] = ..., stream: _Optional[str] = ..., draining: bool = ..., signatures: _Optional[_Iterable[str]] = ..., nonce: _Optional[str] = ..., set: _Optional[int] = ...) -> None: ...

class NextWorkReply(_message.Message):
    __slots__ = ("number", "claims", "claim_sent_us", "draining", "set")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_SENT_US_FIELD_NUMBER: _ClassVar[int]
    DRAINING_FIELD_NUMBER: _ClassVar[int]
    SET_FIELD_NUMBER: _ClassVar[int]
    number: int
    claims: _containers.RepeatedCompositeFieldContainer[_task_pb2.Claim]
    claim_sent_us: int
    draining: bool
    set: int
    def __init__(self, number: _Optional[int] = ..., claims: _Optional[_Iterable[_Union[_task_pb2.Claim, _Mapping]]] = ..., claim_sent_us: _Optional[int] = ..., draining: bool = ..., set: _Optional[int] = ...) -> None: ...

class ReportRunsRequest(_message.Message):
    __slots__ = ("executor_id", "number", "runs")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    RUNS_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    number: int
    runs: _containers.RepeatedCompositeFieldContainer[LambdaRuns]
    def __init__(self, executor_id: _Optional[str] = ..., number: _Optional[int] = ..., runs: _Optional[_Iterable[_Union[LambdaRuns, _Mapping]]] = ...) -> None: ...

class LambdaRuns(_message.Message):
    __slots__ = ("outcomes", "start_delays", "start_delays_us", "run_times", "run_times_us")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    OUTCOMES_FIELD_NUMBER: _ClassVar[int]
    START_DELAYS_FIELD_NUMBER: _ClassVar[int]
    START_DELAYS_US_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_FIELD_NUMBER: _ClassVar[int]
    RUN_TIMES_US_FIELD_NUMBER: _ClassVar[int]
    outcomes: _containers.RepeatedScalarFieldContainer[int]
    start_delays: _containers.RepeatedScalarFieldContainer[int]
    start_delays_us: int
    run_times: _containers.RepeatedScalarFieldContainer[int]
    run_times_us: int
    def __init__(self, outcomes: _Optional[_Iterable[int]] = ..., start_delays: _Optional[_Iterable[int]] = ..., start_delays_us: _Optional[int] = ..., run_times: _Optional[_Iterable[int]] = ..., run_times_us: _Optional[int] = ..., **kwargs) -> None: ...

class ReportRunsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class EnterRequest(_message.Message):
    __slots__ = ("executor_id", "secret")
    EXECUTOR_ID_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    executor_id: str
    secret: str
    def __init__(self, executor_id: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...
