"""Names jobs of Dapr's scheduler service, and the lambda in whose queues their triggers lie. Pure.

Of a job "backup" of the app "billing" in Dapr's namespace "prod", and of a reminder "wake" of the actor "7" of type "Cat":

    job      dapr-scheduler.prod/job:billing:backup      dapr-scheduler.prod/actor:Cat:7:wake
    lambda   dapr-scheduler.prod/job.billing             dapr-scheduler.prod/actor.Cat

Each part of a job's name is percent-encoded, so that no two jobs share a name, and all jobs of an app, an actor or a beginning of a name
are those whose names here begin alike. Whose triggers go to the same watchers share a lambda: a queue belongs to one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from atf.errors import InvalidArgument
from atf.rpc import dapr_scheduler_pb2 as d
from atf.task import MAX_JOB_CHARS

_SPACE: Final = "dapr-scheduler."
_MOST: Final = 64
"""Characters of a namespace, and of a lambda's name within it."""
_SAFE: Final = re.compile(r"[A-Za-z0-9._-]+")
_READABLE: Final = 24
"""Characters kept of what does not fit."""


def job_name(name: str, metadata: d.JobMetadata) -> str:
    """The name of a job.

    Raises:
        InvalidArgument: something that it needs is missing, or all of it is too long.
    """
    if not name:
        raise InvalidArgument("name: it is empty; give the job's name")
    *parts, last = _target(metadata)
    if not last:
        raise InvalidArgument("metadata.target.actor.id: it is empty; give the actor's id")
    told = _told(*parts, last, name)
    if len(told) > MAX_JOB_CHARS:
        raise InvalidArgument(
            f"name: with its app id, or its actor's type and id, it comes to {len(told)} characters, where all but letters, digits,"
            f" ., _, - and ~ count 3 for each byte; at most {MAX_JOB_CHARS}"
        )
    return f"{_namespace(metadata.namespace)}/{told}"


def prefix(metadata: d.JobMetadata, *, name_prefix: str = "", id_prefix: bool = False) -> str:
    """What the names of several jobs begin with: all of an app, of an actor, or, without an id, of an actor's type.

    Args:
        metadata: whose.
        name_prefix: only those whose own names begin so.
        id_prefix: the id is the beginning of actors' ids.

    Raises:
        InvalidArgument: something that it needs is missing.
    """
    *parts, last = _target(metadata)
    whole = metadata.target.WhichOneof("type") == "job" or (last and not id_prefix)
    if name_prefix and not whole:
        raise InvalidArgument("metadata.target.actor.id: it is empty; name_prefix needs the actor's id")
    told = _told(*parts, last, name_prefix) if whole else _told(*parts, last)
    if len(told) > MAX_JOB_CHARS:
        raise InvalidArgument(
            f"metadata and name prefix: together they come to {len(told)} characters, and names to {MAX_JOB_CHARS}"
        )
    return f"{_namespace(metadata.namespace)}/{told}"


def lambda_name(metadata: d.JobMetadata) -> str:
    """The lambda of a job's triggers; its metadata have been checked by `job_name`."""
    target = metadata.target
    if target.WhichOneof("type") == "job":
        return of_app(metadata.namespace, metadata.app_id)
    return of_actors(metadata.namespace, target.actor.type)


def of_app(namespace: str, app_id: str) -> str:
    """The lambda of an app's jobs."""
    return f"{_namespace(namespace)}/{_fitting('job.', app_id)}"


def of_actors(namespace: str, actor_type: str) -> str:
    """The lambda of the reminders of an actor's type."""
    return f"{_namespace(namespace)}/{_fitting('actor.', actor_type)}"


def check_whose(field: str, namespace: str, app_id: str) -> None:
    """Every request names both.

    Raises:
        InvalidArgument: one is missing.
    """
    for part, value in (("namespace", namespace), ("app_id", app_id)):
        if not value:
            raise InvalidArgument(f"{field}.{part}: it is empty; give the app's")


def _target(metadata: d.JobMetadata) -> tuple[str, ...]:
    """The parts by which a target is told from others; the last one is an app's or an actor's id."""
    check_whose("metadata", metadata.namespace, metadata.app_id)
    target = metadata.target
    match target.WhichOneof("type"):
        case "job":
            return "job", metadata.app_id
        case "actor" if target.actor.type:
            return "actor", target.actor.type, target.actor.id
        case "actor":
            raise InvalidArgument("metadata.target.actor.type: it is empty; give the actor's type")
    raise InvalidArgument("metadata.target: it is neither job nor actor; give one of them")


def _told(*parts: str) -> str:
    return ":".join(quote(each, safe="") for each in parts)


def _namespace(namespace: str) -> str:
    return _fitting(_SPACE, namespace)


def _fitting(beginning: str, text: str) -> str:
    """The text behind `beginning`, or, where it has no place in a name or is too long, what can be read of it and a digest.

    Two dots in a row stand before a digest and nowhere else, so that nothing that fits is taken for something that does not.
    """
    if len(beginning) + len(text) <= _MOST and ".." not in text and _SAFE.fullmatch(text):
        return beginning + text
    readable = "".join(_SAFE.findall(text))[:_READABLE].strip(".")
    while ".." in readable:
        readable = readable.replace("..", ".")
    return f"{beginning}{readable}..{blake2b(text.encode(), digest_size=10).hexdigest()}"


def watched(initial: d.WatchJobsRequestInitial) -> Iterable[str]:
    """The lambdas whose triggers a watcher takes; without `accept_job_types`, of both kinds."""
    kinds = initial.accept_job_types or d.JobTargetType.values()
    if d.JOB_TARGET_TYPE_JOB in kinds:
        yield of_app(initial.namespace, initial.app_id)
    if d.JOB_TARGET_TYPE_ACTOR_REMINDER in kinds:
        yield from (of_actors(initial.namespace, each) for each in initial.actor_types)
