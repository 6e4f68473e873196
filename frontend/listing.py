"""Lists of tasks over all lambdas, by filters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from atf.auth.caller import caller, permit, permitted
from atf.auth.grants import Verb
from atf.errors import FailedPrecondition
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.sdk.messages import of_lambda
from atf.sdk.sealed import are_hashes, is_sealed
from atf.store.status import NO_TASKS
from atf.store.values.lists import ListedTask, TaskPage, TaskQuery
from atf.store.values.tasks import TaskRecord
from atf.task import Status

from . import view
from .filters import lambda_or_namespace, next_token, parse_token, task_query, token_behind
from .lambdas import KnownLambda
from .parts import FrontendParts
from .search import declaring
from .validate import lambda_of, page_size
from .view import ANSWER_BYTES, stored

_READ_TOGETHER: Final = 32
_READ_WITH_SPEC: Final = 2
"""The same with their payloads, of 1 MiB each."""
_LOOKED_AT: Final = 8
"""Of a search that finds nothing: lambdas, and the newest tasks of each."""


class ListRpcs(FrontendParts):
    """The calls that find tasks."""

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        """A page of tasks. It is shorter than asked for where large results or payloads would make it more than 4 MiB."""
        query = await self._query(request.filter, oldest_first=request.oldest_first)
        size = page_size(request.page_size)
        page, of = await self._page(request.filter, query, size, request.page_token)
        reply = f.ListTasksReply(looked_at=page.looked_at, of=of, next_page_token=next_token(query, page, of))
        step = _READ_WITH_SPEC if request.with_spec else _READ_TOGETHER
        for start in range(0, len(page.tasks), step):
            some = page.tasks[start : start + step]
            records = await self._read(some)
            shown = await self._shown_tasks(records, with_spec=request.with_spec, unredacted=request.unredacted)
            reply.tasks.extend(view.task(record, with_spec=request.with_spec) for record in shown)
            if reply.ByteSize() >= ANSWER_BYTES and start + step < len(page.tasks):
                reply.next_page_token = token_behind(query, some[-1], of)
                break
        return reply

    async def count_tasks(self, request: f.CountTasksRequest, *, timeout: float = 10) -> f.CountTasksReply:
        """How many tasks there are, by lambda and status."""
        name, namespace = lambda_or_namespace(lambda_of(request))
        if name:
            permit(Verb.READ, name)
            await self._lambdas.known(name)
        await self._lambdas.load(())
        standing = await self._standing()
        counts = standing.whole()
        known = permitted(Verb.READ, (each.record.name for each in self._lambdas.all()))
        asked = [each for each in known if (each == name if name else each.startswith(namespace))]
        lambdas = [_counts(each, counts.get(each, NO_TASKS).counts) for each in asked]
        return f.CountTasksReply(at_us=standing.now_us, lambdas=lambdas)

    async def _query(self, asked: f.TaskFilter, *, verb: Verb = Verb.READ, oldest_first: bool = False) -> TaskQuery:
        """A filter, checked: its lambda is known, and it finds what the caller may do this to. To search by arguments is to read them."""
        query = task_query(asked, oldest_first=oldest_first)
        who, verbs = caller(), (verb, Verb.READ_PAYLOAD) if asked.search else (verb,)
        query = query._replace(scopes=who.scopes(verb))
        lambdas: list[KnownLambda] = []
        if query.lambda_name:
            for each in verbs:
                permit(each, query.lambda_name)
            lambdas = [await self._lambdas.known(query.lambda_name)]
        elif query.entries:
            await self._lambdas.refresh()
            lambdas = [
                each
                for each in self._lambdas.all()
                if each.record.name.startswith(query.namespace)
                and all(who.may(verb, each.record.name) for verb in verbs)
            ]
        if asked.search:
            return query._replace(lambdas=declaring(asked.search, lambdas, query.lambda_name))
        return query._replace(lambdas=[each.record.name for each in lambdas]) if query.entries else query

    async def _page(self, asked: f.TaskFilter, query: TaskQuery, size: int, token: str) -> tuple[TaskPage, int]:
        """A page of what a filter finds, and of how many. A search of encrypted arguments is told so, and not that there are none."""
        behind, of = parse_token(token, query)
        page = await self._store.list_tasks(query, size, behind, count=of < 0)
        if asked.search and not page.tasks and behind is None and not are_hashes(asked.search.values()):
            await self._refuse_encrypted(query)
        return page, page.of if of < 0 else of

    async def _refuse_encrypted(self, query: TaskQuery) -> None:
        for name in query.lambdas[:_LOOKED_AT]:
            newest = await self._store.list_tasks(TaskQuery(name), _LOOKED_AT, None, count=False)
            for each in await self._read(newest.tasks):
                spec = stored(t.TaskSpec, each.spec)
                if spec is not None and is_sealed(spec.payload):
                    raise FailedPrecondition(
                        f"search: arguments of {name} are encrypted, so a value is found by its hash alone. Search where the key file is:"
                        " atf ls --search … --codec-keys FILE, or atf.Client(codec_keys=…)"
                    )

    async def _read(self, tasks: Sequence[ListedTask]) -> list[TaskRecord]:
        """The records of listed tasks, without those that have gone meanwhile."""
        return [each for each in await self._store.get_tasks([task.id for task in tasks]) if each is not None]

    async def _shown_tasks(
        self, records: Sequence[TaskRecord], *, with_spec: bool, unredacted: bool
    ) -> list[TaskRecord]:
        if with_spec:
            return await self._redaction.with_spec(records, unredacted=unredacted)
        return [self._redaction.record(each) for each in records]


def _counts(name: str, counts: Mapping[Status, int]) -> f.LambdaCounts:
    return f.LambdaCounts(counts={status.name: count for status, count in counts.items()}, **of_lambda(name))
