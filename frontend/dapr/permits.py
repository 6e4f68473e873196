"""Permits calls of Dapr's two services: by the namespace of the application, or by the lambda of what is watched, and by nothing else.

Behind it the frontend's own API is called for an application that is known to be permitted, so that it needs no grant for the lambda that delivers
the jobs of all applications.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from atf.auth.caller import acting_for, caller, permit
from atf.auth.grants import Verb


@contextmanager
def permitted_to(verb: Verb, scope: str) -> Iterator[None]:
    """What is done within is permitted, and noted as the caller's.

    Args:
        verb: what is done.
        scope: a namespace, or a lambda by its full name.

    Raises:
        PermissionDenied: the caller may not.
    """
    permit(verb, scope)
    with acting_for(replace(caller(), grant=None)):
        yield
