"""Why no executor takes a task: nobody runs its lambda, its host can't start executors, or all of them have set it aside."""

from __future__ import annotations

from collections.abc import Mapping

from atf.store.values.explained import ExplainedTask
from atf.task import Status

from .explain_words import ExplainAnswer, duration


def waits_for_executors(found: ExplainedTask) -> bool:
    """Whether it stands in its queue, and nothing keeps it there."""
    queued = found.record.status is Status.ENQUEUED and found.in_queue
    return queued and not found.paused and found.pause is None and no_worker(found, "") is None


def all_set_aside(found: ExplainedTask) -> bool:
    """Whether every host of its pool sets its lambda aside."""
    return bool(found.aside) and len(found.aside) >= found.hosts


def no_worker(found: ExplainedTask, start: str) -> ExplainAnswer | None:
    """That no worker is there which would run it; None: some is, or that is not known."""
    if found.failing and not found.hosts:
        return ExplainAnswer(
            "cant_start",
            f"{start}, but {_cant_start(found.failing)}. Mend that, and start the host's controller again if it has ended.",
        )
    if not found.served and found.starting:
        hosts = ", ".join(found.starting)
        return ExplainAnswer(
            "starting", f"{start}; the executors on {hosts} are starting, and none has asked for work yet."
        )
    if not found.served:
        return ExplainAnswer("no_pool", f"{start}, but {_unserved(found)}")
    if found.not_run:
        return ExplainAnswer("not_served", f"{start}, but {_not_run(found)}{failing_hosts(found)}")
    return None


def failing_hosts(found: ExplainedTask) -> str:
    """Some hosts on which no executor can start, as one more sentence; empty: there are none."""
    return f" Besides, {_cant_start(found.failing)}." if found.failing else ""


def _cant_start(failing: Mapping[str, str]) -> str:
    hosts_by_reason: dict[str, list[str]] = {}
    for host, why in sorted(failing.items()):
        hosts_by_reason.setdefault(" ".join(why.split()).rstrip("."), []).append(host)
    told = (f"on host {', nor on '.join(hosts)}: {why}" for why, hosts in hosts_by_reason.items())
    return f"no executor can start {'; nor '.join(told)}"


def _unserved(found: ExplainedTask) -> str:
    if not found.unserved:
        return (
            f"{found.record.lambda_name} runs in no pool, and no live worker runs without one: start one with atf controller, or see"
            f" atf lambda set {found.record.lambda_name} pool=…"
        )
    return (
        f"{found.record.lambda_name} runs in the pool {found.unserved} alone, and no live worker belongs to it: start one with atf"
        f" controller --pool {found.unserved}, or see atf lambda set {found.record.lambda_name} pool=…"
    )


def _not_run(found: ExplainedTask) -> str:
    name = found.record.lambda_name
    return (
        f"no live worker of the pool that it runs in runs {name}: none of their executors has asked for its tasks lately. Start executors"
        f" there whose apps have it, or see atf lambda set {name} pool=…"
    )


def unknown_lambda(found: ExplainedTask) -> str:
    """That the store has forgotten the lambda itself."""
    name = found.record.lambda_name
    return (
        f"the store does not know {name}, so not its limits and gates either, as after it has lost its data: nothing of it is"
        f" pushed. Start an executor whose app has it anew, or run atf lambda register MODULE:APP. Where atf lambda show {name} knows"
        " it, this part of the store is about to be told."
    )


def hosts_that_set_aside(found: ExplainedTask) -> str:
    """That every host of its pool takes no task of its lambda for now."""
    hosts, name = found.aside, found.record.lambda_name
    first = min(hosts, key=hosts.__getitem__)
    left = hosts[first] - found.now_us
    again = f"tries a task again in {duration(left)}" if left > 0 else "tries the next one"
    who = f"the only host, {first}, sets" if len(hosts) == 1 else f"all {len(hosts)} hosts set"
    return (
        f"{who} {name} aside, since executors that ran its tasks died there one after the other; {first} {again}. The"
        " controller's log says why they died."
    )
