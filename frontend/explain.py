"""Says why a task has not started: one word for programs, one sentence for an engineer who was just woken."""

from __future__ import annotations

from collections.abc import Sequence

from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import sentence_of
from atf.store import keys
from atf.store.values.explained import ExplainedTask
from atf.store.values.lambdas import Gate, GateAction
from atf.store.values.tasks import MisfitRecord, TaskRecord
from atf.task import WAITING, Status

from . import view
from .explain_words import ExplainAnswer, count, duration, is_are
from .explain_workers import all_set_aside, failing_hosts, hosts_that_set_aside, no_worker, unknown_lambda


def explain(
    found: ExplainedTask, gates: Sequence[Gate] | None = (), no_core: ExplainAnswer | None = None
) -> f.ExplainTaskReply:
    """The answer of ExplainTask.

    Args:
        found: what surrounds the task.
        gates: of its lambda, where one keeps it or the lambda is paused; None: they can't be read.
        no_core: that its lambda has no core, where it waits for nothing else (explain_cores.py).
    """
    answer = _held_by_job(found) or _gated(found, gates) or no_core or _answer(found, _pause_of(found, gates))
    return f.ExplainTaskReply(
        task=view.task(found.record),
        reason=answer.reason,
        sentence=answer.sentence,
        until_us=answer.until_us,
        position=found.position,
        queue_depth=found.queue_depth,
        queue_limit=found.queue_limit,
        now_us=found.now_us,
        behind=found.behind,
    )


def _held_by_job(found: ExplainedTask) -> ExplainAnswer | None:
    """A tick of a job that is paused."""
    record = found.record
    if not record.held or record.of_job is None or record.status not in WAITING:
        return None
    job = record.of_job.job
    return ExplainAnswer(
        "job_paused",
        f"It is a tick of the job {job}, which is paused: it waits until somebody runs atf job resume {job}.",
    )


def _gated(found: ExplainedTask, gates: Sequence[Gate] | None) -> ExplainAnswer | None:
    """Kept by a gate that looks at single tasks."""
    if not found.gate or found.record.status not in WAITING:
        return None
    if gates is None:
        return ExplainAnswer(
            "gated",
            "It is due, but a gate of its lambda keeps it. Which one can't be told while a server of the task store is away.",
        )
    gate = next((each for each in gates if each.number == found.gate), None)
    if gate is None:
        return ExplainAnswer("gated", "The gate that kept it was lifted or has ended; it is about to be let through.")
    until = f"for another {duration(gate.until_us - found.now_us)}" if gate.until_us else "until it is lifted"
    kind = {GateAction.PAUSE: "a pause", GateAction.ADMIT: f"a gate that admits {gate.amount * 100:g} %"}
    what = kind.get(gate.action, f"a delay by {duration(int(gate.amount))}")
    labels = ", ".join(f"{name}={gate.labels[name]}" for name in sorted(gate.labels))
    of = f"those with {labels}" if labels else "all its tasks"
    return ExplainAnswer(
        "gated",
        f"It is due, but a gate of its lambda keeps it: {what} of {of}, {until}{_said(gate)}. atf gate ls"
        f" {found.record.lambda_name} shows it.",
        gate.until_us,
    )


def _said(gate: Gate) -> str:
    by = f", set by {gate.who}" if gate.who else ""
    return by + (f" ({sentence_of(gate.why)})" if gate.why else "")


def _pause_of(found: ExplainedTask, gates: Sequence[Gate] | None) -> ExplainAnswer | None:
    """That its lambda is paused: what follows "It is due, but", and until when."""
    if not found.paused:
        return None
    name = found.record.lambda_name
    gate = next((each for each in gates or () if each.action is GateAction.PAUSE and not each.labels), None)
    if gate is None and gates is not None:
        return ExplainAnswer(
            "paused", "its lambda was paused until just now: it goes on with the next pass of a store consumer."
        )
    said, until_us = (_said(gate), gate.until_us) if gate else ("", 0)
    until = f"for another {duration(until_us - found.now_us)}, or until" if until_us else "until"
    sentence = f"its lambda is paused{said}: nothing of {name} starts {until} somebody runs atf resume {name}."
    return ExplainAnswer("paused", sentence, until_us)


def _answer(found: ExplainedTask, pause: ExplainAnswer | None) -> ExplainAnswer:
    match found.record.status:
        case Status.NEW | Status.RETRIABLE_FAILURE:
            return _waiting(found, pause)
        case Status.ENQUEUED:
            return _enqueued(found, pause)
        case Status.CLAIMED | Status.PROCESSING:
            return _held(found)
        case _:
            return _finished(found)


def _waiting(found: ExplainedTask, pause: ExplainAnswer | None) -> ExplainAnswer:
    """Not yet on its queue."""
    record, left = found.record, found.record.next_at_us - found.now_us
    if found.stopped_at:
        name, key = record.lambda_name, record.ordering_key
        return ExplainAnswer(
            "key_stopped",
            f"Its ordering key {key} has stopped, since task {found.stopped_at} failed for good. atf key resume {name} {key}"
            f" runs that task again, atf key skip {name} {key} goes on without it.",
        )
    if found.behind:
        return ExplainAnswer(
            "behind",
            f"Task {found.behind} has the same ordering key and was accepted earlier; this one waits until that one has"
            f" finished. {count(found.position, 'task')} of this key {is_are(found.position)} before it.",
        )
    if found.before >= 0:
        key, limit = keys.key_of(record.concurrency), record.concurrency.split(" ")[1]
        return ExplainAnswer(
            "key_busy",
            f"It waits for a slot of its concurrency key {key}: {found.slots_taken} of {limit} are taken, and"
            f" {count(found.before, 'task')} {is_are(found.before)} before it in the key's line.",
        )
    if record.misfit is not None and record.misfit.since_us and not (record.attempts and left > 0):
        return _kept_back(found, pause) or _unfit(found, record.misfit)
    if left > 0:
        return _not_yet(record, left)
    if kept := _kept_back(found, pause) or _claims_paused(found, "It is due"):
        return kept
    if no_worker_runs_it := no_worker(found, "It is due"):
        return no_worker_runs_it
    if found.queue_depth >= found.queue_limit:
        return ExplainAnswer(
            "queue_full",
            f"It is due, but its queue is full ({found.queue_depth} of {found.queue_limit}). It is pushed as soon as"
            " executors have made room. If the depth does not fall, look for executors that run"
            f" {record.lambda_name}.",
        )
    if found.waits_for:
        return _short_of_permits(found)
    return ExplainAnswer(
        "due",
        f"It became due {duration(-left)} ago and is about to be pushed onto its queue. If this stays so, no store"
        " consumer is running, or it can't reach the task store.",
    )


def _not_yet(record: TaskRecord, left_us: int) -> ExplainAnswer:
    """Its instant has not come."""
    left = duration(left_us)
    if record.status is Status.RETRIABLE_FAILURE:
        sentence = f"Attempt {record.attempts} failed ({sentence_of(record.error)}). The next one is due in {left}."
        return ExplainAnswer("backing_off", sentence, record.next_at_us)
    if record.ended_runs and record.next_at_us > record.scheduled_at_us:
        sentence = f"Its last run did not end it ({sentence_of(record.ended_runs[-1].why)}). It runs again in {left}."
        return ExplainAnswer("put_off", sentence, record.next_at_us)
    return ExplainAnswer("not_due", f"It is not due yet: it was scheduled for {left} from now.", record.next_at_us)


def _unfit(found: ExplainedTask, misfit: MisfitRecord) -> ExplainAnswer:
    """Its payload did not fit the executors that took it, and waits for others."""
    others = [each for each in found.signatures if each not in misfit.digests]
    since, left = duration(found.now_us - misfit.since_us), misfit.until_us - found.now_us
    met = f"It has waited for {since}, and does not fit {_signatures(misfit.digests)}."
    if others and (paused := _claims_paused(found, "There are executors whose signature it may fit")):
        return paused
    if others:
        now = f"{_signatures(others).capitalize()} {'runs' if len(others) == 1 else 'run'} now, too: it is offered to those executors."
    else:
        alive = f"{_signatures(found.signatures)} alone" if found.signatures else "no executor with a signature of it"
        now = f"Now there {'is' if not found.signatures or len(found.signatures) == 1 else 'are'} {alive}."
        until = f"in {duration(left)}" if left > 0 else "at its next look"
        if not misfit.until_us:
            until = "when deploy_grace is over, which begins at the next look"
        now += (
            f" If that stays so, this is a failed attempt {until}. Deploy code that takes this payload (aliases of @app.task give a"
            " renamed parameter its old name, too), or cancel the task."
        )
    return ExplainAnswer("misfit", f"{sentence_of(misfit.error)}. {met} {now}", 0 if others else misfit.until_us)


def _signatures(digests: Sequence[str]) -> str:
    return f"{'signature' if len(digests) == 1 else 'signatures'} {', '.join(digests)}"


def _short_of_permits(found: ExplainedTask) -> ExplainAnswer:
    """Its lambda's limits keep it back."""
    name, (limit, _, number) = found.record.lambda_name, found.waits_for.partition("=")
    if limit == "running" and found.in_hand < int(number):
        return ExplainAnswer(
            "max_running",
            f"It is due and waits for a permit: {found.in_hand} of {number} tasks of {name} run or stand in its queues, and the partition"
            " that gives out permits has been asked. If this stays so, no store consumer is running, or a partition's server is away.",
        )
    if limit == "running":
        return ExplainAnswer(
            "max_running",
            f"It is due and waits for a permit: {found.in_hand} of {number} tasks of {name} run or stand in its queues. It is"
            f" pushed when one of them ends; atf lambda set {name} max_running=… changes the limit.",
        )
    if limit == "burst":
        return ExplainAnswer(
            "rate",
            f"It is due and waits for its turn: no second sees more than {count(int(number), 'task')} of {name}, since its burst is below its rate."
            f" atf lambda set {name} burst=… changes the limit, and burst=none leaves the rate alone.",
        )
    return ExplainAnswer(
        "rate",
        f"It is due and waits for its turn: {name} is limited to {number} tasks a second. atf lambda set {name} rate=… changes the"
        " limit.",
    )


def _enqueued(found: ExplainedTask, pause: ExplainAnswer | None) -> ExplainAnswer:
    record = found.record
    if not found.in_queue:
        if record.misfit is not None and record.misfit.since_us:
            return _kept_back(found, pause) or _unfit(found, record.misfit)
        lost = record.next_at_us <= found.now_us  # or handed back, or never claimed
        if lost and found.waits_for.startswith(("rate=", "burst=")):
            return _short_of_permits(found)
        if lost and (kept := _kept_back(found, pause)):
            return kept
        if paused := _claims_paused(found, "A controller has taken it from its queue"):
            return paused
        return ExplainAnswer(
            "between",
            "A controller has taken it from its queue and is about to claim it for an executor. If nobody claims it, it is"
            f" pushed again in {duration(record.next_at_us - found.now_us)}.",
            record.next_at_us,
        )
    place = f"at position {found.position} of {found.queue_depth} in its queue (0 is the front)"
    if pause:
        return pause._replace(sentence=f"It is {place}, but {pause.sentence}")
    if paused := _claims_paused(found, f"It is {place}"):
        return paused
    if no_worker_runs_it := no_worker(found, f"It is {place}"):
        return no_worker_runs_it
    if all_set_aside(found):
        return ExplainAnswer(
            "set_aside", f"It is {place}, but {hosts_that_set_aside(found)}", min(found.aside.values())
        )
    return ExplainAnswer(
        "queued",
        f"It is due and {place}. Executors take it in its turn; if the position does not change, none that runs"
        f" {record.lambda_name} is free, or none is there.{failing_hosts(found)}",
    )


def _held(found: ExplainedTask) -> ExplainAnswer:
    record, now = found.record, found.now_us
    if record.status is Status.PROCESSING:
        since = duration(now - record.moved_at_us.get(Status.PROCESSING, now))
        answer = ExplainAnswer("running", f"Executor {record.owner} has been running it for {since}.")
    else:
        since = duration(now - record.moved_at_us.get(Status.CLAIMED, now))
        answer = ExplainAnswer(
            "claimed", f"Executor {record.owner} claimed it {since} ago and has not said yet that it started."
        )
    sentence = answer.sentence + _lease(record.next_at_us - now)
    if record.cancel_requested:
        sentence += " Its cancellation was asked for; the executor is told with its next heartbeat."
    if record.last_run:
        sentence += " Its job was deleted: this run is the last one, however it ends."
    return ExplainAnswer(answer.reason, sentence, record.next_at_us)


def _lease(left_us: int) -> str:
    if left_us <= 0:
        return " Its lease has expired: it is about to be queued again."
    return f" Unless the executor renews it, its lease ends in {duration(left_us)}, and the task runs again."


def _finished(found: ExplainedTask) -> ExplainAnswer:
    record = found.record
    ago = f"{duration(found.now_us - record.moved_at_us.get(record.status, found.now_us))} ago"
    match record.status:
        case Status.SUCCESS:
            sentence = f"It succeeded {ago}, at attempt {record.attempts}."
        case Status.CANCELLED:
            sentence = f"It was cancelled {ago}. atf retry {record.id} starts it afresh."
        case _:
            sentence = (
                f"It failed for good {ago}, after {count(record.attempts, 'attempt')} and"
                f" {count(record.losses, 'lost run')}: {sentence_of(record.error) or 'no error was recorded'}."
                f" atf retry {record.id} starts it afresh."
            )
            if found.stopped_at == record.id:
                sentence += (
                    f" Its ordering key {record.ordering_key} has stopped at it: atf key skip {record.lambda_name}"
                    f" {record.ordering_key} goes on without it."
                )
    return ExplainAnswer("finished", sentence)


def _kept_back(found: ExplainedTask, pause: ExplainAnswer | None) -> ExplainAnswer | None:
    """That nothing is pushed of its lambda."""
    if pause:
        return pause._replace(sentence=f"It is due, but {pause.sentence}")
    if found.unknown:
        return ExplainAnswer("not_registered", f"It is due, but {unknown_lambda(found)}")
    return None


def _claims_paused(found: ExplainedTask, start: str) -> ExplainAnswer | None:
    """That no task of its partition starts; None: they do. Ask this first: what is known of workers may date from before a restart."""
    if found.pause is None:
        return None
    until_us = 0 if found.pause.unseen else found.now_us + found.pause.left_us
    return ExplainAnswer("claims_paused", f"{start}, but {found.pause.sentence}.", until_us)
