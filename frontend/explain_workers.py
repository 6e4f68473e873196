"""Why no executor takes a task: nobody runs its lambda, hosts can't start executors or quarantine it, or it has no core."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from atf.auth.caller import caller
from atf.auth.grants import Verb
from atf.cores.pool import CorePool
from atf.store.values.explained import ExplainedTask
from atf.task import Status, pool_called

from .explain_words import ExplainAnswer, duration


def waits_for_executors(found: ExplainedTask) -> bool:
    """Whether it stands in its queue, and nothing keeps it there."""
    queued = found.record.status is Status.ENQUEUED and found.in_queue
    return queued and not found.paused and found.pause is None and no_worker(found, "") is None


def all_quarantined(found: ExplainedTask) -> bool:
    """Whether every host of its pool quarantines its lambda."""
    return bool(found.quarantined) and len(found.quarantined) >= found.hosts


def no_worker(found: ExplainedTask, start: str) -> ExplainAnswer | None:
    """That no worker is there which would run it; None: some is, or that is not known."""
    if found.failing and not found.hosts:
        return ExplainAnswer(
            "cant_start",
            f"{start}, but {_cant_start(found.failing)}. Mend that, and start the host's controller again if it has ended.",
        )
    if not found.served and found.starting:
        return ExplainAnswer(
            "starting",
            f"{start}; the executors on {_hosts(found.starting)} are starting, and none has asked for work yet.",
        )
    name, pool = found.record.lambda_name, found.unserved
    if not found.served:
        why, option = "in no pool, and no live worker runs without one", ""
        if pool:
            why, option = f"in the pool {pool} alone, and no live worker belongs to it", f" --pool {pool}"
        mend = f"start one with atf worker{option}, or see atf lambda set {name} pool=…"
        return ExplainAnswer("no_pool", f"{start}, but {name} runs {why}: {mend}")
    if found.not_run:
        return ExplainAnswer(
            "not_served",
            f"{start}, but no live worker of the pool that it runs in runs {name}: none of their executors has asked for its tasks lately."
            f" Start executors there whose apps have it, or see atf lambda set {name} pool=…{failing_hosts(found)}",
        )
    return None


def failing_hosts(found: ExplainedTask) -> str:
    """Some hosts on which no executor can start, as one more sentence; empty: there are none."""
    return f" Besides, {_cant_start(found.failing)}." if found.failing else ""


def _hosts(names: Collection[str]) -> str:
    """Worker hosts: whose they are is for those to know who may see all of them."""
    if caller().may_everywhere(Verb.READ):
        return ", ".join(names)
    return "one host" if len(names) == 1 else f"{len(names)} hosts"


def _cant_start(failing: Mapping[str, str]) -> str:
    if not caller().may_everywhere(Verb.READ):
        return f"no executor can start on {_hosts(failing)}; who may read everything is told why"
    hosts_by_reason: dict[str, list[str]] = {}
    for host, why in sorted(failing.items()):
        hosts_by_reason.setdefault(" ".join(why.split()).rstrip("."), []).append(host)
    told = (f"on host {', nor on '.join(hosts)}: {why}" for why, hosts in hosts_by_reason.items())
    return f"no executor can start {'; nor '.join(told)}"


def unknown_lambda(found: ExplainedTask) -> str:
    """That the store has forgotten the lambda itself."""
    name = found.record.lambda_name
    return (
        f"the store does not know {name}, so not its limits and gates either, as after it has lost its data: nothing of it is"
        f" pushed. Start an executor whose app has it anew, or run atf lambda register MODULE:APP. Where atf lambda show {name} knows"
        " it, this part of the store is about to be told."
    )


def hosts_that_quarantine(found: ExplainedTask) -> str:
    """That every host of its pool takes no task of its lambda for now."""
    hosts, name = found.quarantined, found.record.lambda_name
    first = min(hosts, key=hosts.__getitem__)
    left = hosts[first] - found.now_us
    again = f"tries a task again in {duration(left)}" if left > 0 else "tries the next one"
    shown = caller().may_everywhere(Verb.READ)
    only = f"the only host, {first}, quarantines" if shown else "the only host quarantines"
    who = only if len(hosts) == 1 else f"all {len(hosts)} hosts quarantine"
    return (
        f"{who} {name}, since executors that ran its tasks died there one after the other; {first if shown else 'one of them'} {again}. The"
        " controller's log says why they died."
    )


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
    if any(turn.occupied for turn in turns) or all_quarantined(found):
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


def _named(neighbour: str) -> str:
    """A lambda of which somebody else asks."""
    return neighbour if caller().may(Verb.READ, neighbour) else "another lambda"


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
            f"{sentence}, which {_named(turn.lambda_name)} has for {left} at the most. {show}",
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
