"""Bugs to be switched on in the simulation, each a promise of ATF broken on purpose: the checker has to catch every one.

A mutant changes a line of the store's functions, or a method of a role. Neither is ever changed outside of the simulation; a
change that no longer finds its line fails at once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any, Final
from unittest.mock import patch

from atf.controller import claims
from atf.controller.claims import Claims, Grant
from atf.controller.starts import Starts
from atf.cores.pool import Pool
from atf.errors import Unavailable
from atf.executor.begin import LastLook
from atf.executor.guard import Ended, Guard
from atf.executor.heartbeat import Heartbeats
from atf.executor.held import Ledger
from atf.executor.outcome import HandedBack
from atf.executor.worker import Executor
from atf.frontend import view
from atf.frontend.service import FrontendService
from atf.hsc.service import HscService
from atf.rpc import frontend_pb2 as f
from atf.store import library
from atf.store.store import Store
from atf.store_consumer.clock import StoreClock
from atf.testing.runtime import EPOCH_US

from . import deploys
from .jobs import may_have_job
from .link import SimLink
from .loop import PROCESS
from .starts import has_bad_release
from .stops import has_stops

SHORT_LEASE_US: Final = 5_000_000
Patches = Callable[[], list[Any]]


@dataclass(frozen=True)
class Mutant:
    """One bug.

    Attributes:
        what: in a sentence.
        lua: lines of the function library, and what stands in their place.
        patches: makes what unittest.mock.patch made; entered for the length of a seed.
        by: the breach that has to catch it; "": any.
        beside: a mutant that it includes, which would mask it: a seed that catches that one alone says nothing of this one.
        seeds: which seeds are played, for a bug that only some of them can meet, and these seldom.
    """

    what: str
    lua: tuple[tuple[str, str], ...] = ()
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
    plain, admit = LastLook.__init__, Executor._admit

    def init(self: Any, *args: Any) -> None:
        plain(self, *args)
        self._slack_us = 1 << 60

    def admitted(self: Any, reply: Any) -> None:
        self._lease_us = 1 << 60
        admit(self, reply)

    return [patch.object(LastLook, "__init__", init), patch.object(Executor, "_admit", admitted)]


def _lease_from_reply() -> list[Any]:
    renew, ask = Ledger.renew, Claims._ask

    def renewed(self: Any, tasks: Any, sent_us: int) -> None:
        from .lambdas import here

        renew(self, tasks, here[-1].now_us() + 1_000_000)

    async def asked(self: Any, each: Any) -> Any:
        grant = await ask(self, each)
        return grant and Grant(grant.claims, grant.deferred, self._runtime.boottime_us())

    return [patch.object(Ledger, "renew", renewed), patch.object(Claims, "_ask", asked)]


def _pop_repeated() -> list[Any]:
    plain = SimLink.call

    async def call(self: Any, verb: str, *args: Any, **more: Any) -> Any:
        try:
            return await plain(self, verb, *args, **more)
        except Unavailable:
            if verb != "pop":
                raise
            return await plain(self, verb, *args, **more)

    return [patch.object(SimLink, "call", call)]


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
    return [*_idle_guard(), patch.object(Heartbeats, "_strike", lambda _self, _error: None)]


def _lost_goes_on() -> list[Any]:
    return [patch.object(Executor, "_lose", lambda _self, _task: None), *_idle_guard()]


def _cut_goes_on() -> list[Any]:
    """What runs when a drain begins is handed back by the executor itself, whose process goes on."""
    drain = Executor.drain

    def mutated(self: Executor) -> None:
        began = not self._draining.is_set()
        drain(self)
        runs = [task for task in self.ledger.snapshot() if began and task.started and task.outcome is None]
        for task in runs:
            task.outcome = HandedBack("cut")
        self._report.ended(runs)

    return [patch.object(Executor, "drain", mutated)]


def _any_signature() -> list[Any]:
    """Whoever asks takes misfits, whatever it runs."""
    plain = Store._pop_misfits

    async def pop(self: Any, partition: int, pool: str, names: Any, want: int, found: Any, signatures: Any) -> Any:
        return await plain(self, partition, pool, names, want, found, dict.fromkeys(signatures, "any"))

    return [patch.object(Store, "_pop_misfits", pop)]


def _one_nonce() -> list[Any]:
    return [patch.object(claims, "new_id", lambda _random: "0" * 32)]


def _core_claimed_twice() -> list[Any]:
    return [patch.object(Pool, "has_claim", lambda _self, _lambda_name: False)]


def _ended_as(ordered: Callable[[Guard, Ended], bool]) -> list[Any]:
    plain = Guard.ended

    def ended(self: Guard, code: int, verdict: Any) -> Ended:
        found = plain(self, code, verdict)
        return found._replace(ordered=ordered(self, found))

    return [patch.object(Guard, "ended", ended)]


def _waits_for_nobody() -> list[Any]:
    async def wait_tasks(self: Any, request: Any, **_more: Any) -> f.WaitTasksReply:
        records = await self._store.get(list(request.ids))
        return f.WaitTasksReply(tasks=[view.task(each) for each in records if each is not None])

    return [patch.object(FrontendService, "wait_tasks", wait_tasks)]


def _forgets(seed: int) -> bool:
    from .world import forgets

    return forgets(seed)


MUTANTS: Final[dict[str, Mutant]] = {
    "no_fence": Mutant(
        "an old token is as good as a new one",
        (("'PROCESSING') and task_counter == counter and task_nonce == nonce", "'PROCESSING')"),),
    ),
    "gate_keeps_for_ever": Mutant(
        "what a gate kept is forgotten when it is lifted",
        (("task[3] == number and (task[1] == 'NEW' or task[1] == 'RETRIABLE_FAILURE')", "false"),),
    ),
    "no_gate_at_the_door": Mutant(
        "due tasks are pushed past a gate, and kept at their claim alone",
        (("if settings.gates then ids, gated", "if false then ids, gated"),),
    ),
    "no_gate_at_the_claim": Mutant(
        "what was pushed before a gate was set is claimed past it",
        (("if known and not again and kept_at_claim", "if false and kept_at_claim"),),
    ),
    "gate_leaves_a_place_behind": Mutant(
        "a task that is set aside at its claim stays among those in queues",
        (("    sets.ZREM(live_key(P, queue, from), id)\n    redis.call('HDEL', task_key(P, id), 'e')\n", ""),),
    ),
    "cut_goes_on": Mutant(
        "an executor that drains hands back what it runs before that has ended",
        patches=_cut_goes_on,
        by="CONCURRENT",
    ),
    "finish_without_token": Mutant(
        "a result is recorded whoever sends it",
        (
            (
                "if not holds(status, counter, nonce, task[2], task[3]) then\n      local before",
                "if status ~= 'CLAIMED' and status ~= 'PROCESSING' then\n      local before",
            ),
        ),
        by="STALE_RESULT_ACCEPTED",
    ),
    "release_without_token": Mutant(
        "a claim is handed back whoever holds it",
        (
            (
                "task[1] ~= 'CLAIMED' or not holds(task[1], args[i + 1], args[i + 2], task[2], task[3])",
                "task[1] ~= 'CLAIMED'",
            ),
        ),
    ),
    "lose_without_token": Mutant(
        "a loss is believed whoever tells of it",
        (
            (
                "local held = holds(task[1], args[i + 1], args[i + 2], task[2], task[3])\n    if held then lose_task",
                "local held = task[1] == 'CLAIMED' or task[1] == 'PROCESSING'\n    if held then lose_task",
            ),
        ),
    ),
    "claim_of_what_is_held": Mutant(
        "a claim does not look at the state",
        (
            (
                "task[1] ~= 'ENQUEUED' and not again then",
                "task[1] ~= 'ENQUEUED' and task[1] ~= 'PROCESSING' and not again then",
            ),
        ),
    ),
    "early_by_an_instant_of_before": Mutant(
        "what was due by a clock that has been set back since is taken for due",
        (
            (
                "  local stepped, over = step_back(P, now, believed, args[5], tonumber(args[6]), record)\n",
                (
                    "  local stepped, over = step_back(P, now, believed, args[5], tonumber(args[6]), record)\n"
                    "  now = math.max(now, tonumber(redis.call('HGET', P, 'latest') or 0))\n"
                    "  redis.call('HSET', P, 'latest', fmt(now))\n"
                ),
            ),
        ),
    ),
    "step_back_unnoticed": Mutant(
        "a lease ends early that was given while the store's clock was back, unheard by a store consumer",
        (("  if behind > CLOCK.STEP then\n", "  if false then\n"),),
    ),
    "counter_only_token": Mutant(
        "tokens count up by one, also after a rollback", (("math.max(counter + 1, now)", "counter + 1"),)
    ),
    "no_pause_after_rollback": Mutant(
        "claims are given at once by a server that may have forgotten some",
        (
            ("  return pause, tonumber(record[4] or 0) > 0", "  return nil, tonumber(record[4] or 0) > 0"),
            (
                "look.may = not record[1] or not pause_left(tonumber(record[1]), record[2], instant(now))",
                "look.may = true",
            ),
        ),
    ),
    "silent_holder_ignored": Mutant(
        "one answer ends the pause after a restart",
        (("  if roster.left(P) > 0 or tonumber(", "  if tonumber("),),
        seeds=_forgets,
    ),
    "answer_not_compared": Mutant(
        "who is asked after a restart says yes, whatever it was answered",
        (("number >= tonumber(args[7]) and 'yes' or 'no'", "'yes'"),),
        seeds=_forgets,
    ),
    "lost_pop_not_redriven": Mutant(
        "what was popped and never claimed is forgotten",
        (
            (
                "    else\n      if #front == 0 then front = {} end\n      front[#front + 1] = id",
                "    else\n      redis.call('ZREM', live_key(P, queue, 'ENQUEUED'), id)",
            ),
        ),
        by="STUCK",
    ),
    "backlog_pushed_again": Mutant(
        "what waits in its queue for long is pushed once more",
        (("elseif entry and entry > pushed - length then", "elseif false then"),),
    ),
    "cancel_without_state_check": Mutant(
        "what runs is cancelled like what waits",
        (
            (
                "if status == 'CLAIMED' or status == 'PROCESSING' then\n    redis.call('HSET', task_key(P, id), 'x', '1')",
                "if false then\n    redis.call('HSET', task_key(P, id), 'x', '1')",
            ),
        ),
    ),
    "schedule_overwrites": Mutant(
        "a repeated Schedule stores the task anew",
        (("if known[1] then\n      local other", "if false then\n      local other"),),
    ),
    "pushed_early": Mutant(
        "the store consumer looks two seconds ahead",
        (
            (
                "due_to_leave(P, queue, status, now, room and",
                "due_to_leave(P, queue, status, now + 2000000, room and",
            ),
        ),
        by="EARLY",
    ),
    "permits_not_counted": Mutant(
        "a partition uses its permits again while their tasks run",
        (("math.max(room.have.n - room.used.n, 0)", "room.have.n"),),
    ),
    "permits_given_twice": Mutant(
        "home gives out what it has given to others",
        (("local free, short = limit - out, out > limit", "local free, short = limit, out > limit"),),
    ),
    "rate_not_taken": Mutant(
        "what is pushed takes nothing out of the bucket",
        (("part.z = room.bucket.z + math.ceil(entries * (room.bucket.each or 0))", "part.z = room.bucket.z"),),
        by="RATE",
    ),
    "burst_for_each_partition": Mutant(
        "each partition has all of the burst",
        (("alone and limits.b or knows and may_use(room.part, 'b', limits.b) or 0", "limits.b"),),
        by="RATE",
    ),
    "pushed_again_for_nothing": Mutant(
        "what is pushed again takes nothing of the rate",
        (
            (
                "local part, digit, key, entries = room.part, string.sub(queue, -1), permits_key(P, room.name), pushed + again",
                "local part, digit, key, entries = room.part, string.sub(queue, -1), permits_key(P, room.name), pushed",
            ),
        ),
        by="RATE",
    ),
    "cores_overwritten": Mutant(
        "a pool's cores are written by who has read an older record",
        (("  if before ~= args[3] then return '0' end\n", ""),),
    ),
    "core_claimed_twice": Mutant("a lambda has any number of core claims", patches=_core_claimed_twice),
    "items_lost_uncounted": Mutant(
        "a batch does not count that items are lost with their executors",
        (
            (
                "    recount(P, sets, id, from, to, now)\n  end\n  sets.ZADD(live_key(P, queue, to)",
                "    if to ~= 'ENQUEUED' then recount(P, sets, id, from, to, now) end\n  end\n  sets.ZADD(live_key(P, queue, to)",
            ),
        ),
    ),
    "identical_items_are_one": Mutant(
        "an item is taken for the one that is identical to it",
        (("known = holder == number", "known = holder ~= false"),),
    ),
    "batch_end_untold": Mutant(
        "a batch ends without its callbacks", (("if tonumber(home[8] or 0) < tonumber(home[7]) then", "if false then"),)
    ),
    "delay_ignored": Mutant("a delay is taken for none", (("or now + tonumber(args[i + 5])", "or now"),)),
    "no_backoff": Mutant("a failed attempt is repeated at once", (("now + tonumber(args[i + 7])", "now"),)),
    "loss_not_looked_at": Mutant(
        "a lost task waits for nobody",
        (
            (
                "move(P, AT_ONCE, id, queue, status, 'ENQUEUED', now, now, 'l', losses",
                "move(P, AT_ONCE, id, queue, status, 'ENQUEUED', now + 1e15, now, 'l', losses",
            ),
        ),
    ),
    "no_order": Mutant(
        "a task does not wait for those of its ordering key before it",
        (("id) > 1 then score = nil end", "id) < 0 then score = nil end"),),
    ),
    "no_slots": Mutant(
        "a task of a concurrency key is pushed however many run",
        (("if taken < tonumber(limit) and redis.call('EXISTS', line_key(P, key)) == 0 then", "if true then"),),
    ),
    "kept_for_its_host": Mutant(
        "a task is left to the host that is to have it for however long",
        (
            (
                "= not each.leave or not each.waits or each.since and now >= each.since + placement.PATIENCE",
                "= not each.leave or not each.waits",
            ),
        ),
    ),
    "tick_twice": Mutant(
        "whoever finds a tick due makes its task, although somebody else has done it",
        (("or job[2] ~= args[i + 2] or job[3] then", "or job[3] then"),),
    ),
    "tick_at_once": Mutant(
        "a tick does not wait for the one before it",
        (("local waits = running ~= '' and (job[4]", "local waits = running == '#' and (job[4]"),),
    ),
    "tick_forgotten": Mutant(
        "whoever has taken a due tick and was killed takes it along",
        (("fmt(now + (waits and JOB_WAIT or JOB_RETRY))", "fmt(now + (waits and JOB_WAIT or 1e15))"),),
        seeds=may_have_job,
    ),
    "delete_leaves_ticks": Mutant(
        "the ticks of a deleted job that wait run all the same",
        (("      cancel_task(P, AT_ONCE, id, now)\n", "      redis.call('ZREM', ticks.key(P, name), id)\n"),),
        seeds=may_have_job,
        by="ODD",
    ),
    "delete_leaves_retries": Mutant(
        "a tick whose job was deleted while it ran is tried again",
        (("        redis.call('HSET', task_key(P, id), 'x', ticks.LAST_RUN)", ""),),
        seeds=may_have_job,
        by="ODD",
    ),
    "pause_lets_ticks_through": Mutant(
        "a pause does not keep ticks that have become tasks",
        (
            (
                "if ticks.hold_all(P, name, now) then return {2, tasks} end",
                "",
            ),
        ),
        seeds=may_have_job,
        by="ODD",
    ),
    "pause_forgets_retries": Mutant(
        "a tick that fails while its job is paused is tried again",
        (("if redis.call('HEXISTS', job_key(P, name), 'p') == 1 then ticks.keep", "if false then ticks.keep"),),
        seeds=may_have_job,
        by="ODD",
    ),
    "registered_anew": Mutant(
        "a job that is registered with other options begins anew",
        (("known[6] == rhythm and (lives", "false and (lives"),),
        seeds=may_have_job,
        by="JOB",
    ),
    "first_for_everybody": Mutant(
        "a key of first_time belongs to whoever asks",
        (("redis.call('HGET', firsts, args[i]) == args[i + 1] and 1 or 0", "1"),),
    ),
    "window_forgotten": Mutant(
        "each call with a unique key makes a task",
        (("  if not until_ or tonumber(until_) <= now then return nil end\n", "  if true then return nil end\n"),),
    ),
    "retry_beside_holder": Mutant(
        "a task runs again although another one holds its unique key",
        (("    if its and not FINISHED[its] then return holder end\n", ""),),
    ),
    "stopped_key_goes_on": Mutant(
        "an ordering key goes on behind a task that failed for good, although its lambda wants it to stop",
        (
            (
                "if to == 'FATAL_FAILURE' and not batch_of(id) and settings_of(",
                "if to == 'FATAL_FAILURE' and false and settings_of(",
            ),
        ),
    ),
    "wrong_result": Mutant(
        "a success is recorded with another result than its run returned",
        (
            (
                "'f', counter, 'a', attempts, 'R', runs, 'res', args[i + 4])",
                "'f', counter, 'a', attempts, 'R', runs, 'res', '17')",
            ),
        ),
    ),
    "waits_for_nobody": Mutant("who waits for tasks is answered before they have ended", patches=_waits_for_nobody),
    "short_lease": Mutant(
        "the store's leases are shorter than executors believe", patches=_short_lease, by="CONCURRENT"
    ),
    "host_clock": Mutant("the caller's clock decides, not the store's", patches=_host_clock),
    "late_claim_accepted": Mutant("a claim is run however old its lease is", patches=_late_claim),
    "lease_from_reply": Mutant("a lease is dated from the answer that brought it", patches=_lease_from_reply),
    "pop_repeated": Mutant("a pop whose answer was lost is repeated", patches=_pop_repeated),
    "any_clock_believed": Mutant("a jump of the store's clock ends leases", patches=_any_clock),
    "silent_starts": Mutant(
        "a controller keeps to itself why its executors can't start",
        patches=lambda: [patch.object(Starts, "failed", lambda *_more: None)],
        seeds=has_bad_release,
    ),
    "reason_stays": Mutant(
        "a host on which executors work goes on to say why none can start",
        (("if why == '' then redis.call('HDEL', P .. ':hosts:why', host) else", "if why ~= '' then"),),
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
        (("local counted = ran and outcome ~= HANDED_BACK", "local counted = ran"),),
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
        (("  local counted = not alone\n", "  local counted = not alone and task[15] ~= task[14]\n"),),
        seeds=has_stops,
    ),
    "marked_lease_counts": Mutant(
        "the end of a lease in a drain is a loss",
        (("draining <= LAPSES.DRAINING and draining", "false and draining"),),
        seeds=has_stops,
    ),
    "marked_lease_never_counts": Mutant(
        "the end of a lease in a drain is no loss, however often",
        (("draining <= LAPSES.DRAINING and draining", "draining"),),
        seeds=has_stops,
    ),
    "mark_outlives_its_claim": Mutant(
        "a task whose executor drained once is taken for one of an executor that drains ever after",
        (("lapse(status, task[15] == task[14], task[16])", "lapse(status, task[15], task[16])"),),
        seeds=has_stops,
    ),
    "lapses_not_in_a_row": Mutant(
        "runs that end otherwise do not begin the row of lapses anew",
        (("      if earlier[3] then redis.call('HDEL', task_key(P, id), 'y') end\n", ""),),
        seeds=has_stops,
    ),
    "unstarted_lease_counts_at_once": Mutant(
        "the end of a lease is a loss though the run had not said that it started",
        (("local left = unstarted <= LAPSES.UNSTARTED", "local left = false"),),
        seeds=has_stops,
    ),
    "unstarted_lease_never_counts": Mutant(
        "the end of a lease is no loss, however often, if the run had not said that it started",
        (("local left = unstarted <= LAPSES.UNSTARTED", "local left = true"),),
        seeds=has_stops,
    ),
    "unstarted_and_not_alone": Mutant(
        "a task whose runs never said that they started runs beside others",
        (
            (
                "left and draining .. ' ' .. unstarted or nil, not left",
                "left and draining .. ' ' .. unstarted or nil, false",
            ),
        ),
        seeds=has_stops,
    ),
    "cancelled_before_its_start_is_an_attempt": Mutant(
        "a task that was cancelled before its body was called has an attempt counted",
        (("local counted = ran and outcome ~= HANDED_BACK", "local counted = outcome ~= HANDED_BACK"),),
        seeds=has_stops,
    ),
    "lost_with_its_executor": Mutant(
        "a task that has lost its executor is deleted",
        (
            (
                (
                    "    move(P, AT_ONCE, id, queue, status, 'ENQUEUED', now, now, 'l', losses, 'R', runs)\n"
                    "    if alone then redis.call('HSET', task_key(P, id), 'z', '1') end\n"
                ),
                (
                    "    rest(P, AT_ONCE, id, queue, status, 'CANCELLED', now, task[5], task[10], task[11], true, task[13])\n"
                    "    redis.call('ZREM', done_key(P, lambda_of(queue), 'CANCELLED'), id)\n"
                    "    redis.call('DEL', task_key(P, id))\n"
                ),
            ),
        ),
        by="LOST",
    ),
    "one_loss_more": Mutant(
        "a task runs on after the loss that is its last",
        (("elseif counted and losses >= tonumber", "elseif counted and losses > tonumber"),),
        by="ODD",
    ),
    "misfit_counts": Mutant(
        "a payload that does not fit is a failed attempt",
        (
            (
                "local counted = ran and outcome ~= HANDED_BACK and outcome ~= MISFIT",
                "local counted = ran and outcome ~= HANDED_BACK",
            ),
        ),
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_offered_again": Mutant(
        "a payload is given again to executors that it does not fit",
        (("elseif earlier[4] and not again and unfit(", "elseif false and unfit("),),
        patches=_any_signature,
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_without_grace": Mutant(
        "a payload that fits nobody is a failed attempt at the first look",
        (("if now >= m.since + m.grace then", "if true then"),),
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_looked_at_too_often": Mutant(
        "the wait between two looks at a payload that fits nobody does not double",
        (("m.wait = math.min(m.wait * 2, misfits.MOST)", "m.wait = misfits.FIRST"),),
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_for_ever": Mutant(
        "a payload that fits nobody waits for ever",
        (("if now >= m.since + m.grace then", "if false then"),),
        by="STUCK",
        seeds=deploys.has_deploys,
    ),
    "misfit_fails_beside_one_that_fits": Mutant(
        "executors of another signature are not looked for: what they could run is a failed attempt",
        (("    if not misfits.has(digests, digest) then return true end\n", ""),),
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "misfit_grace_begins_beside_one_that_fits": Mutant(
        "the time of grace of a payload counts from its first misfit, also while executors were there that it fits",
        (("if m.since == 0 or m.wait == 0 then", "if m.since == 0 then"),),
        by="ODD",
        seeds=deploys.has_deploys,
    ),
    "one_token": Mutant(
        "all claims of a task have one token",
        (("math.max(counter + 1, now), run + 1", "counter > 0 and counter or now, run + 1"),),
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


def source(name: str) -> str:
    """The function library with a mutant's lines; without a mutant, the plain one.

    Raises:
        ValueError: the library has no such line any more.
    """
    code = library.CURRENT.source
    for old, new in MUTANTS[name].lua if name else ():
        if code.count(old) != 1:
            raise ValueError(f"mutant {name}: the library has {code.count(old)} times: {old}")
        code = code.replace(old, new)
    return code


@contextlib.contextmanager
def switched_on(name: str) -> Iterator[None]:
    """A mutant's patches, for the length of a with block."""
    with contextlib.ExitStack() as stack:
        for each in MUTANTS[name].patches() if name else ():
            stack.enter_context(each)
        yield
