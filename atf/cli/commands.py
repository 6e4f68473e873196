"""The table of commands: what each is for, and where it is. It imports none of them before it is called."""

from __future__ import annotations

import importlib
from typing import Any, Final, NamedTuple

import click

from atf import __version__

from .nouns import PLURALS, WORDS, refuse_word


class _Command(NamedTuple):
    """A command: the module within this package, the object in it, and its line in `atf --help`."""

    module: str
    name: str
    help: str


SECTIONS: Final[dict[str, dict[str, _Command]]] = {
    "Run everything on this machine": {
        "up": _Command("local.up", "up", "Every role and a task store of its own, with your lambdas."),
        "demo": _Command("demo", "demo", "Hash real files through every role, and survive a kill."),
        "verify": _Command("verify", "verify", "Kill and freeze roles under load on your store, and judge."),
        "bench": _Command("bench", "bench", "Measure throughput, lateness and cost on your store."),
    },
    "See how it goes": {
        "status": _Command(
            "status", "status", "The whole cluster on one screen; the exit code says whether all is well."
        ),
        "slo": _Command("slo", "slo", "What is left of the error budgets: of starts by lambda, and of Schedule."),
        "ui": _Command("roles", "ui", "Pages for a browser: tasks, failures, jobs, hosts; and what to do about them."),
        "audit": _Command("audit", "audit", "Who did what to which tasks and lambdas, when and why."),
    },
    "Tasks": {
        "schedule": _Command("schedule", "schedule", "Schedule a task."),
        "batch": _Command(
            "batch.commands", "batch", "Submit a file of work items as a batch; watch it, fetch its results."
        ),
        "job": _Command("job", "job", "Make, show and stop jobs: schedules whose ticks make tasks."),
        "cron": _Command("cron", "cron", "Preview when a recurring job would fire, without a cluster."),
        "get": _Command(
            "tasks",
            "get",
            "Show a task, or the one of a lambda that failed last: its arguments, its runs, its result or why it failed.",
        ),
        "ls": _Command(
            "tasks", "ls", "List tasks, newest first: of a lambda, or of all; --status failed: what failed, and why."
        ),
        "count": _Command("tasks", "count", "Count tasks: how many wait, run, are dead, done or cancelled, by lambda."),
        "failures": _Command(
            "failures", "failures", "What failed for good, and why: failures that are alike together."
        ),
        "logs": _Command("logs", "logs", "Show what a task's runs printed and logged; --follow: as it comes."),
        "wait": _Command("tasks", "wait", "Wait until tasks have finished."),
        "cancel": _Command("changes", "cancel", "Cancel tasks, by id or all that match; what runs is asked to stop."),
        "retry": _Command("retry", "retry", "Run failed tasks again: by id, or all that match."),
        "explain": _Command("tasks", "explain", "Say why a task has not started."),
    },
    "Lambdas and queues": {
        "lambda": _Command(
            "lambdas", "lambda_", "The registered lambdas, how many tasks they have, what holds of them."
        ),
        "queue": _Command("lambdas", "queue", "The queues and how long they are."),
        "pause": _Command("pause", "pause", "Start no more tasks of a lambda, or of all."),
        "resume": _Command("pause", "resume", "Start tasks of paused lambdas again."),
        "key": _Command("keys", "key", "Ordering keys that have stopped, and how they go on."),
        "capacity": _Command("capacity", "capacity", "The cores of worker pools: reserved, and multiplexed."),
        "certs": _Command("certs", "certs", "Make throw-away certificates, to try TLS on one machine."),
        "token": _Command("tokens", "token", "Who may do what: tokens, and what they are for."),
        "host": _Command("hosts", "host", "The worker hosts that are alive, and what they quarantine."),
        "gate": _Command("gate", "gate", "Keep back, drop, delay or thin out tasks."),
    },
    "A few processes": {
        "server": _Command("roles", "server", "Frontend, HSC, store consumer and pages in one process."),
        "worker": _Command("roles", "worker", "A worker host: executors for your lambdas, fed and guarded."),
    },
    "One role, one process": {
        "frontend": _Command("roles", "frontend", "The scheduling service, which clients talk to."),
        "store-consumer": _Command("roles", "store_consumer", "Moves due tasks into their queues."),
        "hsc": _Command("roles", "hsc", "Grants claims, takes heartbeats and results."),
        "controller": _Command("roles", "controller", "Feeds this host's executors; starts and guards them."),
        "executor": _Command("roles", "executor", "Runs lambdas, in a guarded process."),
    },
    "Encryption": {
        "keyfile": _Command(
            "keyfile", "keyfile", "The keys that clients and executors encrypt by: new, ls, add, rotate, drop."
        ),
    },
    "The task store": {
        "doctor": _Command("doctor", "doctor", "Check the task store and the settings, and say how to mend them."),
        "store": _Command("store", "store", "Export live tasks to a file, import them; the length of leases."),
    },
}
_COMMANDS: Final = {name: entry for section in SECTIONS.values() for name, entry in section.items()}


class _Commands(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[WORDS] = list(args)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = _COMMANDS.get(PLURALS.get(cmd_name, cmd_name))
        if entry is None:
            return None
        found: Any = getattr(importlib.import_module(f"{__package__}.{entry.module}"), entry.name)
        return found if isinstance(found, click.Command) else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it; `atf jobs` is called `atf job` from here on, and an unknown command is refused with the nearest."""
        word = PLURALS.get(args[0], args[0])
        if word not in _COMMANDS:
            refuse_word(ctx, word, _COMMANDS)
        return super().resolve_command(ctx, [word, *args[1:]])

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, entry.help) for name, entry in commands.items()], col_max=16)


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="atf %(version)s")
def cli() -> None:
    """ATF runs tasks of your task types, called lambdas: at least once, never twice at the same time, never early.

    A setting of any command comes from its flag, else from the variable ATF_NAME, else from atf.toml in the current directory.
    A command that asks a frontend shows it the token in ATF_TOKEN, or in the file that --token-file names. With --tls-ca FILE, or
    `system`, the connection is encrypted; --tls-cert and --tls-key name a certificate to show.

    Exit codes: 0 done, 1 the task failed, 2 bad input, 3 not found, 4 unavailable, 5 not allowed.
    """
