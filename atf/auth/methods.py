"""The table of who may call what: for each RPC the verb that it needs, and of which lambdas.

A method without a row is refused to everybody who shows a token, and a test fails. What a row says of `over`:

    NAMED      the request names lambdas; the method permits each of them before it does anything
    FOUND      the request names tasks, batches or jobs; the method looks their lambdas up, and permits each before it does anything.
               One of a namespace for which the caller has no verb at all is answered as one that does not exist
    LISTED     what is listed is of those lambdas alone that the caller may see
    CLUSTER    concerns the whole cluster: needs the verb for all namespaces
    OWN        what the caller holds: claims, which are known by a secret of their own
    DELIVERY   what is told to executors alone that may run atf/dapr-job, which delivers
    NOTHING    nothing that belongs to anybody
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from atf.errors import PermissionDenied

from .caller import Caller, CallerKind
from .grants import Verb


class Over(Enum):
    """Whose lambdas a call concerns; see above."""

    NAMED = "named"
    FOUND = "found"
    LISTED = "listed"
    CLUSTER = "cluster"
    OWN = "own"
    DELIVERY = "delivery"
    NOTHING = "nothing"


class Rule(NamedTuple):
    """What a call needs."""

    verb: Verb | None
    """None: whoever is known may make it."""
    over: Over
    executors: bool = True
    """Whether an executor's credential is enough."""
    code: bool = True
    """Whether that is enough which the code of users shows there, too."""


DAPR: Final = "dapr.proto.runtime.v1.Dapr"
DAPR_SCHEDULER: Final = "dapr.proto.scheduler.v1.Scheduler"
_FRONTEND: Final[Mapping[str, Rule]] = {
    "Schedule": Rule(Verb.SCHEDULE, Over.NAMED),
    "ScheduleMany": Rule(Verb.SCHEDULE, Over.NAMED),
    "GetTask": Rule(Verb.READ, Over.FOUND),
    "ListTasks": Rule(Verb.READ, Over.LISTED),
    "CountTasks": Rule(Verb.READ, Over.LISTED),
    "WaitTasks": Rule(Verb.READ, Over.FOUND),
    "GetLog": Rule(Verb.READ_PAYLOAD, Over.FOUND),
    "WatchLog": Rule(Verb.READ_PAYLOAD, Over.FOUND),
    "CancelTasks": Rule(Verb.OPERATE, Over.FOUND),
    "CancelMatching": Rule(Verb.OPERATE, Over.LISTED),
    "RetryTasks": Rule(Verb.OPERATE, Over.FOUND),
    "RegisterLambdas": Rule(Verb.WORK, Over.NAMED),
    "ListLambdas": Rule(Verb.READ, Over.LISTED),
    "PauseLambda": Rule(Verb.OPERATE, Over.NAMED),
    "ResumeLambda": Rule(Verb.OPERATE, Over.NAMED),
    "SetLambda": Rule(Verb.OPERATE, Over.NAMED),
    "DeleteLambda": Rule(Verb.OPERATE, Over.NAMED),
    "SetGate": Rule(Verb.OPERATE, Over.NAMED),
    "LiftGate": Rule(Verb.OPERATE, Over.NAMED),
    "ListGates": Rule(Verb.READ, Over.LISTED),
    "ListAudit": Rule(Verb.READ, Over.LISTED),
    "ListFailures": Rule(Verb.READ, Over.LISTED),
    "Redrive": Rule(Verb.OPERATE, Over.LISTED),
    "ExplainTask": Rule(Verb.READ, Over.FOUND),
    "ListKeys": Rule(Verb.READ, Over.NAMED),
    "ResumeKey": Rule(Verb.OPERATE, Over.NAMED),
    "SkipKey": Rule(Verb.OPERATE, Over.NAMED),
    "ListConcurrencyKeys": Rule(Verb.READ, Over.NAMED),
    "SetCapacity": Rule(Verb.ADMIN, Over.CLUSTER),
    "GetCapacity": Rule(Verb.READ, Over.CLUSTER),
    "ListCapacity": Rule(Verb.READ, Over.CLUSTER),
    "ListHosts": Rule(Verb.READ, Over.CLUSTER),
    "DrainHost": Rule(Verb.ADMIN, Over.CLUSTER),
    "GetStatus": Rule(Verb.READ, Over.LISTED),
    "ScheduleBatch": Rule(Verb.SCHEDULE, Over.NAMED),
    "GetBatch": Rule(Verb.READ, Over.FOUND),
    "ListBatches": Rule(Verb.READ, Over.LISTED),
    "ListBatchItems": Rule(Verb.READ, Over.FOUND),
    "WatchBatch": Rule(Verb.READ, Over.FOUND),
    "CancelBatch": Rule(Verb.OPERATE, Over.FOUND),
    "RetryBatch": Rule(Verb.OPERATE, Over.FOUND),
    "DeleteBatch": Rule(Verb.OPERATE, Over.FOUND),
    "ScheduleJob": Rule(Verb.SCHEDULE, Over.NAMED),
    "ScheduleJobs": Rule(Verb.SCHEDULE, Over.NAMED),
    "GetJob": Rule(Verb.READ, Over.FOUND),
    "ListJobs": Rule(Verb.READ, Over.LISTED),
    "DeleteJob": Rule(Verb.SCHEDULE, Over.FOUND),
    "DeleteJobsByPrefix": Rule(Verb.SCHEDULE, Over.LISTED),
    "PauseJob": Rule(Verb.OPERATE, Over.FOUND),
    "ResumeJob": Rule(Verb.OPERATE, Over.FOUND),
    "RunJobNow": Rule(Verb.SCHEDULE, Over.FOUND),
    "PreviewSchedule": Rule(Verb.READ, Over.NOTHING),
    "GetCaller": Rule(None, Over.NOTHING),
    "FindDaprApp": Rule(Verb.WORK, Over.DELIVERY),
    "CreateToken": Rule(Verb.ADMIN, Over.CLUSTER, executors=False),
    "ListTokens": Rule(Verb.ADMIN, Over.CLUSTER, executors=False),
    "RotateToken": Rule(Verb.ADMIN, Over.CLUSTER, executors=False),
    "RevokeToken": Rule(Verb.ADMIN, Over.CLUSTER, executors=False),
    "RotateSigningKey": Rule(Verb.ADMIN, Over.CLUSTER, executors=False),
}
_HSC: Final[Mapping[str, Rule]] = {
    "NextClaims": Rule(Verb.WORK, Over.NAMED, executors=False),
    "ReportHost": Rule(Verb.WORK, Over.NAMED, executors=False),
    "ReportLoss": Rule(Verb.WORK, Over.OWN, executors=False),
    "Heartbeat": Rule(Verb.WORK, Over.OWN, code=False),
    "SetResults": Rule(Verb.WORK, Over.OWN, code=False),
    "HandBack": Rule(Verb.WORK, Over.OWN, code=False),
    "FirstTime": Rule(Verb.WORK, Over.NAMED),
    "IssueCredential": Rule(Verb.WORK, Over.OWN, executors=False),
}
_DAPR: Final[Mapping[str, Rule]] = {
    "ScheduleJob": Rule(Verb.SCHEDULE, Over.NAMED),
    "GetJob": Rule(Verb.READ_PAYLOAD, Over.NAMED),
    "ListJobs": Rule(Verb.READ_PAYLOAD, Over.NAMED),
    "DeleteJob": Rule(Verb.SCHEDULE, Over.NAMED),
    "DeleteJobsByPrefix": Rule(Verb.SCHEDULE, Over.NAMED),
}
"""An application's SDK. What is named is the application: A is the namespace `dapr.A`."""
_DAPR_SCHEDULER: Final[Mapping[str, Rule]] = {
    "ScheduleJob": Rule(Verb.SCHEDULE, Over.NAMED),
    "GetJob": Rule(Verb.READ_PAYLOAD, Over.NAMED),
    "ListJobs": Rule(Verb.READ_PAYLOAD, Over.NAMED),
    "DeleteJob": Rule(Verb.SCHEDULE, Over.NAMED),
    "DeleteByMetadata": Rule(Verb.SCHEDULE, Over.NAMED),
    "DeleteByNamePrefix": Rule(Verb.SCHEDULE, Over.NAMED),
    "WatchJobs": Rule(Verb.WORK, Over.NAMED, executors=False),
    "WatchHosts": Rule(Verb.WORK, Over.NOTHING, executors=False),
}
"""A sidecar. Dapr's namespace N is the namespace `dapr-scheduler.N`."""
_STORE_CONSUMER: Final[Mapping[str, Rule]] = {"Poll": Rule(Verb.ADMIN, Over.CLUSTER, executors=False)}

RULES: Final[Mapping[str, Rule]] = {
    f"/{service}/{name}": rule
    for service, rows in (
        ("atf.v1.Frontend", _FRONTEND),
        ("atf.v1.HSC", _HSC),
        ("atf.v1.StoreConsumer", _STORE_CONSUMER),
        (DAPR, {**_DAPR, **{f"{name}Alpha1": rule for name, rule in _DAPR.items()}}),
        (DAPR_SCHEDULER, _DAPR_SCHEDULER),
    )
    for name, rule in rows.items()
}
"""By path."""
OF_CONTROLLERS: Final[Mapping[str, Rule]] = {
    "/atf.v1.Controller/Enter": Rule(None, Over.NOTHING),
    "/atf.v1.Controller/NextWork": Rule(None, Over.OWN),
    "/atf.v1.Controller/ReportRuns": Rule(None, Over.OWN),
}
"""What a controller's own executors call, which it knows by itself (controller/entrance.py). Enter looks at the secret that it is given."""
OPEN: Final = frozenset(
    {
        *("/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/List", "/grpc.health.v1.Health/Watch"),
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    }
)
"""What everybody may call at every role: whether it serves, and why not; and which methods there are."""


def check_method(path: str, who: Caller) -> None:
    """Lets pass a call whose verb the caller has for anything at all; the method itself looks at what it concerns.

    Raises:
        PermissionDenied: it has not.
    """
    if who.grant is None:
        return
    rule, name = RULES.get(path), path.rpartition("/")[2]
    if rule is None:
        raise PermissionDenied(f"{name} is in no row of the table of who may call what, so nobody may")
    if who.kind is CallerKind.CODE and not (rule.code and rule.executors):
        raise PermissionDenied(
            f"{who.name}: no {name}: code may schedule and read, and its executor alone asks for tasks and ends them"
        )
    if who.kind is CallerKind.EXECUTOR and not rule.executors:
        raise PermissionDenied(f"{who.name}: no {name}: what an executor holds is for its own claims alone")
    if rule.verb is None:
        return
    if not who.grant.can(rule.verb):
        raise PermissionDenied(f"{who.name}: no {rule.verb}, which {name} needs")
    if rule.over is Over.CLUSTER:
        who.permit_everywhere(rule.verb)
