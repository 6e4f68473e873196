"""Which verb shows each field of each reply of the frontend: one without a decision fails, and none shows without read_payload what takes that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from atf.auth.caller import acting_for
from atf.auth.fields import HELD
from atf.auth.grants import Verb
from atf.errors import PermissionDenied
from atf.rpc import batch_pb2 as b, frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.store.values.claims import ClaimRenewal, HeldClaim, KeptRunLog, Outcome

from .conftest import Bench
from .test_permits import PHOTOS, of, token

SEEN: Final[Mapping[str, str]] = {
    "AuditEntry": "number at_us what lambda labels who why detail tasks task_count outcome",
    "AuditEntry.LabelsEntry": "key value",
    "Backoff": "base_us factor max_us jitter",
    "Batch": "id lambda status items created in_progress done failed permanently_failed cancelled sealed prefix created_at_us ended_at_us"
    " round spec cancel_requested now_us withheld",
    "BatchInfo": "id number follows",
    "BatchSpec": "lambda options labels max_in_flight pause_us workers callbacks affinity_key traceparent tracestate traced_at_us",
    "BatchSpec.LabelsEntry": "key value",
    "Callback": "when task gives parameter then unwrap as_batch",
    "CallerInfo": "name everything verbs scopes pools",
    "CancelMatchingReply": "matched cancelled requested looked_at of ids next_page_token",
    "CancelResult": "id status cancelled cancel_requested",
    "CancelTasksReply": "results",
    "Concurrency": "key limit policy",
    "ConcurrencyKeyInfo": "key taken limit waiting",
    "CountTasksReply": "at_us lambdas",
    "DeleteBatchReply": "existed",
    "DeleteJobReply": "existed",
    "DeleteJobsByPrefixReply": "deleted",
    "DeleteLambdaReply": "deleted waiting cancelled",
    "EndedRun": "owner started_at_us ended_at_us attempt",
    "Error": "code message reason retry_after_us",
    "ExplainTaskReply": "task reason until_us position queue_depth queue_limit now_us behind waits",
    "FailureGroup": "id lambda error_type place count first_at_us last_at_us task_id withheld",
    "FailurePolicy": "drop interval_us max_retries",
    "FindDaprAppReply": "address",
    "Gate": "lambda labels action delay_us share until_at_us who why automatic set_at_us waiting dropped number",
    "Gate.LabelsEntry": "key value",
    "GetLogReply": "runs status why_none",
    "GetStatusReply": "cluster_withheld now_us check_results memory claims_in_us partitions partitions_away roles hosts lambdas lambdas_known jobs more_jobs"
    " claims_paused counts",
    "GetStatusReply.CountsEntry": "key value",
    "Item": "number work_item_id task_id status result_encoding attempts chunk peer finished_at_us error_type withheld",
    "Job": "spec generation created_at_us next_tick_at_us ticks last_tick_at_us last_task_id last_status skipped skipped_why paused"
    " withheld",
    "JobSpec": "name task schedule due_time ttl repeats tz format gap fold misfire grace_us overlap failure_policy jitter_us retention_us"
    " base_at_us code",
    "JobWithoutCode": "name lambda why",
    "KeyInfo": "key stopped stopped_at_us task_id unfinished withheld",
    "LambdaCounts": "lambda counts",
    "LambdaCounts.CountsEntry": "key value",
    "LambdaInfo": "spec paused counts queues overrides in_force served",
    "LambdaInfo.CountsEntry": "key value",
    "LambdaInfo.OverridesEntry": "key value",
    "LambdaSpec": "name options queue_limit enqueue_timeout_us signature owner runbook rate burst max_pending max_running shares pool placement"
    " stop_on_fatal version gate_at_fatal schedule digest redact slo logs search",
    "LambdaSpec.SharesEntry": "key value",
    "LambdaStatus": "lambda paused gated served waiting later running due_since_us dead failed_recently failed_id retrying kept_by",
    "LiftGateReply": "lifted",
    "ListAuditReply": "entries before looked_at",
    "ListBatchItemsReply": "items next_page_token",
    "ListBatchesReply": "batches next_page_token",
    "ListConcurrencyKeysReply": "keys next_page_token",
    "ListFailuresReply": "groups next_page_token",
    "ListGatesReply": "gates",
    "ListJobsReply": "jobs next_page_token",
    "ListKeysReply": "keys next_page_token",
    "ListLambdasReply": "lambdas next_page_token claims_paused",
    "ListTasksReply": "tasks next_page_token looked_at of",
    "PreviewScheduleReply": "ticks_at_us",
    "QueueInfo": "name partition priority depth limit",
    "RedriveReply": "matched redriven looked_at errors ids next_page_token last_due_at_us of",
    "RedriveReply.ErrorsEntry": "value",
    "RegisterLambdasReply": "warnings",
    "ResumeKeyReply": "task_id retried",
    "RetryResult": "id status retried held_by",
    "RetryTasksReply": "results",
    "RunLog": "run attempt cut_bytes",
    "ScheduleBatchReply": "id stored items",
    "ScheduleJobResult": "job error",
    "ScheduleJobsReply": "results",
    "ScheduleManyReply": "results",
    "ScheduleReply": "id existed scheduled_at_us durability",
    "ScheduleResult": "reply error",
    "SkipKeyReply": "task_id",
    "Task": "id lambda priority status attempts losses runs scheduled_at_us next_at_us created_at_us enqueued_at_us claimed_at_us"
    " started_at_us finished_at_us owner cancel_requested result_encoding ended_runs spec fence failed_at_us error_type has_log"
    " withheld failure_group",
    "TaskOptions": "priority max_attempts max_losses timeout_us backoff retention_us",
    "TaskSpec": "lambda encoding options labels ordering_key tick concurrency unique affinity_key batch traceparent tracestate traced_at_us",
    "TaskSpec.LabelsEntry": "key value",
    "TickInfo": "job number at_us",
    "Unique": "key window_us policy",
    "WaitPart": "reason begun_us us",
    "WaitTasksReply": "tasks",
}
"""What `read` shows. Keys, labels and ids are addresses, and no place for secrets: docs/how-to/security.md says so."""
OF_CLUSTER: Final[Mapping[str, str]] = {
    "AccessToken": "id verbs scopes pools subject expires_us revoked_us created_us before_until_us by note",
    "Capacity": "pool cores groups queue beyond reserved lookahead max_retries hand_over_us reserved_timeout_us multiplexed_timeout_us"
    " rotation_us rotation rotated_at_us next_rotation_at_us now_us dropped timed_out away",
    "Capacity.ReservedEntry": "key value",
    "Core": "state lambda reserved group since_us until_us retries next_up_on_available next_up_on_time_out",
    "CoreClaim": "lambda core retries",
    "CoreGroup": "executors",
    "HostSignature": "lambda digests",
    "ListCapacityReply": "pools",
    "ListHostsReply": "hosts now_us",
    "ListTokensReply": "tokens",
    "QuarantinedLambda": "lambda until_us",
    "RotateSigningKeyReply": "made_at_us others_until_us",
    "RoleCount": "role version processes",
    "StoreCheckResult": "check state sentence",
    "StoreMemory": "where used_bytes max_bytes",
    "WorkerHost": "name pool until_us quarantined signatures executors draining drain_until_us why_not starting",
}
"""Messages that only who may read all namespaces is shown, or who has the verb admin for all."""

SECRET: Final = "hunter2"
READER: Final = token(Verb.READ, Verb.OPERATE)


def replies() -> dict[str, Descriptor]:
    """Every message that a reply holds, by name."""
    found: dict[str, Descriptor] = {}
    left = [each.output_type for each in f.DESCRIPTOR.services_by_name["Frontend"].methods]
    while left:
        message = left.pop()
        name = message.full_name.removeprefix("atf.v1.")
        if name not in found:
            found[name] = message
            left += [each.message_type for each in message.fields if each.message_type]
    return found


def test_for_each_field_of_each_reply_it_is_decided_which_verb_shows_it() -> None:
    for name, message in replies().items():
        decided = f"{HELD.get(name, '')} {SEEN.get(name, '')} {OF_CLUSTER.get(name, '')}".split()
        assert sorted(decided) == sorted(each.name for each in message.fields), name
    assert {*HELD, *SEEN, *OF_CLUSTER} <= replies().keys()
    assert not SEEN.keys() & OF_CLUSTER.keys()


def held_in(message: Message) -> Iterator[tuple[str, str]]:
    """What stands in fields that take read_payload, each with its name."""
    own = message.DESCRIPTOR.full_name.removeprefix("atf.v1.")
    for field, value in message.ListFields():
        if field.message_type is None:
            if field.name in HELD.get(own, "").split():
                yield f"{own}.{field.name}", str(value)
        elif field.message_type.GetOptions().map_entry:
            if (entry := f"{own}.{field.message_type.name}") in HELD:
                yield f"{entry}.key", str(list(value))
        else:
            for each in value if hasattr(value, "add") else [value]:
                yield from held_in(each)


@pytest.fixture
async def filled(bench: Bench) -> Bench:
    """A store with a secret in everything that may hold one."""
    await bench.register(stop_on_fatal=True)
    payload: dict[str, Any] = {"payload": f'{{"password": "{SECRET}"}}'.encode()}
    error = f'ValueError: {SECRET}\nTraceback (most recent call last):\n  File "{SECRET}"'
    await bench.finish(await bench.schedule("done", **payload), result=f'"{SECRET}"'.encode())
    await bench.finish(await bench.schedule("tries", **payload), Outcome.FAILED, error=error)
    log = KeptRunLog(1, 1, SECRET, 0)
    await bench.finish(
        await bench.schedule("failed", ordering_key="k", **payload), Outcome.FAILED_FATAL, error=error, log=log
    )
    (claim,) = await bench.claim(await bench.schedule("runs", **payload))
    await bench.store.heartbeat([ClaimRenewal(HeldClaim(claim.task_id, claim.counter, claim.nonce), True, SECRET)])
    job = j.JobSpec(name="photos/nightly", schedule="@every 1h", task=t.TaskSpec(**of("photos/thumbnail"), **payload))
    await bench.frontend.schedule_job(f.ScheduleJobRequest(job=job))

    async def messages() -> AsyncIterator[b.ScheduleBatchRequest]:
        yield b.ScheduleBatchRequest(header=b.BatchHeader(id="b", spec=b.BatchSpec(**of("photos/thumbnail"))))
        items = [b.BatchItem(payload=f'{{"a": "{SECRET}{number}"}}'.encode()) for number in range(2)]
        yield b.ScheduleBatchRequest(items=b.BatchItems(items=items))
        yield b.ScheduleBatchRequest(end=b.BatchEnd(items=2))

    await bench.frontend.schedule_batch(messages())
    (done, failed) = (await bench.frontend.list_batch_items(b.ListBatchItemsRequest(id="b"))).items
    await bench.finish(done.task_id, result=f'"{SECRET}"'.encode())
    await bench.finish(failed.task_id, Outcome.FAILED_FATAL, error=error)
    await bench.store.note_error("b", f"callback 1, photos/thumbnail: {SECRET}")
    return bench


async def shown(bench: Bench, ids: list[str]) -> list[Message]:
    """Every reply that shows a task, a job, a batch or a failure."""
    front, name = bench.frontend, of("photos/thumbnail")
    dead = f.TaskFilter(statuses=[t.FATAL_FAILURE])
    asked = [f.GetTaskRequest(id=each, with_spec=True, unredacted=True) for each in ids]
    return [
        *[await front.get_task(each) for each in asked],
        *[await front.explain_task(f.ExplainTaskRequest(id=each)) for each in ids],
        await front.list_tasks(f.ListTasksRequest(with_spec=True, unredacted=True)),
        await front.wait_tasks(f.WaitTasksRequest(ids=ids[:1])),
        await front.list_failures(f.ListFailuresRequest()),
        await front.list_keys(f.ListKeysRequest(**name)),
        await front.redrive(f.RedriveRequest(filter=dead, dry_run=True, who="me")),
        await front.get_job(f.GetJobRequest(name="photos/nightly", unredacted=True)),
        await front.list_jobs(f.ListJobsRequest(unredacted=True)),
        await front.pause_job(f.PauseJobRequest(name="photos/nightly")),
        await front.get_batch(b.GetBatchRequest(id="b", with_spec=True, unredacted=True)),
        await front.list_batches(b.ListBatchesRequest()),
        await front.list_batch_items(b.ListBatchItemsRequest(id="b", with_arguments=True, unredacted=True)),
        await anext(front.watch_batch(b.WatchBatchRequest(id="b"))),
        await front.get_status(f.GetStatusRequest()),
        await front.list_audit(f.ListAuditRequest()),
        await front.list_lambdas(f.ListLambdasRequest()),
    ]


async def test_what_tasks_hold_is_shown_by_read_payload_alone(filled: Bench) -> None:
    ids = [each.id for each in (await filled.frontend.list_tasks(f.ListTasksRequest())).tasks]
    failed = next(each for each in ids if each.endswith("-failed"))
    with acting_for(READER):
        for reply in await shown(filled, ids):
            assert SECRET.encode() not in reply.SerializeToString(), reply
        with pytest.raises(PermissionDenied):
            await filled.frontend.get_log(f.GetLogRequest(id=failed))
    with acting_for(PHOTOS):
        replies = [*await shown(filled, ids), await filled.frontend.get_log(f.GetLogRequest(id=failed))]
    held = {name for reply in replies for name, value in held_in(reply) if SECRET in value}
    assert held == {f"{name}.{each}" for name, fields in HELD.items() for each in fields.split()}, (
        "else nothing was tried"
    )
