"""Says why a task stands in its queue though executors are there: its lambda has no core, or one whose group takes nothing."""

from __future__ import annotations

from atf.cores.pool import CorePool
from atf.store.values.explained import ExplainedTask
from atf.task import Status, pool_called

from .explain_words import ExplainAnswer, duration
from .explain_workers import all_set_aside


def no_core(found: ExplainedTask, name: str, pool: CorePool, now_us: int) -> ExplainAnswer | None:
    """Why none of the pool's executors may run the task's lambda now, or those that may do not; None: some may, and nothing speaks against it.

    Args:
        found: what surrounds the task, which stands in its queue.
        name: of the pool that its lambda runs in, as the store knows it.
        pool: its cores.
        now_us: the store's time.
    """
    lambda_name = found.record.lambda_name
    has = [core for core, turn in enumerate(pool.turns) if turn is not None and turn.lambda_name == lambda_name]
    staffed = [core for core in has if pool.staffed(core, now_us)]
    if staffed:
        return _not_taken(found, staffed, name, pool, now_us)
    show = f"atf capacity show {pool_called(name)} shows it."
    start = f"It is due and at position {found.position} of {found.queue_depth} in its queue, and waits for a core: "
    if not pool.members:
        return ExplainAnswer(
            "no_core", f"{start}the pool {pool_called(name)} is cut into cores, and no executor is there. {show}"
        )
    if has:
        next_us = pool.rotation.next_us(now_us)
        return ExplainAnswer(
            "no_core",
            f"{start}{lambda_name} has core {_cores(has)}, whose group has no executor until the next rotation, in"
            f" {duration(next_us - now_us)}: the pool {pool_called(name)} has fewer executors ({pool.members}) than cores. {show}",
            next_us,
        )
    return _of_claim(start, lambda_name, pool, now_us, show)


def _not_taken(found: ExplainedTask, cores: list[int], name: str, pool: CorePool, now_us: int) -> ExplainAnswer | None:
    """That the groups on its lambda's cores take nothing of it, though they had time to; None: that is not known."""
    turns = [turn for core in cores if (turn := pool.turns[core]) is not None]
    if any(turn.occupied for turn in turns) or all_set_aside(found):
        return None
    next_us = pool.rotation.next_us(now_us)
    queued_us = found.record.moved_at_us.get(Status.ENQUEUED, now_us)
    since_us = max(queued_us, next_us - pool.rotation.every_us, *(turn.since_us for turn in turns))
    if now_us - since_us <= pool.settings.hand_over_us:
        return None
    lambda_name = found.record.lambda_name
    return ExplainAnswer(
        "queued",
        f"It is due and at position {found.position} of {found.queue_depth} in its queue. {lambda_name} has core {_cores(cores)}, whose group has"
        f" taken none of its tasks for {duration(now_us - since_us)}: its executors are full, or do not run {lambda_name}. All executors of a"
        f" pool with cores should run the same apps. The next rotation is in {duration(next_us - now_us)}."
        f" atf capacity show {pool_called(name)} shows the group.",
    )


def _cores(cores: list[int]) -> str:
    return " and ".join(str(core) for core in cores)


def _of_claim(start: str, lambda_name: str, pool: CorePool, now_us: int, show: str) -> ExplainAnswer:
    """Where its lambda's core claim stands."""
    start += f"{lambda_name} has none at present"
    claim = next((each for each in pool.queue if each.lambda_name == lambda_name), None)
    if claim is not None:
        line = [each.lambda_name for each in pool.queue if each.core == claim.core]
        place, turn, ends_us = line.index(lambda_name), pool.turns[claim.core], pool.due_us(claim.core)
        failed = (
            f", and turns in which its core's group took none of its tasks: {claim.retries}" if claim.retries else ""
        )
        sentence = f"{start}{failed}. Its core claim is number {place + 1} of {len(line)} for core {claim.core}"
        if turn is None or ends_us is None:
            return ExplainAnswer("no_core", f"{sentence}, which is free. {show}")
        left = f"another {duration(ends_us - now_us)}" if ends_us > now_us else "no longer"
        return ExplainAnswer(
            "no_core",
            f"{sentence}, which {turn.lambda_name} has for {left} at the most. {show}",
            0 if place else ends_us,
        )
    for place, each in enumerate(pool.beyond):
        if each.lambda_name == lambda_name:
            return ExplainAnswer(
                "no_core",
                f"{start}. Its core claim is number {place + 1} of those behind the queue, which is full"
                f" ({len(pool.queue)} claims: lookahead × multiplexed cores). {show}",
            )
    return ExplainAnswer(
        "no_core",
        f"{start}, and has made no core claim yet: a controller of the pool does that as soon as one of its executors asks for"
        f" work. {show}",
    )
