"""What a user of Dapr's client does with jobs, by nothing but Dapr's own package, whose environment it runs in.

    DAPR_GRPC_ENDPOINT=... DAPR_HTTP_ENDPOINT=http://... python -P proof/dapr/client.py

Prints what it found as JSON: {"version", "checks": {what: "" or what was wrong}}, without what this release has no calls for. The jobs that tick are left for their application.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

import grpc
from dapr.clients import DaprClient, Job
from dapr.clients.exceptions import DaprGrpcError
from dapr.clients.grpc._jobs import ConstantFailurePolicy, DropFailurePolicy
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.wrappers_pb2 import StringValue

CHECKS: dict[str, Callable[[DaprJobs], None]] = {}


class NotThereError(Exception):
    """This release has no such calls."""


class DaprJobs:
    """DaprClient, whatever its methods about jobs are called in this release."""

    def __init__(self, own: Any) -> None:
        self.own = own
        self.schedule, self.get, self.delete = (
            getattr(own, f"{verb}_job", None) or getattr(own, f"{verb}_job_alpha1")
            for verb in ("schedule", "get", "delete")
        )


def check(fn: Callable[[DaprJobs], None]) -> Callable[[DaprJobs], None]:
    CHECKS[fn.__name__] = fn
    return fn


def carrying(text: str) -> AnyMessage:
    data = AnyMessage()
    data.Pack(StringValue(value=text))
    return data


def refused(code: grpc.StatusCode, reason: str, call: Callable[[], Any]) -> None:
    """Whether a call is refused so, with one of Dapr's own reasons."""
    found: Any = None
    try:
        call()
    except DaprGrpcError as error:
        found = error
    assert found is not None, f"it was not refused; {code} was due"
    assert found.code() is code, f"{found.code()} {found.details()}"
    info = found.status_details().error_info
    assert (info["reason"], info["domain"]) == (reason, "dapr.io"), info


def http(method: str, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(os.environ["DAPR_HTTP_ENDPOINT"] + path, data=data, method=method)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            text = answer.read()
            return answer.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@check
def a_job_is_made_and_read_as_it_was_sent(client: DaprJobs) -> None:
    policy = ConstantFailurePolicy(max_retries=5, interval_seconds=3)
    sent = Job("made", "@every 1m", 4_000_000_000, "1000s", "2000s", carrying("a"), policy)
    client.schedule(sent)
    found = client.get("made")
    for field in ("name", "schedule", "repeats", "due_time", "ttl", "data"):
        assert getattr(found, field) == getattr(sent, field), f"{field}: {getattr(found, field)!r}"
    assert (found.failure_policy.max_retries, found.failure_policy.interval_seconds) == (5, 3)


@check
def a_job_of_few_words_comes_back_with_no_more(client: DaprJobs) -> None:
    client.schedule(Job("bare", "@daily"))
    found = client.get("bare")
    assert found == Job("bare", "@daily"), found


@check
def policies_come_back(client: DaprJobs) -> None:
    client.schedule(Job("drop", "@daily", failure_policy=DropFailurePolicy()))
    assert isinstance(client.get("drop").failure_policy, DropFailurePolicy)
    client.schedule(Job("ever", "@daily", failure_policy=ConstantFailurePolicy(None, 7)))
    found = client.get("ever").failure_policy
    assert (found.max_retries, found.interval_seconds) == (None, 7), vars(found)


@check
def a_name_is_taken_until_told_to_overwrite(client: DaprJobs) -> None:
    client.schedule(Job("twice", "@daily"))
    again = Job("twice", "@hourly")
    refused(grpc.StatusCode.ALREADY_EXISTS, "DAPR_SCHEDULER_SCHEDULE_JOB", lambda: client.schedule(again))
    assert client.get("twice").schedule == "@daily"
    client.schedule(again, overwrite=True)
    assert client.get("twice").schedule == "@hourly"


@check
def a_bad_schedule_is_refused(client: DaprJobs) -> None:
    bad = Job("bad", "@every never")
    refused(grpc.StatusCode.INVALID_ARGUMENT, "DAPR_SCHEDULER_SCHEDULE_JOB", lambda: client.schedule(bad))
    refused(grpc.StatusCode.NOT_FOUND, "DAPR_SCHEDULER_GET_JOB", lambda: client.get("bad"))


@check
def a_job_is_deleted_and_deleting_again_is_no_error(client: DaprJobs) -> None:
    client.schedule(Job("gone", "@daily"))
    client.delete("gone")
    client.delete("gone")
    refused(grpc.StatusCode.NOT_FOUND, "DAPR_SCHEDULER_GET_JOB", lambda: client.get("gone"))


@check
def jobs_are_listed_and_deleted_by_prefix(client: DaprJobs) -> None:
    from dapr.proto import api_v1

    if not hasattr(api_v1, "ListJobsRequest"):
        raise NotThereError
    for name in ("list-1", "list-2"):
        client.schedule(Job(name, "@daily"))
    listed = {each.name for each in client.own._stub.ListJobs(api_v1.ListJobsRequest()).jobs}
    assert {"list-1", "list-2"} <= listed, listed
    client.own._stub.DeleteJobsByPrefix(api_v1.DeleteJobsByPrefixRequest(name_prefix="list-"))
    left = {each.name for each in client.own._stub.ListJobs(api_v1.ListJobsRequest()).jobs}
    assert listed - left == {"list-1", "list-2"}, left


@check
def the_http_api_has_the_same_jobs(client: DaprJobs) -> None:
    assert http("GET", "/v1.0/healthz/outbound") == (204, None)
    body = {"schedule": "@every 1h", "repeats": 3, "dueTime": "1h", "data": {"a": [1, "b"]}}
    assert http("POST", "/v1.0/jobs/web", body) == (204, None)
    status, answer = http("POST", "/v1.0-alpha1/jobs/web", body)
    assert (status, answer["errorCode"]) == (409, "DAPR_SCHEDULER_SCHEDULE_JOB"), answer
    assert http("GET", "/v1.0/jobs/web") == (200, {"name": "web", **body})
    assert client.get("web").schedule == "@every 1h"
    assert http("DELETE", "/v1.0/schedule/jobs/web") == (204, None)
    assert http("GET", "/v1.0/jobs/web")[0] == 404


@check
def jobs_that_tick_are_made(client: DaprJobs) -> None:
    ticking: dict[str, dict[str, Any]] = {
        "once": {"due_time": "0s"},
        "thrice": {"schedule": "@every 1s", "repeats": 3},
        "fails-twice": {"due_time": "1s", "failure_policy": ConstantFailurePolicy(3, 1)},
        "steady": {"schedule": "@every 1s", "failure_policy": ConstantFailurePolicy(60, 1)},
    }
    for name, timing in ticking.items():
        client.schedule(Job(name, data=carrying(f"of {name}"), **timing), overwrite=True)
    assert http("POST", "/v1.0/jobs/by-http", {"dueTime": "0s", "data": "web"}) == (204, None)


def main() -> None:
    found = {}
    with DaprClient() as own:  # which waits for the readiness path
        client = DaprJobs(own)
        for name, fn in CHECKS.items():
            try:
                fn(client)
            except NotThereError:
                continue
            except Exception as error:  # noqa: BLE001  one finding; the others are looked at all the same
                found[name] = f"{type(error).__name__}: {error}"
            else:
                found[name] = ""
    print(json.dumps({"version": importlib.metadata.version("dapr"), "checks": found}))


if __name__ == "__main__":
    main()
