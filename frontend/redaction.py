"""Leaves out what its reader may not see: all that tasks hold, without read_payload; and the values of arguments that a lambda's code redacts.

Executors take them out of what they record; here they go from payloads, and from what was recorded before the code said so.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import Unavailable
from atf.rpc import batch_pb2 as b, job_pb2 as j, task_pb2 as t
from atf.sdk.failure import TRACEBACK, failure_of, headline
from atf.sdk.redaction import NOTHING, Redactor, redacted_payload
from atf.store.values.batches import BatchRecord
from atf.store.values.tasks import TaskRecord

from .lambdas import Lambdas
from .new_batch import tasks_of
from .validate import lambda_of
from .view import stored

WITHHELD: Final = "[withheld: it takes read_payload to see it]"
"""What stands in a text's place."""


def is_withheld(lambda_name: str) -> bool:
    """Whether the caller may not see what tasks of a lambda hold."""
    return not caller().may(Verb.READ_PAYLOAD, lambda_name)


def withheld_error(error: str) -> str:
    """Of the text of a failure the exception's type alone, where one was raised."""
    failed = failure_of(error)
    return f"{headline(failed.type, WITHHELD)}\n{TRACEBACK}\n  {WITHHELD}" if failed.type else WITHHELD if error else ""


def _withheld(record: TaskRecord) -> TaskRecord:
    """A task without what it holds: its record, as who has no read_payload sees it, wherever that is."""
    if (spec := stored(t.TaskSpec, record.spec)) is not None:
        spec.ClearField("payload")
    return record._replace(
        result=b"",
        error=withheld_error(record.error),
        progress="",
        ended_runs=[run._replace(why=run.why.partition(":")[0]) for run in record.ended_runs],
        spec=spec.SerializeToString(deterministic=True) if spec is not None else b"",
        misfit=record.misfit and record.misfit._replace(error=WITHHELD),
        withheld=True,
    )


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
        """A task whose texts hold no redacted value. Its spec stays as it is, unless all is withheld."""
        if is_withheld(record.lambda_name):
            return _withheld(record)
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
        return [each if each.withheld else each._replace(spec=self._spec(each)) for each in found]

    def error(self, lambda_name: str, error: str) -> str:
        """The text of a failure, as far as the caller may see it."""
        return withheld_error(error) if is_withheld(lambda_name) else error

    async def batch(self, record: BatchRecord, *, unredacted: bool) -> BatchRecord:
        """A batch whose callbacks hold no redacted value, unless a program has asked for them."""
        if (spec := stored(b.BatchSpec, record.spec)) is None:
            return record
        tasks = list(tasks_of(spec.callbacks))
        if not unredacted:
            await self.load(lambda_of(each) for each in tasks)
        shown = [self._shown(each, unredacted=unredacted) for each in tasks]
        spec_text = spec.SerializeToString(deterministic=True)
        return record._replace(spec=spec_text, withheld=not all(shown)) if tasks else record

    async def jobs(self, jobs: Iterable[j.Job], *, unredacted: bool = False) -> None:
        """Masks the tasks of some jobs, in place, unless a program has asked for them."""
        jobs = list(jobs)
        if not unredacted:
            await self.load(lambda_of(each.spec.task) for each in jobs)
        for each in jobs:
            each.withheld = not self._shown(each.spec.task, unredacted=unredacted)

    async def job(self, job: j.Job, *, unredacted: bool = False) -> j.Job:
        """A job whose task is masked, in place."""
        await self.jobs([job], unredacted=unredacted)
        return job

    def _shown(self, spec: t.TaskSpec, *, unredacted: bool) -> bool:
        """Takes out of a task that is yet to be made what its reader may not see, in place. Whether that is less than all."""
        if is_withheld(lambda_of(spec)):
            spec.ClearField("payload")
            return False
        if not unredacted:
            self._mask(spec)
        return True

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
