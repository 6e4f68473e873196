"""Decrypts records of tasks, in place, for clients that have the keys. What can't be decrypted stays, with the reason where there is room for one."""

from __future__ import annotations

from typing import cast

import msgspec

from atf.errors import NotDecrypted
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.sdk.failure import failure_of
from atf.sdk.sealed import is_sealed, with_why, words
from atf.sdk.work_items import COMMAND, digest_of, texts_of

from .cipher import Cipher
from .texts import open_text
from .values import bare_id, open_arguments, open_result, open_value, value_under_mark


def open_task(cipher: Cipher, task: t.Task) -> t.Task:
    """A task's record."""
    origin = bare_id(task.id)
    task.error = open_text(cipher, f"error {origin}", task.error)
    task.error_message = failure_of(task.error).message
    task.progress = open_text(cipher, f"progress {origin}", task.progress)
    for run in task.ended_runs:
        run.why = words(open_text(cipher, f"error {origin}", run.why))  # the store has cut what is long
    _open_result(cipher, task.id, task)
    if task.HasField("spec") and is_sealed(task.spec.payload):
        try:
            payload, encoding = open_arguments(cipher, task.id, task.spec)
            task.spec.payload, task.spec.encoding = payload, cast("t.Encoding", encoding)
        except NotDecrypted as error:
            task.spec.payload = with_why(task.spec.payload, str(error))
    return task


def open_item(cipher: Cipher, item: b.Item) -> b.Item:
    """An item of a batch. Its arguments are decrypted where its origin is its own."""
    item.error = open_text(cipher, f"error {bare_id(item.task_id)}", item.error)
    item.error_message = failure_of(item.error).message
    _open_result(cipher, item.task_id, item)
    if is_sealed(item.payload):
        try:
            _open_arguments(cipher, item)
        except NotDecrypted as error:
            item.payload = with_why(item.payload, str(error))
    return item


def _open_arguments(cipher: Cipher, item: b.Item) -> None:
    begins, text = f"item {bare_id(item.task_id).partition('.')[0]} ", ""

    def fits(origin: str) -> bool:
        nonlocal text
        text = origin.removeprefix(begins)
        return origin.startswith(begins)

    item.payload, _ = open_value(cipher, value_under_mark(item.payload), fits)
    is_program = digest_of(COMMAND, [text]) == item.work_item_id.partition("-")[0]
    item.arguments[:] = msgspec.json.decode(item.payload)["argv"] if is_program else texts_of(item.payload)


def _open_result(cipher: Cipher, task_id: str, record: t.Task | b.Item) -> None:
    """Decrypts a result in its place. One that can't be stays, and says why: the other records of an answer are no worse for it."""
    if not is_sealed(record.result):
        return
    try:
        result, encoding = open_result(cipher, task_id, record.result, record.result_encoding)
        record.result, record.result_encoding = result, cast("t.Encoding", encoding)
    except NotDecrypted as error:
        record.result = with_why(record.result, str(error))


def open_log(cipher: Cipher, task_id: str, log: f.GetLogReply) -> f.GetLogReply:
    """What the runs of a task said."""
    for run in log.runs:
        run.text = open_text(cipher, f"log {bare_id(task_id)} {run.run}", run.text)
    return log
