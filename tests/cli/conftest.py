"""The command as a user calls it, against a frontend that is a Python object."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from atf.cli import main, remote
from atf.errors import AtfError, TaskNotFound
from atf.rpc import frontend_pb2 as f, job_pb2 as j, task_pb2 as t
from atf.sdk.messages import of_lambda


def _of(name: str) -> dict[str, Any]:
    """The field whose name is a keyword."""
    return {"lambda": name}


def _token(token_id: str, **fields: Any) -> f.AccessToken:
    return f.AccessToken(id=token_id, pools=["*"], by="ada", **fields)


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out.count("\n") == 1, "one document on one line"
        return json.loads(self.out)


class FakeFrontend:
    """Remembers what was asked; knows the tasks and lambdas it is given."""

    def __init__(self) -> None:
        self.tasks: dict[str, t.Task] = {}
        self.lambdas: list[f.LambdaInfo] = []
        self.starts: set[str] = set()
        """Tasks that start once they have been listed."""
        self.claims_paused = ""
        self.keys: list[f.KeyInfo] = []
        self.warnings: list[str] = []
        self.waits: list[tuple[str, int]] = []
        self.jobs: list[j.Job] = []
        self.capacity = f.Capacity()
        self.asked: list[Any] = []
        self.looked_up: list[str] = []
        self.addresses: list[str] = []
        self.fails: AtfError | None = None

    def add(self, task_id: str, status: t.Status, **fields: Any) -> t.Task:
        self.tasks[task_id] = task = t.Task(id=task_id, status=status, **fields)
        setattr(task, "lambda", "shop/mail")
        return task

    def _note(self, request: Any) -> None:
        self.asked.append(request)
        if self.fails:
            raise self.fails

    async def schedule(self, request: f.ScheduleRequest, *, timeout: float = 10) -> f.ScheduleReply:
        self._note(request)
        self.add(f"0-{request.id}", t.SUCCESS, result=b'{"sent":true}')
        return f.ScheduleReply(id=f"0-{request.id}", scheduled_at_us=5)

    async def get_task(self, request: f.GetTaskRequest, *, timeout: float = 10) -> t.Task:
        self._note(request)
        if request.id not in self.tasks:
            raise TaskNotFound(f"no task {request.id}")
        return self.tasks[request.id]

    async def list_tasks(self, request: f.ListTasksRequest, *, timeout: float = 10) -> f.ListTasksReply:
        self._note(request)
        found = [task for task in self.tasks.values() if task.status in (request.filter.statuses or [task.status])]
        start = int(request.page_token or 0)
        end = start + min(request.page_size, 2)  # small pages, so that paging is seen
        reply = f.ListTasksReply(tasks=found[start:end], next_page_token=str(end) if end < len(found) else "")
        for each in self.starts:
            self.tasks[each].status = t.PROCESSING
        return reply

    async def wait_tasks(self, request: f.WaitTasksRequest, *, timeout: float = 70) -> f.WaitTasksReply:
        self._note(request)
        finished = {t.SUCCESS, t.FATAL_FAILURE, t.CANCELLED}
        return f.WaitTasksReply(tasks=[self.tasks[i] for i in request.ids if self.tasks[i].status in finished])

    async def cancel_tasks(self, request: f.CancelTasksRequest, *, timeout: float = 10) -> f.CancelTasksReply:
        self._note(request)
        results = []
        for each in request.ids:
            status = self.tasks[each].status if each in self.tasks else t.STATUS_UNSPECIFIED
            cancelled, runs = status == t.NEW, status == t.PROCESSING
            after = t.CANCELLED if cancelled else status
            results.append(f.CancelResult(id=each, status=after, cancelled=cancelled, cancel_requested=runs))
        return f.CancelTasksReply(results=results)

    async def retry_tasks(self, request: f.RetryTasksRequest, *, timeout: float = 10) -> f.RetryTasksReply:
        self._note(request)
        results = []
        for each in request.ids:
            status = self.tasks[each].status if each in self.tasks else t.STATUS_UNSPECIFIED
            retried, held_by = status == t.FATAL_FAILURE, "0-other" if status == t.CANCELLED else ""
            status = t.NEW if retried else status
            results.append(f.RetryResult(id=each, status=status, retried=retried, held_by=held_by))
        return f.RetryTasksReply(results=results)

    async def list_lambdas(self, request: f.ListLambdasRequest, *, timeout: float = 10) -> f.ListLambdasReply:
        if name := getattr(request, "lambda"):  # so commands ask that read arguments by its signature
            self.looked_up.append(name)
        else:
            self._note(request)
        by_name = {each.spec.name: each for each in self.lambdas}
        return f.ListLambdasReply(lambdas=[by_name[name] for name in sorted(by_name)], claims_paused=self.claims_paused)

    async def register_lambdas(
        self, request: f.RegisterLambdasRequest, *, timeout: float = 10
    ) -> f.RegisterLambdasReply:
        self._note(request)
        return f.RegisterLambdasReply(warnings=self.warnings)

    async def list_jobs(self, request: f.ListJobsRequest, *, timeout: float = 10) -> f.ListJobsReply:
        self._note(request)
        return f.ListJobsReply(jobs=[each for each in self.jobs if each.spec.name.startswith(request.prefix)])

    async def delete_job(self, request: f.DeleteJobRequest, *, timeout: float = 10) -> f.DeleteJobReply:
        self._note(request)
        return f.DeleteJobReply(existed=True)

    async def pause_lambda(self, request: f.PauseLambdaRequest, *, timeout: float = 10) -> f.PauseLambdaReply:
        self._note(request)
        return f.PauseLambdaReply()

    async def resume_lambda(self, request: f.ResumeLambdaRequest, *, timeout: float = 10) -> f.ResumeLambdaReply:
        self._note(request)
        return f.ResumeLambdaReply()

    async def set_lambda(self, request: f.SetLambdaRequest, *, timeout: float = 10) -> f.LambdaInfo:
        self._note(request)
        info = self.lambdas[0]
        return f.LambdaInfo(spec=info.spec, in_force=info.spec) if request.unset else info

    async def list_keys(self, request: f.ListKeysRequest, *, timeout: float = 10) -> f.ListKeysReply:
        self._note(request)
        found = [each for each in self.keys if request.key in {"", each.key} and (request.key or each.stopped)]
        start = int(request.page_token or 0)
        end = start + 2  # small pages, so that paging is seen
        return f.ListKeysReply(keys=found[start:end], next_page_token=str(end) if end < len(found) else "")

    async def list_concurrency_keys(
        self, request: f.ListConcurrencyKeysRequest, *, timeout: float = 10
    ) -> f.ListConcurrencyKeysReply:
        self._note(request)
        last = bool(request.page_token or request.key)
        found = {"": [f.ConcurrencyKeyInfo(key=request.key or "anna", taken=3, limit=3, waiting=7)], "1": []}
        return f.ListConcurrencyKeysReply(keys=found[request.page_token], next_page_token="" if last else "1")

    async def resume_key(self, request: f.ResumeKeyRequest, *, timeout: float = 10) -> f.ResumeKeyReply:
        self._note(request)
        return f.ResumeKeyReply(task_id=request.task_id, retried=request.key != "gone")

    async def skip_key(self, request: f.SkipKeyRequest, *, timeout: float = 10) -> f.SkipKeyReply:
        self._note(request)
        return f.SkipKeyReply(task_id=request.task_id)

    async def set_capacity(self, request: f.SetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        self._note(request)
        return self.capacity

    async def get_capacity(self, request: f.GetCapacityRequest, *, timeout: float = 10) -> f.Capacity:
        self._note(request)
        return self.capacity

    async def list_capacity(self, request: f.ListCapacityRequest, *, timeout: float = 10) -> f.ListCapacityReply:
        self._note(request)
        return f.ListCapacityReply(pools=["default", "gpu"])

    async def create_token(self, request: f.CreateTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        self._note(request)
        return _token(request.id, verbs=request.verbs, scopes=request.scopes, subject=request.subject)

    async def list_tokens(self, request: f.ListTokensRequest, *, timeout: float = 10) -> f.ListTokensReply:
        self._note(request)
        gone = _token("klmnopqrst", verbs=["admin"], scopes=["*"], revoked_us=2_000_000)
        return f.ListTokensReply(tokens=[_token("abcdefghij", verbs=["read"], scopes=["photos"], note="web"), gone])

    async def rotate_token(self, request: f.RotateTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        self._note(request)
        return _token(request.id)

    async def revoke_token(self, request: f.RevokeTokenRequest, *, timeout: float = 10) -> f.AccessToken:
        self._note(request)
        return _token(request.id, revoked_us=1)

    async def rotate_signing_key(
        self, request: f.RotateSigningKeyRequest, *, timeout: float = 10
    ) -> f.RotateSigningKeyReply:
        self._note(request)
        return f.RotateSigningKeyReply(made_at_us=1_000_000, others_until_us=301_000_000)

    async def list_hosts(self, request: f.ListHostsRequest, *, timeout: float = 10) -> f.ListHostsReply:
        self._note(request)
        one = f.WorkerHost(
            name="one:7403", pool="default", quarantined=[f.QuarantinedLambda(until_us=12_500_000, **_of("shop/mail"))]
        )
        two = f.WorkerHost(name="two:7403", pool="gpu", quarantined=[f.QuarantinedLambda(**_of("*"))])
        return f.ListHostsReply(hosts=[one, two], now_us=10_000_000)

    async def set_gate(self, request: f.SetGateRequest, *, timeout: float = 10) -> f.Gate:
        self._note(request)
        return f.Gate(
            **{"lambda": getattr(request, "lambda")},
            labels=request.labels,
            action=request.action,
            delay_us=request.delay_us,
            share=request.share,
            until_at_us=request.until_at_us,
        )

    async def lift_gate(self, request: f.LiftGateRequest, *, timeout: float = 10) -> f.LiftGateReply:
        self._note(request)
        return f.LiftGateReply(lifted=1 if getattr(request, "lambda") == "shop/mail" else 0)

    async def list_gates(self, request: f.ListGatesRequest, *, timeout: float = 10) -> f.ListGatesReply:
        gate = f.Gate(labels={"team": "web"}, action=f.Gate.ADMIT, share=0.05, who="ada", why="it rains", waiting=7)
        setattr(gate, "lambda", "shop/mail")
        return f.ListGatesReply(gates=[gate])

    async def count_tasks(self, request: f.CountTasksRequest, *, timeout: float = 10) -> f.CountTasksReply:
        self._note(request)
        counts = f.LambdaCounts(counts={"NEW": 2, "RETRIABLE_FAILURE": 3, "SUCCESS": 4}, **of_lambda("shop/mail"))
        return f.CountTasksReply(lambdas=[counts])

    async def cancel_matching(self, request: f.CancelMatchingRequest, *, timeout: float = 10) -> f.CancelMatchingReply:
        self._note(request)
        done = not request.dry_run
        return f.CancelMatchingReply(matched=3, cancelled=2 * done, requested=int(done), looked_at=9, of=9, ids=["0-a"])

    async def redrive(self, request: f.RedriveRequest, *, timeout: float = 10) -> f.RedriveReply:
        self._note(request)
        redriven = 0 if request.dry_run else 2
        return f.RedriveReply(matched=2, redriven=redriven, looked_at=3, errors={"it rained": 2}, ids=["0-a", "0-b"])

    async def list_audit(self, request: f.ListAuditRequest, *, timeout: float = 10) -> f.ListAuditReply:
        if getattr(request, "lambda") and not request.before:
            return f.ListAuditReply(before=4)  # a page of other lambdas' entries
        entry = f.AuditEntry(number=3, at_us=1, what="set_gate", who="ada", why="it rains", detail="admit 5 %")
        setattr(entry, "lambda", "shop/mail")
        return f.ListAuditReply(entries=[entry])

    async def list_failures(self, request: f.ListFailuresRequest, *, timeout: float = 10) -> f.ListFailuresReply:
        self._note(request)
        if not request.page_token:
            return f.ListFailuresReply(next_page_token="2")  # a page of other lambdas' groups
        group = f.FailureGroup(id="41c7b2d09e3a", error_type="OSError", place="shop/till.py:pay", message="rain\nfell")
        group.count, group.first_at_us, group.last_at_us, group.task_id = 2, 1, 2, "0-a"
        setattr(group, "lambda", "shop/mail")
        return f.ListFailuresReply(groups=[group])

    async def explain_task(self, request: f.ExplainTaskRequest, *, timeout: float = 10) -> f.ExplainTaskReply:
        self._note(request)
        task = await self.get_task(f.GetTaskRequest(id=request.id))
        reply = f.ExplainTaskReply(task=task, reason="not_due", sentence="It is due in 30 s.", until_us=7, position=-1)
        for reason, us in self.waits:
            reply.waits.add(reason=reason, begun_us=1, us=us)
        return reply


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No atf.toml and no setting of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATF_CONFIG", str(tmp_path / "atf.toml"))
    for name in ("ATF_FRONTEND", "ATF_REDIS_URL", "ATF_DEBUG", "ATF_PROMETHEUS", "ATF_TOKEN", "ATF_TLS_CA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("atf.cli.status.budgets_now", lambda _seconds: [])  # whatever runs on this machine


@pytest.fixture
def frontend(monkeypatch: pytest.MonkeyPatch) -> FakeFrontend:
    fake = FakeFrontend()

    @asynccontextmanager
    async def connect(address: str, **_more: bool) -> AsyncIterator[FakeFrontend]:
        fake.addresses.append(address)
        yield fake

    monkeypatch.setattr(remote, "connect", connect)
    return fake


class Atf:
    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str) -> Ran:
        self._capsys.readouterr()
        code = main(arguments)
        captured = self._capsys.readouterr()
        return Ran(code, captured.out, captured.err)


@pytest.fixture
def atf(capsys: pytest.CaptureFixture[str]) -> Atf:
    return Atf(capsys)
