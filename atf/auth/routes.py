"""The rest of the table of who may call what: what is served by HTTP, what the pages' actions ask for, and which commands make which calls.

Nothing of it permits anything that the rows of RPCs (methods.py) do not. A route or an action without a row is refused, and a test fails; so it does for
a command.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from atf.errors import PermissionDenied

from .methods import DAPR, RULES, Rule


class Door(Enum):
    """Whom a route lets in; where auth is off, everybody."""

    OPEN = "everybody"
    SESSION = "session"
    """Who is signed in. Each call that the page makes goes by its own row."""
    READER = "reader"
    """A token that may read every namespace."""
    CALL = "call"
    """As the RPC that it stands for."""


class Route(NamedTuple):
    """A row."""

    door: Door
    call: str = ""
    """CALL: the path of an RPC."""


UI, DAPR_HTTP, METRICS = "ui", "dapr_http", "metrics"
_PAGES: Final = (
    "/", "/lambdas", "/lambdas/{name}", "/tasks", "/tasks/{id}", "/tasks/{id}/{part}", "/failures", "/bulk/{verb}", "/jobs", "/jobs/{name}",
    "/batches", "/batches/{id}", "/cluster", "/find",
)  # fmt: skip
_JOB_PATHS: Final = ("/v1.0/jobs/{name}", "/v1.0-alpha1/jobs/{name}", "/v1.0/schedule/jobs/{name}")
_JOB_CALLS: Final = {"POST": "ScheduleJob", "GET": "GetJob", "DELETE": "DeleteJob"}
_OPEN: Final = Route(Door.OPEN)

ROUTES: Final[Mapping[tuple[str, str, str], Route]] = {
    **{(UI, "GET", path): Route(Door.SESSION) for path in _PAGES},
    (UI, "POST", "/do/{action}"): Route(Door.SESSION),
    (UI, "POST", "/logout"): Route(Door.SESSION),
    **{(UI, method, "/login"): _OPEN for method in ("GET", "POST")},
    **{(UI, "GET", path): _OPEN for path in ("/prefs", "/static/{path}", "/livez", "/readyz")},
    (UI, "GET", "/metrics"): Route(Door.READER),
    **{(DAPR_HTTP, "GET", path): _OPEN for path in ("/v1.0/healthz", "/v1.0/healthz/outbound")},
    **{
        (DAPR_HTTP, method, path): Route(Door.CALL, f"/{DAPR}/{call}")
        for path in _JOB_PATHS
        for method, call in _JOB_CALLS.items()
    },
    (METRICS, "GET", "/metrics"): Route(Door.READER),
    **{(METRICS, "GET", path): _OPEN for path in ("/livez", "/readyz")},
}
"""By port, method and path; HEAD goes by the row of GET."""

ACTIONS: Final[Mapping[str, str]] = {
    "cancel-task": "CancelTasks", "retry-task": "RetryTasks", "pause-lambda": "PauseLambda", "resume-lambda": "ResumeLambda",
    "set-lambda": "SetLambda", "unset-lambda": "SetLambda", "forget-lambda": "DeleteLambda", "gate-pause": "SetGate", "gate-delay": "SetGate",
    "gate-admit": "SetGate", "gate-drop": "SetGate", "lift-gate": "LiftGate", "resume-key": "ResumeKey", "skip-key": "SkipKey",
    "run-job": "RunJobNow", "pause-job": "PauseJob", "resume-job": "ResumeJob", "delete-job": "DeleteJob", "cancel-batch": "CancelBatch",
    "retry-batch": "RetryBatch", "retry-matching": "Redrive", "cancel-matching": "CancelMatching", "delete-batch": "DeleteBatch", "drain-host": "DrainHost", "resume-host": "DrainHost", "set-cores": "SetCapacity",
}  # fmt: skip
"""The call of the frontend that each action of the pages makes: who has its verb is shown the action, and may do it."""


def route_of(port: str, method: str, path: str) -> Route:
    """The row of a route.

    Raises:
        PermissionDenied: it has none.
    """
    found = ROUTES.get((port, "GET" if method == "HEAD" else method, path))
    if found is None:
        raise PermissionDenied(f"{method} {path} is in no row of the table of who may call what, so nobody may")
    return found


def rule_of_action(action: str) -> Rule:
    """The row of the call that an action makes.

    Raises:
        PermissionDenied: it has none.
    """
    rule = RULES.get(f"/atf.v1.Frontend/{ACTIONS.get(action, '')}")
    if rule is None:
        raise PermissionDenied(f"the action {action!r} is in no row of the table of who may call what, so nobody may")
    return rule


COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "audit": ("ListAudit",),
    "batch cancel": ("CancelBatch", "GetBatch"),
    "batch delete": ("DeleteBatch", "GetBatch"),
    "batch items": ("ListBatchItems",),
    "batch ls": ("ListBatches",),
    "batch results": ("GetBatch", "ListBatchItems"),
    "batch retry": ("GetBatch", "RetryBatch"),
    "batch status": ("GetBatch",),
    "batch submit": ("GetBatch", "ListLambdas", "ScheduleBatch", "WatchBatch"),
    "batch watch": ("WatchBatch",),
    "cancel": ("CancelMatching", "CancelTasks", "GetTask"),
    "capacity ls": ("ListCapacity",),
    "capacity set": ("SetCapacity",),
    "capacity show": ("GetCapacity",),
    "count": ("CountTasks",),
    "cron next": (),
    "explain": ("ExplainTask",),
    "failures": ("ListFailures",),
    "gate admit": ("SetGate",),
    "gate delay": ("SetGate",),
    "gate drop": ("SetGate",),
    "gate lift": ("LiftGate",),
    "gate ls": ("ListGates",),
    "gate pause": ("SetGate",),
    "get": ("ExplainTask", "GetTask"),
    "host drain": ("DrainHost", "ListHosts"),
    "host ls": ("ListHosts",),
    "host resume": ("DrainHost",),
    "job get": ("GetJob",),
    "job ls": ("ListJobs",),
    "job pause": ("PauseJob",),
    "job resume": ("ResumeJob",),
    "job rm": ("DeleteJob", "DeleteJobsByPrefix", "GetJob"),
    "job run": ("RunJobNow",),
    "job schedule": ("ListLambdas", "ScheduleJob"),
    "key ls": ("ListConcurrencyKeys", "ListKeys"),
    "key resume": ("ListKeys", "ResumeKey"),
    "key skip": ("ListKeys", "SkipKey"),
    "lambda check": ("ListLambdas", "ListTasks"),
    "lambda ls": ("ListLambdas",),
    "lambda register": ("DeleteJob", "ListJobs", "ListLambdas", "RegisterLambdas", "ScheduleJobs"),
    "lambda rm": ("DeleteLambda",),
    "lambda set": ("SetLambda",),
    "lambda show": ("ListLambdas",),
    "lambda unset": ("ListLambdas", "SetLambda"),
    "logs": ("GetLog", "WatchLog"),
    "ls": ("ListTasks",),
    "pause": ("ListLambdas", "PauseLambda"),
    "queue ls": ("ListLambdas",),
    "resume": ("ListGates", "ListLambdas", "ResumeLambda"),
    "retry": ("GetTask", "Redrive", "RetryTasks"),
    "schedule": ("ListLambdas", "Schedule", "WaitTasks"),
    "slo": ("ListLambdas",),
    "status": ("GetStatus",),
    "token create": ("CreateToken",),
    "token ls": ("ListTokens",),
    "token revoke": ("RevokeToken",),
    "token rotate": ("RotateToken",),
    "token rotate-key": ("RotateSigningKey",),
    "wait": ("WaitTasks",),
}
"""The calls of the frontend that each command makes, with some of its flags or arguments. Where it is given the address of the store instead, no token
counts: whoever reaches the store may do everything.
"""
OF_STORE: Final = frozenset({"doctor", "store direct", "store export", "store import", "store timing"})
"""Commands that have the address of the store, and need no token."""
OF_ONE_MACHINE: Final = frozenset(
    {
        "bench",
        "certs dev",
        "demo",
        "keyfile add",
        "keyfile drop",
        "keyfile ls",
        "keyfile new",
        "keyfile rotate",
        "up",
        "verify",
    }
)
"""Commands that ask nobody, or only processes that they start themselves."""
OF_PROCESSES: Final = frozenset(
    {"controller", "executor", "frontend", "hsc", "server", "store-consumer", "ui", "worker"}
)
"""Commands that run a process. Its calls show a token of its own: docs/how-to/worker-security.md."""
