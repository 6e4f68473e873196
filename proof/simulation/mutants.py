"""Bugs to be switched on in the simulation, each a promise of ATF broken on purpose: the checker has to catch every one.

A mutant changes marked lines of the store's functions, or a method of a role. Neither is ever changed outside of the simulation.
A test fails where a marker is missing, stands twice, or is used by no mutant.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from unittest.mock import patch

from atf.controller import asks
from atf.controller.asks import Asks, Grant
from atf.controller.reports import Reports
from atf.controller.starts import Starts
from atf.cores.pool import CorePool
from atf.executor.executor import Executor
from atf.executor.given_up import GivenUp
from atf.executor.guarding.guard import Guard
from atf.executor.guarding.worker_end import WorkerEnd
from atf.executor.heartbeat import Heartbeats
from atf.executor.held import Ledger
from atf.executor.interrupts import Interrupts
from atf.executor.outcome import HandedBack
from atf.executor.perform import StartCheck
from atf.executor.pipeline import Pipeline
from atf.frontend import view
from atf.frontend.audit import AuditDraft
from atf.frontend.service import FrontendService
from atf.hsc import encoding, next_claims
from atf.hsc.service import HscService
from atf.rpc import frontend_pb2 as f, hsc_pb2 as h, task_pb2 as t
from atf.runtime import new_id
from atf.store import library
from atf.store_consumer.clock import StoreClock
from atf.testing.runtime import EPOCH_US

from . import deploys
from .jobs import may_have_job
from .link import SimLink
from .loop import PROCESS
from .pushes import pushes
from .starts import has_bad_release
from .stops import has_stops

SHORT_LEASE_US: Final = 5_000_000
_MARK: Final = "  -- mutant: "
Patches = Callable[[], list[Any]]


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        what: in a sentence.
        lua: marker of a line of the function library ("-- mutant: <marker>" ends it) -> what stands in its place; in it, "{line}" is that line.
        patches: makes what unittest.mock.patch made; entered for the length of a seed.
        by: the breach that has to catch it; "": any.
        beside: a mutant that it includes, which would mask it: a seed that catches that one alone says nothing of this one.
        seeds: which seeds are played, for a bug that only some of them can meet, and these seldom.
    """

    what: str
    lua: Mapping[str, str] = field(default_factory=dict)
    patches: Patches = list
    by: str = ""
    beside: str = ""
    seeds: Callable[[int], bool] = lambda _: True


# --- in Python --------------------------------------------------------------------------------------------------------


def _short_lease() -> list[Any]:
    plain = HscService.__init__

    def init(self: Any, *, store: Any, **more: Any) -> None:
        store._lease_us = SHORT_LEASE_US
        plain(self, store=store, **more)

    return [patch.object(HscService, "__init__", init)]


def _host_clock() -> list[Any]:
    plain = SimLink.call

    async def call(self: Any, verb: str, record: str, args: Any, **more: Any) -> Any:
        from .lambdas import here

        process, world = PROCESS.get(), here[-1]
        assert process is not None
        now_us = EPOCH_US + world.now_us() + world.wall_offset_us.get(process.host, 0)
        return await plain(self, verb, record, [now_us, *args[1:]], **more)

    return [patch.object(SimLink, "call", call)]


def _late_claim() -> list[Any]:
    plain, admit = StartCheck.__init__, Pipeline.arrive

    def init(self: Any, *args: Any) -> None:
        plain(self, *args)
        self._slack_us = 1 << 60

    def admitted(self: Any, reply: Any) -> bool:
        self.lease_us = 1 << 60
        return admit(self, reply)

    return [patch.object(StartCheck, "__init__", init), patch.object(Pipeline, "arrive", admitted)]


def _lease_from_reply() -> list[Any]:
    renew = Ledger.renew

    def renewed(self: Any, tasks: Any, _sent_us: int) -> None:
        from .lambdas import here

        renew(self, tasks, here[-1].now_us() + 1_000_000)

    return [patch.object(Ledger, "renew", renewed), *_lease_from_receipt()]


def _any_age() -> Any:
    return patch.object(asks, "FRESH_S", 1e9)


def _lease_from_receipt() -> list[Any]:
    plain = Asks.next_claims

    async def next_claims(self: Any, call: Any, until: float) -> Grant | None:
        grant = await plain(self, call, until)
        return grant and Grant(grant.claims, self.runtime.boottime_us())

    return [patch.object(Asks, "next_claims", next_claims), _any_age()]


def _repeat_with_new_nonce() -> list[Any]:
    plain = Asks._request

    def request(self: Any, ask: Any, terms: Any, left: float) -> Any:
        made = plain(self, ask, terms, left)
        if made.repeated:
            made.repeated, made.nonce = False, new_id(self.runtime.random, 64)
        return made

    return [patch.object(Asks, "_request", request)]


def _hands_back_by_itself() -> list[Any]:
    """An HSC takes an answer for lost, a moment after it has sent it."""
    plain = HscService.next_claims

    async def next_claims(self: Any, request: Any, **more: Any) -> Any:
        reply = await plain(self, request, **more)
        if reply.claims:
            refs = [t.ClaimRef(task_id=each.task_id, token=each.token) for each in reply.claims]
            work = self.hand_back(h.HandBackRequest(executor_id=request.executor_id, claims=refs))
            here = asyncio.get_running_loop()
            here.call_later(0.1, lambda: here.create_task(work))
        return reply

    return [patch.object(HscService, "next_claims", next_claims)]


def _any_clock() -> list[Any]:
    return [patch.object(StoreClock, "believed_us", lambda _self, _monotonic: 0)]


def _idle_guard() -> list[Any]:
    return [
        patch.object(Guard, "look", lambda _self: None),
        patch.object(Guard, "wait_s", lambda _self: 0.5),
        # The worker that stood still would end itself with its next heartbeat.
        patch.object(Ledger, "oldest_lease_us", property(lambda _self: 1 << 60)),
    ]


def _deaf_executor() -> list[Any]:
    """Nothing that a heartbeat says or does not say ends a run; nor does its guard."""
    return [*_idle_guard(), patch.object(Heartbeats, "strike", lambda _self, _error: None)]


def _lost_goes_on() -> list[Any]:
    return [patch.object(Interrupts, "lose", lambda _self, _task: None), *_idle_guard()]


def _cut_goes_on() -> list[Any]:
    """What runs when a drain begins is handed back by the executor itself, whose process goes on."""
    drain = Executor.drain

    def mutated(self: Executor) -> None:
        began = not self.interrupts.draining.is_set()
        drain(self)
        runs = [task for task in self.ledger.snapshot() if began and task.started and task.outcome is None]
        for task in runs:
            task.outcome = HandedBack("cut")
        self.pipeline.reporter.ended(runs)

    return [patch.object(Executor, "drain", mutated)]


def _one_nonce() -> list[Any]:
    """The store's half of it is in the function library."""
    plain = encoding.fill_claim

    def fill_claim(claim: t.Claim, claimed: Any) -> None:
        plain(claim, claimed)
        claim.token.nonce = "0"

    return [patch.object(next_claims, "fill_claim", fill_claim)]


def _core_claimed_twice() -> list[Any]:
    return [patch.object(CorePool, "has_claim", lambda _self, _lambda_name: False)]


def _ended_as(ordered: Callable[[Guard, WorkerEnd], bool]) -> list[Any]:
    plain = Guard.ended

    def ended(self: Guard, code: int, verdict: Any) -> WorkerEnd:
        found = plain(self, code, verdict)
        return found._replace(ordered=ordered(self, found))

    return [patch.object(Guard, "ended", ended)]


def _waits_for_nobody() -> list[Any]:
    async def wait_tasks(self: Any, request: Any, **_more: Any) -> f.WaitTasksReply:
        records = await self._store.get_tasks(list(request.ids))
        return f.WaitTasksReply(tasks=[view.task(each) for each in records if each is not None])

    return [patch.object(FrontendService, "wait_tasks", wait_tasks)]


def _retry_unaudited() -> list[Any]:
    plain = AuditDraft.done_to

    def done_to(self: AuditDraft, tasks: Iterable[tuple[str, str]]) -> None:
        plain(self, tasks)
        self.changed = self.changed and self.what != "retry_tasks"

    return [patch.object(AuditDraft, "done_to", done_to)]


def _forgets(seed: int) -> bool:
    from .world import forgets

    return forgets(seed)


MUTANTS: Final[dict[str, Mutant]] = {
    "no_fence": Mutant(
        "an old token is as good as a new one",
        {"no_fence": "return (status == 'CLAIMED' or status == 'PROCESSING')"},
    ),
    "gate_keeps_for_ever": Mutant(
        "what a gate kept is forgotten when it is lifted",
        {"gate_keeps_for_ever": "local kept = false"},
    ),
    "no_gate_at_admission": Mutant(
        "due tasks are pushed past a gate, and kept at their claim alone",
        {
            "no_gate_at_admission": "if false then ids, gated = parking.past_gates(P, queue, status, ids, now, settings.gates) end"
        },
    ),
    "no_gate_at_the_claim": Mutant(
        "what was pushed before a gate was set is claimed past it",
        {"no_gate_at_the_claim": "if false then return false end"},
    ),
    "gate_leaves_a_place_behind": Mutant(
        "a task that is parked at its claim stays among those in queues",
        {"gate_leaves_a_place_behind": ""},
    ),
    "cut_goes_on": Mutant(
        "an executor that drains hands back what it runs before that has ended",
        patches=_cut_goes_on,
        by="CONCURRENT",
    ),
    "finish_without_token": Mutant(
        "a result is recorded whoever sends it",
        {"finish_without_token": "if task.status ~= 'CLAIMED' and task.status ~= 'PROCESSING' then"},
        by="STALE_RESULT_ACCEPTED",
    ),
    "release_without_token": Mutant(
        "a claim is handed back whoever holds it",
        {"release_without_token": "if task.status ~= 'CLAIMED' then"},
    ),
    "lose_without_token": Mutant(
        "a loss is believed whoever tells of it",
        {"lose_without_token": "local held = status == 'CLAIMED' or status == 'PROCESSING'"},
    ),
    "claim_of_what_is_held": Mutant(
        "a claim does not look at the state",
        {"claim_of_what_is_held": "if status ~= 'ENQUEUED' and status ~= 'PROCESSING' then return false end"},
    ),
    "early_by_an_instant_of_before": Mutant(
        "what was due by a clock that has been set back since is taken for due",
        {
            "early_by_an_instant_of_before": (
                "{line} "
                "now = math.max(now, tonumber(redis.call('HGET', P, 'latest') or 0)) "
                "redis.call('HSET', P, 'latest', fmt(now))"
            )
        },
    ),
    "step_back_unnoticed": Mutant(
        "a lease ends early that was given while the store's clock was back, unheard by a store consumer",
        {"step_back_unnoticed": "if false then"},
    ),
    "counter_only_token": Mutant(
        "tokens count up by one, also after a rollback", {"new_token": "counter, run = counter + 1, run + 1"}
    ),
    "no_pause_after_rollback": Mutant(
        "claims are given at once by a server that may have forgotten some",
        {"no_pause_after_rollback": "return nil, tonumber(gated or 0) > 0, clock"},
    ),
    "silent_holder_ignored": Mutant(
        "one answer ends the pause after a restart",
        {"silent_holder_ignored": ""},
        seeds=_forgets,
    ),
    "answer_not_compared": Mutant(
        "who is asked after a restart says yes, whatever it was answered",
        {"answer_not_compared": "known, said = true, 'yes'"},
        seeds=_forgets,
    ),
    "lost_pop_not_redriven": Mutant(
        "what was popped and never claimed is forgotten",
        {"lost_pop_not_redriven": "redis.call('ZREM', live_key(P, queue, 'ENQUEUED'), id)"},
        by="STUCK",
    ),
    "backlog_pushed_again": Mutant(
        "what waits in its queue for long is pushed once more",
        {"backlog_pushed_again": "elseif false then"},
    ),
    "cancel_without_state_check": Mutant(
        "what runs is cancelled like what waits",
        {"cancel_without_state_check": "if false then"},
    ),
    "schedule_overwrites": Mutant(
        "a repeated Schedule stores the task anew",
        {"schedule_overwrites": "if false then"},
    ),
    "pushed_early": Mutant(
        "the store consumer looks two seconds ahead",
        {"pushed_early": "local ids = due_to_leave(P, queue, status, now + 2000000, left, firsts)"},
        by="EARLY",
    ),
    "pushed_past_older": Mutant(
        "what is due when it is stored is pushed although older tasks of its queue are due",
        {"pushed_past_older": ""},
        by="ODD",
        seeds=pushes,
    ),
    "pushed_past_limit": Mutant(
        "what is due when it is stored is pushed past its lambda's gates, limits and keys",
        {"pushed_past_limit": ""},
        seeds=pushes,
    ),
    "pushed_when_paused": Mutant(
        "what is due when it is stored is pushed although its lambda is paused",
        {"pushed_when_paused": "return visit.unfit or visit.left or visit.length >= visit.limit"},
        by="ODD",
        seeds=pushes,
    ),
    "permits_not_counted": Mutant(
        "a partition uses its permits again while their tasks run",
        {"permits_not_counted": "room.left = room.have.n"},
    ),
    "permits_given_twice": Mutant(
        "the ledger gives out what it has given to others",
        {"permits_given_twice": "local free = limit"},
    ),
    "rate_not_taken": Mutant(
        "what is pushed takes nothing out of the bucket",
        {"rate_not_taken": "part.z = room.bucket.z"},
        by="RATE",
    ),
    "burst_for_each_partition": Mutant(
        "each partition has all of the burst",
        {"burst_for_each_partition": "room.have.b = limits.b"},
        by="RATE",
    ),
    "pushed_again_for_nothing": Mutant(
        "what is pushed again takes nothing of the rate",
        {"pushed_again_for_nothing": "local entries = pushed"},
        by="RATE",
    ),
    "cores_overwritten": Mutant(
        "a pool's cores are written by who has read an older record",
        {"cores_overwritten": ""},
    ),
    "core_claimed_twice": Mutant("a lambda has any number of core claims", patches=_core_claimed_twice),
    "items_lost_uncounted": Mutant(
        "a batch does not count that items are lost with their executors",
        {"items_lost_uncounted": "if to ~= 'ENQUEUED' then moves.recount(P, sets, id, from, to, now) end"},
    ),
    "identical_items_are_one": Mutant(
        "an item is taken for the one that is identical to it",
        {"identical_items_are_one": "local known = holder ~= false"},
    ),
    "batch_end_unreported": Mutant("a batch ends without its callbacks", {"batch_end_unreported": "if false then"}),
    "delay_ignored": Mutant(
        "a delay is taken for none", {"delay_ignored": "local at = args[i + 4] ~= '' and tonumber(args[i + 4]) or now"}
    ),
    "no_backoff": Mutant("a failed attempt is repeated at once", {"no_backoff": "local retry_at = now"}),
    "loss_not_looked_at": Mutant(
        "a lost task waits for nobody",
        {
            "lost_task_waits": "moves.move(P, writes.AT_ONCE, id, queue, status, 'ENQUEUED', now + 1e15, now, 'l', losses, 'R', runs)"
        },
    ),
    "no_order": Mutant(
        "a task does not wait for those of its ordering key before it",
        {"no_order": "redis.call('RPUSH', order_key(P, more.k), id)"},
    ),
    "no_slots": Mutant(
        "a task of a concurrency key is pushed however many run",
        {"no_slots": "if true then"},
    ),
    "kept_for_its_host": Mutant(
        "a task is left to the host that is to have it for however long",
        {"kept_for_its_host": "each.free = not each.leave or not each.waits"},
    ),
    "tick_twice": Mutant(
        "whoever finds a tick due makes its task, although somebody else has done it",
        {"tick_twice": "if generation ~= at_generation or paused then"},
    ),
    "tick_at_once": Mutant(
        "a tick does not wait for the one before it",
        {"tick_at_once": "local waits = running == '#' and (overlap == 'queue' or overlap == 'cancel_running')"},
    ),
    "tick_forgotten": Mutant(
        "whoever has taken a due tick and was killed takes it along",
        {"tick_forgotten": "redis.call('ZADD', beside_key(P, 'jobs'), fmt(now + (waits and JOB_WAIT or 1e15)), name)"},
        seeds=may_have_job,
    ),
    "delete_leaves_ticks": Mutant(
        "the ticks of a deleted job that wait run all the same",
        {"delete_leaves_ticks": "redis.call('ZREM', ticks.key(P, name), id)"},
        seeds=may_have_job,
        by="ODD",
    ),
    "delete_leaves_retries": Mutant(
        "a tick whose job was deleted while it ran is tried again",
        {"delete_leaves_retries": ""},
        seeds=may_have_job,
        by="ODD",
    ),
    "pause_lets_ticks_through": Mutant(
        "a pause does not keep ticks that have become tasks",
        {"pause_lets_ticks_through": ""},
        seeds=may_have_job,
        by="ODD",
    ),
    "pause_forgets_retries": Mutant(
        "a tick that fails while its job is paused is tried again",
        {"pause_forgets_retries": "if false then ticks.keep(P, sets, name, id, queue, status, at, held, now) end"},
        seeds=may_have_job,
        by="ODD",
    ),
    "registered_anew": Mutant(
        "a job that is registered with other options begins anew",
        {"registered_anew": "elseif generation and false and (lives or how == '2') then"},
        seeds=may_have_job,
        by="JOB",
    ),
    "first_for_everybody": Mutant(
        "a key of first_time belongs to whoever asks",
        {"first_for_everybody": "answer[#answer + 1] = 1"},
    ),
    "window_forgotten": Mutant(
        "each call with a unique key makes a task",
        {"window_forgotten": "if true then return nil end"},
    ),
    "retry_beside_holder": Mutant(
        "a task runs again although another one holds its unique key",
        {"retry_beside_holder": ""},
    ),
    "stopped_key_goes_on": Mutant(
        "an ordering key goes on behind a task that failed for good, although its lambda wants it to stop",
        {"stopped_key_goes_on": "local stops = false"},
    ),
    "wrong_result": Mutant(
        "a success is recorded with another result than its run returned",
        {"wrong_result": "local returned = '17'"},
    ),
    "waits_for_nobody": Mutant("who waits for tasks is answered before they have ended", patches=_waits_for_nobody),
    "short_lease": Mutant(
        "the store's leases are shorter than executors believe", patches=_short_lease, by="CONCURRENT"
    ),
    "host_clock": Mutant("the caller's clock decides, not the store's", patches=_host_clock),
    "late_claim_accepted": Mutant("a claim is run however old its lease is", patches=_late_claim),
    "lease_from_receipt": Mutant(
        "an executor counts a lease from when its answer came, however late that was", patches=_lease_from_receipt
    ),
    "not_put_back": Mutant(
        "what is taken out of a queue and does not fit the answer stays out of it",
        {"not_put_back": "if false then"},
    ),
    "lease_from_reply": Mutant("a lease is dated from the answer that brought it", patches=_lease_from_reply),
    "repeat_with_new_nonce": Mutant(
        "what is not known to have been claimed is asked for under another nonce",
        patches=_repeat_with_new_nonce,
        by="ODD",
    ),
    "withdrawn_not_given_up": Mutant(
        "a controller keeps the nonces of calls that it can't answer any more",
        patches=lambda: [patch.object(Reports, "give_up", lambda *_more: None)],
        by="ODD",
    ),
    "undelivered_not_given_up": Mutant(
        "an executor keeps the nonces of calls that brought no answer",
        patches=lambda: [patch.object(GivenUp, "add", lambda *_more: None)],
        by="ODD",
    ),
    "hsc_hands_back_by_itself": Mutant(
        "an HSC hands back what its answer may have carried", patches=_hands_back_by_itself, by="CONCURRENT"
    ),
    "nonce_answers_anew": Mutant(
        "an ask that is repeated takes anew, in place of what it has claimed",
        {"asked_before": "local text = redis.call('GET', key) return text == claiming.GIVEN_UP and text"},
    ),
    "given_up_nonce_claims": Mutant(
        "an ask that was given up claims all the same",
        {"asked_before": "local text = redis.call('GET', key) return text ~= claiming.GIVEN_UP and text"},
    ),
    "any_clock_believed": Mutant("a jump of the store's clock ends leases", patches=_any_clock),
    "silent_starts": Mutant(
        "a controller keeps to itself why its executors can't start",
        patches=lambda: [patch.object(Starts, "failed", lambda *_more: None)],
        seeds=has_bad_release,
    ),
    "reason_stays": Mutant(
        "a host on which executors work goes on to say why none can start",
        {"reason_stays": "if why ~= '' then redis.call('HSET', P .. ':hosts:why', host, why) end"},
    ),
    "idle_guard": Mutant("nobody kills a worker that stood still", patches=_idle_guard),
    "deaf_executor": Mutant(
        "an executor without heartbeats goes on", patches=_deaf_executor, by="CONCURRENT", beside="idle_guard"
    ),
    "lost_goes_on": Mutant(
        "a run goes on although its claim is lost", patches=_lost_goes_on, by="CONCURRENT", beside="idle_guard"
    ),
    "cut_is_an_attempt": Mutant(
        "a run that an ordered stop cuts, or that hands itself back, counts as an attempt",
        {"counted_run": "local counted = ran and outcome ~= MISFIT"},
        seeds=has_stops,
    ),
    "cut_is_a_loss": Mutant(
        "a guard takes what an ordered stop cuts for lost",
        patches=lambda: _ended_as(lambda _guard, _found: False),
        seeds=has_stops,
    ),
    "crash_in_a_drain_is_a_stop": Mutant(
        "a guard takes a crash in a drain for the drain's end",
        patches=lambda: _ended_as(lambda guard, found: found.ordered or guard.draining),
        seeds=has_stops,
    ),
    "crash_in_a_drain_is_forgiven": Mutant(
        "a reported loss counts nothing where the executor had said that it drains",
        {"crash_in_a_drain_is_forgiven": "local counted = not alone and marked ~= counter"},
        seeds=has_stops,
    ),
    "marked_lease_counts": Mutant(
        "the end of a lease in a drain is a loss",
        {"drained_lapses_left": "local left = false"},
        seeds=has_stops,
    ),
    "marked_lease_never_counts": Mutant(
        "the end of a lease in a drain is no loss, however often",
        {"drained_lapses_left": "local left = true"},
        seeds=has_stops,
    ),
    "mark_outlives_its_claim": Mutant(
        "a task whose executor drained once is taken for one of an executor that drains ever after",
        {"mark_outlives_its_claim": "why, lapses, alone = lapse(status, marked, before)"},
        seeds=has_stops,
    ),
    "lapses_not_in_a_row": Mutant(
        "runs that end otherwise do not begin the row of lapses anew",
        {"lapses_not_in_a_row": ""},
        seeds=has_stops,
    ),
    "unstarted_lease_counts_at_once": Mutant(
        "the end of a lease is a loss though the run had not said that it started",
        {"unstarted_lapses_left": "local left = false"},
        seeds=has_stops,
    ),
    "unstarted_lease_never_counts": Mutant(
        "the end of a lease is no loss, however often, if the run had not said that it started",
        {"unstarted_lapses_left": "local left = true"},
        seeds=has_stops,
    ),
    "unstarted_and_not_alone": Mutant(
        "a task whose runs never said that they started runs beside others",
        {"unstarted_and_not_alone": "local alone = false"},
        seeds=has_stops,
    ),
    "cancelled_before_its_start_is_an_attempt": Mutant(
        "a task that was cancelled before its body was called has an attempt counted",
        {"counted_run": "local counted = outcome ~= HANDED_BACK and outcome ~= MISFIT"},
        seeds=has_stops,
    ),
    "lost_with_its_executor": Mutant(
        "a task that has lost its executor is deleted",
        {
            "lost_task_waits": (
                "do moves.end_task(P, writes.AT_ONCE, task, 'CANCELLED', now) "
                "lists.leave_finished(P, writes.AT_ONCE, id, queue, 'CANCELLED') "
                "lists.leave(P, writes.AT_ONCE, id, lambda_of(queue)) "
                "redis.call('DEL', task_key(P, id)) return end"
            )
        },
        by="LOST",
    ),
    "one_loss_more": Mutant(
        "a task runs on after the loss that is its last",
        {"one_loss_more": "elseif counted and losses > most_losses then"},
        by="ODD",
    ),
    "misfit_counts": Mutant(
        "a payload that does not fit is a failed attempt",
        {"counted_run": "local counted = ran and outcome ~= HANDED_BACK"},
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_offered_again": Mutant(
        "a payload is given again to executors that it does not fit",
        {
            "misfit_offered_again": "",
            "misfit_given_to_any": "if registry.gives_to(P, lambda_of(queue), pool) then",
        },
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_without_grace": Mutant(
        "a payload that fits nobody is a failed attempt at the first look",
        {"grace_over": "if true then"},
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_looked_at_too_often": Mutant(
        "the wait between two looks at a payload that fits nobody does not double",
        {"misfit_looked_at_too_often": "if not other then m.wait = misfits.FIRST end"},
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_for_ever": Mutant(
        "a payload that fits nobody waits for ever",
        {"grace_over": "if false then"},
        by="STUCK",
        seeds=deploys.has_deploys,
    ),
    "misfit_fails_beside_one_that_fits": Mutant(
        "executors of another signature are not looked for: what they could run is a failed attempt",
        {"misfit_fails_beside_one_that_fits": ""},
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_grace_begins_beside_one_that_fits": Mutant(
        "the time of grace of a payload counts from its first misfit, also while executors were there that it fits",
        {"misfit_grace_begins_beside_one_that_fits": "if m.since == 0 then m.since, m.wait = now, misfits.FIRST end"},
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "created_entry_forgotten": Mutant(
        "a task that people can search for is not in the list of its lambda's tasks",
        {"created_entry": "if not entries then {line} end"},
        by="ODD",
    ),
    "ended_entry_forgotten": Mutant(
        "a cancelled task is in no list of those that have ended",
        {"ended_entry": "if to ~= 'CANCELLED' then {line} end"},
        by="ODD",
    ),
    "ended_entry_left": Mutant(
        "a task that was started afresh is still listed as one that has ended", {"ended_entry_left": ""}, by="ODD"
    ),
    "index_entry_left": Mutant(
        "a task whose record has gone is still found by its argument", {"index_entry_left": ""}, by="ODD"
    ),
    "apart_left": Mutant("what lay apart from a record stays when that goes", {"apart_left": ""}, by="ODD"),
    "log_not_kept": Mutant("what a run that failed has said is not kept with its task", {"log_not_kept": ""}, by="ODD"),
    "group_counted_twice": Mutant(
        "the newest of the failures that are alike counts twice",
        {"group_counted_twice": "{line} + redis.call('ZCOUNT', key, newest[2], '+inf')"},
        by="ODD",
    ),
    "group_keeps_what_was_retried": Mutant(
        "a task that was started afresh still counts among the failures", {"group_keeps_what_was_retried": ""}, by="ODD"
    ),
    "counts_one_retention": Mutant(
        "of tasks that are kept for different times those of one time are counted",
        {"counts_one_retention": "counts[FINISHED_AT[status]] = here"},
        by="ODD",
    ),
    "failures_go_first": Mutant(
        "where the store is too full, failures go before what succeeded",
        {"failures_go_first": "local FIRST_TO_GO = {'FATAL_FAILURE', 'SUCCESS', 'CANCELLED'}"},
        by="ODD",
    ),
    "swept_early": Mutant(
        "a record goes ten seconds before its time",
        {"swept_early": "{line} ids = redis.call('ZRANGE', key, '-inf', fmt(now - retention + 10000000), 'BYSCORE')"},
        by="ODD",
    ),
    "cursor_skips_equals": Mutant(
        "a page leaves out what has the very instant at which the page before has ended",
        {"cursor_skips_equals": "low = high"},
        by="ODD",
    ),
    "audit_line_dropped": Mutant(
        "a store that is full takes no entries of the audit log",
        {"audit_line_dropped": "if not full then {line} end"},
        by="ODD",
    ),
    "retry_unaudited": Mutant(
        "of tasks that somebody started afresh the audit log says nothing", patches=_retry_unaudited, by="ODD"
    ),
    "controller_forgotten": Mutant(
        "a controller counts as alive for less than passes until the store is told so again",
        patches=lambda: [patch("atf.hsc.hosts.ALIVE_S", 2.0)],
        by="ODD",
    ),
    "dead_controller_listed": Mutant(
        "a controller counts as alive for ever", patches=lambda: [patch("atf.hsc.hosts.ALIVE_S", 1e6)], by="ODD"
    ),
    "one_token": Mutant(
        "all claims of a task have one token",
        {"new_token": "counter, run, nonce = counter > 0 and counter or now, run + 1, '0'"},
        patches=_one_nonce,
        by="TOKEN_REUSED",
    ),
}
KINDS: Final = ("LOST", "EARLY", "CONCURRENT", "STALE_RESULT_ACCEPTED", "TOKEN_REUSED", "STUCK")
"""Breaches each of which has to catch a mutant: one that never did might as well not be looked for."""
QUICK: Final = (
    "lost_with_its_executor",
    "pushed_early",
    "short_lease",
    "finish_without_token",
    "one_token",
    "lost_pop_not_redriven",
)
"""Those that every test run has to catch, on forty seeds: one by each of KINDS."""


def shows(name: str, found: Collection[str]) -> bool:
    """Whether a seed that has found these breaches has caught a mutant."""
    by = MUTANTS[name].by
    return by in found if by else bool(found)


def markers(code: str) -> list[str]:
    """The markers of a function library's lines, in their order."""
    return [line.split(_MARK)[1] for line in code.split("\n") if _MARK in line]


def source(name: str) -> str:
    """The function library with a mutant's lines; without a mutant, the plain one.

    Raises:
        ValueError: the library does not have one line with such a marker.
    """
    code = library.CURRENT.source
    for marker, new in MUTANTS[name].lua.items() if name else ():
        marked = [line for line in code.split("\n") if line.endswith(_MARK + marker)]
        if len(marked) != 1:
            raise ValueError(f"mutant {name}: the library has {len(marked)} lines marked {marker}")
        code = code.replace(marked[0], new.replace("{line}", marked[0].split(_MARK)[0]))
    return code


@contextlib.contextmanager
def switched_on(name: str) -> Iterator[None]:
    """A mutant's patches, for the length of a with block."""
    with contextlib.ExitStack() as stack:
        for each in MUTANTS[name].patches() if name else ():
            stack.enter_context(each)
        yield
