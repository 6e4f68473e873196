"""Answers how the whole cluster stands, as `atf status` shows it.

What is wrong is for the reader to judge: this only counts. The cost is bounded: two commands per lambda and partition, some tens for each
that has tasks, and the first jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Final

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.errors import AtfError, InvalidArgument
from atf.rpc import frontend_pb2 as f, job_pb2 as j
from atf.store.claim_pause import ClaimPause
from atf.store.servers.check_results import State
from atf.store.servers.settings import retention
from atf.store.status import COUNTED, NO_TASKS, LambdaCounts
from atf.task import MAX_AHEAD_US, MAX_BATCH, Status

from . import view
from .jobs import JobRpcs
from .lambdas import KnownLambda
from .standing import RECENT_US
from .validate import lambda_of

_JOBS: Final = 1_000
_PAGES: Final = 16
"""Pages of jobs: where the caller may see few of very many, they are short, or empty."""
_KEPT: Final = 32
"""Lambdas of which is said who keeps their tasks: one call of the store."""
_Served = Collection[tuple[str, str]]


class StatusRpc(JobRpcs):
    """The call GetStatus."""

    async def get_status(self, request: f.GetStatusRequest, *, timeout: float = 10) -> f.GetStatusReply:
        """Counts everything, or says what was counted less than a second ago."""
        if not 0 <= request.recent_us <= MAX_AHEAD_US:
            raise InvalidArgument(f"recent_us {request.recent_us}: at least 0, at most ten years")
        recent_us = request.recent_us if request.HasField("recent_us") else RECENT_US
        await self._lambdas.refresh()
        who, standing = caller(), await self._standing(recent_us)
        known = [each for each in self._lambdas.all() if who.may(Verb.READ, each.record.name)]
        pause = ClaimPause.longest_of(await self._store.claim_pauses())
        served = await self._store.served()
        now_us, hosts = await self._store.list_hosts()
        everything = who.may_everywhere(Verb.READ)  # hosts, roles and servers are nobody's alone
        reply = f.GetStatusReply(
            now_us=max(now_us, standing.now_us),
            claims_in_us=pause.left_us if pause else 0,
            claims_paused=pause.sentence if pause else "",
            partitions=self._store.partitions,
            partitions_away=standing.away,
            hosts=[view.host(each) for each in hosts] if everything else (),
            lambdas_known=len(known),
            cluster_withheld=not everything,
        )
        for each in known:
            found = standing.lambdas.get(each.record.name, NO_TASKS)
            if found.unfinished or found.dead or each.record.paused or each.record.gated:
                reply.lambdas.append(_lambda(each, found, served))
        for status, *counts in zip(
            COUNTED, *(standing.lambdas.get(each.record.name, NO_TASKS).by_status for each in known), strict=True
        ):
            reply.counts[status.name] = sum(counts)
        await self._say_who_keeps(reply)
        if everything:
            early = retention(standing.early_us, standing.now_us)
            if early.state is not State.OK:
                reply.check_results.add(check=early.check, state=early.state.value, sentence=early.sentence)
            await self._add_roles(reply)
            await self._add_servers(reply)
        await self._add_jobs(reply, {each.record.name: each for each in known}, served)
        return reply

    async def _add_roles(self, reply: f.GetStatusReply) -> None:
        counted = Counter((each.role, each.version) for each in await self._store.live_roles())
        for (role, version), processes in sorted(counted.items()):
            reply.roles.add(role=role, version=version, processes=processes)

    async def _say_who_keeps(self, reply: f.GetStatusReply) -> None:
        kept = {getattr(each, "lambda"): each for each in reply.lambdas if each.waiting and (each.paused or each.gated)}
        for gate in await self._store.list_gates(*list(kept)[:_KEPT], counted=False):
            kept[gate.lambda_name].kept_by = f"{gate.who or 'somebody'}: {gate.why}" if gate.why else gate.who

    async def _add_servers(self, reply: f.GetStatusReply) -> None:
        try:
            for result in await self._store.examine():
                if result.state is not State.OK:
                    reply.check_results.add(check=result.check, state=result.state.value, sentence=result.sentence)
            for each in await self._store.memory():
                reply.memory.add(where=each.where, used_bytes=each.used, max_bytes=each.most)
        except AtfError as error:  # the rest of the answer is worth having
            reply.check_results.add(check="server", state=State.REFUSE.value, sentence=str(error))

    async def _add_jobs(self, reply: f.GetStatusReply, known: dict[str, KnownLambda], served: _Served) -> None:
        request, seen, pages = f.ListJobsRequest(page_size=MAX_BATCH, unredacted=True), 0, 0
        while seen < _JOBS and pages < _PAGES:
            pages += 1
            page = await self.list_jobs(request)
            for job in page.jobs:
                if why := _without_code(job, known, served):
                    name = lambda_of(job.spec.task)
                    reply.jobs.add(name=job.spec.name, why=why, **{"lambda": name})
            seen += len(page.jobs)
            request.page_token = page.next_page_token
            if not request.page_token:
                return
        reply.more_jobs = True


def is_served(known: KnownLambda, served: _Served) -> bool:
    """Whether live workers of a lambda's pool run it, or some there did not say what they run."""
    pool = known.in_force.pool
    return (pool, known.record.name) in served or (pool, "*") in served


def _lambda(known: KnownLambda, found: LambdaCounts, served: _Served) -> f.LambdaStatus:
    return f.LambdaStatus(
        **{"lambda": known.record.name},
        paused=known.record.paused,
        gated=known.record.gated,
        served=is_served(known, served),
        waiting=found.waiting,
        later=found.later,
        running=found.running,
        due_since_us=found.since_us,
        dead=found.dead,
        failed_recently=found.recent,
        failed_id=found.failed_id,
        retrying=found.counts[Status.RETRIABLE_FAILURE],
    )


def _without_code(job: j.Job, known: dict[str, KnownLambda], served: _Served) -> str:
    """Why nobody will run what a job makes, or stands for it any more; empty where all is well."""
    if job.paused:
        return ""
    of = known.get(lambda_of(job.spec.task))
    if of is None:
        return "its lambda is not registered"
    if job.spec.code and not of.spec.schedule:
        return "its code declares no schedule any more"
    return "" if is_served(of, served) else "no live worker runs its lambda"
