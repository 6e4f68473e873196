"""The role commands: their flags are their settings, and they load no more than they need."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import click
import pytest

from atf import __version__
from atf.cli import commands, main, roles
from atf.config import settings

from .conftest import Atf


@pytest.mark.parametrize(
    ("command", "settings"),
    [
        ("frontend", settings.FrontendSettings),
        ("store-consumer", settings.StoreConsumerSettings),
        ("hsc", settings.HscSettings),
        ("controller", settings.ControllerSettings),
        ("executor", settings.ExecutorSettings),
        ("ui", settings.UiSettings),
        ("server", settings.ServerSettings),
        ("worker", settings.WorkerHostSettings),
    ],
)
def test_help_has_every_setting_with_its_variable(command: str, settings: Any, atf: Atf) -> None:
    said = " ".join(atf(command, "--help").out.split())

    for each in fields(settings):
        assert f"--{each.name.replace('_', '-')} " in said
        assert f"ATF_{each.name.upper()}]" in said
        assert " ".join(each.metadata["doc"].split()) in said


def test_settings_reach_the_role(monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[Any] = []

    def main_of(role: str) -> Callable[..., int]:
        def role_main(*settings: Any) -> int:
            got.extend([role, *settings])
            return 7

        return role_main

    monkeypatch.setattr(roles, "main_of", main_of)
    monkeypatch.setenv("ATF_PARTITIONS", "4")

    apps = ["--dapr-app", "a=127.0.0.1:1", "--dapr-app", "b=127.0.0.1:2"]
    code = main(["frontend", "--listen", "127.0.0.1:0", "--max-attempts-cap", "9", *apps])

    assert code == 7
    assert got == [
        "frontend",
        settings.FrontendSettings(listen="127.0.0.1:0", max_attempts_cap=9, dapr_app="a=127.0.0.1:1,b=127.0.0.1:2"),
        settings.StoreSettings(partitions=4),
        settings.Timing(),
        settings.LogSettings(),
        settings.SecuritySettings(),
    ]


@pytest.mark.parametrize(
    ("command", "roles_of"), [("server", ("frontend", "hsc", "store-consumer")), ("worker", ("controller",))]
)
def test_the_few_processes_take_every_flag_of_their_roles(command: str, roles_of: tuple[str, ...]) -> None:
    (ours,) = (each for each in [commands.cli.get_command(click.Context(commands.cli), command)] if each)
    flags = {each.opts[0] for each in ours.params if isinstance(each, click.Option)}
    for role in roles_of:
        theirs = commands.cli.get_command(click.Context(commands.cli), role)
        assert theirs is not None
        assert {each.opts[0] for each in theirs.params if isinstance(each, click.Option)} <= flags


def _mains(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the `main` of a role is called with from now on."""
    got: list[Any] = []

    def main_of(role: str) -> Callable[..., int]:
        def role_main(*settings: Any) -> int:
            got.extend([role, *settings])
            return 0

        return role_main

    monkeypatch.setattr(roles, "main_of", main_of)
    return got


def test_a_server_listens_where_its_own_table_says_and_is_else_set_as_its_roles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    got = _mains(monkeypatch)
    (tmp_path / "atf.toml").write_text(
        '[server]\nlisten = "127.0.0.1:1"\npartitions = 4\n[frontend]\nlisten = "127.0.0.1:2"\nmax_attempts_cap = 9\n'
        '[hsc]\nstop_delay = 3\n[ui]\nlisten = "127.0.0.1:3"\nread_only = true\n'
    )
    monkeypatch.setenv("ATF_CONFIG", str(tmp_path / "atf.toml"))

    main(["server", "--metrics-listen", "none", "--max-finished", "8"])

    where: Any = {"listen": "127.0.0.1:1", "metrics_listen": "none"}
    assert got == [
        "server",
        settings.ServerSettings(**where),
        settings.RoleSettings(
            frontend=settings.FrontendSettings(**where, max_attempts_cap=9),
            hsc=settings.HscSettings(**where, stop_delay=3),
            consumer=settings.StoreConsumerSettings(**where, max_finished=8),
        ),
        settings.UiSettings(listen="127.0.0.1:8401", read_only=True),
        settings.StoreSettings(partitions=4),
        settings.Timing(),
        settings.LogSettings(),
        settings.SecuritySettings(),
    ]


@pytest.mark.parametrize("where", ["none", ""])
def test_a_server_without_pages(monkeypatch: pytest.MonkeyPatch, where: str) -> None:
    got = _mains(monkeypatch)

    main(["server", "--ui-listen", where])

    assert got[3] is None


@pytest.mark.parametrize("words", [("server", "--ui-listen"), ("ui", "--listen")])
def test_pages_off_loopback_without_tls_and_tokens_are_refused(atf: Atf, words: tuple[str, str]) -> None:
    ran = atf(*words, "0.0.0.0:8401")

    assert ran.code == 2
    assert "listen = 0.0.0.0:8401: other machines reach that, and this role has no TLS and tokens" in ran.err


@pytest.mark.parametrize(
    ("words", "hsc", "frontend"),
    [
        ([], "127.0.0.1:7401", "127.0.0.1:7401"),
        (["--server", "one:1"], "one:1", "one:1"),
        (["--server", "one:1", "--hsc", "two:2"], "two:2", "one:1"),
        (["--hsc", "two:2", "--frontend", "three:3"], "two:2", "three:3"),
    ],
)
def test_a_worker_finds_hsc_and_frontend_at_the_server_unless_they_are_elsewhere(
    monkeypatch: pytest.MonkeyPatch, words: list[str], hsc: str, frontend: str
) -> None:
    got = _mains(monkeypatch)

    main(["worker", "shop:app", "--executors", "3", *words])

    role, controller, *_, apps, executor = got
    assert (role, apps) == ("controller", ("shop:app",))
    assert controller == settings.ControllerSettings(hsc=hsc, frontend=frontend, executors=3)
    assert executor == settings.ExecutorSettings(hsc=hsc, frontend=frontend)


def test_a_setting_that_breaks_a_rule_is_one_sentence(atf: Atf) -> None:
    ran = atf("frontend", "--partitions", "none")

    assert (ran.code, ran.err) == (2, "atf: --partitions = 'none': give a whole number\n")


@pytest.mark.processes
def test_a_guard_carries_neither_grpc_nor_redis_nor_what_tasks_are_declared_with() -> None:
    program = (
        "import sys; from atf.cli import main; main(['executor', '--help'])\n"
        "print([m for m in ('grpc', 'redis', 'rq', 'rich', 'structlog', 'atf.public') if m in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout

    assert said.splitlines()[-1] == "[]"


@pytest.mark.processes
@pytest.mark.parametrize("role", ["frontend", "hsc", "store_consumer", "controller", "server", "ui"])
def test_a_role_starts_without_what_it_never_needs(role: str) -> None:
    """What tasks are declared with, what is loaded when somebody first asks for it, and libraries that it can do without."""
    program = (
        f"import sys; from atf.cli.roles import main_of; main_of('{role}')\n"
        "late = ('aiohttp', 'difflib', 'grpc_reflection.v1alpha.reflection', 'jinja2', 'prometheus_client', 'wsgiref')\n"
        "print([m for m in ('atf.public', 'opentelemetry.trace', 'rich', 'rq', *late) if m in sys.modules]); import opentelemetry, rich"
    )
    said = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True).stdout

    assert said == "[]\n"


@pytest.mark.processes
def test_without_the_server_extra_the_command_says_what_to_install() -> None:
    program = "import sys; sys.modules['click'] = None\nfrom atf.cli import main; sys.exit(main(['ls']))"
    ran = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stderr) == (2, 'atf: the command line needs click: pip install "atf-tasks[server]"\n')


@pytest.mark.parametrize("command", [name for section in commands.SECTIONS.values() for name in section])
def test_every_command_has_a_help_text(command: str, atf: Atf) -> None:
    ran = atf(command, "--help")

    assert ran.code == 0
    assert f"Usage: atf {command}" in ran.out


def test_the_list_of_commands(atf: Atf) -> None:
    said = atf("--help").out

    for section, names in commands.SECTIONS.items():
        assert section in said
        assert all(f"  {name}  " in said for name in names)


def test_an_unknown_command(atf: Atf) -> None:
    ran = atf("nosuch")

    assert ran.code == 2
    assert "No such command 'nosuch'" in ran.err


def test_the_version(atf: Atf) -> None:
    assert atf("--version").out == f"atf {__version__}\n"
