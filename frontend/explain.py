"""Says why a task has not started: one word for programs, one sentence for an engineer who was just woken."""

from __future__ import annotations

from collections.abc import Sequence

from atf.rpc import frontend_pb2 as f
from atf.sdk.failure import sentence_of
from atf.store import keys
from atf.store.values.explained import ExplainedTask
from atf.store.values.lambdas import Gate
from atf.store.values.tasks import MisfitRecord, TaskRecord
from atf.task import Status

from . import view
from .explain_gates import claims_paused, gated, held_by_job, kept_back, pause_of
from .explain_words import ExplainAnswer, count, duration, is_are
from .explain_workers import all_quarantined, failing_hosts, hosts_that_quarantine, no_worker
from .waits import waits


def explain(
    found: ExplainedTask, gates: Sequence[Gate] | None = (), no_core: ExplainAnswer | None = None
) -> f.ExplainTaskReply:
    """The answer of ExplainTask.

    Args:
        found: what surrounds the task.
        gates: of its lambda, where one keeps it or the lambda is paused; None: they can't be read.
        no_core: that its lambda has no core, where it waits for nothing else (explain_workers.py).
    """
    answer = held_by_job(found) or gated(found, gates) or no_core or _answer(found, pause_of(found, gates))
    record, task = found.record, view.task(found.record)
    return f.ExplainTaskReply(
        task=task,
        reason=answer.reason,
        sentence=answer.sentence,
        until_us=answer.until_us,
        position=found.position,
        queue_depth=found.queue_depth,
        queue_limit=found.queue_limit,
        now_us=found.now_us,
        behind=found.behind,
        waits=waits(task, answer.reason, found.now_us, record.waited, record.late, found.pauses),
    )


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
        return kept_back(found, pause) or _unfit(found, record.misfit)
    if left > 0:
        return _not_yet(record, left)
    if kept := kept_back(found, pause) or claims_paused(found, "It is due") or no_worker(found, "It is due"):
        return kept
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
    if others and (paused := claims_paused(found, "There are executors whose signature it may fit")):
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
    if limit == "running":
        waits = (
            f"It is due and waits for a permit: {found.in_hand} of {number} tasks of {name} run or stand in its queues"
        )
        more = f". It is pushed when one of them ends; atf lambda set {name} max_running=… changes the limit."
        if found.in_hand < int(number):
            more = (
                ", and the partition that gives out permits has been asked. If this stays so, no store consumer is running, or a"
                " partition's server is away."
            )
        return ExplainAnswer("max_running", waits + more)
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
            return kept_back(found, pause) or _unfit(found, record.misfit)
        lost = record.next_at_us <= found.now_us  # or handed back, or never claimed
        if lost and found.waits_for.startswith(("rate=", "burst=")):
            return _short_of_permits(found)
        if lost and (kept := kept_back(found, pause)):
            return kept
        if paused := claims_paused(found, "A controller has taken it from its queue"):
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
    if kept := claims_paused(found, f"It is {place}") or no_worker(found, f"It is {place}"):
        return kept
    if all_quarantined(found):
        return ExplainAnswer(
            "quarantined", f"It is {place}, but {hosts_that_quarantine(found)}", min(found.quarantined.values())
        )
    return ExplainAnswer(
        "queued",
        f"It is due and {place}. Executors take it in its turn; if the position does not change, none that runs"
        f" {record.lambda_name} is free, or none is there.{failing_hosts(found)}",
    )


def _held(found: ExplainedTask) -> ExplainAnswer:
    record, now = found.record, found.now_us
    since = duration(now - record.moved_at_us.get(record.status, now))
    if record.status is Status.PROCESSING:
        reason, sentence = "running", f"Executor {record.owner} has been running it for {since}."
    else:
        reason = "claimed"
        sentence = f"Executor {record.owner} claimed it {since} ago and has not said yet that it started."
    if (left_us := record.next_at_us - now) > 0:
        sentence += f" Unless the executor renews it, its lease ends in {duration(left_us)}, and the task runs again."
    else:
        sentence += " Its lease has expired: it is about to be queued again."
    if record.cancel_requested:
        sentence += " Its cancellation was asked for; the executor is told with its next heartbeat."
    if record.last_run:
        sentence += " Its job was deleted: this run is the last one, however it ends."
    return ExplainAnswer(reason, sentence, record.next_at_us)


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
