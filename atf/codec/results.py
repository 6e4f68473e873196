"""Decrypts records of tasks, in place, for clients that have the keys. What can't be decrypted stays, with the reason where there is room for one."""

from __future__ import annotations

from contextlib import suppress
from typing import cast

from atf.errors import FailedPrecondition
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.sdk.sealed import is_sealed

from .cipher import Cipher
from .texts import open_text
from .values import bare_id, open_arguments, open_result, open_value, value_under_mark


def open_task(cipher: Cipher, task: t.Task) -> t.Task:
    """A task's record."""
    origin = bare_id(task.id)
    task.error = open_text(cipher, f"error {origin}", task.error)
    task.error_message = failure_of(task.error).message
    task.progress = open_text(cipher, f"progress {origin}", task.progress)
    if is_sealed(task.result):
        result, encoding = open_result(cipher, task.id, task.result, task.result_encoding)
        task.result, task.result_encoding = result, cast("t.Encoding", encoding)
    if task.HasField("spec") and is_sealed(task.spec.payload):
        with suppress(FailedPrecondition):  # a caller may want the rest of the record
            payload, encoding = open_arguments(cipher, task.id, task.spec)
            task.spec.payload, task.spec.encoding = payload, cast("t.Encoding", encoding)
    return task


def open_item(cipher: Cipher, item: b.Item) -> b.Item:
    """An item of a batch. Its arguments are decrypted where its origin is its own."""
    item.error = open_text(cipher, f"error {bare_id(item.task_id)}", item.error)
    item.error_message = failure_of(item.error).message
    if is_sealed(item.result):
        result, encoding = open_result(cipher, item.task_id, item.result, item.result_encoding)
        item.result, item.result_encoding = result, cast("t.Encoding", encoding)
    if is_sealed(item.payload):
        batch_id = bare_id(item.task_id).partition(".")[0]
        with suppress(FailedPrecondition):
            item.payload, _ = open_value(
                cipher, value_under_mark(item.payload), lambda origin: origin.startswith(f"item {batch_id} ")
            )
    return item


def open_log(cipher: Cipher, task_id: str, log: f.GetLogReply) -> f.GetLogReply:
    """What the runs of a task said."""
    for run in log.runs:
        run.text = open_text(cipher, f"log {bare_id(task_id)} {run.run}", run.text)
    return log
