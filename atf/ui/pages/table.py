"""The table of all pages: their paths, and what makes each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from atf.ui.visit import PageView, Visit

from . import batches, bulk, cluster, failures, jobs, lambdas, overview, task, tasks


class Page(NamedTuple):
    """A page."""

    path: str
    """Below the base path; {names} are a visit's."""
    nav: str
    """Which word at the top it belongs to."""
    view: Callable[[Visit], Awaitable[PageView]]


PAGES: Final = (
    Page("/", "overview", overview.overview),
    Page("/lambdas", "lambdas", lambdas.lambdas),
    Page("/lambdas/{name:.+}", "lambdas", lambdas.one_lambda_page),
    Page("/tasks", "tasks", tasks.tasks),
    Page("/tasks/{id}", "tasks", task.task),
    Page("/tasks/{id}/{part}", "tasks", task.part),
    Page("/failures", "failures", failures.failures),
    Page("/bulk/{verb}", "tasks", bulk.bulk),
    Page("/jobs", "jobs", jobs.jobs),
    Page("/jobs/{name:.+}", "jobs", jobs.job),
    Page("/batches", "batches", batches.batches),
    Page("/batches/{id}", "batches", batches.batch),
    Page("/cluster", "cluster", cluster.cluster),
)
