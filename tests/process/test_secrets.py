"""Real roles with TLS, tokens, encrypted payloads and store users of their own: no secret of theirs is where it does not belong, and a worker host
whose token is revoked loses nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import re
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

import aiohttp
import pytest
import redis

import atf
from atf import AsyncClient
from atf.cli.local.processes import descendants
from atf.config.loading import load
from atf.config.settings import SecuritySettings, StoreSettings
from atf.process.other_user import user_of
from atf.rpc import frontend_pb2 as f, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.rpc.channel import open_channel
from atf.rpc.stubs import FrontendStub
from atf.task import US
from proof.blast.cluster import SecretiveCluster, running
from proof.blast.lambdas import PHRASE

pytestmark = pytest.mark.processes
REFUSED = re.compile(r'"role": "controller".*"error": "[^"]*was revoked')
READ_EVERY_S = 0.2
"""In place of the product's 10 s between two looks at the tokens."""


async def test_secrets_stay_where_they_belong_and_a_revoked_host_loses_nothing(tmp_path: Path) -> None:
    """In one story, since its processes take long to start."""
    async with running(tmp_path, certificates=False, read_every_s=READ_EVERY_S, codec=True) as cluster:
        said = await much_goes_wrong(cluster)
        nothing_tells_a_secret(cluster, said)
        await a_revoked_host_stops_and_says_why(cluster)
        denied = [f"{each['username']} {each['object']}" for each in denials(cluster) if each["context"] != "multi"]
        assert denied == [], (
            "each role can do all that it does by its own user of the store"
        )  # multi: it only tries what it may do


def marks(cluster: SecretiveCluster) -> dict[str, str]:
    """What must be nowhere, by what it is."""
    codec = re.findall(r": ([A-Za-z0-9+/]{43}=)", Path(cluster.codec_keys).read_text())
    keys = {
        name: (cluster.folder / f"{name}-key.pem").read_text().splitlines()[1] for name in ("ca", "server", "client")
    }
    found = {f"token {name}": each.split("_", 2)[2] for name, each in cluster.tokens.items()}
    found |= {f"password {name}": each for name, each in cluster.passwords.items()}
    return (
        found
        | {f"key {name}": each for name, each in keys.items()}
        | {f"codec {n}": each for n, each in enumerate(codec)}
    )


async def much_goes_wrong(cluster: SecretiveCluster) -> list[str]:
    """Runs tasks, errors and commands; what was said of it to people, and what is written in programs."""
    said: list[str] = []
    admin = FrontendStub(
        open_channel(cluster.address("frontend"), security=Security(token=cluster.tokens["admin"], tls_ca=cluster.ca))
    )
    async with AsyncClient(
        cluster.address("frontend"), token=cluster.tokens["client"], tls_ca=cluster.ca, codec_keys=cluster.codec_keys
    ) as client:
        done = await client.schedule("own/say", {"word": PHRASE})
        failed = await client.schedule("own/fail", {"word": PHRASE}, max_attempts=1)
        shown = await client.schedule("own/show", {})
        await done.result_async(timeout=20)
        credential = str(await shown.result_async(timeout=20))
        with pytest.raises(atf.TaskFailed) as error:
            await failed.result_async(timeout=20)
        said += [repr(client), repr(done), str(error.value), repr(error.value)]
        said += [
            str(await admin.get_log(f.GetLogRequest(id=failed.id))),
            str(await admin.list_audit(f.ListAuditRequest(page_size=100))),
        ]
    wrong = [cluster.url("hsc").replace("/t", "/nowhere/t"), f"redis://x:{cluster.passwords['hsc']}@127.0.0.1:1/y"]
    asked = ("token", "ls", "--frontend", cluster.address("frontend"))
    token, changed = cluster.tokens["client"], cluster.tokens["client"][:-3] + "abc"
    said += await asyncio.gather(
        *(command("doctor", ATF_REDIS_URL=url, ATF_TLS_CA=cluster.ca) for url in (cluster.url("server"), *wrong)),
        *(command(*asked, ATF_TOKEN=each, ATF_TLS_CA=cluster.ca) for each in (token, changed)),
    )
    for url in wrong:
        settings = load(StoreSettings, env={"ATF_REDIS_URL": url})
        said += [repr(settings), str(settings)]
    said += [
        repr(Security(token=cluster.tokens["admin"])),
        repr(load(SecuritySettings, env={"ATF_TOKEN": cluster.tokens["admin"]})),
    ]
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session:
        headers = {"Authorization": f"Bearer {cluster.tokens['admin']}"}
        for scheme, name in (("https", "frontend"), ("https", "hsc")):
            async with session.get(
                f"{scheme}://{cluster.roles[name].ready['metrics']}/metrics", headers=headers
            ) as answer:
                assert answer.status == 200
                said.append(await answer.text())
    (worker,) = [each for each in workers(cluster.roles["own worker"].pid) if each]
    os.kill(worker, signal.SIGABRT)  # as a bug in native code would; Python writes where each thread stood
    cluster.credentials.append(credential)
    return said


def nothing_tells_a_secret(cluster: SecretiveCluster, said: list[str]) -> None:
    places = {"said to people": "\n".join(said)}
    places |= {f"log of {name}": "".join(each.said) for name, each in cluster.roles.items()}
    for role in cluster.roles.values():
        for pid in (role.pid, *descendants(role.pid)):
            places[f"command line of {role.name} {pid}"] = read(Path(f"/proc/{pid}/cmdline"))
    for name in ("own worker", "other worker"):
        for pid in descendants(cluster.roles[name].pid):
            places[f"environment of user code {pid}"] = read(Path(f"/proc/{pid}/environ"))
    for file in (cluster.folder / "data").rglob("*"):
        if file.is_file():
            places[f"store's {file.name}"] = read(file)
    assert any("environment of user code" in each for each in places)
    assert any(PHRASE not in text and "own/say" in text for name, text in places.items() if name.startswith("store's"))
    secrets = marks(cluster) | {"credential": cluster.credentials[0][-43:]}
    told = [
        f"{what} in {where}" for what, secret in secrets.items() for where, text in places.items() if secret in text
    ]
    assert told == []


async def a_revoked_host_stops_and_says_why(cluster: SecretiveCluster) -> None:
    """What it has not begun is left to others. What an ask of it that was open then was still given runs anew, once its lease is over."""
    admin = FrontendStub(
        open_channel(cluster.address("frontend"), security=Security(token=cluster.tokens["admin"], tls_ca=cluster.ca))
    )
    await admin.revoke_token(f.RevokeTokenRequest(id=cluster.tokens["worker"].split("_")[1], who="test"))
    worker = cluster.roles["own worker"]
    async with asyncio.timeout(10):
        while not any(REFUSED.search(line) for line in worker.said):
            await asyncio.sleep(0.05)
    ids = []
    for _ in range(3):
        spec = t.TaskSpec(payload=f'{{"word": "{PHRASE}"}}'.encode())
        setattr(spec, "lambda", "own/say")
        ids.append((await admin.schedule(f.ScheduleRequest(spec=spec))).id)
    other = another_user()
    if other:
        let_in(cluster)
    cluster.codec = False  # whose keys another user can't read
    await cluster.start_worker("own", token="spare worker", user=other)
    for each in ids:
        await admin.wait_tasks(f.WaitTasksRequest(ids=[each], timeout_us=30 * US))
    ended = [await admin.get_task(f.GetTaskRequest(id=each)) for each in ids]
    assert {(each.status, each.runs - each.losses) for each in ended} == {(t.SUCCESS, 1)}, (ended, worker.said)
    if other:
        path = str(cluster.folder / "spare worker.token")
        asked = t.TaskSpec(payload=json.dumps({"path": path}).encode())
        setattr(asked, "lambda", "own/pry")
        task_id = (await admin.schedule(f.ScheduleRequest(spec=asked))).id
        await admin.wait_tasks(f.WaitTasksRequest(ids=[task_id], timeout_us=10 * US))
        found = json.loads((await admin.get_task(f.GetTaskRequest(id=task_id))).result)
        assert found["uid"] == str(pwd.getpwnam(other).pw_uid)
        assert {found[each] for each in ("file", "guard", "controller")} == {"PermissionError"}
        assert "ATF_TOKEN" not in found["environment"].split()


def let_in(cluster: SecretiveCluster) -> None:
    """Has another user reach what its code reads."""
    for folder in (cluster.folder, *cluster.folder.parents[:2]):
        folder.chmod(0o711)
    Path(cluster.ca).chmod(0o644)


def another_user() -> str:
    """As whom code can run here; empty, with the reason printed: as nobody else."""
    if os.geteuid() != 0:
        print("executor_user: not tried, since this is not root")
        return ""
    user = user_of("nobody")
    assert user is not None
    needed = [Path(sys.executable).resolve(), Path(atf.__file__)]
    hidden = [str(each) for each in needed if not user.may_read(str(each))]
    if hidden:
        print(f"executor_user: not tried, since `nobody` can't read {', '.join(hidden)}")
        return ""
    return "nobody"


def denials(cluster: SecretiveCluster) -> list[dict[str, str]]:
    """What the store has refused to a role's user; `atf doctor`, which has that of all roles, puts up with less."""
    with redis.Redis(unix_socket_path=cluster.socket, decode_responses=True) as client:
        return [each for each in client.acl_log() if each["username"].startswith("atf-")]


def workers(pid: int) -> Iterable[int]:
    """Processes that run user code, below a controller."""
    return [each for each in descendants(pid) if "worker_main" in read(Path(f"/proc/{each}/cmdline"))]


def read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


async def command(*words: str, **env: str) -> str:
    """All that a command writes."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")} | env
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "atf.cli", *words),
        env=ours,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    return (await process.communicate())[0].decode("utf-8", "replace")
