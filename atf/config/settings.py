"""Defines the settings of every role, one frozen dataclass each, and reads them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Final, NamedTuple

from atf.durability import Durability, durability_of
from atf.errors import ConfigError, InvalidArgument
from atf.task import MAX_RUNNING, US, check_pool

from .allowed_hosts import AllowedHosts
from .allowed_programs import AllowedPrograms
from .dapr_names import check_app_id
from .store_urls import check_no_store
from .web import check_base_path, check_editor_url, host_names, is_loopback, other_ways

FRONTEND_PORT: Final = 7401
HSC_PORT: Final = 7402
CONTROLLER_PORT: Final = 7403
STORE_CONSUMER_PORT: Final = 7404
UI_PORT: Final = 8401
METRICS_ABOVE: Final = 2_000
"""By how much the port of a role's metrics stands above its gRPC port, unless it is set."""

START_SLACK_S: Final = 0.05
"""Seconds of a fresh lease beyond start_margin: without any, no task would start before a heartbeat has renewed it."""

CLOCKS_AGREE_S: Final = 0.05
"""Seconds that a host's clock and the store's may stand apart, either way: no step larger than the default drift hides in that."""

_DAY_S: Final = 86_400.0
MAX_PORT: Final = 65_535
ADDRESS: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253}):[0-9]{1,5}")
"""host:port, the host in brackets where it is an address of IPv6."""
_SHOWN: Final = 80
"""Characters of a value that a message shows."""


def setting(default: Any, doc: str, *, repeatable: bool = False, secret: bool = False) -> Any:
    """A field of a settings class.

    Args:
        default: its value where none is given.
        doc: its meaning and unit, for --help and the documentation.
        repeatable: whether its flag may be given several times; elsewhere commas stand between the parts.
        secret: whether it may hold a password: then it is left out of what its class says of itself.
    """
    return field(default=default, metadata={"doc": doc, "repeatable": repeatable}, repr=not secret)


def _metrics_listen() -> Any:
    return setting(
        "auto",
        f"host:port to serve /metrics, /livez and /readyz on, by HTTP; port 0 takes a free one; auto: the host of `listen`, and its port + {METRICS_ABOVE}"
        " (a free one where there is none); none, or empty: they are not served",
    )


def metrics_address(
    settings: FrontendSettings | HscSettings | StoreConsumerSettings | ServerSettings | ControllerSettings,
) -> str:
    """Where a role serves its metrics, host:port; empty: nowhere."""
    if settings.metrics_listen != "auto":
        return "" if settings.metrics_listen == "none" else settings.metrics_listen
    host, _, port = settings.listen.rpartition(":")
    above = int(port) + METRICS_ABOVE if port.isascii() and port.isdigit() and port != "0" else 0
    return f"{host}:{above if above <= MAX_PORT else 0}"


def _app_id(name: str, app_id: str) -> str:
    try:
        return check_app_id(app_id[:_SHOWN])
    except InvalidArgument as error:
        raise ConfigError(f"{name}: {error}") from None


def _within(settings: object, name: str, least: float, most: float) -> None:
    value = getattr(settings, name)
    if not least <= value <= most:  # NaN is neither
        raise ConfigError(f"{name} = {value}: use {least:g} to {most:g}")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """The times on which "never twice at the same time" rests. docs/explanation/guarantees.md has the argument.

    heartbeat_timeout >= 3 * (heartbeat_interval + rpc_deadline) + kill_time + pause + drift, and a little to start in
    """

    heartbeat_interval: float = setting(2.0, "seconds between two heartbeats of an executor")
    rpc_deadline: float = setting(1.0, "seconds until a heartbeat without an answer counts as failed")
    kill_time: float = setting(1.0, "seconds a guard needs at most to kill a process group")
    pause: float = setting(5.0, "seconds of standstill (scheduling, disk, virtual machine) that must do no harm")
    drift: float = setting(0.1, "seconds by which two clocks may run apart within heartbeat_timeout")
    heartbeat_timeout: float = setting(16.0, "seconds a lease lasts, from its claim or its last heartbeat")

    def __post_init__(self) -> None:
        for each in fields(self):
            if not 0 < getattr(self, each.name) < 86_400:
                raise ConfigError(
                    f"{each.name} = {getattr(self, each.name)}: give seconds, more than 0 and less than a day"
                )
        if self.heartbeat_timeout < self.start_margin + START_SLACK_S:
            raise ConfigError(
                f"heartbeat_timeout = {self.heartbeat_timeout} s is too short: 3 * (heartbeat_interval {self.heartbeat_interval}"
                f" + rpc_deadline {self.rpc_deadline}) + kill_time {self.kill_time} + pause {self.pause} + drift {self.drift}"
                f" = {self.start_margin:g} s, and {START_SLACK_S} s for a task to start in. Raise it to at least"
                f" {self.start_margin + START_SLACK_S:g} s, or lower the others"
            )

    @property
    def start_margin(self) -> float:
        """Seconds of its lease a task must have left when its lambda starts."""
        return 3 * (self.heartbeat_interval + self.rpc_deadline) + self.kill_time + self.pause + self.drift

    @property
    def heartbeat_timeout_us(self) -> int:
        return round(self.heartbeat_timeout * US)


@dataclass(frozen=True, kw_only=True)
class StoreSettings:
    """Where the task store is, and how to speak to it."""

    redis_url: str = setting(
        "redis://127.0.0.1:6379/0",
        "address of the task store: redis://, rediss://, unix://, redis+sentinel:// or redis+cluster://",
        secret=True,
    )
    redis_url_file: str = setting(
        "",
        "file that holds this address, so that no password stands in an environment; it counts where redis_url is not given",
    )
    partitions: int = setting(
        0,
        "partitions of the store's keys; 0: as many as the store has on record. The role that opens a new store first puts"
        " them on record; with 0 it takes 1, and 16 on a cluster",
    )
    store_timeout: float = setting(5.0, "seconds until a call of the store without an answer has failed")
    store_connections: int = setting(16, "connections to the store that one process opens at most")
    wakeups: bool = setting(
        True, "whether to sleep until the store says that something is due; off: poll_interval alone"
    )
    poll_interval: float = setting(1.0, "seconds between two looks when no notification comes")
    push_when_scheduled: bool = setting(
        True,
        "whether whoever stores a task that is due also pushes it onto its queue, where nothing holds it; off: store consumers push all",
    )
    durability: str = setting(
        "relaxed",
        "relaxed, disk (the store's disk has it) or replicated (a replica has it): what must have happened to every task and"
        " every claim before it is answered",
    )

    def __post_init__(self) -> None:
        _ = self.floor
        if not 0 <= self.partitions <= 16_384:
            raise ConfigError(f"partitions = {self.partitions}: use 1 to 16384, or 0 for what the store has on record")
        if not 0.001 <= self.poll_interval <= 60:
            raise ConfigError(f"poll_interval = {self.poll_interval}: use 0.001 to 60 seconds")
        _within(self, "store_timeout", 0.01, _DAY_S)
        _within(self, "store_connections", 1, 10_000)

    @cached_property
    def floor(self) -> Durability:
        """The class that every task and every claim has at least.

        Raises:
            ConfigError: there is none of this name.
        """
        try:
            return durability_of(self.durability)
        except InvalidArgument as error:
            raise ConfigError(str(error)) from None


AUTH: Final = ("off", "token", "mtls")


@dataclass(frozen=True, kw_only=True)
class SecuritySettings:
    """Whom a process answers, what it shows to those that it calls, and how both are encrypted. The token itself is in ATF_TOKEN, never in a flag."""

    auth: str = setting(
        "off",
        "how callers are known: token (by what `atf token create` gave them), mtls (by their certificates too), or off: everybody may do everything",
    )
    tls_cert: str = setting(
        "", "file with the certificate to show, as a server and to servers, and those between it and its root"
    )
    tls_key: str = setting("", "file with its key")
    tls_client_ca: str = setting(
        "", "file with the certificates of those who sign the callers' certificates, for auth = mtls"
    )
    tls_ca: str = setting(
        "",
        "file with the certificates of those who sign servers' certificates, or `system`; empty: what is called is called without TLS",
    )
    token_file: str = setting(
        "", "file with the token to show to those that are called; it is read again when it has changed"
    )
    insecure: bool = setting(
        False, "whether to listen for other machines without TLS and tokens: only in a network that does both by itself"
    )
    caller_calls: int = setting(
        10_000,
        "calls that one caller may have under way at a server; a caller is a token (with its executors) or a certificate, and without auth a connection",
    )
    caller_streams: int = setting(1_000, "streams that one caller may have open at a server")
    caller_mib: int = setting(256, "MiB that the requests which one caller has under way at a server may have")
    caller_rate: int = setting(
        5_000, "calls a second that one caller may make of a server; twice as many may come at once"
    )

    def __post_init__(self) -> None:
        if self.auth not in AUTH:
            raise ConfigError(f"auth = {self.auth[:_SHOWN]!r}: use {', '.join(AUTH)}")
        if bool(self.tls_cert) != bool(self.tls_key):
            raise ConfigError("tls_cert and tls_key belong together: give both, or none")
        if self.auth == "mtls" and not (self.tls_cert and self.tls_client_ca):
            raise ConfigError("auth = mtls needs tls_cert, tls_key and tls_client_ca")
        for name in ("caller_calls", "caller_streams", "caller_mib", "caller_rate"):
            _within(self, name, 1, 1 << 30)

    def check_listen(self, address: str, name: str = "listen", *, also: str = "") -> None:
        """Lets pass where a role may listen: on loopback, or with TLS and tokens.

        Args:
            address: host:port.
            name: of the setting.
            also: what else the error says can be done.

        Raises:
            ConfigError: other machines reach it, and it has not both.
        """
        host = address.rpartition(":")[0]
        if self.insecure or is_loopback(host) or (self.tls_cert and self.auth != "off"):
            return
        lacks = " and ".join(
            what for what, there in (("TLS", self.tls_cert), ("tokens", self.auth != "off")) if not there
        )
        raise ConfigError(
            f"{name} = {address}: other machines reach that, and this role has no {lacks}. Give it --tls-cert, --tls-key and --auth token"
            f" (docs/how-to/security.md), or --insecure where the network does both by itself{also}"
        )

    def check_pages(self, address: str, name: str = "listen") -> None:
        """The same of where pages are served."""
        self.check_listen(address, name, also=other_ways(address))


@dataclass(frozen=True, kw_only=True)
class FrontendSettings:
    """The frontend."""

    listen: str = setting(f"127.0.0.1:{FRONTEND_PORT}", "host:port to serve on; port 0 takes a free one")
    metrics_listen: str = _metrics_listen()
    max_attempts_cap: int = setting(100, "no task gets more attempts than this, whatever it asks for")
    batch_max_attempts: int = setting(
        10, "no item of a batch gets more attempts than this, whatever the batch asks for"
    )
    dapr_app: str = setting(
        "",
        "ID=HOST:PORT: where an app that was written for Dapr takes its jobs; several with commas between them",
        repeatable=True,
    )
    dapr_app_id: str = setting("", "the app whose call through Dapr's API it is where the call names none")
    dapr_http: str = setting(
        "", "host:port to serve Dapr's HTTP API on, for jobs; port 0 takes a free one; empty: it is not served"
    )
    dapr_hosts: str = setting(
        "",
        "host:port of frontends, with commas between them, that Dapr's sidecars are told to take for scheduler hosts; default this"
        " one's own address",
    )

    def __post_init__(self) -> None:
        _within(self, "max_attempts_cap", 1, (1 << 31) - 1)
        _within(self, "batch_max_attempts", 1, (1 << 31) - 1)
        _ = self.dapr_apps
        if self.dapr_app_id:
            _app_id("dapr_app_id", self.dapr_app_id)
        for each in self.told_hosts:
            if not ADDRESS.fullmatch(each):
                raise ConfigError(f"dapr_hosts = {each[:80]!r}: write HOST:PORT, such as atf-frontend-0.atf:7401")

    @property
    def dapr_apps(self) -> dict[str, str]:
        """Addresses by app id.

        Raises:
            ConfigError: one is malformed, or an app has two.
        """
        found: dict[str, str] = {}
        for each in filter(None, (part.strip() for part in self.dapr_app.split(","))):
            app_id, _, address = each.partition("=")
            if not ADDRESS.fullmatch(address):
                raise ConfigError(f"dapr_app = {each[:80]!r}: write ID=HOST:PORT, such as orders=127.0.0.1:50061")
            if _app_id("dapr_app", app_id) in found:
                raise ConfigError(f"dapr_app: the app {app_id!r} has two addresses; give it one")
            found[app_id] = address
        return found

    @property
    def told_hosts(self) -> tuple[str, ...]:
        """`dapr_hosts`, one by one."""
        return tuple(each.strip() for each in self.dapr_hosts.split(",") if each.strip())


@dataclass(frozen=True, kw_only=True)
class HscSettings:
    """The heartbeat and status controller."""

    listen: str = setting(f"127.0.0.1:{HSC_PORT}", "host:port to serve on; port 0 takes a free one")
    metrics_listen: str = _metrics_listen()
    deploy_grace: float = setting(
        600.0,
        "seconds for which a task may wait whose payload fits no live executor's signature; then that is a failed attempt",
    )

    ageing: float = setting(1.0, "seconds a queue waits until it counts as one priority higher")
    stop_delay: float = setting(
        2.0,
        "seconds for which it serves on after it was asked to end, since executors that are asked at the same time have to tell it so",
    )

    credential_life: float = setting(
        900.0,
        "seconds for which what an executor shows in the place of a token is valid; it is renewed halfway, or every two minutes, and ends with the token before that",
    )

    def __post_init__(self) -> None:
        _within(self, "credential_life", 1, _DAY_S)
        _within(self, "deploy_grace", 0, _DAY_S)
        _within(self, "ageing", 0.001, _DAY_S)
        _within(self, "stop_delay", 0, _DAY_S)

    @property
    def deploy_grace_us(self) -> int:
        return round(self.deploy_grace * US)


@dataclass(frozen=True, kw_only=True)
class StoreConsumerSettings:
    """The store consumer."""

    listen: str = setting(
        f"127.0.0.1:{STORE_CONSUMER_PORT}", "host:port of its health service; port 0 takes a free one"
    )
    metrics_listen: str = _metrics_listen()
    poll_on_request: bool = setting(
        False,
        "whether to make a pass only when the RPC Poll asks for one, and nothing by itself; other roles still push what is due at once, unless"
        " push_when_scheduled is off",
    )
    sweep_interval: float = setting(5.0, "seconds between two sweeps of expired records")
    max_finished: int = setting(1_000_000, "finished tasks kept per lambda, status and partition; the oldest go first")
    retention_memory: float = setting(
        0.8,
        "part of a store server's maxmemory above which finished tasks go before their retention is over; 1: none does",
    )

    def __post_init__(self) -> None:
        _within(self, "sweep_interval", 0.01, _DAY_S)
        _within(self, "max_finished", 0, 1 << 53)
        _within(self, "retention_memory", 0.1, 1)


@dataclass(frozen=True, kw_only=True)
class ServerSettings:
    """Where an `atf server` listens."""

    listen: str = setting(
        f"127.0.0.1:{FRONTEND_PORT}", "host:port to serve clients and workers on, by gRPC; port 0 takes a free one"
    )
    metrics_listen: str = _metrics_listen()
    ui_listen: str = setting(
        f"127.0.0.1:{UI_PORT}",
        "host:port to serve the pages on; port 0 takes a free one; none, or empty: they are not served",
    )

    @property
    def has_pages(self) -> bool:
        """Whether the pages are served."""
        return self.ui_listen not in {"", "none"}


class RoleSettings(NamedTuple):
    """The roles of an `atf server`; all of them listen where the frontend does."""

    frontend: FrontendSettings
    hsc: HscSettings
    consumer: StoreConsumerSettings


@dataclass(frozen=True, kw_only=True)
class WorkerHostSettings:
    """Whom a worker host calls."""

    server: str = setting(f"127.0.0.1:{FRONTEND_PORT}", "address of an `atf server`, which is HSC and frontend at once")
    hsc: str = setting("", "address of the HSC, where it is a process of its own; empty: the server's")
    frontend: str = setting("", "address of the frontend, where it is a process of its own; empty: the server's")


def _pool(name: str) -> None:
    try:
        if name:
            check_pool(name)
    except InvalidArgument as error:
        raise ConfigError(str(error)) from None


@dataclass(frozen=True, kw_only=True)
class ControllerSettings:
    """The controller of one worker host."""

    listen: str = setting(f"127.0.0.1:{CONTROLLER_PORT}", "host:port to serve on; port 0 takes a free one")
    metrics_listen: str = _metrics_listen()
    hsc: str = setting(
        f"127.0.0.1:{HSC_PORT}", "address of the HSC; of several with commas between: one is used until it is away"
    )
    frontend: str = setting(f"127.0.0.1:{FRONTEND_PORT}", "address of the frontend, for the executors it starts")
    executors: int = setting(1, "executor processes to start and guard; 0: they are started by hand")
    start_retries: int = setting(
        5,
        "how often an executor whose start failed is started again, 1 s later and then twice as long each time, before the controller gives up"
        " and exits with 4; as long as one executor works, it goes on trying",
    )
    spares: int = setting(
        0,
        "executor processes that stand by with ATF loaded and your code not, so that the next executor starts in a third of the time; each takes"
        " some 40 MB",
    )
    pool: str = setting(
        "",
        "the worker cluster that this host belongs to: it runs the lambdas that name it; empty: those that name none",
    )

    def __post_init__(self) -> None:
        _pool(self.pool)
        check_no_store(self.frontend, "a controller")
        _within(self, "executors", 0, 10_000)
        _within(self, "spares", 0, 100)
        _within(self, "start_retries", 0, 1 << 31)


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """One executor process."""

    controller: str = setting(f"127.0.0.1:{CONTROLLER_PORT}", "address of this host's controller")
    hsc: str = setting(
        f"127.0.0.1:{HSC_PORT}", "address of the HSC; of several with commas between: one is used until it is away"
    )
    frontend: str = setting(
        f"127.0.0.1:{FRONTEND_PORT}", "address of the frontend: to register lambdas, and for tasks that schedule tasks"
    )
    threads: int = setting(16, "tasks of `def` lambdas that run at once")
    async_tasks: int = setting(256, "tasks of `async def` lambdas that run at once")
    start_timeout: float = setting(
        300.0,
        "seconds that importing the apps may take; then the process is killed, and its start has failed; 0: no bound",
    )
    stop_grace: float = setting(
        5.0,
        "seconds a `def` may go on after its timeout or cancellation before its process drains; and that an `async def` has between its"
        " cancellation by a drain and the drain's end",
    )
    drain_timeout: float = setting(
        30.0, "seconds a draining executor waits for what it started; what has not ended then is cut off and runs again"
    )
    max_rss_mib: int = setting(
        0, "MiB of memory at which a process takes no more tasks and is replaced, as in a drain; 0: no bound"
    )
    max_rss_kill_mib: int = setting(
        0,
        "MiB of memory at which the guard kills the process, and what it runs counts as lost; 0: half as much again as max_rss_mib",
    )
    http_allow: str = setting(
        "", "hosts that `atf/http` may call: HOST, HOST:PORT or *.DOMAIN with commas between; *: any; empty: none"
    )
    command_allow: str = setting(
        "",
        "programs that `atf/command` may run: /PATH/TO/PROGRAM or NAME=/PATH/TO/PROGRAM with commas between; empty: none",
    )
    pool: str = setting("", "the worker cluster that its controller must belong to; empty: whichever it belongs to")
    executor_user: str = setting(
        "",
        "the user of this machine as whom your code runs; empty: as whom the controller runs. It takes root, or three capabilities",
    )
    codec_keys: str = setting(
        "",
        "key file that arguments are decrypted by, and results, errors, progress and logs encrypted; it is read again when it has changed; empty: nothing is",
    )

    def __post_init__(self) -> None:
        _pool(self.pool)
        check_no_store(self.frontend, "an executor")
        if self.threads < 1 or self.async_tasks < 1:
            raise ConfigError(f"threads = {self.threads}, async_tasks = {self.async_tasks}: at least 1 each")
        if self.threads + self.async_tasks > MAX_RUNNING:
            raise ConfigError(
                f"threads = {self.threads}, async_tasks = {self.async_tasks}: at most {MAX_RUNNING} together, since one heartbeat"
                " has to name all that an executor holds. Start more executors instead"
            )
        _within(self, "start_timeout", 0, _DAY_S)
        _within(self, "stop_grace", 0, _DAY_S)
        _within(self, "drain_timeout", 0, _DAY_S)
        _within(self, "max_rss_mib", 0, 1 << 40)
        _within(self, "max_rss_kill_mib", 0, 1 << 40)
        if 0 < self.max_rss_kill_mib < self.max_rss_mib:
            raise ConfigError(
                f"max_rss_kill_mib = {self.max_rss_kill_mib}: less than max_rss_mib, {self.max_rss_mib}, at which a process still has"
                f" time to end; use {self.max_rss_mib} or more, or 0 for half as much again"
            )
        _ = self.allowed_hosts
        _ = self.allowed_programs

    @property
    def rss_kill_mib(self) -> int:
        """MiB of memory at which a process is killed; 0: no bound."""
        return self.max_rss_kill_mib or self.max_rss_mib * 3 // 2

    @property
    def allowed_programs(self) -> AllowedPrograms:
        """The programs that `atf/command` may run.

        Raises:
            ConfigError: command_allow has an entry that is no program.
        """
        return AllowedPrograms.parse(self.command_allow)

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """The hosts that `atf/http` may call.

        Raises:
            ConfigError: http_allow has an entry that is no host.
        """
        return AllowedHosts.parse(self.http_allow)


@dataclass(frozen=True, kw_only=True)
class UiSettings:
    """The pages for people."""

    listen: str = setting(f"127.0.0.1:{UI_PORT}", "host:port to serve the pages on; port 0 takes a free one")
    frontend: str = setting(f"127.0.0.1:{FRONTEND_PORT}", "address of the frontend whose tasks the pages show")
    read_only: bool = setting(False, "whether the pages only show: every action is refused")
    base_path: str = setting("", "path under which a proxy serves the pages, such as /atf; empty: at the root")
    public_hosts: str = setting(
        "",
        "host names under which browsers reach the pages, by a proxy or off loopback, with commas between; a name has its port where a proxy serves it"
        " by https at another one than 443; names of loopback and the one in listen are always taken, and off loopback each address",
    )

    editor_url: str = setting(
        "",
        "URL that opens a file of a traceback in your editor, such as vscode://file{path}:{line}; empty: tracebacks have no links",
    )

    def __post_init__(self) -> None:
        check_base_path(self.base_path)
        check_editor_url(self.editor_url)
        host_names(self.public_hosts)

    @property
    def root(self) -> str:
        """The path of the first page without its last slash."""
        return self.base_path.rstrip("/")


@dataclass(frozen=True, kw_only=True)
class LogSettings:
    """What a process says."""

    log_level: str = setting(
        "info", "debug, info, warning or error; debug has lines for each batch of tasks and each run"
    )
    log_format: str = setting("auto", "console, json, or auto: console on a terminal, else json")

    def __post_init__(self) -> None:
        if self.log_level not in {"debug", "info", "warning", "error"}:
            raise ConfigError(f"log_level = {self.log_level!r}: use debug, info, warning or error")
        if self.log_format not in {"console", "json", "auto"}:
            raise ConfigError(f"log_format = {self.log_format!r}: use console, json or auto")
