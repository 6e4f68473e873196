"""The store against a model of it in a few lines: any verbs in any order, with stale tokens, stale ids and a clock that moves.

The same examples run every time. ATF_MODEL_EXAMPLES=5000 runs so many of them, different ones each time.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

import fakeredis
import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from atf.config.settings import StoreSettings, Timing
from atf.runtime import SystemRuntime
from atf.store.library import (
    MISFIT_LATELY_US,
    MISFIT_WAIT_US,
    MOST_MISFIT_RETRY_US,
    MOST_MISFIT_WAIT_US,
    UNSTARTED_LAPSES,
)
from atf.store.store import Store
from atf.store.values.claims import ClaimedTask, ClaimRenewal, HeldClaim, Outcome, RunResult, Verdict
from atf.store.values.lambdas import LambdaRecord
from atf.task import FINISHED, TOMBSTONE_US, US, Status
from tests.claiming import pop_ids, take

from .world import BACKOFF_US, ENQUEUE_TIMEOUT_US, LEASE_US, Clock, Dump, World, dump, violations

EXAMPLES = int(os.environ.get("ATF_MODEL_EXAMPLES", "0"))
pytestmark = pytest.mark.timeout(0 if EXAMPLES else 60)

T = TypeVar("T")
S = Status
HELD: Final = (S.CLAIMED, S.PROCESSING)
LIMITS: Final = {"m/wide": 4, "m/narrow": 2}
MAX_ATTEMPTS = 3
MAX_LOSSES = 2
RETENTION_US = 100 * US
NAMES = st.sampled_from([f"t{number}" for number in range(8)])
LAMBDAS = st.sampled_from(sorted(LIMITS))
ANY = st.integers(0, 1000)
"""Picks one out of what there is by then."""
GRACE_US = 40 * US
DIGESTS = st.sampled_from(["first", "second", "third"])
"""Of signatures that executors run."""
SIGNED = st.sampled_from(["", "first", "second", "third"])
"""The same, and of an executor that does not say."""
OWNERS = st.sampled_from(["executor-1", "executor-2"])

WAITS = st.sampled_from([0, BACKOFF_US])
"""Until a run that was handed back may begin again."""


@dataclass
class Unfit:
    """The signatures that a task does not fit, and since when that keeps it from being run."""

    digests: set[str] = field(default_factory=set)
    since_us: int = 0
    wait_us: int = 0
    retry_us: int = 0

    def begins(self, now: int) -> None:
        """It fits nobody, unless that was so before."""
        if not self.since_us or not self.wait_us:
            self.since_us, self.wait_us = now, MISFIT_WAIT_US

    def waits(self, now: int) -> int:
        """Until when it waits for another look."""
        wait, self.wait_us = self.wait_us, min(2 * self.wait_us, MOST_MISFIT_WAIT_US)
        return now + wait


@dataclass
class Model:
    """One task as it should stand."""

    id: str
    lambda_name: str
    digest: bytes
    ordering_key: str
    next_us: int
    at_us: int
    status: Status = S.NEW
    attempts: int = 0
    losses: int = 0
    lapses: int = 0
    runs: int = 0
    token: HeldClaim | None = None
    finished_by: HeldClaim | None = None
    owner: str = ""
    flagged: bool = False
    ended_us: int = 0
    due: bool = field(default=True)  # not behind another one of its ordering key
    unfit: Unfit | None = None

    def holds(self, token: HeldClaim) -> bool:
        return self.status in HELD and self.token == token

    def rest(self, status: Status, now: int) -> None:
        self.status, self.ended_us, self.flagged = status, now, False


class StoreMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = Clock()
        self.opened: list[Store] = []
        self.pushes = True
        self.made_due: list[Model] = []
        self.store: Store = self.run(self._open())
        self.world = World(self.store, self.clock)
        self.tasks: dict[str, Model] = {}
        self.tombs: dict[str, int] = {}
        self.lines: dict[str, list[str]] = {}
        self.tokens: list[HeldClaim] = []
        self.asked_us: dict[HeldClaim, int] = {}
        """When each was claimed."""
        self.paused: set[str] = set()
        self.alive: dict[tuple[str, str], int] = {}
        self.looked_for: dict[str, int] = {}

    async def _open(self) -> Store:
        self.fake = fakeredis.FakeServer(version=(7, 4))
        store = await Store.open(StoreSettings(partitions=1), Timing(), SystemRuntime(), fake=self.fake)
        store.now = self.clock
        self.opened.append(store)
        await store.register_lambdas(
            [LambdaRecord(name, b"", limit, ENQUEUE_TIMEOUT_US, paused=False) for name, limit in LIMITS.items()]
        )
        return store

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def teardown(self) -> None:
        self.run(self.store.close())
        self.loop.close()

    # --- what the model knows -----------------------------------------------------------------------------------------

    def _pick(self, some: list[T], which: int) -> T:
        return some[which % len(some)]

    def _leaves_line(self, task: Model) -> None:
        """A task has finished: whoever was right behind it may run."""
        line = self.lines.get(f"{task.lambda_name}:{task.ordering_key}", [])
        if task.id in line:
            head = line[0] == task.id
            line.remove(task.id)
            if head and line:
                follower = self.tasks[line[0]]
                follower.due, follower.next_us = True, max(follower.next_us, self.clock.us)
                self.made_due.append(follower)

    def _joins_line(self, task: Model) -> None:
        if task.ordering_key:
            line = self.lines.setdefault(f"{task.lambda_name}:{task.ordering_key}", [])
            line.append(task.id)
            task.due = len(line) == 1
        self.made_due.append(task)

    def _look(self) -> Dump:
        """How the store stands before a call that pushes what it makes due."""
        self.made_due.clear()
        return self.run(dump(self.store))

    def _pushed(self, before: Dump) -> None:
        """What such a call has made due stands in its queue, unless something leaves it to a pass."""
        found = self.run(dump(self.store))
        due = [task for task in self.made_due if self._waits(task)]
        for task in due:
            name, queue = task.lambda_name, f"{task.lambda_name}:1"
            left = (
                not self.pushes
                or name in self.paused
                or self.looked_for.get(name, 0) > self.clock.us
                or "left" in before.hash(f"atf:{{0}}:q:{queue}")
                or any(
                    self._waits(each) and each.lambda_name == name for each in self.tasks.values() if each not in due
                )
            )
            if found.tasks()[task.id]["s"] == "ENQUEUED":
                assert not left, task.id
                task.status = S.ENQUEUED
            else:
                assert left or self._length(found, name) >= LIMITS[name], task.id

    def _waits(self, task: Model) -> bool:
        return task.status in {S.NEW, S.RETRIABLE_FAILURE} and task.due and task.next_us <= self.clock.us

    def _rests(self, task: Model, status: Status) -> None:
        task.rest(status, self.clock.us)
        self._leaves_line(task)

    def _expires(self, task: Model) -> None:
        """A lease is over: that counts nothing where the run had not begun, unless it is once too often in a row."""
        if task.status is S.CLAIMED and task.lapses < UNSTARTED_LAPSES:
            task.lapses += 1
            if task.flagged:
                self._rests(task, S.CANCELLED)
            else:
                task.status, task.next_us = S.ENQUEUED, self.clock.us
        else:
            self._loses(task)

    def _loses(self, task: Model) -> None:
        task.losses, task.lapses = task.losses + 1, 0
        if task.flagged:
            self._rests(task, S.CANCELLED)
        elif task.losses >= MAX_LOSSES:
            self._rests(task, S.FATAL_FAILURE)
        else:
            task.status, task.next_us = S.ENQUEUED, self.clock.us

    def _others(self, task: Model) -> bool:
        """Whether somebody runs a signature that a task has not met."""
        met, now = task.unfit.digests if task.unfit else set(), self.clock.us
        return any(
            of == task.lambda_name and digest not in met and till > now for (of, digest), till in self.alive.items()
        )

    def _stands(self, task: Model, record: Mapping[str, str]) -> bool:
        """Whether it stands beside its queue, for those that it might fit: when they have gone, its time of grace begins."""
        if task.unfit is None or record["mf"].split(" ")[3] != "0":
            return False
        assert not task.unfit.wait_us or self._others(task)
        task.unfit.wait_us = 0
        return True

    def _left_to_others(self, task: Model) -> None:
        """CLAIMED, PROCESSING, ENQUEUED → NEW: it does not fit who would run it."""
        assert task.unfit is not None
        now = self.clock.us
        task.unfit.begins(now)
        task.status, task.next_us = S.NEW, min(task.at_us, now) if self._others(task) else task.unfit.waits(now)
        self.looked_for[task.lambda_name] = now + MISFIT_LATELY_US

    def _looked_at(self, task: Model) -> None:
        """It is due, and fits nobody: it waits on, or that is a failed attempt."""
        assert task.unfit is not None
        assert self.looked_for[task.lambda_name] > self.clock.us
        assert not self._others(task)
        assert task.due
        unfit, now = task.unfit, self.clock.us
        unfit.begins(now)
        if now < unfit.since_us + GRACE_US:
            task.next_us = min(unfit.waits(now), unfit.since_us + GRACE_US)
            return
        task.attempts += 1
        if task.attempts >= MAX_ATTEMPTS:
            self._rests(task, S.FATAL_FAILURE)
        else:
            task.status, task.next_us = S.RETRIABLE_FAILURE, now + unfit.retry_us
            unfit.retry_us = min(2 * unfit.retry_us, MOST_MISFIT_RETRY_US)

    # --- verbs --------------------------------------------------------------------------------------------------------

    @initialize(names=st.lists(NAMES, min_size=2, max_size=4, unique=True), ordered=st.booleans(), pushes=st.booleans())
    def begin(self, names: list[str], ordered: bool, pushes: bool) -> None:
        self.pushes = pushes
        for store in self.opened:
            store.settings = replace(store.settings, push_when_scheduled=pushes)
        for name in names:
            self.schedule(name, "m/wide", 0, ordered)

    @rule(name=NAMES, lambda_name=LAMBDAS, delay=st.sampled_from([0, 0, 5, 60]), ordered=st.booleans())
    def schedule(self, name: str, lambda_name: str, delay: int, ordered: bool) -> None:
        key = "key" if ordered else ""
        digest = f"{lambda_name} {delay} {key}".encode()
        new = self.world.task(
            name,
            lambda_name=lambda_name,
            delay_us=delay * US,
            ordering_key=key,
            digest=digest,
            max_attempts=MAX_ATTEMPTS,
            max_losses=MAX_LOSSES,
            retention_us=RETENTION_US,
        )
        before = self._look()
        (answer,) = self.run(self.store.schedule([new]))
        known = self.tasks.get(answer.id)
        if answer.id in self.tombs:
            assert answer.existed
        elif known is not None:
            assert answer.existed
            assert answer.conflict == (known.digest != digest)
        else:
            assert not answer.existed
            at_us = self.clock.us + delay * US
            self.tasks[answer.id] = Model(answer.id, lambda_name, digest, key, at_us, at_us)
            self._joins_line(self.tasks[answer.id])
            self._pushed(before)

    @rule()
    def enqueue(self) -> None:
        before = {task.id: task.status for task in self.tasks.values()}
        done = self.run(self.store.enqueue(0, 0))
        found = self.run(dump(self.store))
        for task in list(self.tasks.values()):
            if before[task.id] in HELD and task.next_us <= self.clock.us:
                self._expires(task)
        fresh, records = 0, found.tasks()
        for task in self.tasks.values():
            status = Status[records[task.id]["s"]]
            stands = status is S.ENQUEUED and self._stands(task, records[task.id])
            if task.status is S.ENQUEUED and status is S.NEW:
                assert not self._others(task)
                assert task.lambda_name not in self.paused
                self._left_to_others(task)
            elif (
                task.unfit is not None
                and task.status in {S.NEW, S.RETRIABLE_FAILURE}
                and status is not S.ENQUEUED
                and self._score(found, task, status) != task.next_us
                and task.due
            ):
                assert task.next_us <= self.clock.us, "early"
                assert task.lambda_name not in self.paused
                self._looked_at(task)
            elif status is S.ENQUEUED and task.status in {S.NEW, S.RETRIABLE_FAILURE}:
                looks = task.unfit is not None and self.looked_for[task.lambda_name] > self.clock.us
                assert not looks or (stands and self._others(task)), "it fits nobody"
                assert task.next_us <= self.clock.us, "early"
                assert task.due, "out of order"
                assert task.lambda_name not in self.paused
                task.status, fresh = S.ENQUEUED, fresh + 1
        assert done.enqueued == fresh
        self._nothing_is_left_behind(found)

    def _nothing_is_left_behind(self, found: Dump) -> None:
        """One pass is enough for so few tasks: whoever is due is in its queue, unless that is full or paused.

        A misfit takes a place of its pass and none in the queue: what it leaves to another pass is due at once.
        """
        misfits = {task.lambda_name for task in self.tasks.values() if task.unfit is not None}
        for task in self.tasks.values():
            if task.lambda_name in misfits and found.zset("atf:{0}:due").get(f"{task.lambda_name}:1") == self.clock.us:
                continue
            if task.lambda_name in self.paused or self._length(found, task.lambda_name) >= LIMITS[task.lambda_name]:
                continue
            assert not self._waits(task), f"{task.id} is due and was not enqueued"
            if task.status is S.ENQUEUED:
                score = found.zset(f"atf:{{0}}:s:{task.lambda_name}:1:ENQUEUED")[task.id]
                assert score > self.clock.us, f"{task.id} should be pushed again"

    def _score(self, found: Dump, task: Model, status: Status) -> float | None:
        return found.zset(f"atf:{{0}}:s:{task.lambda_name}:1:{status.name}").get(task.id)

    def _length(self, found: Dump, lambda_name: str) -> int:
        return len(found.list(f"rq:queue:{{0}}{lambda_name}:1"))

    @rule(lambda_name=LAMBDAS, digests=st.lists(DIGESTS, max_size=3), seconds=st.sampled_from([5, 30, 100]))
    def serve(self, lambda_name: str, digests: list[str], seconds: int) -> None:
        now = self.clock.us
        self.run(self.store.serve("", seconds, "", None, [f"{lambda_name} {digest}" for digest in digests]))
        self.alive = {each: till for each, till in self.alive.items() if till > now}
        self.alive |= {(lambda_name, digest): now + seconds * US for digest in digests}

    @rule(lambda_name=LAMBDAS, want=st.integers(1, 4), owner=OWNERS, digest=SIGNED)
    def take(self, lambda_name: str, want: int, owner: str, digest: str) -> None:
        queue, nonce = f"{lambda_name}:1", f"nonce-{len(self.tokens)}"
        signed = {lambda_name: digest} if digest else {}
        before = self._ids(queue)
        claims = self.run(take(self.store, queue, owner=owner, nonce=nonce, want=want, signatures=signed))
        assert not claims or lambda_name not in self.paused
        left = set(before) - set(self._ids(queue))
        for claim in claims:
            task = self.tasks[claim.task_id]
            assert task.unfit is None or not digest or digest not in task.unfit.digests
            self._claimed(task, claim, owner)
        for task_id in left - {each.task_id for each in claims}:
            task = self.tasks[task_id]
            if task.status is S.ENQUEUED:
                unfit = task.unfit.digests if task.unfit is not None else set[str]()
                assert digest in unfit, f"{task_id} has left its queue for nothing"
                self._left_to_others(task)

    @rule(lambda_name=LAMBDAS, want=st.integers(1, 2))
    def lose_entries(self, lambda_name: str, want: int) -> None:
        """Entries of a queue go astray, as by somebody's hand."""
        self.run(pop_ids(self.store, 0, [[f"{lambda_name}:1"]], want))

    @rule(lambda_name=LAMBDAS)
    def wipe_queue(self, lambda_name: str) -> None:
        if self._length(self.run(dump(self.store)), lambda_name) >= LIMITS[lambda_name]:
            return  # a full queue is visited again in a second, unless a pop makes it sooner
        self.run(self.store.link.command("DEL", f"rq:queue:{{0}}{lambda_name}:1", key="atf:{0}"))

    @rule(
        lambda_name=LAMBDAS,
        runs=st.lists(st.tuples(DIGESTS, DIGESTS, st.sampled_from(Outcome)), min_size=1, max_size=5),
        alive=st.lists(DIGESTS, min_size=1, max_size=3),
        wait_us=WAITS,
    )
    def work(self, lambda_name: str, runs: list[tuple[str, str, Outcome]], alive: list[str], wait_us: int) -> None:
        """Many rules at once: drawn one by one they hardly ever come to the end of a run, and never to the second of a task."""
        self.serve(lambda_name, alive, 30)
        for which, (runs_of, ends_of, outcome) in enumerate(runs, 1):
            self.enqueue()
            self.take(lambda_name, 2, "executor-1", runs_of)
            if self.tokens:
                self.finish(which, outcome, ends_of, wait_us)
            self.time_passes(1)

    @precondition(lambda self: self.tokens)
    @rule(which=ANY)
    def repeat_an_ask(self, which: int) -> None:
        token = self._pick(self.tokens, which)
        task = self.tasks.get(token.task_id)
        owner = task.owner if task is not None else "executor-1"
        claims = {each.task_id: each for each in self.run(self.store.claims_of(owner, token.nonce))}
        for claim in claims.values():
            again = self.tasks[claim.task_id]
            assert again.status is S.CLAIMED
            assert again.token == HeldClaim(claim.task_id, claim.counter, token.nonce)
            assert claim.run == again.runs
            again.next_us = self.clock.us + LEASE_US
        if task is not None and task.status is S.CLAIMED and task.token == token:
            assert token.task_id in claims or self.clock.us - self.asked_us[token] >= 2 * LEASE_US

    def _claimed(self, task: Model, claim: ClaimedTask, owner: str) -> None:
        earlier = [each.counter for each in self.tokens if each.task_id == task.id]
        assert task.status is S.ENQUEUED
        assert claim.counter > max(earlier, default=0), "a token must grow"
        assert (claim.attempt, claim.run, claim.losses) == (task.attempts + 1, task.runs + 1, task.losses)
        task.token = HeldClaim(task.id, claim.counter, claim.nonce)
        task.status, task.runs, task.owner, task.next_us = S.CLAIMED, task.runs + 1, owner, self.clock.us + LEASE_US
        self.tokens.append(task.token)
        self.asked_us[task.token] = self.clock.us

    def _ids(self, queue: str) -> list[str]:
        return self.run(dump(self.store)).list(f"rq:queue:{{0}}{queue}")

    def _told(self, token: HeldClaim, verdicts: list[Verdict]) -> Model | None:
        """The task, if the token is right; else whoever holds the token must have been told."""
        task = self.tasks.get(token.task_id)
        if task is not None and task.holds(token):
            return task
        assert verdicts == [Verdict.LOST]
        return None

    @precondition(lambda self: self.tokens)
    @rule(which=ANY, started=st.booleans())
    def heartbeat(self, which: int, started: bool) -> None:
        token = self._pick(self.tokens, which)
        verdicts = self.run(self.store.heartbeat([ClaimRenewal(token, started)]))
        task = self._told(token, verdicts)
        if task is not None:
            assert verdicts == [Verdict.CANCEL if task.flagged else Verdict.OK]
            task.next_us = self.clock.us + LEASE_US
            if started:
                task.status, task.lapses = S.PROCESSING, 0

    @precondition(lambda self: self.tokens)
    @rule(which=ANY, outcome=st.sampled_from(Outcome), digest=DIGESTS, wait_us=WAITS)
    def finish(self, which: int, outcome: Outcome, digest: str, wait_us: int) -> None:
        held = [each for each in self.tokens if each.task_id in self.tasks and self.tasks[each.task_id].holds(each)]
        token = self._pick(held if held and which % 4 else self.tokens, which)
        retry_us = BACKOFF_US if outcome is Outcome.MISFIT else wait_us
        result = RunResult(token, outcome, retry_in_us=retry_us, signature=digest, grace_us=GRACE_US)
        before = self._look()
        verdicts = self.run(self.store.set_results([result]))
        task = self.tasks.get(token.task_id)
        if task is not None and task.finished_by == token == task.token and not task.holds(token):
            assert verdicts == [Verdict.OK]  # it has been told before
            return
        task = self._told(token, verdicts)
        if task is None:
            return
        assert verdicts == [Verdict.OK]
        counted = outcome not in {Outcome.HANDED_BACK, Outcome.MISFIT}
        task.attempts, task.lapses, task.finished_by = task.attempts + counted, 0, token
        if task.unfit is not None and outcome is not Outcome.MISFIT:
            task.unfit.since_us = 0
        if outcome is Outcome.SUCCEEDED:
            self._rests(task, S.SUCCESS)
        elif task.flagged:
            self._rests(task, S.CANCELLED)
        elif outcome is Outcome.MISFIT:
            task.unfit = task.unfit or Unfit()
            task.unfit.digests.add(digest)
            task.unfit.retry_us, task.unfit.since_us = retry_us, 0
            self._left_to_others(task)
        elif outcome is Outcome.HANDED_BACK:
            task.status, task.next_us = S.NEW if wait_us else S.ENQUEUED, self.clock.us + wait_us
        elif outcome is Outcome.FAILED_FATAL or task.attempts >= MAX_ATTEMPTS:
            self._rests(task, S.FATAL_FAILURE)
        else:
            task.status, task.next_us = S.RETRIABLE_FAILURE, self.clock.us + retry_us
            self.made_due.append(task)
        self._pushed(before)

    @precondition(lambda self: self.tokens)
    @rule(which=ANY)
    def lose(self, which: int) -> None:
        token = self._pick(self.tokens, which)
        task = self._told(token, self.run(self.store.report_loss([token], "killed")))
        if task is not None:
            self._loses(task)

    @precondition(lambda self: self.tokens)
    @rule(which=ANY)
    def hand_back(self, which: int) -> None:
        token = self._pick(self.tokens, which)
        verdicts = self.run(self.store.hand_back([token]))
        task = self.tasks.get(token.task_id)
        if task is None or not task.holds(token) or task.status is not S.CLAIMED:
            assert verdicts == [Verdict.LOST]
            return
        task.runs -= 1
        if task.flagged:
            self._rests(task, S.CANCELLED)
        else:
            task.status, task.next_us = S.ENQUEUED, self.clock.us

    @precondition(lambda self: self.tasks)
    @rule(which=ANY)
    def cancel(self, which: int) -> None:
        task = self.tasks[self._pick(sorted(self.tasks), which)]
        before = self._look()
        (answer,) = self.run(self.store.cancel_tasks([task.id]))
        assert answer.cancel_requested == (task.status in HELD)
        if task.status in HELD:
            task.flagged = True
        elif task.status not in FINISHED:
            self._rests(task, S.CANCELLED)
        assert (answer.status, answer.cancelled) == (task.status, task.status is S.CANCELLED)
        self._pushed(before)

    @precondition(lambda self: self.tasks)
    @rule(which=ANY)
    def retry(self, which: int) -> None:
        task = self.tasks[self._pick(sorted(self.tasks), which)]
        before = self._look()
        (answer,) = self.run(self.store.retry_tasks([task.id]))
        assert answer.retried == (task.status in {S.FATAL_FAILURE, S.CANCELLED})
        if answer.retried:
            task.status, task.attempts, task.losses, task.lapses = S.NEW, 0, 0, 0
            task.next_us = task.at_us = self.clock.us
            task.finished_by = task.unfit = None
            self._joins_line(task)
            self._pushed(before)

    @rule(seconds=st.sampled_from([0.000001, 1, 10, 16, 60, 700, -5]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule()
    def sweep(self) -> None:
        self.run(self.store.sweep(0, 1000))
        for task in list(self.tasks.values()):
            if task.status in FINISHED and task.ended_us + RETENTION_US <= self.clock.us:
                del self.tasks[task.id]
                if task.ended_us + TOMBSTONE_US > self.clock.us:
                    self.tombs[task.id] = task.ended_us + TOMBSTONE_US
        self.tombs = {task_id: expiry for task_id, expiry in self.tombs.items() if expiry > self.clock.us}

    @rule(lambda_name=LAMBDAS, paused=st.booleans())
    def pause_or_resume(self, lambda_name: str, paused: bool) -> None:
        assert self.run((self.store.pause_lambda if paused else self.store.resume_lambda)(lambda_name)) is not None
        (self.paused.add if paused else self.paused.discard)(lambda_name)

    @rule(lambda_name=LAMBDAS)
    def count(self, lambda_name: str) -> None:
        mine = [task.status for task in self.tasks.values() if task.lambda_name == lambda_name]
        assert self.run(self.store.counts(lambda_name)) == {status: mine.count(status) for status in Status}

    # --- what always holds --------------------------------------------------------------------------------------------

    @invariant()
    def the_store_is_as_the_model_says(self) -> None:
        found = self.run(dump(self.store))
        assert violations(found, self.clock.us) == []
        records = found.tasks()
        assert {task_id for task_id, record in records.items() if record["s"] == "TOMBSTONE"} == set(self.tombs)
        assert set(records) == set(self.tombs) | set(self.tasks)
        for task in self.tasks.values():
            record = records[task.id]
            counter, runs = map(int, record.get("c", "0 0").split(" ")[:2])
            numbers = [int(record.get(name, 0)) for name in "al"]
            assert (record["s"], *numbers, runs) == (task.status.name, task.attempts, task.losses, task.runs), task.id
            assert counter == (task.token.counter if task.token else 0)
            if task.status in {S.NEW, S.RETRIABLE_FAILURE} and task.due:
                assert self._score(found, task, task.status) == task.next_us, task.id
        for lambda_name, limit in LIMITS.items():
            assert self._length(found, lambda_name) <= limit


@pytest.mark.parametrize("seed", range(4))
def test_runs_that_end_in_every_way(seed: int) -> None:
    """What the examples below come to only now and then: tasks that run several times, for executors of several signatures."""
    chance, digests, machine = random.Random(seed), ("first", "second", "third"), StoreMachine()
    try:
        machine.begin([f"t{number}" for number in range(6)], ordered=seed % 2 == 1, pushes=seed > 1)
        for number in range(30):
            runs = [
                (*chance.choices(digests, k=2), chance.choice((*Outcome, Outcome.MISFIT)))
                for _ in range(chance.randrange(1, 8))
            ]
            machine.work("m/wide", runs, chance.sample(digests, chance.randrange(3)), chance.choice((0, BACKOFF_US)))
            machine.the_store_is_as_the_model_says()
            if number % 3 == 0:
                machine.retry(chance.randrange(100))
                machine.take("m/wide", 1, "executor-2", chance.choice(digests))
                machine.time_passes(chance.choice((10, 60)))
    finally:
        machine.teardown()


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=EXAMPLES or 30,
    stateful_step_count=30,
    derandomize=not EXAMPLES,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
