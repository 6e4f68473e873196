"""Draws docs/reference/verbs.md: what each verb is called at every place; `--check` only compares.

A verb has one name: as an RPC, a method of the role that answers it, a method of the store and a function of the store. Everything is
read from the code; only why a name differs is written here, and tests/structure/test_verbs.py sees that nothing else differs.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from atf.rpc import controller_pb2, frontend_pb2, hsc_pb2, store_consumer_pb2
from atf.rpc.stub import snake_case
from atf.store.store import Store

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "reference" / "verbs.md"
SERVICES = {
    "Frontend": (frontend_pb2.DESCRIPTOR, "frontend"),
    "HSC": (hsc_pb2.DESCRIPTOR, "hsc"),
    "Controller": (controller_pb2.DESCRIPTOR, "controller"),
    "StoreConsumer": (store_consumer_pb2.DESCRIPTOR, "store_consumer"),
}
"""Each service with its file, and the folder of the role that answers it."""

NO_STORE = {
    "GetCaller": "answered from what the caller shows",
    "CreateToken": "the store keeps texts: see set_token",
    "RotateToken": "as CreateToken",
    "RevokeToken": "as CreateToken",
    "RotateSigningKey": "as CreateToken",
    "FindDaprApp": "answered from the frontend's settings",
    "PreviewSchedule": "computed by atf.schedule",
    "Enter": "the controller asks an HSC for a credential",
    "NextWork": "the controller asks an HSC for claims",
    "ReportRuns": "the controller counts, for its metrics",
}
"""RPC -> why no method of the store has its name."""
OTHER_STORE_METHOD = {
    "CountTasks": ("counts_of", "the frontend reads the counts of all lambdas once a second"),
    "CancelMatching": ("cancel_tasks", "after list_tasks"),
    "ScheduleMany": ("schedule", "the batched form of Schedule"),
    "WaitTasks": ("watch_tasks", "the frontend waits; the store only notes that somebody does"),
    "WatchBatch": ("get_batch", "the frontend asks again and again"),
    "ScheduleBatch": ("schedule_items", "between open_batch and close_batch, as the stream goes on"),
    "DeleteJobsByPrefix": ("delete_jobs", "after list_jobs"),
    "ReportHost": ("serve", "what a host says of itself is that it serves lambdas"),
    "IssueCredential": ("list_tokens", "the HSC signs it with the keys that stand beside the tokens"),
    "Poll": ("enqueue", "one poll is a pass over several partitions"),
}
"""RPC -> the store's method behind it, and why that has another name."""
OTHER_FUNCTION = {
    "pause_lambda": "a pause is a gate",
    "resume_lambda": "a pause is a gate",
    "cancel_batch": "one function carries all commands to the items",
    "retry_batch": "one function carries all commands to the items",
    "delete_batch": "one function carries all commands to the items",
    "resume_job": "one function stops and restarts the ticks",
    "get_key": "a list of one",
    "get_concurrency_key": "a list of one",
    "get_batch_item": "an item is a task",
    "counts_of": "the function `count` counts",
}
"""Method of the store -> why no function of the store has its name."""

INNER = {
    "ask_permits": "a partition's part in the limits of a lambda",
    "grant_permits": "the answer to ask_permits",
    "barrier": "of pauses of claims",
    "command_batch": "of cancel_batch, retry_batch and delete_batch",
    "count_failures": "of list_failures",
    "count_items": "of get_batch",
    "enlist": "of heartbeat and claim: the roster of who may hold leases",
    "list_outbox": "of apply_outbox",
    "replace_audit": "of add_audit, where the store is full",
    "report_batch": "of apply_outbox",
    "resync_lambdas": "of apply_outbox",
}
"""Function of the store that is a step of other verbs -> of which."""
PLUMBING = {"_call", "_lease", "_apply_all_outboxes", "open_partition"}
"""Methods that every verb may go through."""


class VerbRow(NamedTuple):
    """A row of the table."""

    rpc: str
    service: str
    method: str
    """Of the service."""
    store: str
    """The store's method; empty: none."""
    functions: tuple[str, ...]
    """The store's functions that it calls."""
    event: str
    """What the role says in its log of each call; empty: nothing."""
    why: str
    """Why a name differs; empty: none does."""


def main() -> None:
    parser = argparse.ArgumentParser(description="Draws docs/reference/verbs.md from the code.")
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if the page is not what would be written"
    )
    args = parser.parse_args()
    new = page()
    old = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    if args.check and new != old:
        sys.exit("docs/reference/verbs.md is not what the code says. Run tools/draw_verbs.py and commit the page.")
    if new != old:
        PAGE.write_text(new, encoding="utf-8")
        print(f"wrote {PAGE}")


def verbs() -> Iterator[VerbRow]:
    """Every RPC, service by service."""
    for service, (descriptor, folder) in SERVICES.items():
        logged = events_of(folder)
        for rpc in descriptor.services_by_name[service].methods:
            method = snake_case(rpc.name)
            store, why = store_method(rpc.name)
            functions = functions_of(store) if store else ()
            if store and not any(same(store, each) for each in functions):
                why = "; ".join(filter(None, (why, OTHER_FUNCTION.get(store, ""))))
            event = logged.get(method, "")
            yield VerbRow(rpc.name, service, method, store, functions, event, why)


def store_method(rpc: str) -> tuple[str, str]:
    """The store's method behind an RPC, and why it has another name."""
    if rpc in NO_STORE:
        return "", NO_STORE[rpc]
    if rpc in OTHER_STORE_METHOD:
        return OTHER_STORE_METHOD[rpc]
    method = snake_case(rpc)
    return next((each for each in (method, f"{method}s") if hasattr(Store, each)), ""), ""


def same(one: str, other: str) -> bool:
    """Whether two names are one, but that one of them is of several."""
    return other in {one, f"{one}s"} or one == f"{other}s"


@cache
def store_methods() -> dict[str, set[str]]:
    """Every method of the store's classes -> the functions and methods that it names: as the first argument of a call, or of `self`."""
    found: dict[str, set[str]] = {}
    for cls in Store.__mro__:
        if cls.__module__.startswith("atf.store"):
            for node in ast.walk(ast.parse(inspect.getsource(cls))):
                if isinstance(node, ast.AsyncFunctionDef | ast.FunctionDef):
                    found.setdefault(node.name, set(names_in(node)))
    return found


def names_in(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name) and each.value.id == "self":
            yield each.attr
        elif isinstance(each, ast.Call) and each.args and isinstance(each.args[0], ast.Constant):
            yield str(each.args[0].value)


@cache
def functions() -> frozenset[str]:
    """The store's functions, by their files."""
    folder = ROOT / "atf" / "store" / "lua"
    return frozenset(path.stem for path in folder.rglob("*.lua") if path.parent.name != "shared")


def functions_of(method: str) -> tuple[str, ...]:
    """The store's functions that a method of the store calls, itself or by methods that it is made of."""
    methods = store_methods()
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [method, f"_{method}"]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            names = methods.get(name, set())
            found |= names & functions()
            waiting += [each for each in names & methods.keys() if each not in PLUMBING]
    return tuple(sorted(each for each in found if same(each, method)) or sorted(found))


def events_of(folder: str) -> dict[str, str]:
    """What a role may say in its log: texts that it gives a logger, a method of its own that does so, or the audit log, whose event has one name."""
    found: dict[str, str] = {}
    for path in (ROOT / folder).rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
                continue
            words = [each.value for arg in call.args[:2] for each in ast.walk(arg) if isinstance(each, ast.Constant)]
            if ast.unparse(call.func) in {"self._audit.write", "AuditEntry"}:
                found |= {each: "audit" for each in words if isinstance(each, str)}
            elif isinstance(call.func.value, ast.Name) and call.func.value.id in {"_log", "self"}:
                found |= {each: found.get(each, each) for each in words if isinstance(each, str)}
    return found


def page() -> str:
    """The whole page."""
    rows = list(verbs())
    lines = [HEAD]
    for service in SERVICES:
        lines += ["", f"## {service}", "", "| RPC | store | functions of the store | log event |", "|---|---|---|---|"]
        lines += [row(each) for each in rows if each.service == service]
    differing = [each for each in rows if each.why]
    lines += ["", "## Where a name differs", "", "| RPC | store | why |", "|---|---|---|"]
    lines += [f"| {each.rpc} | {code(each.store)} | {each.why} |" for each in differing]
    return "\n".join([*lines, ""])


def row(verb: VerbRow) -> str:
    functions = ", ".join(map(code, verb.functions)) or "–"
    return f"| {verb.rpc} | {code(verb.store)} | {functions} | {code(verb.event)} |"


def code(text: str) -> str:
    return f"`{text}`" if text else "–"


HEAD = """<!-- Drawn by tools/draw_verbs.py from the protos, the roles and atf/store. -->
# Verbs

A verb has one name everywhere. The RPC `SetResults` is the method `set_results` of the service, of its stubs and of the store.
It is the function `set_results` in `atf/store/lua/`, and a role that logs the call writes `set_results`, or the event `audit` of that name. Only the plural may differ:
`GetTask` is `get_tasks` in the store, which reads several at once. A test holds the names together."""

if __name__ == "__main__":
    main()
