"""Deletes a lambda: refused while anybody runs it, while tasks of it are unfinished, and while a job names it.

A frontend that read the registry less than a second ago may still accept a task for a lambda that is just being deleted. That task waits until
the lambda is registered again, and `explain` says so.
"""

from __future__ import annotations

from typing import Final

from atf.errors import FailedPrecondition, Unavailable
from atf.log import get_logger
from atf.rpc import frontend_pb2 as f
from atf.store.status import LambdaCounts
from atf.store.values.lambdas import AuditEntry
from atf.task import MAX_BATCH, Status

from .audit import check_who
from .capacity import CapacityRpcs
from .jobs import JobRpcs
from .lambdas import KnownLambda
from .status import is_served
from .validate import checked_lambda, lambda_of

_CANCELLED_AT_ONCE: Final = 4_096
"""Tasks that one call cancels at least, where so many wait."""
_WAITING: Final = (Status.NEW, Status.RETRIABLE_FAILURE, Status.ENQUEUED)

_log = get_logger()


class DeleteLambdaRpc(JobRpcs, CapacityRpcs):
    """The call DeleteLambda."""

    async def delete_lambda(self, request: f.DeleteLambdaRequest, *, timeout: float = 10) -> f.DeleteLambdaReply:
        """Deletes a lambda, or cancels some of its tasks that wait."""
        name = checked_lambda(request)
        check_who(request.who, request.why)
        await self._lambdas.refresh()
        known = self._lambdas.get(name)
        await self._check_removable(known)
        waiting = await self._count_waiting(name)
        if waiting and not request.cancel_waiting:
            raise FailedPrecondition(
                f"{waiting} tasks of {name} wait: atf lambda rm {name} --cancel-waiting cancels them first"
            )
        if request.dry_run:
            return f.DeleteLambdaReply(waiting=waiting)
        if waiting:
            cancelled = await self._cancel_waiting(name)
            _log.info("delete_lambda", name=name, cancelled=cancelled)
            return f.DeleteLambdaReply(waiting=waiting, cancelled=cancelled)
        await self._store.delete_lambda(name)
        await self._store.add_audit(AuditEntry(0, 0, "delete_lambda", name, {}, request.who, request.why, ""))
        await self._lambdas.refresh()
        _log.info("delete_lambda", name=name)
        return f.DeleteLambdaReply(deleted=True)

    async def _check_removable(self, known: KnownLambda) -> None:
        name = known.record.name
        if is_served(known, await self._store.served()):
            raise FailedPrecondition(
                f"live workers run {name}, or some of its pool do not say what they run: deploy code without it, and wait until the"
                " last executor that has it was gone for two minutes"
            )
        await self._check_may_leave(name, known.in_force.pool)
        request = f.ListJobsRequest(page_size=MAX_BATCH, unredacted=True)
        while True:
            page = await self.list_jobs(request)
            for job in page.jobs:
                if lambda_of(job.spec.task) == name:
                    raise FailedPrecondition(
                        f"the job {job.spec.name} makes tasks of {name}: atf job rm {job.spec.name} deletes it"
                    )
            request.page_token = page.next_page_token
            if not request.page_token:
                return

    async def _count_waiting(self, name: str) -> int:
        standing = await self._store.get_status([name], 0)
        if standing.away:
            raise Unavailable("a partition of the task store can't be reached: nobody knows which tasks wait there")
        found = standing.lambdas.get(name, LambdaCounts(0, 0, 0, 0, 0, 0, "", 0))
        if found.running:
            raise FailedPrecondition(f"{found.running} tasks of {name} run: wait until they have ended")
        return found.waiting + found.later

    async def _cancel_waiting(self, name: str) -> int:
        cancelled = 0
        for status in _WAITING:
            token = ""
            while cancelled < _CANCELLED_AT_ONCE:
                records, token = await self._store.list_tasks(name, status, MAX_BATCH, token)
                results = await self._store.cancel_tasks([each.id for each in records]) if records else []
                cancelled += sum(each.cancelled for each in results)
                if not token:
                    break
        return cancelled
