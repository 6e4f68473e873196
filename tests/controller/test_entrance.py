"""Whom a controller lets in where the installation has tokens, and what it tells its executors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from atf.auth.by_hand import VALID_US, proof
from atf.auth.caller import ANYBODY, Caller, acting_for
from atf.auth.methods import OF_CONTROLLERS
from atf.config.settings import ControllerSettings, ExecutorSettings, SecuritySettings, Timing
from atf.controller import entrance as controller_entrance
from atf.controller.entrance import ENTER, Entrance
from atf.controller.losses import Death
from atf.controller.setup import check_setup, for_executors, is_secret
from atf.errors import ConfigError, InvalidArgument, PermissionDenied, Unauthenticated, Unavailable
from atf.process import hidden, other_user
from atf.process.other_user import OtherUser, check_may_start, user_of
from atf.rpc import controller_pb2 as c, hsc_pb2 as h, task_pb2 as t
from atf.rpc.caller_security import Security
from atf.task import US
from atf.testing.runtime import VirtualRuntime
from atf.testing.wiring import Wiring
from tests.virtual import virtual

from .fakes import ScriptedHsc

OWN: Final = "atf_abcdefghij_" + "s" * 43
NEXT_WORK: Final = "/atf.v1.Controller/NextWork"


class Hsc(ScriptedHsc):
    """Signs credentials, numbered; or has no tokens, or is away."""

    tokens = True
    away = False

    async def issue_credential(self, request: h.IssueCredentialRequest, *, timeout: float = 10) -> t.Credential:  # noqa: ARG002
        if self.away:
            raise Unavailable("away")
        self.issued.append(request.executor_id)
        if not self.tokens:
            return t.Credential()
        return t.Credential(secret=f"credential-{len(self.issued)}", valid_for_us=900 * US)


class Door:
    """An entrance, and how it is called."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.runtime, self.hsc = runtime, Hsc()
        self.entrance = Entrance(self.hsc, Security(token=OWN), runtime)
        self.service = Wiring(runtime, Timing()).controller(self.hsc, entrance=self.entrance)

    async def enter(self, secret: str, executor_id: str = "e1") -> str:
        reply = await self.service.enter(c.EnterRequest(executor_id=executor_id, secret=secret))
        return reply.secret

    async def who(self, shown: str, path: str = NEXT_WORK) -> Caller:
        found = await self.entrance.caller(f"Bearer {shown}" if shown else "", ())
        self.entrance.check_method(path, found)
        return found


@contextlib.asynccontextmanager
async def door(runtime: VirtualRuntime) -> AsyncIterator[Door]:
    yield Door(runtime)


@virtual(door)
async def test_an_executor_enters_by_its_secret_and_goes_on_by_what_it_got(d: Door) -> None:
    secret = d.entrance.new_secret()
    first = await d.enter(secret)
    assert (await d.who(first)).executor_id == "e1"
    second = await d.enter(first)
    assert second != first
    for shown in (first, second):  # calls under way show the one before
        assert (await d.who(shown)).executor_id == "e1"
    assert d.hsc.issued == ["e1", "e1"]


@virtual(door)
async def test_a_secret_is_of_the_first_executor_that_shows_it(d: Door) -> None:
    secret = d.entrance.new_secret()
    d.hsc.away = True
    with pytest.raises(Unavailable):
        await d.enter(secret)
    d.hsc.away = False
    assert await d.enter(secret)  # its answer may have been lost
    with pytest.raises(Unauthenticated, match="once each"):
        await d.enter(secret, "e2")


@virtual(door)
async def test_a_credential_is_renewed_by_its_own_executor_alone_and_ends(d: Door) -> None:
    shown = await d.enter(d.entrance.new_secret())
    with pytest.raises(Unauthenticated):
        await d.enter(shown, "e2")
    await asyncio.sleep(901)
    with pytest.raises(Unauthenticated):
        await d.who(shown)
    assert await d.enter(d.entrance.new_secret(), "e3")  # which forgets what has ended
    with pytest.raises(Unauthenticated):
        await d.enter(shown)


@virtual(door)
async def test_strangers_may_only_try_to_enter(d: Door) -> None:
    for shown in ("", "credential-1", OWN, "x" * 5_000):
        with pytest.raises(Unauthenticated, match="calls of its own executors alone"):
            await d.who(shown)
        await d.who(shown, ENTER)
    with pytest.raises(Unauthenticated):
        await d.enter("guessed")
    with pytest.raises(InvalidArgument, match="secret: 0 characters"):
        await d.enter("")
    assert d.hsc.issued == []


@virtual(door)
async def test_one_that_was_started_by_hand_shows_the_controller_s_token(d: Door) -> None:
    now = d.runtime.wall_us()
    shown = proof(OWN, "e1", now)
    assert OWN[15:] not in shown
    assert (await d.who(await d.enter(shown))).executor_id == "e1"
    late, unknown = proof(OWN, "e1", now - VALID_US - US), proof(OWN[:-1] + "t", "e1", now)
    for wrong in (OWN, late, unknown, proof(OWN, "e2", now), shown.replace("atfh", "atfx"), "atfh_²_x", "atfh_"):
        with pytest.raises(Unauthenticated):
            await d.enter(wrong)


@virtual(door)
async def test_an_executor_asks_for_itself_alone(d: Door) -> None:
    who = await d.who(await d.enter(d.entrance.new_secret()))
    request = c.NextWorkRequest(
        executor_id="e2", nonce="n", max_tasks=1, lambdas=["a/b"], signatures=["d"], boot_id="virtual"
    )
    with acting_for(who):
        with pytest.raises(PermissionDenied, match="it can't speak for the executor 'e2'"):
            await d.service.next_work(request)
        with pytest.raises(PermissionDenied):
            await d.service.report_runs(c.ReportRunsRequest(executor_id="e2", number=1))


@virtual(door)
async def test_nothing_is_left_of_a_dead_executor(d: Door) -> None:
    secret = d.entrance.new_secret()
    shown = await d.enter(secret)
    d.service.executor_died(Death("e1", 1, "gone", False, [], [], [], frozenset(), [], []))
    with pytest.raises(Unauthenticated):
        await d.who(shown)
    with pytest.raises(Unauthenticated):
        await d.enter(secret)


@virtual(door)
async def test_where_callers_show_nothing_nobody_is_asked_for_anything(d: Door) -> None:
    d.hsc.tokens = False
    assert await d.enter(d.entrance.new_secret()) == ""
    assert await d.who("") is ANYBODY
    d.hsc.tokens = True
    await d.enter(d.entrance.new_secret(), "e2")
    with pytest.raises(Unauthenticated):
        await d.who("")


@virtual(door)
async def test_a_controller_without_a_token_gives_nothing(d: Door) -> None:
    service = Wiring(d.runtime, Timing()).controller(d.hsc)
    assert await service.enter(c.EnterRequest(executor_id="e1", secret="x")) == t.Credential()
    assert d.hsc.issued == []


@virtual(door)
async def test_secrets_of_executors_that_never_came_are_forgotten(d: Door) -> None:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(controller_entrance, "MOST_SECRETS", 2)
        first, *others = [d.entrance.new_secret() for _ in range(3)]
    with pytest.raises(Unauthenticated):
        await d.enter(first)
    for number, each in enumerate(others):
        assert await d.enter(each, f"e{number}")


# --- settings ---------------------------------------------------------------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.said: list[str] = []

    def warning(self, event: str, **_fields: Any) -> None:
        self.said.append(event)


def checked(
    monkeypatch: pytest.MonkeyPatch,
    security: SecuritySettings,
    own: Security,
    user: str = "",
    listen: str = "127.0.0.1:0",
) -> tuple[list[str], int]:
    """What was warned of, and how often memory was hidden."""
    hid: list[int] = []
    monkeypatch.setattr("atf.controller.setup.hide_memory", lambda: hid.append(1))
    monkeypatch.setattr("atf.controller.setup.check_may_start", lambda _user: None)
    log = Log()
    check_setup(ControllerSettings(listen=listen), ExecutorSettings(executor_user=user), security, own, log)
    return log.said, len(hid)


def test_a_token_file_that_code_of_users_can_read_is_warned_of(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(OWN)
    security, own = SecuritySettings(token_file=str(file)), Security(token_file=str(file))
    assert is_secret(own, security)
    (said,), hid = checked(monkeypatch, security, own)
    assert said.startswith("code of users can read the token")
    assert hid == 1
    monkeypatch.setattr("atf.controller.setup.user_of", lambda _name: OtherUser("x", os.getuid() + 1, 0, (), "/"))
    file.chmod(0o600)
    assert checked(monkeypatch, security, own, "x") == ([], 1)
    assert checked(monkeypatch, SecuritySettings(), Security()) == ([], 0)
    assert checked(monkeypatch, SecuritySettings(), Security(token=OWN)) == ([], 1)


def test_executors_get_a_certificate_only_beside_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    security = SecuritySettings(auth="token", tls_ca="ca", tls_cert="c", tls_key="k", token_file="f", insecure=True)
    assert for_executors(security, Security(token=OWN)) == SecuritySettings(tls_ca="ca", tls_cert="c", tls_key="k")
    assert for_executors(security, Security()) == SecuritySettings(tls_ca="ca")
    certified = SecuritySettings(tls_ca="ca", tls_cert="c", tls_key="k")
    assert is_secret(Security(), certified)
    (said,), _ = checked(monkeypatch, certified, Security())
    assert said.startswith("executors show no certificate")


def test_a_controller_listens_on_its_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="executors on its own host alone"):
        checked(monkeypatch, SecuritySettings(), Security(), listen="0.0.0.0:7404")
    checked(monkeypatch, SecuritySettings(insecure=True), Security(), listen="0.0.0.0:7404")


def test_who_may_start_executors_as_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    assert user_of("") is None
    with pytest.raises(ConfigError, match="executor_user = 'nobody-here': this machine has no such user"):
        user_of("nobody-here")
    user = user_of(pwd.getpwuid(os.getuid()).pw_name)
    assert user is not None
    assert (user.uid, user.environment["HOME"]) == (os.getuid(), user.home)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(other_user, "_capabilities", lambda: 1 << 5 | 1 << 6)
    with pytest.raises(ConfigError, match="it lacks CAP_SETUID"):
        check_may_start(user)
    monkeypatch.setattr(other_user, "_capabilities", lambda: 1 << 5 | 1 << 6 | 1 << 7)
    check_may_start(user)


def test_what_another_user_may_read(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("x")
    for each in (tmp_path, *(above for above in tmp_path.parents if "pytest" in str(above))):
        each.chmod(0o755)
    file.chmod(0o640)
    group = file.stat().st_gid
    assert not OtherUser("x", 12345, 54321, (), "/").may_read(str(file))
    assert OtherUser("x", 12345, group, (), "/").may_read(str(file))
    assert OtherUser("x", 12345, 54321, (group,), "/").may_read(str(file))
    tmp_path.chmod(0o700)
    assert not OtherUser("x", 12345, group, (), "/").may_read(str(file))
    assert not OtherUser("x", 12345, group, (), "/").may_read(str(tmp_path / "none"))


def test_an_environment_loses_its_token_and_the_stores_address() -> None:
    env = {
        "ATF_TOKEN": OWN,
        "ATF_TOKEN_FILE": "/f",
        "ATF_REDIS_URL": "redis://:hush@a",
        "ATF_REDIS_URL_FILE": "/f",
        "PATH": "/bin",
    }
    assert hidden.take_token(env) == OWN
    assert env == {"PATH": "/bin"}
    assert hidden.take_token(env) == ""
    descriptor = hidden.pipe_with("x" * 300)
    assert os.read(descriptor, 512) == b"x" * 300
    assert os.read(descriptor, 1) == b""
    os.close(descriptor)


def test_each_call_of_a_controller_has_a_row_and_no_other_is_taken() -> None:
    service = c.DESCRIPTOR.services_by_name["Controller"]
    assert {f"/{service.full_name}/{each.name}" for each in service.methods} == OF_CONTROLLERS.keys()
    entrance = Entrance(cast("Any", None), Security(), cast("Any", None))
    with pytest.raises(PermissionDenied, match="in no row"):
        entrance.check_method("/atf.v1.Controller/Other", ANYBODY)
