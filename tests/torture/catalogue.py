"""Every text and every run of bytes that a caller can send, by method and path, with the rule that it is held to.

A field that is added to a request and has no entry here fails test_fields.py: say what a caller may write into it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple
from urllib.parse import quote

import grpc
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from atf.auth.secrets import MAX_CHARS
from atf.store.keys import partition_for
from atf.task import MAX_WHY_NOT_CHARS

from .world import INVALID, METHODS, NOT_FOUND, OK, PRECONDITION, TOKEN_ID

Path = tuple[str, ...]


class Rule(NamedTuple):
    """What is answered to a text in a field that was filled in well before."""

    code: Callable[[str], grpc.StatusCode]
    says: str = ""
    """What a refusal's sentence names the field by."""


def _must(pattern: str, otherwise: grpc.StatusCode = OK) -> Callable[[str], grpc.StatusCode]:
    """INVALID_ARGUMENT unless the text has this form; then `otherwise`."""
    return lambda text: otherwise if re.fullmatch(pattern, text) else INVALID


def _at_most(characters: int, least: int = 0) -> Callable[[str], grpc.StatusCode]:
    return lambda text: OK if least <= len(text) <= characters else INVALID


def _key(least: int = 1) -> Callable[[str], grpc.StatusCode]:
    return lambda text: OK if least <= len(text) <= 255 and text.isprintable() else INVALID


def _second_key(text: str) -> grpc.StatusCode:
    """Of a task with an ordering key, as in the example that is filled in: both must lead to one partition."""
    same = partition_for(text, 2) == partition_for("customer-1", 2)
    return OK if same and _key()(text) is OK else INVALID


_NAME = r"[A-Za-z0-9._-]{1,64}"
_ANY: Final = Rule(lambda _: OK)
"""Free, or cut, or of a claim: one that nobody gave is answered LOST."""
_ID: Final = Rule(_must(r"[A-Za-z0-9_-]{0,64}"), "task id")
_STORED: Final = Rule(_must(r"[01]-[A-Za-z0-9_-]{1,64}", NOT_FOUND), "task id")
_NAMED: Final = Rule(_must(r"[01]-[A-Za-z0-9_-]{1,64}"), "task id")
_BATCH: Final = Rule(_must(r"[A-Za-z0-9_-]{1,20}", NOT_FOUND), "batch id")
_LAMBDA: Final = Rule(_must(f"{_NAME}/{_NAME}", NOT_FOUND), "lambda")
_NEW_LAMBDA: Final = Rule(_must(f"{_NAME}/{_NAME}"), "lambda")
_WORD: Final = r"[!-~]{1,128}"
_OTHER_SET: Final = Rule(lambda _: INVALID)
"""Of a set of lambdas, whose digest is that of other ones then."""
_POOL: Final = Rule(lambda text: OK if re.fullmatch(f"(?!default$)({_NAME})?", text) else INVALID, "pool")
_HOST: Final = Rule(_must(r"[!-~]{0,128}"), "host")
_EXECUTOR: Final = Rule(_must(_WORD), "executor_id")
_DIGEST: Final = Rule(_must("[a-z0-9_-]{1,32}"), "signature")
_TRACE: Final = Rule(lambda text: OK if not text else INVALID, "traceparent")
_SPEC: Final[dict[Path, Rule]] = {
    ("id",): _ID,
    ("spec", "lambda"): _LAMBDA,
    ("spec", "payload"): _ANY,  # test_limits.py has its size
    ("spec", "labels", "key"): Rule(_at_most(64, 1), "label"),
    ("spec", "labels", "value"): Rule(_at_most(64), "label"),
    ("spec", "ordering_key"): Rule(_key(0), "ordering_key"),
    ("spec", "affinity_key"): Rule(_key(0), "affinity_key"),
    ("spec", "traceparent"): _TRACE,
    ("spec", "tracestate"): _TRACE,  # without a traceparent
    ("spec", "unique", "key"): Rule(lambda _: INVALID, "unique"),  # its window is missing
    ("spec", "concurrency", "key"): Rule(_second_key, "key"),
    ("spec", "tick", "job"): Rule(lambda _: INVALID, "tick"),
    ("spec", "batch", "id"): Rule(lambda _: INVALID, "batch"),
    ("spec", "batch", "follows"): Rule(lambda _: INVALID, "batch"),
}


_LISTED_KEYS: Final[dict[tuple[str, ...], Rule]] = {
    ("lambda",): _LAMBDA,
    ("key",): Rule(_key(0), "key"),
    ("page_token",): Rule(_must(r"|[01]\.\d{1,17}\.[A-Za-z0-9._/:%~-]{0,3200}"), "page_token"),
}
_WHY: Final = Rule(_at_most(500), "why")
_ASKED: Final[dict[Path, Rule]] = {("who",): Rule(_at_most(100), "who"), ("why",): _WHY}
"""Of a request that may say who asks."""
_MENDED_KEY: Final[dict[Path, Rule]] = {
    **_ASKED,
    ("lambda",): _LAMBDA,
    ("key",): Rule(_key(), "key"),
    ("task_id",): Rule(lambda text: _NAMED.code(text) if text else PRECONDITION),
}
_GATE: Final[dict[Path, Rule]] = {
    ("lambda",): _LAMBDA,
    ("labels", "key"): Rule(_at_most(64, 1), "label"),
    ("labels", "value"): Rule(_at_most(64), "label"),
    ("who",): Rule(lambda text: OK if text.strip() and len(text) <= 100 else INVALID, "who"),
    ("why",): _WHY,
}


def _job(otherwise: grpc.StatusCode) -> Rule:
    """The name of a job."""

    def code(text: str) -> grpc.StatusCode:
        namespace, _, name = text.partition("/")
        good = re.fullmatch(_NAME, namespace) and 1 <= len(name) <= 255 and name not in {".", ".."}
        return otherwise if good and name.isprintable() and not set(name) & set("/\\#?") else INVALID

    return Rule(code, "job")


def _dapr_job(otherwise: grpc.StatusCode) -> Rule:
    """An application's name for a job."""
    within = _job(otherwise).code
    return Rule(lambda text: within(f"dapr.orders/{text}") if text else INVALID, "name" if otherwise is OK else "")


def _given(otherwise: grpc.StatusCode, says: str, most: int = 1 << 20) -> Rule:
    """Anything but nothing, that is not too long with its odd characters written as three each."""
    return Rule(lambda text: otherwise if text and len(quote(text, safe="")) <= most else INVALID, says)


def _reminder(otherwise: grpc.StatusCode) -> dict[Path, Rule]:
    """The name of an actor's reminder, and whose it is: its app is not told apart."""
    return {
        ("name",): _given(otherwise, "name", 230),
        ("metadata", "app_id"): _given(OK, "app_id"),
        ("metadata", "namespace"): _given(otherwise, "namespace"),
        ("metadata", "target", "actor", "type"): _given(otherwise, "actor", 230),
        ("metadata", "target", "actor", "id"): _given(otherwise, "actor", 230),
        ("metadata", "concurrency_key"): _ANY,
    }


def _reminders(empty_id: grpc.StatusCode) -> dict[Path, Rule]:
    """Those of an actor, or of actors."""
    either = _given(OK, "metadata", 230)
    return {
        **{path: rule for path, rule in _reminder(OK).items() if path[0] == "metadata"},
        ("metadata", "target", "actor", "type"): either,
        ("metadata", "target", "actor", "id"): Rule(lambda text: either.code(text) if text else empty_id, "metadata"),
    }


_TIMING: Final[dict[Path, Rule]] = {
    ("job", "schedule"): Rule(lambda _: INVALID, "schedule"),
    ("job", "due_time"): Rule(lambda _: INVALID, "due_time"),
    ("job", "ttl"): Rule(lambda _: INVALID, "ttl"),
    ("job", "tz"): Rule(lambda text: OK if not text else INVALID, "tz"),
    ("job", "format"): Rule(lambda text: OK if not text else INVALID, "format"),
    ("job", "gap"): Rule(lambda text: OK if not text else INVALID, "gap"),
    ("job", "fold"): Rule(lambda text: OK if not text else INVALID, "fold"),
}
_UNREAD: Final = (
    "name",
    "code",
    "task.lambda",
    "task.payload",
    "task.labels.key",
    "task.labels.value",
    "task.ordering_key",
    "task.affinity_key",
    "task.traceparent",
    "task.tracestate",
    "task.concurrency.key",
    "task.unique.key",
    "task.tick.job",
    "task.batch.id",
    "task.batch.follows",
)
_TOLD: Final = Rule(lambda text: OK if len(quote(text, safe="")) <= 230 else INVALID, "name prefix")
_PREFIX: Final = Rule(_at_most(320), "prefix")

_MADE_JOB: Final[dict[Path, Rule]] = {
    **_TIMING,
    **{("job", "task", *path[1:]): rule for path, rule in _SPEC.items() if path[0] == "spec"},
    ("job", "name"): _job(OK),
    ("job", "task", "affinity_key"): Rule(lambda text: OK if not text else INVALID, "affinity_key"),
    ("job", "task", "ordering_key"): Rule(lambda text: OK if not text else INVALID, "ordering_key"),
    ("job", "task", "concurrency", "key"): Rule(lambda _: INVALID, "concurrency"),
    ("job", "task", "unique", "key"): Rule(lambda _: INVALID, "unique"),
    ("job", "code"): Rule(_must(r"[A-Za-z0-9]{0,64}"), "code"),
    ("request_id",): _ID,
    **_ASKED,
}


def _namespace(text: str) -> grpc.StatusCode | None:
    """OK where all lambdas are meant; of a namespace none declares what is searched."""
    return INVALID if re.fullmatch(rf"{_NAME}/\*", text) else None if text else OK


_FILTER: Final[dict[Path, Rule]] = {
    ("lambda",): Rule(lambda text: _namespace(text) or _LAMBDA.code(text), "lambda"),
    ("labels", "key"): Rule(_at_most(64, 1), "label"),
    ("labels", "value"): Rule(_at_most(64), "label"),
    ("key",): Rule(_key(0), "key"),
    ("error_type",): Rule(_must(r"|[A-Za-z_][A-Za-z0-9_]{0,254}"), "error_type"),
    ("search", "key"): Rule(lambda _: INVALID, "search"),  # nobody declares it
    ("search", "value"): Rule(_at_most(4_096), "searched value"),
    ("failure_group",): Rule(_must(r"[A-Za-z0-9_-]{0,64}"), "failure_group"),
}

_MATCHING: Final[dict[Path, Rule]] = {
    **{("filter", *path): rule for path, rule in _FILTER.items()},
    ("who",): _GATE[("who",)],
    ("why",): _WHY,
}


def _of_lambdas(text: str) -> grpc.StatusCode:
    """A lambda, a namespace, or all."""
    return _must(rf"{_NAME}/({_NAME}|\*)", NOT_FOUND)(text) if text else OK


RULES: Final[dict[str, dict[Path, Rule]]] = {
    "Frontend.Schedule": _SPEC,
    "Frontend.ScheduleMany": {("requests", *path): rule for path, rule in _SPEC.items()},
    "Frontend.GetTask": {("id",): _STORED},
    "Frontend.ListTasks": {
        ("page_token",): Rule(_must(r""), "page_token"),
        **{("filter", *path): rule for path, rule in _FILTER.items()},
    },
    "Frontend.WaitTasks": {("ids",): _STORED},
    "Frontend.CancelTasks": {**_ASKED, ("ids",): _NAMED},
    "Frontend.RetryTasks": {**_ASKED, ("ids",): _NAMED},
    "Frontend.RegisterLambdas": {
        **_ASKED,
        ("lambdas", "name"): _NEW_LAMBDA,
        ("lambdas", "signature"): Rule(_at_most(2_000), "signature"),
        ("lambdas", "digest"): Rule(_must("[a-z0-9_-]{0,32}"), "digest"),
        ("lambdas", "schedule"): Rule(_at_most(1_000), "schedule"),
        ("lambdas", "redact"): Rule(_at_most(255, 1), "redact"),
        ("lambdas", "search"): Rule(_at_most(255, 1), "search"),
        ("lambdas", "slo"): Rule(_must(""), "slo"),
        ("lambdas", "owner"): Rule(_at_most(200), "owner"),
        ("lambdas", "runbook"): Rule(_at_most(2_000), "runbook"),
        ("lambdas", "pool"): Rule(_must(r"|" + _NAME), "pool"),
    },
    "Frontend.ListLambdas": {
        ("lambda",): Rule(lambda text: OK if not text else INVALID, "lambda"),
        ("page_token",): Rule(lambda text: OK if not text else _must(f"{_NAME}/{_NAME}")(text), "page_token"),
    },
    "Frontend.SetCapacity": {
        **_ASKED,
        ("pool",): Rule(lambda text: OK if not text else _must(_NAME, NOT_FOUND)(text), "pool"),
        ("reserve", "key"): _LAMBDA,
    },
    "Frontend.ListCapacity": {},
    "Frontend.ListHosts": {},
    "Frontend.GetStatus": {},
    "Frontend.DrainHost": {
        ("host",): Rule(lambda text: OK if text == "host-1" else NOT_FOUND, "host"),
        ("who",): _GATE[("who",)],
        ("why",): _WHY,
    },
    "Frontend.CreateToken": {
        **_ASKED,
        ("id",): Rule(_must("[a-z2-7]{10}"), "id"),
        ("digest",): Rule(_must("[0-9a-f]{64}"), "digest"),
        ("verbs",): Rule(_must("schedule|read|read_payload|operate|work|admin"), "verb"),
        ("scopes",): Rule(_must(rf"\*|{_NAME}(/{_NAME})?")),
        ("pools",): Rule(_must(rf"\*|{_NAME}"), "pool"),
        ("subject",): Rule(lambda text: OK if not text else INVALID, "one of them"),
        ("note",): Rule(_at_most(200), "note"),
    },
    "Frontend.ListTokens": {},
    "Frontend.GetCaller": {},
    "Frontend.RotateToken": {
        **_ASKED,
        ("id",): Rule(lambda text: OK if text == TOKEN_ID else NOT_FOUND, "token"),
        ("digest",): Rule(_must("[0-9a-f]{64}"), "digest"),
    },
    "Frontend.RotateSigningKey": {**_ASKED},
    "Frontend.RevokeToken": {**_ASKED, ("id",): Rule(lambda text: OK if text == TOKEN_ID else NOT_FOUND, "token")},
    "Frontend.DeleteLambda": {("lambda",): _LAMBDA, ("who",): _GATE[("who",)], ("why",): _WHY},
    "Frontend.GetCapacity": {("pool",): Rule(lambda text: OK if not text else _must(_NAME, NOT_FOUND)(text), "pool")},
    "Frontend.SetLambda": {
        **_ASKED,
        ("lambda",): _LAMBDA,
        ("set", "key"): Rule(lambda _: INVALID, "setting"),
        ("set", "value"): Rule(_must(_NAME, NOT_FOUND), "pool"),
        ("unset",): Rule(lambda _: INVALID, "setting"),
    },
    "Frontend.PauseLambda": {("lambda",): _LAMBDA, ("who",): _GATE[("who",)], ("why",): _WHY},
    "Frontend.ResumeLambda": {("lambda",): _LAMBDA, ("who",): _GATE[("who",)], ("why",): _WHY},
    "Frontend.SetGate": {**_GATE, ("request_id",): _ID},
    "Frontend.LiftGate": _GATE,
    "Frontend.CountTasks": {("lambda",): Rule(_of_lambdas, "lambda")},
    "Frontend.CancelMatching": {
        **_MATCHING,
        ("page_token",): Rule(_must(r"|[1-4]/\d{1,12}/"), "page_token"),
    },
    "Frontend.Redrive": {
        **_MATCHING,
        ("error",): Rule(_at_most(500), "error"),
        ("page_token",): Rule(_must(r"|\d+/\d+/(\d+\.\..*)?"), "page_token"),
    },
    "Frontend.ListGates": {("lambda",): Rule(lambda text: OK if not text else INVALID, "lambda")},
    "Frontend.ListAudit": {
        ("lambda",): Rule(lambda text: _must(f"{_NAME}/{_NAME}", NOT_FOUND)(text) if text else OK, "lambda"),
        ("who",): Rule(_at_most(100), "who"),
        ("what",): Rule(_at_most(64), "what"),
        ("task_id",): Rule(_must(r"|[01]-[A-Za-z0-9_-]{1,64}"), "task id"),
    },
    "Frontend.ListFailures": {
        ("lambda",): Rule(_of_lambdas, "lambda"),
        ("page_token",): Rule(_must(rf"|\d{{1,16}}/{_NAME}/{_NAME}:![0-9a-f]{{12}}"), "page_token"),
    },
    "Frontend.ExplainTask": {("id",): _STORED},
    "Frontend.GetLog": {("id",): _STORED},
    "Frontend.ListKeys": _LISTED_KEYS,
    "Frontend.ListConcurrencyKeys": _LISTED_KEYS,
    "Frontend.ResumeKey": _MENDED_KEY,
    "Frontend.SkipKey": _MENDED_KEY,
    "Frontend.GetBatch": {("id",): _BATCH},
    "Frontend.ListBatches": {
        ("lambda",): Rule(_must(rf"|{_NAME}/{_NAME}"), "lambda"),
        ("page_token",): Rule(
            _must(r"|\d{1,16}:[01]:[A-Za-z0-9_-]{1,24}|[0-9]{1,5}:[A-Za-z0-9_-]{0,24}"), "page_token"
        ),
    },
    "Frontend.ListBatchItems": {
        ("id",): _BATCH,
        ("page_token",): Rule(_must(r"|[0-9]{1,9}"), "page_token"),
        ("work_item_id",): Rule(_must(r"|[0-9a-f]{32}(-[0-9]{1,12})?"), "work-item id"),
    },
    "Frontend.CancelBatch": {**_ASKED, ("id",): _BATCH},
    "Frontend.RetryBatch": {**_ASKED, ("id",): _BATCH},
    "Frontend.DeleteBatch": {**_ASKED, ("id",): Rule(_must(r"[A-Za-z0-9_-]{1,20}"), "batch id")},
    "Frontend.ScheduleJob": _MADE_JOB,
    "Frontend.ScheduleJobs": {("requests", *path): rule for path, rule in _MADE_JOB.items()},
    "Frontend.GetJob": {("name",): _job(NOT_FOUND)},
    "Frontend.ListJobs": {
        ("prefix",): _PREFIX,
        ("page_token",): Rule(lambda text: OK if not text else INVALID, "page_token"),
    },
    "Frontend.DeleteJob": {**_ASKED, ("name",): _job(OK)},
    "Frontend.DeleteJobsByPrefix": {**_ASKED, ("prefix",): Rule(_at_most(320, 1), "prefix")},
    "Frontend.PauseJob": {**_ASKED, ("name",): _job(NOT_FOUND)},
    "Frontend.ResumeJob": {**_ASKED, ("name",): _job(NOT_FOUND)},
    "Frontend.RunJobNow": {**_ASKED, ("name",): _job(NOT_FOUND), ("task_id",): _ID},
    "Frontend.PreviewSchedule": {**_TIMING, **{("job", *each.split(".")): _ANY for each in _UNREAD}},
    "Frontend.FindDaprApp": {("app_id",): Rule(_must(r"[A-Za-z0-9._-]{1,59}", NOT_FOUND), "app id")},
    "Dapr.ScheduleJob": {
        **{path: rule for path, rule in _TIMING.items() if path[1] in {"schedule", "due_time", "ttl"}},
        ("job", "name"): _dapr_job(OK),
        ("job", "data", "type_url"): _ANY,
        ("job", "data", "value"): _ANY,  # test_limits.py has its size
    },
    "Dapr.GetJob": {("name",): _dapr_job(NOT_FOUND)},
    "Dapr.ListJobs": {},
    "Dapr.DeleteJob": {("name",): _dapr_job(OK)},
    "Dapr.DeleteJobsByPrefix": {("name_prefix",): Rule(_at_most(320 - len("dapr.orders/")), "prefix")},
    "Scheduler.ScheduleJob": {
        **{path: rule for path, rule in _TIMING.items() if path[1] in {"schedule", "due_time", "ttl"}},
        **_reminder(OK),
        ("job", "data", "type_url"): _ANY,
        ("job", "data", "value"): _ANY,
    },
    "Scheduler.GetJob": {
        path: rule if path[-1] in {"app_id", "concurrency_key"} else Rule(rule.code)
        for path, rule in _reminder(NOT_FOUND).items()
    },
    "Scheduler.ListJobs": _reminders(OK),
    "Scheduler.DeleteJob": _reminder(OK),
    "Scheduler.DeleteByMetadata": _reminders(OK),
    "Scheduler.DeleteByNamePrefix": {**_reminders(INVALID), ("name_prefix",): _TOLD},
    "HSC.NextClaims": {
        ("executor_id",): _EXECUTOR,
        ("nonce",): Rule(_must(r"[!-~]{1,64}"), "nonce"),
        ("lambda_set",): _OTHER_SET,
        ("lambdas",): _OTHER_SET,
        ("signatures",): _OTHER_SET,
        ("without",): _NEW_LAMBDA,
        ("pool",): _POOL,
        ("host",): _HOST,
    },
    "HSC.ReportHost": {
        ("pool",): _POOL,
        ("host",): _HOST,
        ("executors", "executor_id"): _EXECUTOR,
        ("executors", "lambda_sets"): Rule(_must("[0-9a-f]{32}"), "lambda_set"),
        ("sets", "digest"): _OTHER_SET,
        ("sets", "lambdas"): _OTHER_SET,
        ("sets", "signatures"): _OTHER_SET,
        ("quarantined", "lambda"): _NEW_LAMBDA,
        ("why_not",): Rule(_at_most(MAX_WHY_NOT_CHARS), "why_not"),
        ("version",): Rule(_must(_WORD), "version"),
        ("process",): Rule(_must(r"[!-~]{0,128}"), "process"),
    },
    "HSC.Heartbeat": {
        ("executor_id",): _EXECUTOR,
        ("claims", "claim", "task_id"): _ANY,
        ("claims", "claim", "token", "nonce"): _ANY,
        ("claims", "progress"): _ANY,
        ("claims", "log", "text"): _ANY,
    },
    "HSC.SetResults": {
        ("executor_id",): _EXECUTOR,
        ("results", "claim", "task_id"): _ANY,
        ("results", "claim", "token", "nonce"): _ANY,
        ("results", "result"): Rule(lambda text: OK if len(text.encode()) <= 65_536 else INVALID, "result"),
        ("results", "error"): _ANY,
        ("results", "log", "text"): _ANY,
        ("results", "signature"): _ANY,  # read of a misfit alone
        ("results", "traceparent"): _ANY,
    },
    "HSC.HandBack": {
        ("executor_id",): _EXECUTOR,
        ("claims", "task_id"): _ANY,
        ("claims", "token", "nonce"): _ANY,
        ("nonces",): Rule(_must(r"[!-~]{1,64}"), "nonce"),
    },
    "HSC.ReportLoss": {
        ("executor_id",): _EXECUTOR,
        ("claims", "task_id"): _ANY,
        ("claims", "token", "nonce"): _ANY,
        ("why",): _ANY,
    },
    "HSC.FirstTime": {
        ("executor_id",): _EXECUTOR,
        ("keys", "task_id"): Rule(_must(r"[01]-[A-Za-z0-9_-]{1,64}"), "task id"),
        ("keys", "namespace"): Rule(_must(_NAME), "namespace"),
        ("keys", "key"): Rule(lambda text: OK if 1 <= len(text) <= 255 and text.isprintable() else INVALID, "key"),
    },
    "HSC.IssueCredential": {("executor_id",): Rule(_must(r"[A-Za-z0-9._-]{1,64}"), "executor_id")},
    "StoreConsumer.Poll": {},
    "Controller.NextWork": {
        ("executor_id",): Rule(_must(_NAME), "executor_id"),
        ("stream",): Rule(_must("[a-z]{0,16}"), "stream"),
        ("lambdas",): Rule(_must(f"{_NAME}/{_NAME}"), "lambda"),
        ("boot_id",): Rule(lambda _: PRECONDITION, "host"),
        ("nonce",): Rule(_must(r"[!-~]{1,64}"), "nonce"),
        ("pool",): Rule(lambda text: PRECONDITION if text else OK, "pool"),
        ("signatures",): _DIGEST,
    },
    "Controller.Enter": {
        ("executor_id",): Rule(_must(_NAME), "executor_id"),
        ("secret",): Rule(lambda text: OK if 1 <= len(text) <= MAX_CHARS else INVALID, "secret"),
    },
    "Controller.ReportRuns": {
        ("executor_id",): Rule(_must(_NAME), "executor_id"),
        ("runs", "lambda"): Rule(_must(f"{_NAME}/{_NAME}"), "lambda"),
    },
}


def texts_of(message: Any, before: Path = (), within: tuple[Any, ...] = ()) -> Iterator[tuple[Path, FieldDescriptor]]:
    """The path of every text and run of bytes within a message; not those of a message within one of its own kind."""
    for each in message.fields:
        path = (*before, each.name)
        if each.type == FieldDescriptor.TYPE_MESSAGE:
            if each.message_type not in within:
                yield from texts_of(each.message_type, path, (*within, each.message_type))
        elif each.type in {FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES}:
            yield path, each


def fields_of(method: str) -> dict[Path, FieldDescriptor]:
    return dict(texts_of(METHODS[method].input_type))


def put(message: Message, path: Path, text: str) -> Message:
    """A copy of a full message with another text at a path."""
    made = type(message)()
    made.CopyFrom(message)
    _put(made, path, text)
    return made


def _put(message: Any, path: Path, text: str) -> None:
    name, *rest = path
    field = message.DESCRIPTOR.fields_by_name[name]
    if field.type == FieldDescriptor.TYPE_MESSAGE and field.message_type.GetOptions().map_entry:
        entries = getattr(message, name)
        ((key, value),) = entries.items()
        del entries[key]
        entries[text if rest == ["key"] else key] = text if rest == ["value"] else value
    elif rest:
        inner = getattr(message, name)
        _put(inner[0] if field.is_repeated else inner, tuple(rest), text)
    else:
        filled: Any = text.encode() if field.type == FieldDescriptor.TYPE_BYTES else text
        if field.is_repeated:
            getattr(message, name)[0] = filled
        else:
            setattr(message, name, filled)


# --- streams ----------------------------------------------------------------------------------------------------------

_REFUSED: Final = Rule(lambda _: INVALID, "callbacks[0]")
_CALLBACK: Final[dict[Path, Rule]] = {
    ("task", "lambda"): _LAMBDA,
    ("task", "payload"): Rule(lambda text: OK if not text else INVALID, "callbacks[0]: task.payload"),
    ("task", "labels", "key"): Rule(_at_most(64, 1), "label"),
    ("task", "labels", "value"): Rule(_at_most(64), "label"),
    ("task", "ordering_key"): Rule(lambda text: OK if not text else INVALID, "callbacks[0]"),
    ("task", "affinity_key"): Rule(_key(0), "affinity_key"),
    ("task", "traceparent"): _TRACE,
    ("task", "tracestate"): _TRACE,
    ("task", "concurrency", "key"): _REFUSED,
    ("task", "unique", "key"): _REFUSED,
    ("task", "tick", "job"): _REFUSED,
    ("task", "batch", "id"): _REFUSED,
    ("task", "batch", "follows"): _REFUSED,
    ("parameter",): Rule(_must(r"|[A-Za-z_][A-Za-z0-9_]{0,63}"), "parameter"),
}
STREAMED: Final[dict[str, dict[Path, Rule]]] = {
    "Frontend.ScheduleBatch": {
        ("header", "id"): Rule(_must(r"[A-Za-z0-9_-]{1,20}"), "batch id"),
        ("header", "request_id"): Rule(lambda text: INVALID if text else OK, "request_id"),  # of an extension only
        ("header", "spec", "lambda"): _LAMBDA,
        ("header", "spec", "labels", "key"): Rule(_at_most(64, 1), "label"),
        ("header", "spec", "labels", "value"): Rule(_at_most(64), "label"),
        ("header", "spec", "affinity_key"): Rule(_key(0), "affinity_key"),
        ("header", "spec", "traceparent"): _TRACE,
        ("header", "spec", "tracestate"): _TRACE,
        **{("header", "spec", "callbacks", *path): rule for path, rule in _CALLBACK.items()},
        ("items", "items", "payload"): _ANY,  # its texts are given; test_batches.py has what is read
        ("items", "items", "arguments"): _ANY,
        ("items", "items", "target"): Rule(_must(_NAME), "item 0: target"),
    },
    "Frontend.WatchBatch": {("id",): _BATCH},
    "Frontend.WatchLog": {("id",): _STORED},
}
"""Of methods that stream; see test_batches.py."""
WATCHED: Final[dict[str, dict[Path, Rule]]] = {
    "Scheduler.WatchJobs": {
        ("initial", "app_id"): _given(OK, "initial.app_id"),
        ("initial", "namespace"): _given(OK, "initial.namespace"),
        ("initial", "actor_types"): _ANY,  # one that no actor has matches nothing
        ("initial", "concurrency_limits", "name"): _ANY,
        ("initial", "concurrency_limits", "actor", "type"): _ANY,
    },
    "Scheduler.WatchHosts": {},
}
"""Of Dapr's streams; see test_watch.py."""
