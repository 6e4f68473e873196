"""Hides the values of arguments that a lambda's code redacts from what people see.

Executors take them out of what they record; here they go from payloads, and from what was recorded before the code said so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable

from atf.errors import Unavailable
from atf.rpc import batch_pb2 as b, job_pb2 as j, task_pb2 as t
from atf.sdk.redaction import NOTHING, Redactor, redacted_payload
from atf.store.values.batches import BatchRecord
from atf.store.values.tasks import TaskRecord

from .lambdas import Lambdas
from .new_batch import tasks_of
from .validate import lambda_of
from .view import stored


class Redaction:
    """Masks records and messages before they are answered.

    Args:
        lambdas: the registered ones, which say what is redacted.
    """

    def __init__(self, lambdas: Lambdas) -> None:
        self._lambdas = lambdas

    async def load(self, names: Iterable[str]) -> None:
        """Gets to know some lambdas; of those that can't be read now every argument counts as redacted."""
        with contextlib.suppress(Unavailable):
            await self._lambdas.load(set(names))

    def record(self, record: TaskRecord) -> TaskRecord:
        """A task whose texts hold no redacted value. Its spec stays as it is."""
        if not self._names(record.lambda_name) or not (record.error or record.progress or record.ended_runs):
            return record
        redact = self.redactor(record)
        return record._replace(
            error=redact(record.error),
            progress=redact(record.progress),
            ended_runs=[run._replace(why=redact(run.why)) for run in record.ended_runs],
        )

    def redactor(self, record: TaskRecord) -> Redactor:
        """Takes redacted values out of texts about a task."""
        names, spec = self._names(record.lambda_name), stored(t.TaskSpec, record.spec)
        return Redactor(names, spec.payload, spec.encoding) if names and spec is not None else NOTHING

    async def with_spec(self, records: Iterable[TaskRecord], *, unredacted: bool) -> list[TaskRecord]:
        """Tasks whose specs are shown: without redacted values, unless a program has asked for them."""
        found = [self.record(each) for each in records]
        if unredacted:
            return found
        await self.load(each.lambda_name for each in found)
        return [each._replace(spec=self._spec(each)) for each in found]

    async def batch(self, record: BatchRecord) -> BatchRecord:
        """A batch whose callbacks hold no redacted value."""
        if (spec := stored(b.BatchSpec, record.spec)) is None:
            return record
        tasks = list(tasks_of(spec.callbacks))
        await self.load(lambda_of(each) for each in tasks)
        for each in tasks:
            self._mask(each)
        return record._replace(spec=spec.SerializeToString(deterministic=True)) if tasks else record

    async def jobs(self, jobs: Iterable[j.Job]) -> None:
        """Masks the tasks of some jobs, in place."""
        jobs = list(jobs)
        await self.load(lambda_of(each.spec.task) for each in jobs)
        for each in jobs:
            self._mask(each.spec.task)

    async def job(self, job: j.Job) -> j.Job:
        """A job whose task is masked, in place."""
        await self.jobs([job])
        return job

    def _names(self, lambda_name: str) -> Collection[str] | None:
        """What a lambda redacts; None: it is not known here, so nobody can say."""
        known = self._lambdas.find(lambda_name)
        return None if known is None else known.spec.redact

    def _mask(self, spec: t.TaskSpec) -> None:
        spec.payload = redacted_payload(spec.payload, spec.encoding, self._names(lambda_of(spec)))

    def _spec(self, record: TaskRecord) -> bytes:
        names = self._names(record.lambda_name)
        if names is not None and not names:
            return record.spec
        if (spec := stored(t.TaskSpec, record.spec)) is None:
            return record.spec
        self._mask(spec)
        return spec.SerializeToString()
