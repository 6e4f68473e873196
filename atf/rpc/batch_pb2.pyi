from atf.rpc import task_pb2 as _task_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ItemStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_CREATED: _ClassVar[ItemStatus]
    ITEM_IN_PROGRESS: _ClassVar[ItemStatus]
    ITEM_DONE: _ClassVar[ItemStatus]
    ITEM_FAILED: _ClassVar[ItemStatus]
    ITEM_PERMANENTLY_FAILED: _ClassVar[ItemStatus]
    ITEM_CANCELLED: _ClassVar[ItemStatus]

class BatchStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BATCH_STATUS_UNSPECIFIED: _ClassVar[BatchStatus]
    BATCH_CREATED: _ClassVar[BatchStatus]
    BATCH_IN_PROGRESS: _ClassVar[BatchStatus]
    BATCH_DONE: _ClassVar[BatchStatus]
    BATCH_DONE_WITH_FAILURES: _ClassVar[BatchStatus]
    BATCH_CANCELLED: _ClassVar[BatchStatus]
    BATCH_DELETED: _ClassVar[BatchStatus]
ITEM_CREATED: ItemStatus
ITEM_IN_PROGRESS: ItemStatus
ITEM_DONE: ItemStatus
ITEM_FAILED: ItemStatus
ITEM_PERMANENTLY_FAILED: ItemStatus
ITEM_CANCELLED: ItemStatus
BATCH_STATUS_UNSPECIFIED: BatchStatus
BATCH_CREATED: BatchStatus
BATCH_IN_PROGRESS: BatchStatus
BATCH_DONE: BatchStatus
BATCH_DONE_WITH_FAILURES: BatchStatus
BATCH_CANCELLED: BatchStatus
BATCH_DELETED: BatchStatus

class BatchSpec(_message.Message):
    __slots__ = ("options", "labels", "max_in_flight", "pause_us", "workers", "callbacks", "affinity_key", "traceparent", "tracestate", "traced_at_us")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    PAUSE_US_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    CALLBACKS_FIELD_NUMBER: _ClassVar[int]
    AFFINITY_KEY_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    TRACESTATE_FIELD_NUMBER: _ClassVar[int]
    TRACED_AT_US_FIELD_NUMBER: _ClassVar[int]
    options: _task_pb2.TaskOptions
    labels: _containers.ScalarMap[str, str]
    max_in_flight: int
    pause_us: int
    workers: int
    callbacks: _containers.RepeatedCompositeFieldContainer[Callback]
    affinity_key: str
    traceparent: str
    tracestate: str
    traced_at_us: int
    def __init__(self, options: _Optional[_Union[_task_pb2.TaskOptions, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., max_in_flight: _Optional[int] = ..., pause_us: _Optional[int] = ..., workers: _Optional[int] = ..., callbacks: _Optional[_Iterable[_Union[Callback, _Mapping]]] = ..., affinity_key: _Optional[str] = ..., traceparent: _Optional[str] = ..., tracestate: _Optional[str] = ..., traced_at_us: _Optional[int] = ..., **kwargs) -> None: ...

class Callback(_message.Message):
    __slots__ = ("when", "task", "gives", "parameter", "then", "unwrap", "as_batch")
    class When(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WHEN_UNSPECIFIED: _ClassVar[Callback.When]
        SUCCESS_OF_ALL: _ClassVar[Callback.When]
        ANY_FAILURE: _ClassVar[Callback.When]
        COMPLETION: _ClassVar[Callback.When]
    WHEN_UNSPECIFIED: Callback.When
    SUCCESS_OF_ALL: Callback.When
    ANY_FAILURE: Callback.When
    COMPLETION: Callback.When
    class Gives(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        SUMMARY: _ClassVar[Callback.Gives]
        RESULTS: _ClassVar[Callback.Gives]
        NOTHING: _ClassVar[Callback.Gives]
    SUMMARY: Callback.Gives
    RESULTS: Callback.Gives
    NOTHING: Callback.Gives
    WHEN_FIELD_NUMBER: _ClassVar[int]
    TASK_FIELD_NUMBER: _ClassVar[int]
    GIVES_FIELD_NUMBER: _ClassVar[int]
    PARAMETER_FIELD_NUMBER: _ClassVar[int]
    THEN_FIELD_NUMBER: _ClassVar[int]
    UNWRAP_FIELD_NUMBER: _ClassVar[int]
    AS_BATCH_FIELD_NUMBER: _ClassVar[int]
    when: Callback.When
    task: _task_pb2.TaskSpec
    gives: Callback.Gives
    parameter: str
    then: _containers.RepeatedCompositeFieldContainer[Callback]
    unwrap: bool
    as_batch: bool
    def __init__(self, when: _Optional[_Union[Callback.When, str]] = ..., task: _Optional[_Union[_task_pb2.TaskSpec, _Mapping]] = ..., gives: _Optional[_Union[Callback.Gives, str]] = ..., parameter: _Optional[str] = ..., then: _Optional[_Iterable[_Union[Callback, _Mapping]]] = ..., unwrap: bool = ..., as_batch: bool = ...) -> None: ...

class ScheduleBatchRequest(_message.Message):
    __slots__ = ("header", "items", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: BatchHeader
    items: BatchItems
    end: BatchEnd
    def __init__(self, header: _Optional[_Union[BatchHeader, _Mapping]] = ..., items: _Optional[_Union[BatchItems, _Mapping]] = ..., end: _Optional[_Union[BatchEnd, _Mapping]] = ...) -> None: ...

class BatchHeader(_message.Message):
    __slots__ = ("id", "spec", "first", "extend", "keep_open", "request_id", "durability")
    ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    EXTEND_FIELD_NUMBER: _ClassVar[int]
    KEEP_OPEN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DURABILITY_FIELD_NUMBER: _ClassVar[int]
    id: str
    spec: BatchSpec
    first: int
    extend: bool
    keep_open: bool
    request_id: str
    durability: _task_pb2.Durability
    def __init__(self, id: _Optional[str] = ..., spec: _Optional[_Union[BatchSpec, _Mapping]] = ..., first: _Optional[int] = ..., extend: bool = ..., keep_open: bool = ..., request_id: _Optional[str] = ..., durability: _Optional[_Union[_task_pb2.Durability, str]] = ...) -> None: ...

class BatchItems(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[BatchItem]
    def __init__(self, items: _Optional[_Iterable[_Union[BatchItem, _Mapping]]] = ...) -> None: ...

class BatchEnd(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: int
    def __init__(self, items: _Optional[int] = ...) -> None: ...

class BatchItem(_message.Message):
    __slots__ = ("payload", "arguments", "target")
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    payload: bytes
    arguments: _containers.RepeatedScalarFieldContainer[str]
    target: str
    def __init__(self, payload: _Optional[bytes] = ..., arguments: _Optional[_Iterable[str]] = ..., target: _Optional[str] = ...) -> None: ...

class ScheduleBatchReply(_message.Message):
    __slots__ = ("id", "stored", "items")
    ID_FIELD_NUMBER: _ClassVar[int]
    STORED_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    id: str
    stored: int
    items: int
    def __init__(self, id: _Optional[str] = ..., stored: _Optional[int] = ..., items: _Optional[int] = ...) -> None: ...

class GetBatchRequest(_message.Message):
    __slots__ = ("id", "with_spec", "unredacted")
    ID_FIELD_NUMBER: _ClassVar[int]
    WITH_SPEC_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    with_spec: bool
    unredacted: bool
    def __init__(self, id: _Optional[str] = ..., with_spec: bool = ..., unredacted: bool = ...) -> None: ...

class Batch(_message.Message):
    __slots__ = ("id", "status", "items", "created", "in_progress", "done", "failed", "permanently_failed", "cancelled", "sealed", "prefix", "created_at_us", "ended_at_us", "round", "spec", "cancel_requested", "now_us", "withheld", "error")
    ID_FIELD_NUMBER: _ClassVar[int]
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    IN_PROGRESS_FIELD_NUMBER: _ClassVar[int]
    DONE_FIELD_NUMBER: _ClassVar[int]
    FAILED_FIELD_NUMBER: _ClassVar[int]
    PERMANENTLY_FAILED_FIELD_NUMBER: _ClassVar[int]
    CANCELLED_FIELD_NUMBER: _ClassVar[int]
    SEALED_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    NOW_US_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    status: BatchStatus
    items: int
    created: int
    in_progress: int
    done: int
    failed: int
    permanently_failed: int
    cancelled: int
    sealed: bool
    prefix: int
    created_at_us: int
    ended_at_us: int
    round: int
    spec: BatchSpec
    cancel_requested: bool
    now_us: int
    withheld: bool
    error: str
    def __init__(self, id: _Optional[str] = ..., status: _Optional[_Union[BatchStatus, str]] = ..., items: _Optional[int] = ..., created: _Optional[int] = ..., in_progress: _Optional[int] = ..., done: _Optional[int] = ..., failed: _Optional[int] = ..., permanently_failed: _Optional[int] = ..., cancelled: _Optional[int] = ..., sealed: bool = ..., prefix: _Optional[int] = ..., created_at_us: _Optional[int] = ..., ended_at_us: _Optional[int] = ..., round: _Optional[int] = ..., spec: _Optional[_Union[BatchSpec, _Mapping]] = ..., cancel_requested: bool = ..., now_us: _Optional[int] = ..., withheld: bool = ..., error: _Optional[str] = ..., **kwargs) -> None: ...

class ListBatchesRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    LAMBDA_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., **kwargs) -> None: ...

class ListBatchesReply(_message.Message):
    __slots__ = ("batches", "next_page_token")
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    batches: _containers.RepeatedCompositeFieldContainer[Batch]
    next_page_token: str
    def __init__(self, batches: _Optional[_Iterable[_Union[Batch, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ListBatchItemsRequest(_message.Message):
    __slots__ = ("id", "statuses", "page_size", "page_token", "first", "work_item_id", "with_arguments", "unredacted")
    ID_FIELD_NUMBER: _ClassVar[int]
    STATUSES_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    WORK_ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    WITH_ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    UNREDACTED_FIELD_NUMBER: _ClassVar[int]
    id: str
    statuses: _containers.RepeatedScalarFieldContainer[ItemStatus]
    page_size: int
    page_token: str
    first: int
    work_item_id: str
    with_arguments: bool
    unredacted: bool
    def __init__(self, id: _Optional[str] = ..., statuses: _Optional[_Iterable[_Union[ItemStatus, str]]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., first: _Optional[int] = ..., work_item_id: _Optional[str] = ..., with_arguments: bool = ..., unredacted: bool = ...) -> None: ...

class ListBatchItemsReply(_message.Message):
    __slots__ = ("items", "next_page_token")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Item]
    next_page_token: str
    def __init__(self, items: _Optional[_Iterable[_Union[Item, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class Item(_message.Message):
    __slots__ = ("number", "work_item_id", "task_id", "status", "result", "result_encoding", "error", "attempts", "chunk", "peer", "arguments", "payload", "finished_at_us", "error_type", "error_message", "withheld")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORK_ITEM_ID_FIELD_NUMBER: _ClassVar[int]
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    RESULT_ENCODING_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_US_FIELD_NUMBER: _ClassVar[int]
    ERROR_TYPE_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    WITHHELD_FIELD_NUMBER: _ClassVar[int]
    number: int
    work_item_id: str
    task_id: str
    status: ItemStatus
    result: bytes
    result_encoding: _task_pb2.Encoding
    error: str
    attempts: int
    chunk: str
    peer: str
    arguments: _containers.RepeatedScalarFieldContainer[str]
    payload: bytes
    finished_at_us: int
    error_type: str
    error_message: str
    withheld: bool
    def __init__(self, number: _Optional[int] = ..., work_item_id: _Optional[str] = ..., task_id: _Optional[str] = ..., status: _Optional[_Union[ItemStatus, str]] = ..., result: _Optional[bytes] = ..., result_encoding: _Optional[_Union[_task_pb2.Encoding, str]] = ..., error: _Optional[str] = ..., attempts: _Optional[int] = ..., chunk: _Optional[str] = ..., peer: _Optional[str] = ..., arguments: _Optional[_Iterable[str]] = ..., payload: _Optional[bytes] = ..., finished_at_us: _Optional[int] = ..., error_type: _Optional[str] = ..., error_message: _Optional[str] = ..., withheld: bool = ...) -> None: ...

class WatchBatchRequest(_message.Message):
    __slots__ = ("id", "at_most_every_us")
    ID_FIELD_NUMBER: _ClassVar[int]
    AT_MOST_EVERY_US_FIELD_NUMBER: _ClassVar[int]
    id: str
    at_most_every_us: int
    def __init__(self, id: _Optional[str] = ..., at_most_every_us: _Optional[int] = ...) -> None: ...

class CancelBatchRequest(_message.Message):
    __slots__ = ("id", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class RetryBatchRequest(_message.Message):
    __slots__ = ("id", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class DeleteBatchRequest(_message.Message):
    __slots__ = ("id", "who", "why")
    ID_FIELD_NUMBER: _ClassVar[int]
    WHO_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    id: str
    who: str
    why: str
    def __init__(self, id: _Optional[str] = ..., who: _Optional[str] = ..., why: _Optional[str] = ...) -> None: ...

class DeleteBatchReply(_message.Message):
    __slots__ = ("existed",)
    EXISTED_FIELD_NUMBER: _ClassVar[int]
    existed: bool
    def __init__(self, existed: bool = ...) -> None: ...
