"""Draws the pages of docs/reference/ that only repeat what the code says; `--check` only compares.

    settings.md    the fields of the settings classes       commands.md    what `atf … --help` prints
    sdk.md         signatures and docstrings of `import atf`
    rpcs.md        the .proto files that clients speak       errors.md      the tree of errors, and how to mend each
    metrics.md     the table of metrics                      permissions.md who may call what
    stolen-secrets.md  what each stolen secret lets somebody do

It owns these pages whole. What is wrong on one is wrong in the code: mend it there.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, Final, NamedTuple

import click

import atf
from atf import errors
from atf.auth import fields as fields_that_hold, methods as permissions, routes
from atf.auth.grants import Verb
from atf.cli.commands import SECTIONS, cli
from atf.config import settings as s
from atf.frontend.audit import NOT_AUDITED
from atf.metrics import table as metrics
from atf.metrics.metrics import MAX_LAMBDAS, OTHER

ROOT: Final = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # proofs are not installed

from proof.blast import expected as stolen  # noqa: E402

FOLDER: Final = ROOT / "docs" / "reference"
COLUMNS: Final = 100
"""How wide a terminal the help of commands is printed for."""

# --- settings ---------------------------------------------------------------------------------------------------------

SETTINGS: Final = (
    (s.FrontendSettings, "Frontend", "Of `atf frontend`; in atf.toml in the table `[frontend]`."),
    (
        s.StoreConsumerSettings,
        "Store consumer",
        "Of `atf store-consumer`; in atf.toml in the table `[store_consumer]`.",
    ),
    (s.HscSettings, "HSC", "Of `atf hsc`; in atf.toml in the table `[hsc]`."),
    (s.ControllerSettings, "Controller", "Of `atf controller`; in atf.toml in the table `[controller]`."),
    (
        s.ExecutorSettings,
        "Executor",
        "Of `atf executor`, and of `atf controller MODULE:APP`, which hands them on; in atf.toml in the table `[executor]`.",
    ),
    (
        s.ServerSettings,
        "Server",
        "Of `atf server`; in atf.toml in the table `[server]`. All other settings of frontend, HSC, store consumer and pages apply, too.",
    ),
    (
        s.WorkerHostSettings,
        "Worker",
        "Of `atf worker`; in atf.toml in the table `[worker]`. All other settings of controller and executor apply, too.",
    ),
    (s.UiSettings, "Pages", "Of `atf ui`; in atf.toml in the table `[ui]`."),
    (s.StoreSettings, "Task store", "Of every role but the executor, which does not know the store."),
    (s.Timing, "Timing", "Of every role. All roles of a cluster need the same values."),
    (s.LogSettings, "Log", "Of every role."),
)


def settings_page() -> Iterator[str]:
    """A table for each class of settings."""
    yield "# Settings\n"
    yield (
        "A setting comes from its flag, else from its environment variable, else from the file `atf.toml` in the current"
        " directory (`ATF_CONFIG` names another file), else from its default. `heartbeat_timeout` is the flag"
        " `--heartbeat-timeout`, the variable `ATF_HEARTBEAT_TIMEOUT`, and the line `heartbeat_timeout = 16.0` in atf.toml,"
        " at the top level or in a role's table. A name that nothing reads is refused.\n"
    )
    yield "## Clients\n"
    yield "| variable | default | meaning |\n|---|---|---|"
    yield f"| `ATF_FRONTEND` | `localhost:{s.FRONTEND_PORT}` | `HOST:PORT` of the frontend, for programs and commands |"
    yield "| `ATF_TIMEOUT` | `10s` | how long a call may take, all its retries included |\n"
    for cls, heading, where in SETTINGS:
        yield f"## {heading}\n\n{where}\n"
        yield "| setting | default | meaning |\n|---|---|---|"
        for each in fields(cls):
            assert each.default is not MISSING
            shown = f"`{each.default}`" if each.default != "" else "empty"
            yield f"| `{each.name}` | {shown} | {cell(each.metadata['doc'])} |"
        yield ""


# --- commands ---------------------------------------------------------------------------------------------------------


def commands_page() -> Iterator[str]:
    """The help of every command, under the sections of `atf --help`."""
    yield "# Commands\n"
    yield "What `atf COMMAND --help` prints. " + " ".join((cli.help or "").split("\n\n", 1)[1].split()) + "\n"
    context = click.Context(cli, info_name="atf")
    for section, entries in SECTIONS.items():
        yield f"## {section}\n"
        for name in entries:
            command = cli.get_command(context, name)
            assert command is not None
            yield from helped(command, click.Context(command, info_name=name, parent=context), 3)


def helped(command: click.Command, context: click.Context, level: int) -> Iterator[str]:
    """A command's help, then that of those below it."""
    context.terminal_width = COLUMNS
    path = context.command_path
    yield f"{'#' * level} {path}\n\n```text\n{command.get_help(context).strip()}\n```\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            if below is not None and not below.hidden:
                yield from helped(below, click.Context(below, info_name=name, parent=context), level + 1)


# --- SDK --------------------------------------------------------------------------------------------------------------

SDK: Final = {
    "Declare tasks": ("App", "Lambda", "Context", "Backoff", "Retry", "Fatal", "HandBack"),
    "Schedule tasks": ("Client", "AsyncClient", "default_client", "use_client", "Prepared", "Concurrency", "Unique"),
    "Follow tasks": ("Handle", "TaskInfo", "Status"),
    "Batches and chains": (
        *("Batch", "BatchProgress", "BatchStatus", "ItemInfo", "ItemStatus", "Step", "Chain", "ChainHandle"),
    ),
    "Operate": ("LambdaInfo", "KeyInfo"),
}
MADE_BY_USERS: Final = frozenset(
    {"App", "AsyncClient", "Backoff", "Client", "Concurrency", "Fatal", "HandBack", "Retry", "Unique"}
)
"""Classes that programs make objects of; of the others, the SDK does."""


def sdk_page() -> Iterator[str]:
    """What `import atf` gives, but for errors."""
    yield "# SDK\n"
    yield (
        "What `import atf` gives to programs that declare, schedule and follow tasks. [Errors](errors.md) have a page of"
        " their own. `atf.testing` is described in [Use it from your service](../how-to/service.md#test-it).\n"
    )
    listed = {name for names in SDK.values() for name in names}
    left = {name for name in atf.__all__ if not name.startswith("_")} - listed - set(errors.BY_REASON)
    assert not left, f"say in SDK where these stand: {left}"
    for heading, names in SDK.items():
        yield f"## {heading}\n"
        for name in names:
            yield from described(name, getattr(atf, name))


def described(name: str, thing: Any) -> Iterator[str]:
    """A class with its public methods, or a function."""
    if not inspect.isclass(thing):
        yield f"### {name}\n\n```python\natf.{name}{signature(thing)}\n```\n\n{docstring(thing)}\n"
        return
    yield f"### {name}\n"
    if name in MADE_BY_USERS:
        takes = "(message)" if thing is atf.Fatal else signature(thing).removesuffix(" -> None")
        yield f"```python\natf.{name}{takes}\n```\n"
    yield docstring(thing) + "\n"
    if kept := list(attributes(thing)):
        yield "\n".join(kept) + "\n"
    if members := list(getattr(thing, "__members__", {})):
        yield "Members: " + ", ".join(f"`{each}`" for each in members) + ".\n"
    found = list(methods(thing))
    if same := [method for method, value in found if hasattr(value, "__wrapped__")]:
        of = "AsyncClient" if thing is atf.Client else "the coroutine of the same name"
        yield f"These block, and take what {of} takes: {', '.join(f'`{each}`' for each in same)}.\n"
    for method, value in found:
        if method in same:
            continue
        text = docstring(value)
        shown = f"{method}{signature(value)}" if inspect.isfunction(value) else f"{method}  # a property"
        waits = "await " if inspect.iscoroutinefunction(value) else ""
        yield f"#### {name}.{method}\n\n```python\n{waits}{shown}\n```\n\n{text}\n"


def attributes(cls: type) -> Iterator[str]:
    """The fields that a class declares, each with the text below it, as a list."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    for each, after in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and not each.target.id.startswith("_"):
            said = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            yield f"- `{each.target.id}: {ast.unparse(each.annotation)}`" + (
                f": {prose(' '.join(str(said).split()))}" if said else ""
            )


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Its public methods and properties that have a docstring, in the order of the code, those of bases of ours last."""
    seen: set[str] = set()
    for base in cls.__mro__:
        if not base.__module__.startswith("atf."):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in seen:
                continue
            if (inspect.isfunction(value) or isinstance(value, property)) and value.__doc__:
                seen.add(name)
                yield name, value


def signature(of: Callable[..., Any]) -> str:
    """Parameters and what is given back as the code has them, a line each where they are many."""
    found = inspect.signature(of)
    words: list[str] = []
    before: inspect._ParameterKind | None = None
    for each in found.parameters.values():
        if before is each.POSITIONAL_ONLY and each.kind is not before and words:
            words.append("/")
        if each.kind is each.KEYWORD_ONLY and before not in {each.KEYWORD_ONLY, each.VAR_POSITIONAL}:
            words.append("*")
        before = each.kind
        if each.name not in {"self", "cls"}:
            words.append(parameter(each))
    if before is inspect.Parameter.POSITIONAL_ONLY and words:
        words.append("/")
    given = "" if found.return_annotation is found.empty else f" -> {annotation(found.return_annotation)}"
    line = f"({', '.join(words)}){given}"
    return line if len(line) <= COLUMNS - 20 else "(\n" + "".join(f"    {each},\n" for each in words) + f"){given}"


def parameter(of: inspect.Parameter) -> str:
    """A parameter as the code has it."""
    stars = "*" if of.kind is of.VAR_POSITIONAL else "**" if of.kind is of.VAR_KEYWORD else ""
    kind = "" if of.annotation is of.empty else f": {annotation(of.annotation)}"
    default = "" if of.default is of.empty else f" = {of.default!r}" if kind else f"={of.default!r}"
    return f"{stars}{of.name}{kind}{default}"


def annotation(of: object) -> str:
    """An annotation without the modules of its names."""
    text = of if isinstance(of, str) else inspect.formatannotation(of)
    return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", text)


SECTION: Final = re.compile(r"^(Args|Attributes|Raises|Returns|Yields):$")


def docstring(of: Any) -> str:
    """A docstring as Markdown: its sections are lists."""
    text = inspect.getdoc(of) or ""
    out: list[str] = []
    listing = False
    for line in text.splitlines():
        if found := SECTION.match(line):
            out.append(f"\n**{found[1]}**\n")
            listing = True
        elif listing and (item := re.match(r"^    (\S.*?): (.*)$", line)) and not line.startswith("     "):
            out.append(f"- `{item[1]}`: {prose(item[2])}")
        elif listing and line.startswith("     "):
            out.append("  " + prose(line.strip()))
        elif listing and line.startswith("    "):
            out.append("- " + prose(line.strip()))
        elif line.startswith("    "):
            out.append(line)
        else:
            listing = listing and not line.strip()
            out.append(prose(line))
    return "\n".join(out).strip()


# --- RPCs -------------------------------------------------------------------------------------------------------------

PROTOS: Final = ("frontend", "task", "job", "batch")
RPC: Final = re.compile(r"^  rpc (\w+)\((stream )?(\w+)\) returns \((stream )?(\w+)\)(.*)$")


class Piece(NamedTuple):
    """A message or an enum of a .proto file, with the comment above it."""

    name: str
    text: str


def rpcs_page() -> Iterator[str]:
    """The calls of the frontend, each with its request and its answer; then what several calls share."""
    pieces = {each.name: each for name in PROTOS for each in messages(name)}
    proto = (ROOT / "atf" / "rpc" / "frontend.proto").read_text(encoding="utf-8")
    yield "# RPCs\n"
    yield (
        "The frontend's gRPC service `atf.v1.Frontend`, for programs in any language. The files are `atf/rpc/*.proto`; a"
        " frontend also answers gRPC's reflection and health calls. [Errors](errors.md) has the statuses and their reasons.\n"
    )
    yield (
        "A call marked *read* changes nothing. A call marked *repeatable* may be made again when its answer was lost. A call"
        " marked *audited* leaves an entry in [the audit log](../how-to/operations.md#who-did-what).\n"
    )
    yield (
        "| not audited | why |\n|---|---|\n"
        + "\n".join(f"| {name} | {why} |" for name, why in NOT_AUDITED.items())
        + "\n"
    )
    shown: set[str] = set()
    comment: list[str] = []
    for line in proto.splitlines():
        if found := RPC.match(line):
            kind = "read" if "NO_SIDE_EFFECTS" in line else "repeatable" if "IDEMPOTENT" in line else ""
            kind += "" if kind == "read" or found[1] in NOT_AUDITED else ", audited"
            yield f"## {found[1]}\n"
            said = " ".join(comment)
            yield f"{prose(said)} *({kind})*\n" if said else f"*({kind})*\n"
            told = [pieces[name].text for name in (found[3], found[5]) if name in pieces and name not in shown]
            shown |= {found[3], found[5]}
            ways = f"{found[2] or ''}{found[3]} → {found[4] or ''}{found[5]}"
            yield f"`{ways}`\n"
            if told:
                yield "```proto\n" + "\n\n".join(told) + "\n```\n"
        comment = [*comment, line.strip()[3:]] if line.startswith("  //") else []
    yield "## Shared messages\n"
    yield "```proto\n" + "\n\n".join(each.text for name, each in pieces.items() if name not in shown) + "\n```"


def messages(name: str) -> Iterator[Piece]:
    """The messages and enums of a .proto file."""
    text = (ROOT / "atf" / "rpc" / f"{name}.proto").read_text(encoding="utf-8")
    for found in re.finditer(r"^(?://.*\n)*(?:message|enum) (\w+) \{(?:\}$|\n(?:.*\n)*?\}$)", text, re.MULTILINE):
        yield Piece(found[1], found[0])


# --- errors -----------------------------------------------------------------------------------------------------------

MENDS: Final = {
    "AtfError": "Look at the message; a server of a newer release may know a reason that this client does not.",
    "InvalidArgument": "Mend the call: the message names the field, the rule and what was given. A repeat fails again.",
    "ConfigError": "Mend the setting that the message names, and start the process again.",
    "Misfit": "Keep the old parameter as an alias or give the new one a default, and deploy; then `atf retry`.",
    "NotFound": "Check the name or the id.",
    "TaskNotFound": "Check the id. A finished task is forgotten after its `retention`, a day by default.",
    "UnknownLambda": "Start a worker whose app has the lambda, or mend the name: the message shows the nearest ones.",
    "AlreadyExists": "Use another `key` or name, or the same arguments as the first call. For a job, say `overwrite`.",
    "Unauthenticated": "Set ATF_TOKEN, or ATF_TOKEN_FILE, to a token that `atf token ls` shows as valid.",
    "PermissionDenied": "Ask whoever makes tokens for one with the verb and the namespace that the message names.",
    "FailedPrecondition": "Bring about what the message asks for, such as a resume or a deletion, and call again.",
    "NotDecrypted": "Give this process the key file that has the key: ATF_CODEC_KEYS. The data stays in the store, and in `data` of the error.",
    "ResourceExhausted": "Wait until tasks have drained, delete what you do not need, or give the store more memory.",
    "TooManyPending": "Call again after `retry_after_s`, schedule less, or raise the lambda's `max_pending`.",
    "Unavailable": "Call again: it is safe. If it goes on, look at `atf status` and `atf doctor`.",
    "ClaimsPaused": "Wait: claims go on by themselves when the leases from before the restart have ended.",
    "TooManyCalls": "Make fewer calls at once; clients repeat them by themselves. Or raise the setting that the message names.",
    "DeadlineExceeded": "Call again with the same `key` or id, which finds what the first call stored.",
    "Internal": "Report it, with the log lines of the role that answered.",
    "TaskError": "Look at the task: `atf get ID`.",
    "TaskFailed": "Mend the cause that the error names, deploy, and run it again: `atf retry ID`.",
    "TaskCancelled": "If it should run after all: `atf retry ID`.",
}


def errors_page() -> Iterator[str]:
    """The errors that callers see, with their reason, their status and what to do."""
    assert MENDS.keys() == errors.BY_REASON.keys(), f"say how to mend: {MENDS.keys() ^ errors.BY_REASON.keys()}"
    yield "# Errors\n"
    yield (
        "An error travels as a gRPC status with a `google.rpc.ErrorInfo` in its details, whose domain is `atf`. Its reason"
        " is the name of the class that the SDK raises. An error is also each class above it in this tree, so"
        " `except atf.Unavailable` catches `ClaimsPaused`.\n"
    )
    tree = (errors.__doc__ or "").partition("\n\n")[2].partition("\n\n")[0]
    yield f"```text\n{textwrap.dedent(tree)}\n```\n"
    yield "| reason | status | what it says | what to do |\n|---|---|---|---|"
    for name, cls in errors.BY_REASON.items():
        said = " ".join((inspect.getdoc(cls) or "").partition("\n\n")[0].split())
        yield f"| `{name}` | `{cls.code}` | {cell(said)} | {cell(MENDS[name])} |"
    yield "\nA handler raises [`Retry`, `Fatal` or `HandBack`](sdk.md#retry) to say how its run ended. No caller sees them."


# --- pages ------------------------------------------------------------------------------------------------------------

# --- metrics ----------------------------------------------------------------------------------------------------------


def metrics_page() -> Iterator[str]:
    """A table of every metric, by the process that exports it."""
    yield "# Metrics\n"
    yield (
        "Every process serves these as text at `/metrics` ([how to scrape them](../how-to/metrics.md)). Beside them stand"
        " `process_cpu_seconds_total`, `process_start_time_seconds` and what else prometheus-client says of a process.\n"
    )
    yield (
        f"No label names a host, an executor or a task. The first {MAX_LAMBDAS} lambdas that a process meets have a label of their own;"
        f" all others together are `{OTHER}`. A series is there once it has a value. *Together* says how to put the values of several"
        " processes together: `sum`, since each counts what it did itself, or `max`, since each says the same of the whole store.\n"
    )
    for heading, roles in {"every process": metrics.ROLES, **{role: (role,) for role in metrics.ROLES}}.items():
        yield f"## {heading[0].upper()}{heading[1:]}\n\n| metric | kind | labels | together | meaning |\n|---|---|---|---|---|"
        for each in metrics.METRICS:
            if each.roles == roles or (each.roles != metrics.ROLES and heading in each.roles):
                labels = ", ".join(f"`{label}`" for label in each.labels)
                yield f"| `{each.name}` | {each.kind} | {labels} | {each.sum} | {cell(each.help)} |"
        yield ""
    yield "## Buckets\n"
    yield "Upper bounds in seconds. `_bucket` has each with the label `le`, and `+Inf`; `_sum` and `_count` stand beside it.\n"
    yield "| metrics | buckets |\n|---|---|"
    named: dict[tuple[float, ...], list[str]] = {}
    for each in metrics.METRICS:
        if each.buckets:
            named.setdefault(each.buckets, []).append(f"`{each.name}`")
    for buckets, names in named.items():
        yield f"| {', '.join(names)} | {' '.join(f'{bound:g}' for bound in buckets)} |"
    yield (
        "\nRun times have few buckets, since a controller has them and start delays for each lambda. With all 14 for both, 200 lambdas would take 6,834"
        " series; a process exports at most 6,000. Where you need more of a lambda's run times, take the average of `_sum` and `_count`, or a"
        " [trace](../how-to/traces.md)."
    )


# --- permissions ------------------------------------------------------------------------------------------------------

VERBS: Final = {
    Verb.SCHEDULE: "make tasks, batches and jobs, and delete jobs",
    Verb.READ: "see where tasks stand, without what they hold",
    Verb.READ_PAYLOAD: "see payloads, arguments, results, progress, logs, and what errors say beyond their type",
    Verb.OPERATE: "cancel, retry, pause; set limits and gates",
    Verb.WORK: "register lambdas, claim their tasks and end them",
    Verb.ADMIN: "all of these; tokens, hosts and pools too",
}
OVERS: Final = {
    permissions.Over.NAMED: "Each lambda that the request names must be granted, those of callbacks, chains, jobs and items too. Else:"
    " PERMISSION_DENIED, whether the lambda exists or not. So must something in the namespace of a job's name.",
    permissions.Over.FOUND: "The lambdas of the tasks, batches or jobs that the request names must be granted. Of a namespace for which the token"
    " has no verb they do not exist: NOT_FOUND.",
    permissions.Over.LISTED: "The reply shows, counts and changes what is granted, and nothing else. The token of a page says nothing to its"
    " caller, and counts for that caller and that call alone.",
    permissions.Over.CLUSTER: "The token needs the verb for all namespaces: `--namespace '*'`.",
    permissions.Over.OWN: "It concerns claims, which are known by a secret of their own.",
    permissions.Over.DELIVERY: "The token must be granted `atf/dapr-job` by name, which brings jobs to applications.",
    permissions.Over.NOTHING: "It concerns nothing that belongs to anybody.",
}


def permissions_page() -> Iterator[str]:
    """The table of who may call what."""
    yield "# Permissions\n"
    yield (
        "Where `--auth` is on, each call needs a token with a verb, for the namespaces that the call concerns. A method without a row is refused to"
        " everybody. `make permissions` tries every cell over the wire.\n"
    )
    yield "| verb | lets you |\n|---|---|"
    yield "\n".join(f"| `{verb}` | {text} |" for verb, text in VERBS.items())
    yield (
        "\n`*` never includes the built-in lambdas for `schedule` and `work`: name each in the token, as in"
        " `--namespace atf/command`. Without `read_payload` a reply's field `withheld` says that something was left out. Filters by the text of an"
        " error or by arguments need `read_payload`.\n"
    )
    yield (
        "The subject of a client's certificate goes by the same rows: `atf token create --subject` says what it may do. The credential of an executor has the"
        " verbs `schedule`, `read`, `read_payload` and `work` of the token behind it, for calls whose last column says yes. So has what the code of users shows in it, but for calls that are for the executor alone.\n"
    )
    yield "| what it concerns | what holds |\n|---|---|"
    yield "\n".join(f"| {over.value} | {text} |" for over, text in OVERS.items())
    services: dict[str, list[str]] = {}
    for path, rule in permissions.RULES.items():
        _, service, name = path.split("/")
        executors = ("yes" if rule.code else "executor alone") if rule.executors else "no"
        services.setdefault(service, []).append(
            f"| {name} | {f'`{rule.verb}`' if rule.verb else 'any'} | {rule.over.value} | {executors} |"
        )
    yield "\n## Fields that take read_payload\n"
    yield (
        "Without it these fields of a reply are empty, or say no more than the type of an exception. Every other field is shown by `read`, or to who may read"
        " all namespaces; a test fails for a new field without a decision.\n"
    )
    yield "| message | fields |\n|---|---|"
    yield "\n".join(f"| {name} | {fields.replace(' ', ', ')} |" for name, fields in fields_that_hold.HELD.items())
    yield (
        "\n## For everybody\n\nEvery role answers gRPC health (whether it serves, and why not) and gRPC reflection (which methods there are) without a token. A controller's RPCs"
        f" {', '.join(each.rpartition('/')[2] for each in permissions.OF_CONTROLLERS)} are for its own executors: [how it knows them](../how-to/worker-security.md).\n"
    )
    yield from http_rows()
    yield from action_rows()
    yield from command_rows()
    for service, rows in services.items():
        yield f"\n## {service}\n"
        yield SAID_OF_SERVICES.get(service, "")
        yield "| method | verb | what it concerns | credential of an executor is enough |\n|---|---|---|---|"
        yield "\n".join(rows)


DOORS: Final = {
    routes.Door.OPEN: "everybody",
    routes.Door.SESSION: "who is signed in; each call of the page goes by its own row",
    routes.Door.READER: "a token with `read` for all namespaces",
}
PORTS: Final = {routes.UI: "pages", routes.DAPR_HTTP: "Dapr's HTTP", routes.METRICS: "metrics"}


def http_rows() -> Iterator[str]:
    """What is served by HTTP."""
    yield "\n## HTTP\n"
    yield "A route without a row is refused to everybody.\n"
    yield "| port | route | who may |\n|---|---|---|"
    for (port, method, path), route in routes.ROUTES.items():
        who = DOORS.get(route.door) or f"as the RPC {route.call.rpartition('/')[2]} of `{permissions.DAPR}`"
        yield f"| {PORTS[port]} | `{method} {path}` | {who} |"


def action_rows() -> Iterator[str]:
    """What the pages' actions take."""
    yield "\n## Actions of the pages\n"
    yield "`POST /do/ACTION` of somebody who is signed in. Whoever lacks the verb is not shown the action, and is refused.\n"
    yield "| action | RPC | verb |\n|---|---|---|"
    for action, call in routes.ACTIONS.items():
        yield f"| {action} | {call} | `{routes.rule_of_action(action).verb}` |"


def command_rows() -> Iterator[str]:
    """What commands take."""
    yield "\n## Commands\n"
    yield (
        "A command needs the verbs of the calls that it makes with the arguments and flags that you give it. With the address of the store in place of a"
        " frontend's it needs no token: whoever reaches the store may do everything.\n"
    )
    yield "| command | RPCs | verbs |\n|---|---|---|"
    for command, calls in routes.COMMANDS.items():
        rules = (permissions.RULES[f"/atf.v1.Frontend/{call}"] for call in calls)
        verbs = dict.fromkeys(f"`{each.verb}`" for each in rules if each.verb)
        yield f"| `atf {command}` | {', '.join(calls) or 'none'} | {', '.join(verbs) or 'none'} |"
    for names, said in (
        (routes.OF_STORE, "have the address of the store, and need no token"),
        (routes.OF_PROCESSES, "run a process, which shows a token of its own"),
        (routes.OF_ONE_MACHINE, "ask nobody, or processes that they start themselves"),
    ):
        yield f"\n{', '.join(f'`atf {each}`' for each in sorted(names))} {said}.\n"


SAID_OF_SERVICES: Final = {
    permissions.DAPR: "An application A needs a grant for the namespace `dapr.A`. The token comes as `dapr-api-token` or `authorization`. On HTTP,"
    " POST, GET and DELETE go by the rows ScheduleJob, GetJob and DeleteJob.\n",
    permissions.DAPR_SCHEDULER: "A sidecar of Dapr's namespace N needs a grant for the namespace `dapr-scheduler.N`.\n",
}

# --- stolen secrets ---------------------------------------------------------------------------------------------------


def stolen_page() -> Iterator[str]:
    """What each secret is good for in the wrong hands."""
    yield "# What a stolen secret lets somebody do\n"
    yield (
        "Somebody has one secret and reaches every port and the task store's socket. There are two namespaces: the secret belongs to `own`, or to"
        " nobody's in particular. `own`: it can be done there alone; `both`: in the other namespace too; `yes`: it concerns no namespace; –: it can't"
        " be done. `make blast` really tries every cell, and fails where one is not as it stands here.\n"
    )
    yield "| secret | what it is |\n|---|---|"
    yield "\n".join(f"| {what} | {text} |" for what, text in stolen.SECRETS.items())
    users = [each for each in stolen.SECRETS if each.startswith(stolen.USER)]
    yield "\n## Secrets of callers and servers\n"
    yield from _stolen_table([each for each in stolen.SECRETS if each not in users])
    yield (
        "\n- A claim has a random half that only its executor, the HSC and the store know. Nobody ends a task without it. Lambdas can read the claims of"
        " their own executor, since they run in its process.\n- Whoever has the CA's key is everybody whom a certificate names, so it is worth what"
        " the best of them is. A token is still needed where servers run with `--auth token`.\n- Whoever has the key of codecs still needs the"
        " ciphertext, from the store or by a token. Whoever stands in for a server is shown the tokens of its callers.\n"
    )
    yield "## Users of the task store\n"
    yield from _stolen_table(users)
    yield (
        "\nRedis can't part what these users share: each can read and write every record. So a password of the store is worth more than any token."
        " Encrypted payloads stay encrypted.\n"
    )


def _stolen_table(secrets: list[str]) -> Iterator[str]:
    yield f"| deed | {' | '.join(each.removeprefix(stolen.USER) for each in secrets)} |\n|---|{'---|' * len(secrets)}"
    for deed in stolen.DEEDS:
        yield f"| {deed} | {' | '.join(_stolen_cell(each, deed) for each in secrets)} |"


def _stolen_cell(secret: str, deed: str) -> str:
    can = stolen.EXPECTED[secret]
    if deed in can:
        return "yes"
    own, other = f"{deed}: own" in can, f"{deed}: other" in can
    return "both" if own and other else "own" if own else "other" if other else "–"


PAGES: Final[dict[str, Callable[[], Iterator[str]]]] = {
    "settings": settings_page,
    "commands": commands_page,
    "sdk": sdk_page,
    "rpcs": rpcs_page,
    "errors": errors_page,
    "metrics": metrics_page,
    "permissions": permissions_page,
    "stolen-secrets": stolen_page,
}


def prose(text: str) -> str:
    """Text whose signs mean nothing to Markdown, but for its code."""
    parts = re.split(r"(`[^`]*`|\*[A-Z][^*]*\*)", text)
    safe = "".join(part if part[:1] in {"`", "*"} else re.sub(r"([*<\[\]]|__)", r"\\\1", part) for part in parts)
    return re.sub(r"docs/([a-z-]+/([a-z-]+)\.md)", r"[\2](../\1)", safe)


def cell(text: str) -> str:
    """Prose within a table."""
    return prose(text).replace("|", "\\|")


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws the pages of docs/reference/ that repeat the code.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is not what would be written"
    )
    args = parser.parse_args()
    stale = []
    for name, draw in PAGES.items():
        page = FOLDER / f"{name}.md"
        new = re.sub(r"\n{3,}", "\n\n", "\n".join(draw())).rstrip() + "\n"
        if not page.exists() or page.read_text(encoding="utf-8") != new:
            stale.append(f"docs/reference/{name}.md")
            if not args.check:
                page.write_text(new, encoding="utf-8")
                print(f"wrote {page}")
    if args.check and stale:
        sys.exit(f"not what the code says: {', '.join(stale)}. Run tools/draw_reference.py and commit the pages.")


if __name__ == "__main__":
    main()
