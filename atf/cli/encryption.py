"""What commands encrypt and decrypt on this machine, where they are given a key file. The frontend never has it."""

from __future__ import annotations

from typing import Final

from atf.codec.cipher import cipher_of
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.runtime import SystemRuntime, new_id

from .options import option

codec_keys_flag: Final = option(
    "--codec-keys",
    "FILE",
    "Decrypt what it shows by this key file, on this machine.  [default: ATF_CODEC_KEYS]",
)


def decrypted(task: t.Task, codec_keys: str | None) -> t.Task:
    """A task as its caller knows it, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is None:
        return task
    from atf.codec.results import open_task

    return open_task(cipher, task)


def decrypted_log(task_id: str, log: f.GetLogReply, codec_keys: str | None) -> f.GetLogReply:
    """What the runs of a task said, where there are keys."""
    if (cipher := cipher_of(codec_keys)) is None:
        return log
    from atf.codec.results import open_log

    return open_log(cipher, task_id, log)


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
