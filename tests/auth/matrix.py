"""Tries the whole table of who may call what over the wire: every method of every service, with every kind of token, on what is its own and what is
another namespace's. Methods and services come from the descriptors, what is expected from the table (atf/auth/methods.py).

`make permissions` prints it as it was tried.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import fakeredis
import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from atf.auth import secrets
from atf.auth.authenticator import TokenAuthenticator
from atf.auth.dev_certificates import DevAuthority
from atf.auth.executor_credentials import KEY_BYTES, Credential, sign
from atf.auth.grants import ALL, Verb
from atf.auth.known_tokens import KnownTokens, TokenTable
from atf.auth.methods import DAPR, DAPR_SCHEDULER, RULES, Over
from atf.auth.token_record import TokenRecord
from atf.config.dapr_names import DELIVER
from atf.config.settings import FrontendSettings, SecuritySettings, StoreSettings, Timing
from atf.frontend.dapr.runtime import DaprRuntime
from atf.frontend.dapr.scheduler import SchedulerService
from atf.rpc import (
    batch_pb2 as b,
    dapr_runtime_pb2 as d,
    dapr_scheduler_pb2 as s,
    frontend_pb2 as f,
    hsc_pb2 as h,
    job_pb2 as j,
    store_consumer_pb2 as c,
    task_pb2 as t,
)
from atf.rpc.server import Service, serve
from atf.rpc.server_security import ServerSecurity
from atf.rpc.server_tls import server_credentials
from atf.rpc.stub import snake_case
from atf.runtime import SystemRuntime
from atf.store.store import Store
from atf.testing.wiring import Wiring

OWN, OTHER = "own/make", "other/make"
NAMESPACES: Final = {"own": OWN, "other": OTHER}
SCOPES: Final = ("own", "dapr.own", "dapr-scheduler.own")
CHANCE: Final = random.Random(1)
FRONTEND: Final = "atf.v1.Frontend"
BAD: Final = ("no", "wrong", "expired", "revoked")
EXECUTOR, CODE, CERTIFICATE = "executor", "code", "certificate"
"""Of an executor, and of the code in it, by a token that may schedule, read and work; and of a client, with the verb admin. Both for `own`."""
BAD_HOLDERS: Final = (
    "executor expired",
    "executor revoked",
    "executor forged",
    "certificate unknown",
    "certificate revoked",
)
OF_HANDS: Final = frozenset({Verb.SCHEDULE, Verb.READ, Verb.READ_PAYLOAD, Verb.WORK})
GOOD: Final = (*(each.value for each in Verb), EXECUTOR, CODE, CERTIFICATE)
_KEY: Final = b"k" * KEY_BYTES
LET_IN, NO_TOKEN, DENIED, HIDDEN = "let in", "UNAUTHENTICATED", "PERMISSION_DENIED", "not there"


class Cell(NamedTuple):
    """One try."""

    method: str
    token: str
    of: str
    expected: str
    found: str


def services() -> dict[str, ServiceDescriptor]:
    """All services that take tokens, by what callers call them."""
    of = {
        name: each.DESCRIPTOR.services_by_name[name]
        for name, each in (("Frontend", f), ("HSC", h), ("StoreConsumer", c))
    }
    return {each.full_name: each for each in of.values()} | {
        DAPR: d.DESCRIPTOR.services_by_name["Dapr"],
        DAPR_SCHEDULER: s.DESCRIPTOR.services_by_name["Scheduler"],
    }


class Stub:
    """Answers every call of a service with nothing: what its methods look at themselves has tests of its own (tests/hsc/test_permits.py)."""

    def __init__(self, service: ServiceDescriptor) -> None:
        for method in service.methods:
            setattr(self, snake_case(method.name), self._answer(method))

    def _answer(self, method: MethodDescriptor) -> Any:
        kind = GetMessageClass(method.output_type)

        async def one(_request: object) -> Message:
            return kind()

        async def stream(_request: object) -> AsyncIterator[Message]:
            yield kind()

        return stream if method.server_streaming else one


class World:
    """A server of all services, with a task, a batch and a job of each namespace."""

    def __init__(
        self, address: str, tokens: dict[str, str], store: Store, frontend: Any, security: ServerSecurity
    ) -> None:
        self.address, self.tokens, self.store, self.frontend = address, tokens, store, frontend
        self.security = security
        self.tasks: dict[str, str] = {}
        self.batches: dict[str, str] = {}
        self._made = 0
        self.channel = grpc.aio.insecure_channel(address)
        self.by_certificate: dict[str, Any] = {}
        """Channels by whose certificate they show."""

    async def fill(self, name: str, lambda_name: str) -> None:
        """Makes what calls find: anew before each that may change it."""
        of: dict[str, Any] = {"lambda": lambda_name}
        self.tasks[name] = (await self.frontend.schedule(f.ScheduleRequest(spec=t.TaskSpec(**of)))).id
        await self.frontend.schedule_job(f.ScheduleJobRequest(job=_job(name, of), overwrite=True))
        self._made += 1
        self.batches[name] = f"batch-{name}-{self._made}"
        await self.frontend.schedule_batch(_batch(self.batches[name], of))

    async def call(
        self, path: str, method: MethodDescriptor, token: str, requests: list[Message]
    ) -> tuple[str, list[Any]]:
        """The status of a call, and what was answered until then.

        Where a message of a stream was still on its way as the refusal came, gRPC's client may tell of the message in its place: then it is asked again.
        """
        code, answers = await self._called(path, method, token, requests)
        for _ in range(10):
            if code == "INTERNAL" and method.client_streaming:
                code, answers = await self._called(path, method, token, requests)
        return code, answers

    async def _called(
        self, path: str, method: MethodDescriptor, token: str, requests: list[Message]
    ) -> tuple[str, list[Any]]:
        shown = self.tokens.get(token, "")
        metadata = [("authorization", f"Bearer {shown}")] if shown else []
        decode = GetMessageClass(method.output_type).FromString
        kind = f"{'stream' if method.client_streaming else 'unary'}_{'stream' if method.server_streaming else 'unary'}"
        made = getattr(self.by_certificate.get(token, self.channel), kind)(
            path, request_serializer=lambda each: each.SerializeToString(), response_deserializer=decode
        )
        asked = made(iter(requests) if method.client_streaming else requests[0], metadata=metadata, timeout=30)
        try:
            if not method.server_streaming:
                return "OK", [await asked]
            answer = await asked.read()
            asked.cancel()
            return "OK", [] if answer is grpc.aio.EOF else [answer]
        except grpc.aio.AioRpcError as error:
            return error.code().name, []


def _job(name: str, of: dict[str, Any]) -> j.JobSpec:
    return j.JobSpec(name=f"{name}/job", schedule="@every 1h", task=t.TaskSpec(**of))


async def _batch(batch_id: str, of: dict[str, Any]) -> AsyncIterator[b.ScheduleBatchRequest]:
    for each in _batch_messages(batch_id, of):
        yield each


def _batch_messages(batch_id: str, of: dict[str, Any]) -> list[b.ScheduleBatchRequest]:
    return [
        b.ScheduleBatchRequest(header=b.BatchHeader(id=batch_id, spec=b.BatchSpec(**of))),
        b.ScheduleBatchRequest(items=b.BatchItems(items=[b.BatchItem(payload=b"{}")])),
        b.ScheduleBatchRequest(end=b.BatchEnd(items=1)),
    ]


def requests_of(world: World, service: str, method: MethodDescriptor, name: str) -> list[Message]:
    """What is sent to a method, about what is of a namespace. Fields of the same name mean the same in all requests."""
    of: dict[str, Any] = {"lambda": NAMESPACES[name]}
    kind, own = GetMessageClass(method.input_type), method.name
    if own == "ScheduleBatch":
        return list(_batch_messages(f"new-{name}", of))
    if service == DAPR_SCHEDULER:
        return [_of_sidecar(kind, name)]
    scheduled = f.ScheduleRequest(spec=t.TaskSpec(**of))
    special: dict[str, dict[str, Any]] = {
        "Schedule": {"spec": t.TaskSpec(**of)},
        "ScheduleMany": {"requests": [scheduled]},
        "ScheduleJob": {"job": _job(name, of), "overwrite": True},
        "ScheduleJobs": {"requests": [f.ScheduleJobRequest(job=_job(name, of), overwrite=True)]},
        "RegisterLambdas": {"lambdas": [f.LambdaSpec(name=NAMESPACES[name])]},
        "Redrive": {"filter": f.TaskFilter(statuses=[t.CANCELLED])},
        "CancelMatching": {"filter": f.TaskFilter(statuses=[t.NEW])},
        "SetGate": {"action": f.Gate.PAUSE},
    }
    if service == DAPR:
        return [
            kind(job=d.Job(name="a", schedule="@every 1h"), overwrite=True)
            if own.startswith("ScheduleJob")
            else kind(**({"name": "a"} if "name" in kind.DESCRIPTOR.fields_by_name else {}))
        ]
    known = {
        "lambda": of["lambda"],
        "ids": [world.tasks[name]],
        "id": world.batches[name] if "Batch" in own else world.tasks[name],
        "name": f"{name}/job",
        "prefix": f"{name}/j",
        "key": "k",
        "who": "me",
        "dry_run": True,
        "set": {"queue_limit": "7"},
    }
    listed = RULES[f"/{service}/{own}"].over is Over.LISTED
    fields = {each for each in kind.DESCRIPTOR.fields_by_name if not (listed and each == "lambda")}
    if own in {"ScheduleMany", "Schedule", "ScheduleJob", "RegisterLambdas"}:
        fields = set()
    return [kind(**{field: value for field, value in known.items() if field in fields} | special.get(own, {}))]


def _of_sidecar(kind: Any, name: str) -> Message:
    metadata = s.JobMetadata(namespace=name, app_id="app", target=s.JobTargetMetadata(job=s.TargetJob()))
    known = {
        "name": "a",
        "metadata": metadata,
        "job": s.Job(schedule="@every 1h"),
        "overwrite": True,
        "initial": s.WatchJobsRequestInitial(namespace=name, app_id="app"),
    }
    made: Message = kind(**{field: value for field, value in known.items() if field in kind.DESCRIPTOR.fields_by_name})
    return made


def expected_of(path: str, token: str, name: str) -> str:
    """What the table says of a holder."""
    if token in {*BAD, *BAD_HOLDERS}:
        return NO_TOKEN
    if token in {EXECUTOR, CODE}:
        may = RULES[path].executors and (RULES[path].code or token == EXECUTOR)
        return expected(path, OF_HANDS, name) if may else DENIED
    return expected(path, frozenset({Verb.ADMIN if token == CERTIFICATE else Verb(token)}), name)


def expected(path: str, verbs: frozenset[Verb], name: str) -> str:
    """What the table says of a token for the namespace `own` that has these verbs."""
    rule = RULES[path]
    if rule.verb is not None and rule.verb not in verbs and Verb.ADMIN not in verbs:
        return DENIED
    if rule.over in {Over.CLUSTER, Over.DELIVERY}:
        return DENIED
    if name == "own" or rule.over in {Over.NOTHING, Over.OWN}:
        return LET_IN
    return DENIED if rule.over is Over.NAMED else HIDDEN


def verdict(path: str, code: str, answers: list[Any], name: str) -> str:
    """What came of a call, in the words of `expected`."""
    if code in {NO_TOKEN, DENIED}:
        return code
    if code == "NOT_FOUND" and (name == "other" or RULES[path].over is Over.FOUND):
        return HIDDEN
    errors = {
        each.error.code for answer in answers for each in getattr(answer, "results", ()) if hasattr(each, "error")
    }
    if errors & {DENIED}:
        return DENIED
    if name == "own" or RULES[path].over not in {Over.LISTED, Over.FOUND}:
        return LET_IN
    told = b"".join(each.SerializeToString() for each in answers)
    if RULES[path].over is Over.LISTED:
        return HIDDEN if OTHER.encode() not in told and b"-other" not in told and b"other/job" not in told else LET_IN
    return HIDDEN if all(_nothing(each) for each in answers) else LET_IN


def _nothing(answer: Any) -> bool:
    """Whether an answer says of what was asked for that it does not exist."""
    if hasattr(answer, "existed"):
        return not answer.existed
    return all(each.status == 0 for each in answer.results)


@asynccontextmanager
async def world() -> AsyncIterator[World]:
    """The server, over fakeredis."""
    runtime, timing = SystemRuntime(), Timing()
    settings = StoreSettings(partitions=1, push_when_scheduled=False)
    store = await Store.open(settings, timing, runtime, fake=fakeredis.FakeServer(version=(7, 4)))
    frontend = Wiring(runtime, timing).frontend(store, FrontendSettings())
    await frontend.register_lambdas(
        f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=each) for each in (OWN, OTHER)])
    )
    tokens, records = _tokens()

    async def read(_version: int) -> TokenTable:
        return TokenTable(1, records, (_KEY,))

    security = ServerSecurity(TokenAuthenticator(KnownTokens(read, runtime), runtime))
    scheduler = SchedulerService(frontend=frontend, store=store, timing=timing, runtime=runtime)
    logic: dict[str, object] = {
        FRONTEND: frontend,
        DAPR: None,
        DAPR_SCHEDULER: scheduler,
    }
    served = []
    for name, each in services().items():
        if name == DAPR:
            served.append(
                Service(each, DaprRuntime(frontend, FrontendSettings(dapr_app_id="own")), name=name, metadata=True)
            )
        else:
            served.append(Service(each, logic.get(name) or Stub(each), name=name))
    server = await serve("127.0.0.1:0", served, security=security)
    authority = DevAuthority(datetime.now(UTC))
    with TemporaryDirectory() as folder:
        credentials = server_credentials(_of_certificates(Path(folder), authority))
    by_tls = await serve("127.0.0.1:0", served, security=replace(security, credentials=credentials))
    made = World(server.address, tokens, store, frontend, security)
    for subject in (CERTIFICATE, "certificate unknown", "certificate revoked"):
        chain, key = authority.client(subject)
        shown = grpc.ssl_channel_credentials(authority.pair[0], key, chain)
        made.by_certificate[subject] = grpc.aio.secure_channel(by_tls.address, shown)
    try:
        yield made
    finally:
        for each in (made.channel, *made.by_certificate.values()):
            await each.close()
        frontend.drain()
        scheduler.drain()
        await server.stop(0)
        await by_tls.stop(0)
        await scheduler.close()
        await store.close()


def _tokens() -> tuple[dict[str, str], dict[str, TokenRecord]]:
    """A token for each verb, one for all of a cluster, and those that are none any more."""
    shown: dict[str, str] = {}
    records: dict[str, TokenRecord] = {}
    kinds: dict[str, dict[str, Any]] = {each.value: {"verbs": (each.value,)} for each in Verb}
    kinds |= {"everywhere": {"verbs": ("admin",), "scopes": (ALL, DELIVER, *SCOPES)}}
    kinds |= {"expired": {"verbs": ("admin",), "expires_us": 1}, "revoked": {"verbs": ("admin",), "revoked_us": 1}}
    for kind, values in kinds.items():
        token_id = secrets.new_id(CHANCE.randbytes)
        shown[kind] = secrets.new_token(token_id, CHANCE.randbytes)
        records[token_id] = TokenRecord(
            **{"id": token_id, "scopes": SCOPES, "digest": secrets.digest_of(shown[kind])} | values
        )
    hand, dead = (secrets.new_id(CHANCE.randbytes) for _ in range(2))
    records[hand] = TokenRecord(id=hand, scopes=SCOPES, verbs=tuple(OF_HANDS))
    records[dead] = TokenRecord(id=dead, scopes=SCOPES, verbs=tuple(OF_HANDS), revoked_us=1)
    for subject, revoked_us in ((CERTIFICATE, 0), ("certificate revoked", 1)):
        token_id = secrets.new_id(CHANCE.randbytes)
        records[token_id] = TokenRecord(
            id=token_id, scopes=SCOPES, verbs=("admin",), subject=subject, revoked_us=revoked_us
        )
    later = 1 << 52
    shown |= {
        EXECUTOR: sign(Credential(hand, later, "e1"), _KEY),
        CODE: sign(Credential(hand, later, "e1", of_code=True), _KEY),
        "executor expired": sign(Credential(hand, 1, "e1"), _KEY),
        "executor revoked": sign(Credential(dead, later, "e1"), _KEY),
        "executor forged": sign(Credential(hand, later, "e1"), b"x" * KEY_BYTES),
    }
    shown["wrong"] = secrets.new_token(next(iter(records)), CHANCE.randbytes)
    return shown, records


def _of_certificates(folder: Path, authority: DevAuthority) -> SecuritySettings:
    """Those of a server that knows its callers by their certificates."""
    pair = authority.server()
    for name, content in {"cert": pair[0], "key": pair[1], "ca": authority.pair[0]}.items():
        (folder / name).write_bytes(content)
    return SecuritySettings(
        tls_cert=str(folder / "cert"), tls_key=str(folder / "key"), auth="mtls", tls_client_ca=str(folder / "ca")
    )


def methods() -> Iterator[tuple[str, str, MethodDescriptor]]:
    """Every method: its service, its path and itself."""
    for service, described in services().items():
        for method in described.methods:
            yield service, f"/{service}/{method.name}", method


async def tried() -> list[Cell]:
    """Every cell, as it was tried."""
    cells: list[Cell] = []
    async with world() as w:
        for service, path, method in methods():
            for name in NAMESPACES if service in {FRONTEND, DAPR_SCHEDULER} else ("own",):
                await w.fill(name, NAMESPACES[name])
                asked = requests_of(w, service, method, name)
                for token in (*((*BAD, *BAD_HOLDERS) if name == "own" else ()), *GOOD):
                    code, answers = await w.call(path, method, token, asked)
                    want = expected_of(path, token, name)
                    cells.append(Cell(path, token, name, want, verdict(path, code, answers, name)))
            if RULES[path].over in {Over.CLUSTER, Over.DELIVERY}:
                code, answers = await w.call(path, method, "everywhere", requests_of(w, service, method, "own"))
                cells.append(Cell(path, "everywhere", "all", LET_IN, verdict(path, code, answers, "own")))
    return cells


async def everything() -> list[Cell]:
    """Every cell, of RPCs and of what is served by HTTP."""
    from .matrix_http import tried_by_http  # which takes what is defined above

    cells = await tried()
    async with world() as w:
        return [*cells, *await tried_by_http(w)]


def main() -> int:
    """Prints the table, and whether it is as it should be."""
    cells = asyncio.run(everything())
    columns = (*BAD, *BAD_HOLDERS, *GOOD)
    print(f"{'method':52} {'of':6}" + "".join(f"{each.replace('certificate', 'cert.'):>17}" for each in columns))
    words = {NO_TOKEN: "no token", DENIED: "denied", HIDDEN: "not there", LET_IN: "LET IN"}
    by = {(each.method, each.of, each.token): each for each in cells}
    for path, of in dict.fromkeys((each.method, each.of) for each in cells if each.of != "all"):
        row = (by.get((path, of, each)) for each in columns)
        shown = (words[each.found] + "!" * (each.found != each.expected) if each else "" for each in row)
        print(f"{path:52} {of:6}" + "".join(f"{each:>17}" for each in shown))
    wrong = [each for each in cells if each.found != each.expected]
    right = (len(cells) - len(wrong)) / len(cells)
    print(f"\n{len(cells)} cells tried, {right:.2%} as the table says; {dict(Counter(each.found for each in cells))}")
    for each in wrong:
        print(f"  {each}")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
