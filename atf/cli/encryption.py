"""What commands encrypt and decrypt on this machine, where they are given a key file. The frontend never has it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from atf.codec.cipher import cipher_of
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, task_pb2 as t
from atf.runtime import SystemRuntime, new_id

from .options import option

codec_keys_flag: Final = option(
    "--codec-keys",
    "FILE",
    "Decrypt what it shows by this key file, on this machine.  [default: ATF_CODEC_KEYS]",
)


def decrypt(codec_keys: str | None, *tasks: t.Task) -> None:
    """Makes tasks, in place, what their caller knows, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is None:
        return
    from atf.codec.results import open_task

    for each in tasks:
        open_task(cipher, each)


def decrypted_log(task_id: str, log: f.GetLogReply, codec_keys: str | None) -> f.GetLogReply:
    """What the runs of a task said, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is None:
        return log
    from atf.codec.results import open_log

    return open_log(cipher, task_id, log)


def decrypt_items(codec_keys: str | None, items: Iterable[b.Item]) -> None:
    """Makes items of a batch, in place, what its maker knows, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is None:
        return
    from atf.codec.results import open_item

    for each in items:
        open_item(cipher, each)


def hashed_search(asked: f.TaskFilter, codec_keys: str | None) -> f.TaskFilter:
    """A filter whose searched values are hashed as those of encrypted tasks are, in place, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is not None and asked.search:
        from atf.codec.requests import seal_filter

        seal_filter(cipher, asked)
    return asked


def encrypted_task(request: f.ScheduleRequest) -> f.ScheduleRequest:
    """A request as it may leave this machine: encrypted where ATF_CODEC_KEYS names a key file."""
    if (cipher := cipher_of()) is None:
        return request
    from atf.codec.requests import seal_task

    request.id = request.id or new_id(SystemRuntime().random)
    return seal_task(cipher, request)


def encrypted_job(request: f.ScheduleJobRequest) -> f.ScheduleJobRequest:
    """The same of a job."""
    if (cipher := cipher_of()) is None:
        return request
    from atf.codec.requests import seal_job

    return seal_job(cipher, request)
