"""Takes tasks from queues and claims them in one step, answers once more what an ask has claimed, and hands back what nobody will take.

An ask is one call of an executor for work, known by its nonce. What it claims is the answer to it alone. Where nobody knows whether that answer
arrived, the ask is repeated by its nonce, or given up; else its leases end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from atf.errors import ClaimsPaused, Unavailable
from atf.rpc.stored_spec import whole
from atf.store.servers.sockets import Arg
from atf.task import MAX_BATCH

from .calls import CALL_BYTES
from .claim_pause import ClaimPause
from .roster import RosterVerbs
from .values.claims import ClaimedTask, Taken, Taker

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class NextClaimVerbs(RosterVerbs):
    """The verbs of Store by which claims come into being."""

    async def next_claims(
        self,
        partition: int,
        groups: Sequence[Sequence[str]],
        takers: Sequence[Taker],
        *,
        want: int,
        pool: str = "",
        host: str = "",
        signatures: Mapping[str, str] = _NONE,
        max_bytes: int = CALL_BYTES,
    ) -> Taken:
        """ENQUEUED → CLAIMED: takes up to `want` tasks, and deals them among the takers one by one.

        The first group's queues first, evenly within a group, none of paused lambdas or of another pool's. What a lambda gets by that is dealt
        among its priorities by their shares. Where a lambda's placement is sticky or spread, a host leaves tasks to others, for a while; without
        a name (""), it takes what comes first. Of the lambdas in `signatures` it also takes tasks that did not fit executors with another
        signature. What the takers are not given stays in its queue.

        A taker that has claimed in this partition before gets that once more, with new leases, and nothing else: nothing once that is over. One that was
        given up gets nothing.

        Args:
            partition: the one to take from.
            groups: queues, most urgent first.
            takers: asks of executors of one host that run the same.
            want: how many tasks they take at most; no more than MAX_BATCH.
            pool: whose executors they are.
            host: theirs; "": of no name.
            signatures: lambda -> digest of the signature that they run.
            max_bytes: what the specs and their overhead may come to, and CALL_BYTES at most. A first task that is larger is claimed alone.

        Raises:
            ClaimsPaused: something was found, and claims are paused.
            Unavailable: the partition is away, or the claims did not come to be as durable as set. What was claimed then, `claims_of` answers.
        """
        if want < 0 or want > MAX_BATCH or any(each.room < 1 for each in takers):
            raise ValueError(
                f"want={want}, takers={takers}: use 0 to {MAX_BATCH} tasks, and takers with room for one at least"
            )
        asked = {queue.rpartition(":")[0] for group in groups for queue in group} if signatures else ()
        signed = "".join(f" {name}={signatures[name]}" for name in asked if name in signatures)
        args: list[Arg] = [self._lease_us, want, min(max_bytes, CALL_BYTES), pool, host, signed, len(takers)]
        for each in takers:
            args += each
        for group in groups:
            args += (len(group), *group)
        reply = await self._lease("next_claims", partition, args, demand=self.settings.floor)
        _check_pause(reply)
        found, filled, left_to, over = reply if len(reply) > 1 else (*reply, (), (), ())
        claims: dict[str, list[ClaimedTask]] = {each.nonce: [] for each in takers}
        served: dict[str, int] = {}
        for queue, number, entry in _entries(found):
            nonce = takers[number - 1].nonce
            claims[nonce].append(claimed_task(queue, nonce, entry))
            served[queue] = served.get(queue, 0) + 1
        names = [each.decode() for each in dict.fromkeys(filled)]
        hosts, gone = (frozenset(each.decode() for each in names) for names in (left_to, over))
        return Taken(claims, served, names, hosts, gone)

    async def claims_of(self, owner: str, nonce: str, max_bytes: int = CALL_BYTES) -> list[ClaimedTask]:
        """What an ask has claimed and not started, wherever it lies: the same tokens, with new leases. Partitions that are away are passed over.

        Raises:
            ClaimsPaused: nothing was found, and claims are paused.
            Unavailable: every partition is away, or the claims did not come to be as durable as set.
        """
        args: list[Arg] = [self._lease_us, owner, nonce, min(max_bytes, CALL_BYTES)]

        async def look(partition: int) -> list[ClaimedTask]:
            reply = await self._lease("claims_of", partition, list(args), demand=self.settings.floor)
            _check_pause(reply)
            return [claimed_task(queue, nonce, entry) for queue, _, entry in _entries(reply[0])]

        answers = await asyncio.gather(*map(look, range(self.partitions)), return_exceptions=True)
        claims, troubles, away = list[ClaimedTask](), list[ClaimsPaused](), list[Unavailable]()
        for each in answers:
            if isinstance(each, ClaimsPaused):
                troubles.append(each)
            elif isinstance(each, Unavailable):
                away.append(each)
            elif isinstance(each, BaseException):
                raise each
            else:
                claims += each
        if not claims and troubles:
            raise troubles[0]
        if len(away) == self.partitions:
            raise away[0]
        return claims

    async def give_up_asks(self, nonces: Sequence[str]) -> None:
        """CLAIMED → ENQUEUED: hands back what these asks have claimed and nobody has started. They claim nothing any more. Counts nothing.

        Raises:
            Unavailable: a partition is away. It may be repeated.
        """

        async def give_up(partition: int) -> None:
            for start in range(0, len(nonces), MAX_BATCH):
                await self._call("give_up_asks", partition, [self._lease_us, *nonces[start : start + MAX_BATCH]])

        results = await asyncio.gather(*map(give_up, range(self.partitions)), return_exceptions=True)
        for each in results:
            if each is not None:
                raise each

    async def filled_queues(self, partition: int) -> list[str]:
        """The queues that hold something."""
        return [each.decode() for each in await self._call("filled_queues", partition, [])]


def claimed_task(queue: str, nonce: str, entry: Sequence[Any]) -> ClaimedTask:
    """A claim as functions of the store answer it (next_claims.lua), without whose it is."""
    task_id, counter, spec, at, *more = entry
    logs = more.pop().decode() if len(more) % 2 else ""  # of which runs the log is kept, where the lambda says so
    attempt, run, losses, alone = more or (1, 1, 0, 0)
    spec = whole(queue, spec)
    return ClaimedTask(task_id.decode(), counter, nonce, spec, attempt, run, losses, int(at), alone == 1, logs)


def _entries(found: Sequence[Any]) -> Iterator[tuple[str, int, Sequence[Any]]]:
    """Each claim with its queue and whose it is: in the answer a queue's name stands before its tasks."""
    queue = ""
    for each in found:
        if isinstance(each, bytes):
            queue = each.decode()
        else:
            yield queue, each[0], each[1:]


def _check_pause(reply: Sequence[Any]) -> None:
    if reply and reply[0] == b"paused":
        pause = ClaimPause.from_reply(reply[1:])
        raise ClaimsPaused(pause.sentence if pause else "claims are paused")
