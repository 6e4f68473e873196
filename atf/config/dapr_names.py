"""Names what came through Dapr's APIs: ids of applications, and what their jobs are called here. Pure, no I/O.

The job N of the application A is the job "dapr.A/N", and its ticks are tasks of DELIVER.
"""

from __future__ import annotations

import re
from typing import Final

from atf.errors import InvalidArgument
from atf.task import check_job

DELIVER: Final = "atf/dapr-job"
"""The lambda that brings a tick to its application."""
MAX_APP_ID_CHARS: Final = 59
"""With the prefix, a namespace's 64."""
_PREFIX: Final = "dapr."
_APP_ID: Final = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_APP_ID_CHARS}}}")


def check_app_id(app_id: str) -> str:
    """The id of an application.

    Raises:
        InvalidArgument: it is not 1 to 59 of the characters A-Z a-z 0-9 . _ -
    """
    if not _APP_ID.fullmatch(app_id):
        raise InvalidArgument(f"app id {app_id!r}: use 1 to {MAX_APP_ID_CHARS} of the characters A-Z a-z 0-9 . _ -")
    return app_id


def namespace_of(app_id: str) -> str:
    """How the names of an application's jobs begin, the slash included.

    Raises:
        InvalidArgument: there can be no such application.
    """
    return f"{_PREFIX}{check_app_id(app_id)}/"


def job_of(app_id: str, name: str) -> str:
    """The name of an application's job.

    Raises:
        InvalidArgument: there can be no such application, or no job of that name.
    """
    return check_job(namespace_of(app_id) + name)


def split_job(job: str) -> tuple[str, str] | None:
    """The application and its own name for a job; None: it is no application's."""
    namespace, _, name = job.partition("/")
    return (namespace[len(_PREFIX) :], name) if namespace.startswith(_PREFIX) and name else None
