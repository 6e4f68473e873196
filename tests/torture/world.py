"""All services of ATF behind one real server, on the real store functions over fakeredis, for callers that send any bytes."""

from __future__ import annotations

import contextlib
import itertools
import pickle
from collections.abc import AsyncIterator
from typing import Any, Final, NamedTuple, cast

import fakeredis
import grpc
import grpc.aio
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from atf.config.settings import FrontendSettings, StoreSettings, Timing
from atf.frontend.dapr.runtime import DaprRuntime
from atf.frontend.dapr.scheduler import SERVICE, SchedulerService
from atf.rpc import (
    batch_pb2 as b,
    controller_pb2 as c,
    dapr_runtime_pb2 as d,
    dapr_scheduler_pb2 as ds,
    frontend_pb2 as f,
    hsc_pb2 as h,
    job_pb2 as j,
    store_consumer_pb2 as s,
    task_pb2 as t,
)
from atf.rpc.lambda_sets import LambdaSet
from atf.rpc.server import Service, serve
from atf.runtime import SystemRuntime, end
from atf.store.store import Store
from atf.store_consumer.service import PollService
from atf.testing.wiring import Wiring
from tests.asking import asks
from tests.quick_fakeredis.inside import keys_of

SERVICES = [
    f.DESCRIPTOR.services_by_name["Frontend"],
    h.DESCRIPTOR.services_by_name["HSC"],
    c.DESCRIPTOR.services_by_name["Controller"],
    s.DESCRIPTOR.services_by_name["StoreConsumer"],
]
DAPR = d.DESCRIPTOR.services_by_name["Dapr"]
SCHEDULER = ds.DESCRIPTOR.services_by_name["Scheduler"]
METHODS: dict[str, MethodDescriptor] = {
    f"{service.name}.{name}": method
    for service in (*SERVICES, DAPR, SCHEDULER)
    for name, method in service.methods_by_name.items()
    if not name.endswith("Alpha1")  # the same by another name
    and not (method.server_streaming or method.client_streaming)  # test_watch.py and test_batches.py have the streams
}
LAMBDA = "photos/thumbnail"
UNUSED = "photos/unused"
"""A lambda that nothing names."""
JOB = "photos/nightly"
BATCH = "nightly"
EXECUTOR = "executor-1"
NONCE = "nonce-1"

OK = grpc.StatusCode.OK
INVALID = grpc.StatusCode.INVALID_ARGUMENT
NOT_FOUND = grpc.StatusCode.NOT_FOUND
TAKEN = grpc.StatusCode.ALREADY_EXISTS
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
LATE = grpc.StatusCode.DEADLINE_EXCEEDED
TOO_LARGE = grpc.StatusCode.RESOURCE_EXHAUSTED

SAID: Any = {"who": "ada", "why": "it rains"}
"""Who asks, and why."""
READING = ("Get", "List", "Explain", "Preview", "Find")
"""What methods begin with that change nothing in the store."""

NOT_SENT = "Internal error from Core"
"""What grpc.aio says where it could not send a message; see atf/rpc/channel.py."""
PATIENCE_S = 50.0
"""For a call that is answered at once: how long that takes on a busy machine is no matter of these tests."""


class Answer(NamedTuple):
    """What a call came to."""

    code: grpc.StatusCode
    sentence: str
    reply: bytes = b""


TOKEN_ID: Final = "abcdefghij"


def token(**fields: Any) -> f.CreateTokenRequest:
    """A token to make, of an id that is not the one which is there."""
    usual = {"id": "klmnopqrst", "digest": "a" * 64, "verbs": ["read"], "scopes": ["photos"]}
    return f.CreateTokenRequest(**{**usual, **fields}, **SAID)


class World:
    """A caller's view of the server, and an observer's of the store."""

    def __init__(self, store: Store, fake: Any, channel: grpc.aio.Channel, runtime: SystemRuntime) -> None:
        self.store = store
        self.runtime = runtime
        self.fake = fake
        self.channel = channel
        self._ids = itertools.count()
        self.known: dict[bytes, bytes] = {}
        """What was stored when it was looked at last, where nothing was taken since."""
        self.new = ""
        self.held = t.ClaimRef()

    async def send(self, method: str, data: bytes, timeout: float = PATIENCE_S) -> Answer:
        """A call with these bytes."""
        found = METHODS[method]
        service = found.containing_service.full_name.replace("atf.dapr.scheduler.", "dapr.proto.scheduler.v1.")
        call = self.channel.unary_unary(f"/{service}/{found.name}")
        try:
            return Answer(OK, "", await call(data, timeout=timeout))
        except grpc.aio.AioRpcError as error:
            return Answer(error.code(), error.details() or "")

    async def stream(self, *messages: bytes) -> Answer:
        """A call of ScheduleBatch."""

        async def each() -> AsyncIterator[bytes]:
            for message in messages:
                yield message

        call = self.channel.stream_unary("/atf.v1.Frontend/ScheduleBatch")
        while True:
            try:
                return Answer(OK, "", await call(each(), timeout=PATIENCE_S))
            except grpc.aio.AioRpcError as error:
                # Seldom, where the server has ended the call before all was sent: its reason is lost, and the call is made again.
                if error.details() != NOT_SENT:
                    return Answer(error.code(), error.details() or "")

    async def ask(self, method: str, request: Message, timeout: float = PATIENCE_S) -> Answer:
        return await self.send(method, request.SerializeToString(), timeout)

    async def answer(self, method: str, request: Message) -> Any:
        """The reply to a call that must succeed."""
        answer = await self.ask(method, request)
        assert answer.code is OK, answer
        return GetMessageClass(METHODS[method].output_type).FromString(answer.reply)

    def stored(self) -> dict[bytes, bytes]:
        """Everything that is in the store: what fakeredis holds under each key, read past its commands, which took longer than the calls."""
        return {key: pickle.dumps(item.value) for key, item in keys_of(self.fake).items()}

    async def settle(self) -> None:
        """Tasks to speak of: one that is new, one that is held."""
        await self.answer(
            "Frontend.RegisterLambdas",
            f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=LAMBDA, search=["order"]), f.LambdaSpec(name=UNUSED)]),
        )
        self.new = (await self.answer("Frontend.Schedule", schedule("new", delay_us=3_600_000_000))).id
        await self.answer("Frontend.ScheduleJob", f.ScheduleJobRequest(job=full_job(JOB)))
        await self.answer("Dapr.ScheduleJob", d.ScheduleJobRequest(job=dapr_job("nightly")))
        await self.answer("Scheduler.ScheduleJob", reminder("nightly"))
        await self.answer("Frontend.SetCapacity", f.SetCapacityRequest(cores=2))
        await self.answer("Frontend.CreateToken", token(id=TOKEN_ID))
        await self.store.serve("gpu", 3_600, "host-1")
        made = await self.stream(*(each.SerializeToString() for each in full_batch(BATCH)))
        assert made.code is OK, made
        running = (await self.answer("Frontend.Schedule", schedule("running"))).id
        for partition in range(self.store.partitions):
            await self.store.enqueue(partition, 0)
        claims: dict[str, t.Claim] = {}
        while running not in claims:  # an answer is of one partition
            asked = await self.answer("HSC.NextClaims", next_claims(nonce=f"{NONCE}{len(claims)}"))
            claims |= {each.task_id: each for each in asked.claims}
        self.held = t.ClaimRef(task_id=running, token=claims[running].token)

    def fresh(self) -> str:
        """An id that no task has."""
        return f"fresh-{next(self._ids)}"

    def valid(self, method: str) -> Message:
        """A request of this method that is taken, with every field set."""
        made: Message = getattr(_Valid, method.replace(".", "_"))(self)
        return made


def next_claims(**fields: Any) -> h.NextClaimsRequest:
    """A call of NextClaims of one executor that runs one lambda."""
    said = {"executor_id": EXECUTOR, "nonce": NONCE, "wait_us": 5_000_000}
    return asks(LAMBDA, signature="aaa", **{**said, **fields})


def schedule(task_id: str, *, delay_us: int = 0, **spec: Any) -> f.ScheduleRequest:
    return f.ScheduleRequest(id=task_id, spec=t.TaskSpec(**{"lambda": LAMBDA, **spec}), delay_us=delay_us)


def full_schedule(task_id: str) -> f.ScheduleRequest:
    spec = {"payload": b'{"path":"a"}', "labels": {"team": "web"}, "ordering_key": "customer-1", "affinity_key": "a"}
    return schedule(task_id, delay_us=1, options=options(), **spec)


def full_job(name: str) -> j.JobSpec:
    spec = t.TaskSpec(payload=b"{}", labels={"team": "web"}, options=t.TaskOptions(priority=2))
    setattr(spec, "lambda", LAMBDA)
    return j.JobSpec(
        name=name,
        task=spec,
        schedule="0 30 2 * * *",
        due_time="1h",
        ttl="P1Y",
        repeats=5,
        misfire=j.ALL,
        grace_us=9,
        overlap=j.ALLOW,
        failure_policy=j.FailurePolicy(interval_us=1, max_retries=2),
        jitter_us=3,
        retention_us=60_000_000,
    )


def full_batch(batch_id: str) -> list[b.ScheduleBatchRequest]:
    """The messages of a batch of one item, with every field set that goes with the others."""
    given: dict[str, Any] = {"lambda": LAMBDA, "labels": {"team": "web"}, "options": options(), "affinity_key": "a"}
    task = t.TaskSpec(**given, payload=b"{}")
    callback = b.Callback(when=b.Callback.COMPLETION, task=task, gives=b.Callback.RESULTS, parameter="all", unwrap=True)
    callback.then.append(b.Callback(when=b.Callback.ANY_FAILURE, task=task, gives=b.Callback.NOTHING))
    spec = b.BatchSpec(**given, callbacks=[callback], max_in_flight=3, pause_us=5)
    header = b.BatchHeader(id=batch_id, spec=spec, durability=t.RELAXED)
    item = b.BatchItem(payload=b'{"path":"a"}', arguments=["a"], target="t")
    return [
        b.ScheduleBatchRequest(header=header),
        b.ScheduleBatchRequest(items=b.BatchItems(items=[item])),
        b.ScheduleBatchRequest(end=b.BatchEnd(items=1)),
    ]


def options() -> t.TaskOptions:
    backoff = t.Backoff(base_us=1, factor=2, max_us=9, jitter=0.5)
    return t.TaskOptions(
        priority=1, max_attempts=3, max_losses=2, timeout_us=5, retention_us=60_000_000, backoff=backoff
    )


def dapr_job(name: str) -> d.Job:
    policy = d.JobFailurePolicy(constant=d.JobFailurePolicyConstant(interval={"seconds": 1, "nanos": 1}, max_retries=2))
    data = {"type_url": "type.googleapis.com/google.protobuf.StringValue", "value": b"x"}
    timing = {"schedule": "@every 1h", "repeats": 3, "due_time": "1h", "ttl": "10h"}
    return d.Job(name=name, data=data, failure_policy=policy, **timing)  # type: ignore[arg-type]


def reminder(name: str) -> ds.ScheduleJobRequest:
    policy = {"constant": {"interval": {"seconds": 1, "nanos": 1}, "max_retries": 2}}
    data = {"type_url": "type.googleapis.com/google.protobuf.StringValue", "value": b"x"}
    timing = {"schedule": "@every 1h", "repeats": 3, "due_time": "1h", "ttl": "10h"}
    job = ds.Job(data=data, failure_policy=policy, **timing)  # type: ignore[arg-type]
    return ds.ScheduleJobRequest(name=name, job=job, metadata=of_actor(), overwrite=True)


def of_actor(kind: str = "Cat") -> ds.JobMetadata:
    target = ds.JobTargetMetadata(actor=ds.TargetActorReminder(type=kind, id="7"))
    return ds.JobMetadata(app_id="billing", namespace="prod", target=target, concurrency_key="key")


def lambda_spec() -> f.LambdaSpec:
    return f.LambdaSpec(
        name="other/one",
        options=options(),
        queue_limit=5,
        enqueue_timeout_us=1_000_000,
        signature="(path: str)",
        redact=["path"],
        search=["order"],
        owner="web team",
        runbook="https://wiki/thumbnails",
        rate=100.5,
        burst=200,
        max_pending=1_000,
        max_running=5,
        shares={0: 0.5, 2: 0.1},
        pool="gpu",
        placement=f.STICKY,
        stop_on_fatal=True,
        version=7,
        gate_at_fatal=0.5,
        slo="5s 99%",
    )


def _full_filter(status: t.Status) -> f.TaskFilter:
    asked = f.TaskFilter(
        **cast("Any", {"lambda": LAMBDA}), statuses=[status], key="k", labels={"a": "b"}, priorities=[1]
    )
    asked.error_type, asked.since_at_us, asked.until_at_us = "TimeoutError", 1, 2
    asked.search["order"] = "7"
    return asked


class _Valid:
    """A full request by method, made by functions of the methods' names."""

    @staticmethod
    def Frontend_Schedule(w: World) -> Message:  # noqa: N802
        return full_schedule(w.fresh())

    @staticmethod
    def Frontend_ScheduleMany(w: World) -> Message:  # noqa: N802
        return f.ScheduleManyRequest(requests=[full_schedule(w.fresh())])

    @staticmethod
    def Frontend_GetTask(w: World) -> Message:  # noqa: N802
        return f.GetTaskRequest(id=w.new, with_spec=True)

    @staticmethod
    def Frontend_ListTasks(_w: World) -> Message:  # noqa: N802
        return f.ListTasksRequest(filter=_full_filter(t.NEW), page_size=5)

    @staticmethod
    def Frontend_CountTasks(_w: World) -> Message:  # noqa: N802
        return f.CountTasksRequest(**{"lambda": LAMBDA})

    @staticmethod
    def Frontend_CancelMatching(_w: World) -> Message:  # noqa: N802
        return f.CancelMatchingRequest(filter=_full_filter(t.NEW), dry_run=True, **SAID)

    @staticmethod
    def Frontend_WaitTasks(w: World) -> Message:  # noqa: N802
        return f.WaitTasksRequest(ids=[w.new], timeout_us=1, all=True)

    @staticmethod
    def Frontend_CancelTasks(w: World) -> Message:  # noqa: N802
        return f.CancelTasksRequest(ids=[w.new], **SAID)

    @staticmethod
    def Frontend_RetryTasks(w: World) -> Message:  # noqa: N802
        return f.RetryTasksRequest(ids=[w.new], **SAID)

    @staticmethod
    def Frontend_RegisterLambdas(_w: World) -> Message:  # noqa: N802
        return f.RegisterLambdasRequest(lambdas=[lambda_spec()], **SAID)

    @staticmethod
    def Frontend_ListLambdas(_w: World) -> Message:  # noqa: N802
        return f.ListLambdasRequest(page_size=1, page_token=LAMBDA, **{"lambda": LAMBDA})

    @staticmethod
    def Frontend_PauseLambda(_w: World) -> Message:  # noqa: N802
        return f.PauseLambdaRequest(**{"lambda": LAMBDA}, who="ada", why="it rains")

    @staticmethod
    def Frontend_ResumeLambda(_w: World) -> Message:  # noqa: N802
        return f.ResumeLambdaRequest(**{"lambda": LAMBDA}, who="ada", why="it is dry")

    @staticmethod
    def Frontend_SetGate(_w: World) -> Message:  # noqa: N802
        said = {"lambda": LAMBDA, "who": "ada", "why": "it rains", "labels": {"team": "none"}}
        return f.SetGateRequest(**said, action=f.Gate.DELAY, delay_us=9, for_us=9, request_id="r")  # type: ignore[arg-type]

    @staticmethod
    def Frontend_LiftGate(_w: World) -> Message:  # noqa: N802
        said = {"lambda": LAMBDA, "who": "ada", "why": "it is dry", "labels": {"team": "none"}}
        return f.LiftGateRequest(**said, action=f.Gate.DELAY)  # type: ignore[arg-type]

    @staticmethod
    def Frontend_Redrive(_w: World) -> Message:  # noqa: N802
        asked = _full_filter(t.FATAL_FAILURE)
        return f.RedriveRequest(filter=asked, error="x", rate=1.5, dry_run=True, page_token="1/0/", **SAID)

    @staticmethod
    def Frontend_ListGates(_w: World) -> Message:  # noqa: N802
        return f.ListGatesRequest(**{"lambda": LAMBDA})

    @staticmethod
    def Frontend_ListFailures(_w: World) -> Message:  # noqa: N802
        return f.ListFailuresRequest(
            **{"lambda": LAMBDA}, since_at_us=1, page_size=5, page_token=f"9/{LAMBDA}:!0123456789ab"
        )

    @staticmethod
    def Frontend_ListAudit(_w: World) -> Message:  # noqa: N802
        return f.ListAuditRequest(
            **{"lambda": LAMBDA},
            page_size=5,
            before=9,
            who="ada",
            what="x",
            task_id="0-a",
            since_at_us=1,
            until_at_us=2,
        )

    @staticmethod
    def Frontend_SetLambda(_w: World) -> Message:  # noqa: N802
        return f.SetLambdaRequest(**{"lambda": LAMBDA}, set={"pool": "gpu"}, unset=["owner"], **SAID)

    @staticmethod
    def Frontend_ExplainTask(w: World) -> Message:  # noqa: N802
        return f.ExplainTaskRequest(id=w.new)

    @staticmethod
    def Frontend_GetLog(w: World) -> Message:  # noqa: N802
        return f.GetLogRequest(id=w.new)

    @staticmethod
    def Frontend_ListKeys(_w: World) -> Message:  # noqa: N802
        return f.ListKeysRequest(**{"lambda": LAMBDA}, page_size=5)

    @staticmethod
    def Frontend_ListConcurrencyKeys(_w: World) -> Message:  # noqa: N802
        return f.ListConcurrencyKeysRequest(**{"lambda": LAMBDA}, page_size=5)

    @staticmethod
    def Frontend_ResumeKey(_w: World) -> Message:  # noqa: N802
        return f.ResumeKeyRequest(**{"lambda": LAMBDA}, key="customer-1", task_id="0-a", **SAID)

    @staticmethod
    def Frontend_SkipKey(_w: World) -> Message:  # noqa: N802
        return f.SkipKeyRequest(**{"lambda": LAMBDA}, key="customer-1", task_id="0-a", **SAID)

    @staticmethod
    def Frontend_SetCapacity(_w: World) -> Message:  # noqa: N802
        return f.SetCapacityRequest(
            pool="",
            cores=4,
            reserve={LAMBDA: 1},
            lookahead=2,
            max_retries=1,
            hand_over_us=1_000_000,
            reserved_timeout_us=2_000_000,
            multiplexed_timeout_us=3_000_000,
            rotation_us=4_000_000,
            **SAID,
        )

    @staticmethod
    def Frontend_GetCapacity(_w: World) -> Message:  # noqa: N802
        return f.GetCapacityRequest(pool="")

    @staticmethod
    def Frontend_ListCapacity(_w: World) -> Message:  # noqa: N802
        return f.ListCapacityRequest()

    @staticmethod
    def Frontend_GetBatch(_w: World) -> Message:  # noqa: N802
        return b.GetBatchRequest(id=BATCH, with_spec=True)

    @staticmethod
    def Frontend_ListBatches(_w: World) -> Message:  # noqa: N802
        return b.ListBatchesRequest(**{"lambda": LAMBDA}, page_size=5, page_token="1:0:b")

    @staticmethod
    def Frontend_ListBatchItems(_w: World) -> Message:  # noqa: N802
        return b.ListBatchItemsRequest(id=BATCH, page_size=5, with_arguments=True)

    @staticmethod
    def Frontend_CancelBatch(_w: World) -> Message:  # noqa: N802
        return b.CancelBatchRequest(id=BATCH, **SAID)

    @staticmethod
    def Frontend_RetryBatch(_w: World) -> Message:  # noqa: N802
        return b.RetryBatchRequest(id=BATCH, **SAID)

    @staticmethod
    def Frontend_DeleteBatch(_w: World) -> Message:  # noqa: N802
        return b.DeleteBatchRequest(id="none", **SAID)

    @staticmethod
    def Frontend_DrainHost(_w: World) -> Message:  # noqa: N802
        return f.DrainHostRequest(host="host-1", who="ada", why="it rains")

    @staticmethod
    def Frontend_CreateToken(_w: World) -> Message:  # noqa: N802
        return token(pools=["gpu"], note="web", expires_in_us=1)

    @staticmethod
    def Frontend_GetCaller(_w: World) -> Message:  # noqa: N802
        return f.GetCallerRequest()

    @staticmethod
    def Frontend_ListTokens(_w: World) -> Message:  # noqa: N802
        return f.ListTokensRequest()

    @staticmethod
    def Frontend_RotateToken(_w: World) -> Message:  # noqa: N802
        return f.RotateTokenRequest(id=TOKEN_ID, digest="b" * 64, overlap_us=1, **SAID)

    @staticmethod
    def Frontend_RotateSigningKey(_w: World) -> Message:  # noqa: N802
        return f.RotateSigningKeyRequest(**SAID)

    @staticmethod
    def Frontend_RevokeToken(_w: World) -> Message:  # noqa: N802
        return f.RevokeTokenRequest(id=TOKEN_ID, **SAID)

    @staticmethod
    def Frontend_DeleteLambda(_w: World) -> Message:  # noqa: N802
        return f.DeleteLambdaRequest(**{"lambda": UNUSED}, who="ada", why="it rains", cancel_waiting=True, dry_run=True)

    @staticmethod
    def Frontend_GetStatus(_w: World) -> Message:  # noqa: N802
        return f.GetStatusRequest()

    @staticmethod
    def Frontend_ListHosts(_w: World) -> Message:  # noqa: N802
        return f.ListHostsRequest()

    @staticmethod
    def Frontend_ScheduleJob(w: World) -> Message:  # noqa: N802
        return f.ScheduleJobRequest(job=full_job(f"photos/{w.fresh()}"), overwrite=True, request_id=w.fresh(), **SAID)

    @staticmethod
    def Frontend_ScheduleJobs(w: World) -> Message:  # noqa: N802
        request = f.ScheduleJobRequest(
            job=full_job(f"photos/{w.fresh()}"), overwrite=True, request_id=w.fresh(), **SAID
        )
        return f.ScheduleJobsRequest(requests=[request])

    @staticmethod
    def Frontend_GetJob(_w: World) -> Message:  # noqa: N802
        return f.GetJobRequest(name=JOB)

    @staticmethod
    def Frontend_ListJobs(_w: World) -> Message:  # noqa: N802
        return f.ListJobsRequest(prefix="photos/", page_size=5, page_token="0:")

    @staticmethod
    def Frontend_DeleteJob(_w: World) -> Message:  # noqa: N802
        return f.DeleteJobRequest(name="photos/none", **SAID)

    @staticmethod
    def Frontend_DeleteJobsByPrefix(_w: World) -> Message:  # noqa: N802
        return f.DeleteJobsByPrefixRequest(prefix="photos/none", **SAID)

    @staticmethod
    def Frontend_PauseJob(_w: World) -> Message:  # noqa: N802
        return f.PauseJobRequest(name=JOB, **SAID)

    @staticmethod
    def Frontend_ResumeJob(_w: World) -> Message:  # noqa: N802
        return f.ResumeJobRequest(name=JOB, **SAID)

    @staticmethod
    def Frontend_RunJobNow(w: World) -> Message:  # noqa: N802
        return f.RunJobNowRequest(name=JOB, task_id=w.fresh(), **SAID)

    @staticmethod
    def Frontend_PreviewSchedule(_w: World) -> Message:  # noqa: N802
        return f.PreviewScheduleRequest(job=full_job("photos/none"), from_at_us=1, count=2)

    @staticmethod
    def Frontend_FindDaprApp(_w: World) -> Message:  # noqa: N802
        return f.FindDaprAppRequest(app_id="orders")

    @staticmethod
    def Dapr_ScheduleJob(w: World) -> Message:  # noqa: N802
        return d.ScheduleJobRequest(job=dapr_job(w.fresh()), overwrite=True)

    @staticmethod
    def Dapr_GetJob(_w: World) -> Message:  # noqa: N802
        return d.GetJobRequest(name="nightly")

    @staticmethod
    def Dapr_ListJobs(_w: World) -> Message:  # noqa: N802
        return d.ListJobsRequest()

    @staticmethod
    def Dapr_DeleteJob(_w: World) -> Message:  # noqa: N802
        return d.DeleteJobRequest(name="none")

    @staticmethod
    def Dapr_DeleteJobsByPrefix(_w: World) -> Message:  # noqa: N802
        return d.DeleteJobsByPrefixRequest(name_prefix="none")

    @staticmethod
    def Scheduler_ScheduleJob(w: World) -> Message:  # noqa: N802
        return reminder(w.fresh())

    @staticmethod
    def Scheduler_GetJob(_w: World) -> Message:  # noqa: N802
        return ds.GetJobRequest(name="nightly", metadata=of_actor())

    @staticmethod
    def Scheduler_ListJobs(_w: World) -> Message:  # noqa: N802
        return ds.ListJobsRequest(metadata=of_actor())

    @staticmethod
    def Scheduler_DeleteJob(_w: World) -> Message:  # noqa: N802
        return ds.DeleteJobRequest(name="none", metadata=of_actor())

    @staticmethod
    def Scheduler_DeleteByMetadata(_w: World) -> Message:  # noqa: N802
        return ds.DeleteByMetadataRequest(metadata=of_actor("Dog"), id_prefix_match=True)

    @staticmethod
    def Scheduler_DeleteByNamePrefix(_w: World) -> Message:  # noqa: N802
        return ds.DeleteByNamePrefixRequest(name_prefix="none", metadata=of_actor("Dog"))

    @staticmethod
    def HSC_NextClaims(w: World) -> Message:  # noqa: N802
        return next_claims(
            nonce=w.fresh(),
            max_bytes=1_000,
            wait_us=1,
            waited_us=1,
            repeated=True,
            without=[UNUSED],
            pool="gpu",
            host="host-1",
        )

    @staticmethod
    def HSC_ReportHost(w: World) -> Message:  # noqa: N802
        runs = LambdaSet({LAMBDA: "aaa"})
        return h.ReportHostRequest(
            pool="gpu",
            host="host-2",
            executors=[h.HostExecutor(executor_id=EXECUTOR, lambda_sets=[runs.digest])],
            sets=[h.NamedSet(digest=runs.digest, lambdas=[LAMBDA], signatures=["aaa"])],
            quarantined=[h.HostQuarantine(**{"lambda": UNUSED}, for_us=1)],
            why_not="=",
            known_us=1_000_000,
            drains=False,
            wait_us=1,
            version="1.0",
            process="host-2:7",
        )

    @staticmethod
    def HSC_Heartbeat(w: World) -> Message:  # noqa: N802
        held = h.HeldClaim(claim=w.held, started=True, progress="half")
        return h.HeartbeatRequest(executor_id=EXECUTOR, claims=[held])

    @staticmethod
    def HSC_SetResults(w: World) -> Message:  # noqa: N802
        result = h.Result(
            claim=w.held, outcome=t.FAILED, result=b"1", encoding=t.RAW, error="it rained", retry_in_us=9, ran_us=2
        )
        return h.SetResultsRequest(executor_id=EXECUTOR, results=[result])

    @staticmethod
    def HSC_HandBack(w: World) -> Message:  # noqa: N802
        return h.HandBackRequest(executor_id=EXECUTOR, claims=[w.held], nonces=[w.fresh()])

    @staticmethod
    def HSC_FirstTime(w: World) -> Message:  # noqa: N802
        asked = h.FirstTimeKey(task_id=w.held.task_id, namespace="photos", key=w.fresh(), ttl_us=60_000_000)
        return h.FirstTimeRequest(executor_id=EXECUTOR, keys=[asked])

    @staticmethod
    def HSC_ReportLoss(w: World) -> Message:  # noqa: N802
        return h.ReportLossRequest(executor_id=EXECUTOR, claims=[w.held], why="killed", shared=True)

    @staticmethod
    def HSC_IssueCredential(_w: World) -> Message:  # noqa: N802
        return h.IssueCredentialRequest(executor_id=EXECUTOR)

    @staticmethod
    def StoreConsumer_Poll(_w: World) -> Message:  # noqa: N802
        return s.PollRequest(partitions=[0, 1])

    @staticmethod
    def Controller_NextWork(w: World) -> Message:  # noqa: N802
        boot_id = w.runtime.boot_id()
        return c.NextWorkRequest(
            executor_id=EXECUTOR,
            ack=1,
            nonce="n",
            max_tasks=1,
            lambdas=[LAMBDA],
            signatures=["aaa"],
            boot_id=boot_id,
            call=0,
            heartbeat_timeout_us=16_000_000,
        )

    @staticmethod
    def Controller_Enter(_w: World) -> Message:  # noqa: N802
        return c.EnterRequest(executor_id=EXECUTOR, secret="x")

    @staticmethod
    def Controller_ReportRuns(_w: World) -> Message:  # noqa: N802
        run: dict[str, Any] = {"lambda": LAMBDA, "outcomes": [0, 1, *[0] * 6], "run_times": [1, *[0] * 5]}
        return c.ReportRunsRequest(executor_id=EXECUTOR, number=1, runs=[c.LambdaRuns(**run)])


@contextlib.asynccontextmanager
async def world_for(method: str, untouched: World) -> AsyncIterator[World]:
    """The module's world for what only reads, a new one for what may write."""
    if method.partition(".")[2].startswith(READING):
        yield untouched
    else:
        async with opened() as world:
            yield world


@contextlib.asynccontextmanager
async def opened(*, gives: bool = False) -> AsyncIterator[World]:
    """A world with its server; nothing of it is left at the end. Unless it `gives` claims, its HSC does nothing by itself once the world is made."""
    runtime, timing, fake = SystemRuntime(), Timing(), fakeredis.FakeServer(version=(7, 4))
    settings = StoreSettings(partitions=2, poll_interval=0.05, wakeups=False)  # no subscription to wait for at the end
    store = await Store.open(settings, timing, runtime, fake=fake)
    wiring = Wiring(runtime, timing)
    hsc = wiring.hsc(store)
    own = FrontendSettings(dapr_app="orders=127.0.0.1:1", dapr_app_id="orders")
    frontend = wiring.frontend(store, own)
    controller = wiring.controller(hsc)
    consumer = wiring.consumer(store)
    logic = {"Frontend": frontend, "HSC": hsc, "Controller": controller, "StoreConsumer": PollService(consumer)}
    dapr = Service(DAPR, DaprRuntime(frontend, own), metadata=True)
    scheduler = SchedulerService(frontend=frontend, store=store, timing=timing, runtime=runtime)
    watched = Service(SCHEDULER, scheduler, name=SERVICE)
    server = await serve("127.0.0.1:0", [*(Service(each, logic[each.name]) for each in SERVICES), dapr, watched])
    duty = runtime.spawn(hsc.run(), name="claims")
    unbounded = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
    try:
        async with grpc.aio.insecure_channel(server.address, options=unbounded) as channel:
            world = World(store, fake, channel, runtime)
            await world.settle()
            if not gives:
                await end([duty])
            yield world
    finally:  # a server that is left to the collector takes the process with it
        frontend.drain()
        scheduler.drain()
        await controller.drain()
        await hsc.drain()
        await server.stop(0)
        await end([duty])
        await scheduler.close()
        await store.close()
