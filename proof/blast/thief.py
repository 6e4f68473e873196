"""Somebody who has one secret and can reach every port, and what that somebody tries."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import grpc
import msgspec

from atf.auth import secrets
from atf.auth.dev_certificates import Pair
from atf.auth.executor_credentials import Credential, sign
from atf.auth.signing_keys import FIELD
from atf.codec.cipher import Cipher
from atf.codec.values import open_arguments
from atf.errors import AtfError, FailedPrecondition, NotFound, PermissionDenied, Unauthenticated
from atf.rpc import api, frontend_pb2 as f, hsc_pb2 as h, job_pb2 as j, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.lambda_sets import LambdaSet
from atf.rpc.stubs import FrontendStub, HSCStub
from atf.store.store import Store
from atf.task import US

from .expected import DEEDS
from .lambdas import PHRASE

Deed = Callable[["Thief", "Spoils", str], Awaitable[bool]]
REFUSED: Final = (PermissionDenied, Unauthenticated, NotFound, FailedPrecondition)
"""What says that something can't be done. Any other error is a fault of the proof."""
_LEASE_US: Final = 16 * US


@dataclass
class Spoils:
    """What there is to steal and to break."""

    admin: api.Frontend
    store: Store
    ca: str
    hsc_address: str
    frontend_address: str
    host: str
    """A worker host."""
    executor_id: str
    """An executor that runs a task of `other`."""
    worker_id: str
    """The token behind its credential."""
    sealed: t.Task
    """A task of `own` whose arguments are encrypted, as it lies in the store."""
    tasks: dict[str, str] = field(default_factory=dict)
    """By namespace, one that waits."""
    said: dict[str, str] = field(default_factory=dict)
    """By namespace, one that has run, with a log."""
    held: dict[str, str] = field(default_factory=dict)
    """By namespace, one that runs, with progress."""

    async def waiting(self, namespace: str) -> str:
        """A new task that nobody runs."""
        spec = t.TaskSpec(payload=f'{{"word": "{PHRASE}"}}'.encode())
        setattr(spec, "lambda", f"{namespace}/idle")
        return (await self.admin.schedule(f.ScheduleRequest(spec=spec))).id

    async def claim_of(self, task_id: str) -> t.ClaimRef:
        """Its claim, with the random half, as whoever looks into its executor has it."""
        raw = await self.store.link.command("HGET", f"atf:{{0}}:t:{task_id}", "c", key="atf:{0}")
        counter, _, nonce = raw.decode().split(" ")[:3]
        return t.ClaimRef(task_id=task_id, token=t.Token(counter=int(counter), nonce=nonce))


@dataclass
class Thief:
    """Who has it.

    Attributes:
        what: the secret that was stolen.
        shown: it, as it is shown to the roles.
        frontend, hsc: the roles, as they are called with it.
        store: the task store, where it lets in there.
        codec_keys: a file that decrypts.
        pair: a certificate of a server, that goes with it.
        cookie: of a browser, for the pages at `pages`.
    """

    what: str
    shown: str
    frontend: api.Frontend
    hsc: api.HSC
    store: Store | None = None
    codec_keys: str = ""
    pair: Pair | None = None
    cookie: str = ""
    pages: str = ""

    async def page(self, path: str, form: dict[str, str] | None = None) -> str:
        """A page, or what comes of a form; empty: it is refused."""
        async with aiohttp.ClientSession(cookies={"atf_session": self.cookie, "atf_csrf": "x" * 43}) as session:
            headers = {"Origin": self.pages}
            if form is None:
                asked = session.get(self.pages + path, allow_redirects=False)
            else:
                asked = session.post(
                    self.pages + path, data={**form, "csrf": "x" * 43}, headers=headers, allow_redirects=False
                )
            async with asked as answer:
                return await answer.text() if answer.status in {200, 303} else ""


async def tried(deed: Deed, thief: Thief, scene: Spoils, namespace: str) -> bool:
    """Whether it could be done."""
    try:
        return await deed(thief, scene, namespace)
    except REFUSED:
        return False


async def schedule(thief: Thief, scene: Spoils, namespace: str) -> bool:
    spec = t.TaskSpec(payload=b"{}")
    setattr(spec, "lambda", f"{namespace}/idle")
    made = await thief.frontend.schedule(f.ScheduleRequest(spec=spec))
    return bool((await scene.admin.get_task(f.GetTaskRequest(id=made.id))).id)


async def read_list(thief: Thief, scene: Spoils, namespace: str) -> bool:
    if thief.cookie:
        return scene.tasks[namespace] in await thief.page(f"/tasks?lambda={namespace}/idle")
    asked = f.TaskFilter()
    setattr(asked, "lambda", f"{namespace}/idle")
    found = await thief.frontend.list_tasks(f.ListTasksRequest(filter=asked, page_size=100))
    return scene.tasks[namespace] in {each.id for each in found.tasks}


async def read_payload(thief: Thief, scene: Spoils, namespace: str) -> bool:
    if thief.cookie:
        return PHRASE in await thief.page(f"/tasks/{scene.tasks[namespace]}")
    found = await thief.frontend.get_task(f.GetTaskRequest(id=scene.tasks[namespace], with_spec=True))
    return PHRASE.encode() in found.spec.payload


async def read_log(thief: Thief, scene: Spoils, namespace: str) -> bool:
    if thief.cookie:
        return f"said {PHRASE}" in await thief.page(f"/tasks/{scene.said[namespace]}")
    found = await thief.frontend.get_log(f.GetLogRequest(id=scene.said[namespace]))
    return PHRASE in str(found)


async def read_progress(thief: Thief, scene: Spoils, namespace: str) -> bool:
    if thief.cookie:
        return f"at {PHRASE}" in await thief.page(f"/tasks/{scene.held[namespace]}")
    return PHRASE in (await thief.frontend.get_task(f.GetTaskRequest(id=scene.held[namespace]))).progress


async def cancel(thief: Thief, scene: Spoils, namespace: str) -> bool:
    task_id = await scene.waiting(namespace)
    if thief.cookie:
        await thief.page("/do/cancel-task", {"id": task_id})
    else:
        await thief.frontend.cancel_tasks(f.CancelTasksRequest(ids=[task_id], who="thief"))
    return (await scene.admin.get_task(f.GetTaskRequest(id=task_id))).status == t.CANCELLED


async def claim(thief: Thief, scene: Spoils, namespace: str) -> bool:
    task_id = await scene.waiting(namespace)
    if thief.store is not None:
        return await _write(thief.store, f"atf:{{0}}:t:{task_id}")  # what a claim writes
    wanted = LambdaSet({f"{namespace}/idle": ""})
    executor_id = f"thief-{os.urandom(4).hex()}"
    if thief.shown.startswith("atfx_"):
        executor_id = thief.shown.split("_", 3)[3][:-44] if namespace == "own" else scene.executor_id
    asked = h.NextClaimsRequest(
        executor_id=executor_id, nonce=os.urandom(8).hex(), max_tasks=256, wait_us=US, lambda_set=wanted.digest
    )
    asked.heartbeat_timeout_us = _LEASE_US
    asked.lambdas.extend(wanted.lambdas)
    return bool((await thief.hsc.next_claims(asked)).claims)


async def end_claim(thief: Thief, scene: Spoils, namespace: str) -> bool:
    """Ends a task in the name of the executor that runs it. Lambdas can read the claims of their own executor, so they know a claim's random half."""
    held = t.TaskSpec(payload=b'{"seconds": 60}')
    setattr(held, "lambda", f"{namespace}/hold")
    task_id = (await scene.admin.schedule(f.ScheduleRequest(spec=held))).id
    while not (task := await scene.admin.get_task(f.GetTaskRequest(id=task_id))).started_at_us:
        pass
    try:
        if thief.store is not None:
            return await _write(thief.store, f"atf:{{0}}:t:{task_id}")
        held_claim = await scene.claim_of(task_id)
        if not thief.shown.startswith("atfx_"):
            held_claim.token.nonce = os.urandom(8).hex()
        result = h.Result(claim=held_claim, outcome=t.SUCCEEDED)
        await thief.hsc.set_results(h.SetResultsRequest(executor_id=task.owner, results=[result]))
        return (await scene.admin.get_task(f.GetTaskRequest(id=task_id))).status == t.SUCCESS
    finally:
        await scene.admin.cancel_tasks(f.CancelTasksRequest(ids=[task_id], who="proof"))


async def register(thief: Thief, scene: Spoils, namespace: str) -> bool:
    name = f"{namespace}/new-{os.urandom(4).hex()}"
    await thief.frontend.register_lambdas(f.RegisterLambdasRequest(lambdas=[f.LambdaSpec(name=name)], who="thief"))
    return name in {
        each.spec.name for each in (await scene.admin.list_lambdas(f.ListLambdasRequest(page_size=100))).lambdas
    }


async def change_job(thief: Thief, scene: Spoils, namespace: str) -> bool:
    task = t.TaskSpec()
    setattr(task, "lambda", f"{namespace}/idle")
    made = j.JobSpec(name=f"{namespace}/job", schedule=f"@every {3 + os.urandom(1)[0]}h", task=task)
    if thief.cookie:
        await scene.admin.schedule_job(f.ScheduleJobRequest(job=made, overwrite=True))
        await thief.page("/do/delete-job", {"job": made.name})
        try:
            await scene.admin.get_job(f.GetJobRequest(name=made.name))
        except NotFound:
            return True
        return False
    await thief.frontend.schedule_job(f.ScheduleJobRequest(job=made, overwrite=True))
    return (await scene.admin.get_job(f.GetJobRequest(name=made.name))).spec.schedule == made.schedule


async def pause(thief: Thief, scene: Spoils, namespace: str) -> bool:
    name = f"{namespace}/idle"
    try:
        if thief.cookie:
            await thief.page("/do/pause-lambda", {"name": name, "lambda": name})
        else:
            await thief.frontend.pause_lambda(f.PauseLambdaRequest(**{"lambda": name, "who": "thief"}))
        listed = (await scene.admin.list_lambdas(f.ListLambdasRequest(page_size=100))).lambdas
        return any(each.paused for each in listed if each.spec.name == name)
    finally:
        await scene.admin.resume_lambda(f.ResumeLambdaRequest(**{"lambda": name, "who": "proof"}))


async def drain(thief: Thief, scene: Spoils, _namespace: str) -> bool:
    if thief.cookie:
        return "drain" in (await thief.page("/do/drain-host", {"host": scene.host})).lower()
    try:
        await thief.frontend.drain_host(f.DrainHostRequest(host="no-such-host", who="thief"))
    except (PermissionDenied, Unauthenticated):
        return False
    except AtfError:
        return True  # it was let in, and there is no such host
    return True


async def create_token(thief: Thief, scene: Spoils, _namespace: str) -> bool:
    token_id = secrets.new_id(os.urandom)
    digest = secrets.digest_of(secrets.new_token(token_id, os.urandom))
    asked = f.CreateTokenRequest(id=token_id, digest=digest, verbs=["admin"], scopes=["*"], who="thief")
    await thief.frontend.create_token(asked)
    return token_id in {each.id for each in (await scene.admin.list_tokens(f.ListTokensRequest())).tokens}


async def read_tokens(thief: Thief, _scene: Spoils, _namespace: str) -> bool:
    if thief.store is not None:
        return bool(await thief.store.list_tokens(keys=False))
    return bool((await thief.frontend.list_tokens(f.ListTokensRequest())).tokens)


async def read_record(thief: Thief, scene: Spoils, namespace: str) -> bool:
    if thief.store is None:
        return False
    key = f"atf:{{0}}:t:{scene.tasks[namespace]}"
    return bool(await thief.store.link.command("HGETALL", key, key="atf:{0}"))


async def write_store(thief: Thief, scene: Spoils, namespace: str) -> bool:
    return thief.store is not None and await _write(thief.store, f"atf:{{0}}:t:{scene.tasks[namespace]}")


async def _write(store: Store, key: str) -> bool:
    await store.link.command("HSET", key, "thief", "1", key="atf:{0}")
    await store.link.command("HDEL", key, "thief", key="atf:{0}")
    return True


async def replace_functions(thief: Thief, _scene: Spoils, _namespace: str) -> bool:
    """Of all roles, which would run them with their own rights."""
    if thief.store is None:
        return False
    await thief.store.link.command("FUNCTION", "LOAD", "REPLACE", thief.store.link.library.source)
    return True


async def flush(thief: Thief, _scene: Spoils, _namespace: str) -> bool:
    if thief.store is None:
        return False
    await thief.store.link.command("FLUSHALL")
    return True


async def forge(thief: Thief, scene: Spoils, _namespace: str) -> bool:
    """Signs a credential for an executor by another's token."""
    key = thief.shown.encode()
    if thief.store is not None:
        found = await thief.store.list_tokens()
        key = msgspec.json.decode((found or (0, {}))[1][FIELD], type=list[bytes])[-1]
    forged = sign(Credential(scene.worker_id, 1 << 52, scene.executor_id), key)
    channel = open_channel(scene.hsc_address, security=Security(token=forged, tls_ca=scene.ca))
    try:
        await HSCStub(channel).heartbeat(
            h.HeartbeatRequest(executor_id=scene.executor_id, heartbeat_timeout_us=_LEASE_US)
        )
        return True
    finally:
        await channel.close()


async def decrypt(thief: Thief, scene: Spoils, _namespace: str) -> bool:
    """Opens arguments that it has found somewhere, such as in a copy of the store."""
    if not thief.codec_keys:
        return False
    return PHRASE.encode() in open_arguments(Cipher(thief.codec_keys), scene.sealed.id, scene.sealed.spec)[0]


async def impersonate(thief: Thief, scene: Spoils, _namespace: str) -> bool:
    """Serves in a server's place, and is shown a client's token."""
    if thief.pair is None:
        return False
    got: list[str] = []

    class Listening(grpc.GenericRpcHandler):  # type: ignore[misc]
        def service(self, details: Any) -> None:
            got.extend(str(value) for name, value in details.invocation_metadata if name == "authorization")

    server = grpc.aio.server(handlers=[Listening()])
    credentials = grpc.ssl_server_credentials([(thief.pair.key, thief.pair.certificate)])
    port = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    channel = open_channel(
        f"127.0.0.1:{port}", security=Security(token="atf_" + "a" * 10 + "_" + "b" * 43, tls_ca=scene.ca)
    )
    try:
        await FrontendStub(channel).get_caller(f.GetCallerRequest(), timeout=2)
    except AtfError:
        pass
    finally:
        await channel.close()
        await server.stop(0)
    return bool(got)


BOTH: Final = ("own", "other")
_IN_ORDER: Final[tuple[Deed, ...]] = (
    schedule, read_list, read_payload, read_log, read_progress, cancel, claim, end_claim, register, change_job, pause, drain, create_token,
    read_tokens, forge, read_record, write_store, replace_functions, flush, decrypt, impersonate,
)  # fmt: skip
TRIES: Final = dict(zip(DEEDS, _IN_ORDER, strict=True))
