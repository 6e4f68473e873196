"""Finds jobs that code has made and does not have any more."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from atf.rpc import frontend_pb2 as f
from atf.rpc.api import Frontend
from atf.task import MAX_BATCH


async def left_jobs(frontend: Frontend, declared: Collection[str], namespaces: Iterable[str]) -> list[str]:
    """The jobs of some namespaces that code has made and this code does not declare, by name.

    Args:
        frontend: who knows the jobs.
        declared: names of the jobs that this code declares.
        namespaces: of this code's lambdas.
    """
    left = []
    for namespace in sorted(namespaces):
        request = f.ListJobsRequest(prefix=f"{namespace}/", page_size=MAX_BATCH)
        while True:
            page = await frontend.list_jobs(request)
            left += [each.spec.name for each in page.jobs if each.spec.code and each.spec.name not in declared]
            request.page_token = page.next_page_token
            if not request.page_token:
                break
    return sorted(left)
