"""Encrypts the arguments in what a client sends; what it was given stays as it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from atf.errors import InvalidArgument
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.sealed import is_sealed
from atf.sdk.search import declared
from atf.sdk.work_items import COMMAND, texts_of
from atf.task import MAX_PAYLOAD_BYTES

from .cipher import Cipher
from .values import hashed_argument, hashed_texts, seal_arguments


def seal_task(cipher: Cipher, request: f.ScheduleRequest) -> f.ScheduleRequest:
    """The request of a task, which has its id."""
    sealed = f.ScheduleRequest()
    sealed.CopyFrom(request)
    spec = sealed.spec
    # The task of a unique key may be an earlier call's, which this one changes.
    unique = spec.HasField("unique")
    _seal(cipher, spec, f"unique {_name(spec)} {spec.unique.key}" if unique else f"task {_name(spec)} {request.id}")
    return sealed


def seal_job(cipher: Cipher, request: f.ScheduleJobRequest) -> f.ScheduleJobRequest:
    """The request of a job."""
    sealed = f.ScheduleJobRequest()
    sealed.CopyFrom(request)
    _seal(cipher, sealed.job.task, f"job {_name(sealed.job.task)} {sealed.job.name}")
    return sealed


def seal_chunk(
    cipher: Cipher, lambda_name: str, chunk: Sequence[b.ScheduleBatchRequest]
) -> list[b.ScheduleBatchRequest]:
    """Some items of a batch behind its header."""
    sealed: list[b.ScheduleBatchRequest] = []
    for each in chunk:
        message = b.ScheduleBatchRequest()
        message.CopyFrom(each)
        sealed.append(message)
        if message.HasField("header"):
            _seal_callbacks(cipher, message.header.id, message.header.spec.callbacks, links=False)
        for item in message.items.items:
            _seal_item(cipher, lambda_name, sealed[0].header.id, item)
    return sealed


def seal_filter(cipher: Cipher, asked: f.TaskFilter) -> None:
    """Hashes the values by which tasks are searched, in place."""
    for name, value in list(asked.search.items()):
        asked.search[name] = hashed_argument(cipher, name, value)


def _name(spec: t.TaskSpec) -> str:
    return str(getattr(spec, "lambda"))


def _seal(cipher: Cipher, spec: t.TaskSpec, origin: str) -> None:
    name = _name(spec)
    if not is_sealed(spec.payload):
        searched = declared(name) if spec.encoding == t.JSON else ()
        spec.payload = _fitting(seal_arguments(cipher, origin, spec.payload or b"{}", spec.encoding, searched), name)
        spec.encoding = t.JSON


def _seal_item(cipher: Cipher, name: str, batch_id: str, item: b.BatchItem) -> None:
    if not is_sealed(item.payload):
        (text,) = hashed_texts(cipher, item.arguments or texts_of(item.payload))
        given = item.payload or b"{}"
        if name == COMMAND:  # of a command line the frontend would make this
            given = msgspec.json.encode({"argv": list(item.arguments)})
        origin = f"item {batch_id} {text}"
        item.payload = _fitting(seal_arguments(cipher, origin, given, t.JSON, declared(name)), name)
        item.arguments[:] = [text]
        if item.target:  # often an argument itself; all that counts is which are equal
            item.target = cipher.hashed("target", item.target.encode("utf-8", "surrogatepass"))


def _seal_callbacks(cipher: Cipher, batch_id: str, callbacks: Iterable[b.Callback], *, links: bool) -> None:
    for each in callbacks:
        link = links or each.as_batch or bool(each.then)
        name = _name(each.task)
        parameter = "" if each.gives == b.Callback.NOTHING else each.parameter or "batch"
        origin = f"link {name} {parameter}" if link else f"callback {name} {batch_id} {parameter}"
        _seal(cipher, each.task, origin)
        _seal_callbacks(cipher, batch_id, each.then, links=True)


def _fitting(payload: bytes, name: str) -> bytes:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidArgument(
            f"{name}(): the arguments take {len(payload)} bytes once they are encrypted, at most {MAX_PAYLOAD_BYTES} (1 MiB) are allowed,"
            " which is about 768 KiB of plain ones. Keep large data elsewhere and pass its name"
        )
    return payload
