"""What each stolen secret lets somebody do who reaches every port: the table that `make blast` tries, and docs/reference/stolen-secrets.md shows."""

from __future__ import annotations

from typing import Final

USER: Final = "store user "
DEEDS: Final = {
    "schedule a task": True, "list tasks": True, "read a payload": True, "read a log": True, "read progress": True, "cancel a task": True,
    "claim a task": True, "end a running task": True, "register a lambda": True, "change a job": True, "pause a lambda": True,
    "drain a host": False, "make a token": False, "read the tokens": False, "forge a credential": False, "read records in the store": True,
    "write records in the store": True, "replace the store's functions": False, "flush the store": False, "decrypt arguments": False,
    "stand in for a server": False,
}  # fmt: skip
"""In the order of the table; whether each is tried in both namespaces."""

_STORE: Final = frozenset(
    f"{deed}: {whose}" for deed, by_namespace in DEEDS.items() for whose in ("own", "other") if by_namespace
) | {"drain a host"}
_READS: Final = {"list tasks: own", "read a payload: own", "read a log: own", "read progress: own"}
_EXECUTOR: Final = frozenset(
    {
        "schedule a task: own",
        "change a job: own",
        "list tasks: own",
        "register a lambda: own",
        "end a running task: own",
    }
)

SECRETS: Final[dict[str, str]] = {
    "client token": "verbs schedule, read and read_payload for the namespace `own`",
    "operator token": "verbs read and operate for `own`",
    "worker token": "verbs work, schedule and read for `own`",
    "executor credential": "of an executor whose host has such a worker token; lambdas can read it in their own process",
    "Enter secret": "what a controller starts one executor with; it is shown once, on that host",
    "page session cookie": "of a browser that has shown the client token",
    "codec key file": "of clients and executors",
    "CA key": "of those who sign certificates; tried where callers are known by certificates, one of which may do everything",
    "server's TLS key": "with its certificate",
    "store user server": "`atf doctor --acl`",
    "store user frontend": "`atf doctor --acl frontend`",
    "store user hsc": "`atf doctor --acl hsc`",
    "store user store-consumer": "`atf doctor --acl store-consumer`",
    "store user direct": "`atf doctor --acl direct`",
}
"""What each is, in the order of the table."""

EXPECTED: Final[dict[str, frozenset[str]]] = {
    "client token": frozenset({"schedule a task: own", "change a job: own", *_READS}),
    "operator token": frozenset({"list tasks: own", "cancel a task: own", "pause a lambda: own"}),
    "worker token": (_EXECUTOR - {"end a running task: own"}) | {"claim a task: own"},
    "executor credential": _EXECUTOR,
    "Enter secret": _EXECUTOR - {"end a running task: own"},
    "page session cookie": frozenset({"change a job: own", *_READS}),
    "codec key file": frozenset({"decrypt arguments"}),
    "CA key": frozenset(
        each
        for each in _STORE
        if not each.endswith((" the store: own", " the store: other")) and "claim" not in each and "end a" not in each
    )
    | {"stand in for a server", "make a token", "read the tokens"},
    "server's TLS key": frozenset({"stand in for a server"}),
    "store user server": _STORE
    | {"make a token", "read the tokens", "forge a credential", "replace the store's functions"},
    "store user frontend": _STORE
    | {"make a token", "read the tokens", "forge a credential", "replace the store's functions"},
    "store user hsc": _STORE | {"read the tokens", "forge a credential"},
    "store user store-consumer": _STORE | {"read the tokens"},
    "store user direct": _STORE,
}
