"""Every call there is, by what describes them: RPCs by the services of atf.v1, the store's functions by the library, notifications by name.

So a call that no seed makes, or that nothing disturbs, is known: it counts 0. What a full store refuses is told by the functions' own flags.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import atf.rpc
from atf.store import library

FLAGS: Final[dict[str, frozenset[str]]] = {
    name: frozenset(re.findall(r"'([a-z-]+)'", flags))
    for name, flags in re.findall(r"^register\('(\w+)', \{(.*?)\}", library.CURRENT.source, re.MULTILINE)
}
"""The flags with which each of the store's functions is registered."""
CREATES: Final = frozenset(name for name, flags in FLAGS.items() if not flags & {"allow-oom", "no-writes"})
"""What a full store refuses."""
READS: Final = frozenset(name for name, flags in FLAGS.items() if "no-writes" in flags)
"""What writes nothing."""


def _services() -> list[Any]:
    modules = [each.name for each in pkgutil.iter_modules(atf.rpc.__path__) if each.name.endswith("_pb2")]
    files = [importlib.import_module(f"atf.rpc.{name}").DESCRIPTOR for name in sorted(modules)]
    return [each for file in files if file.package == "atf.v1" for each in file.services_by_name.values()]


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


METHODS: Final[dict[str, Any]] = {_snake(each.name): each for service in _services() for each in service.methods}
"""Of all services of atf.v1, as Python calls them."""
STREAMED: Final = frozenset(name for name, method in METHODS.items() if method.server_streaming)
"""Those that answer more than once."""
RQ_READS: Final = "SMEMBERS"
"""What RQ's own client begins with where it reads how deep queues are."""
COMMANDS: Final = ("FUNCTION", "SADD", RQ_READS, "TIME")
"""Plain commands that roles send to the store."""
NOTIFICATIONS: Final = ("again", "done", "due", "ready")
"""Kinds of notifications; "again": a connection is there anew, and whoever listens looks for himself."""
EXCEPTED: Final = {
    "store barrier": "sent by the connection itself behind a write that must reach a disk or a replica; SimLink stands in its place",
    "store restore": "of `atf store import`, which no role calls",
    "store restore_unique_keys": "of `atf store import`, which no role calls",
    "store allow_direct": "of `atf store direct --allow`: its own clients go through frontends",
    "store retime": "of `atf store timing --set`, after which every role is started anew",
    "store list_unique_keys": "of `atf store export`, which reads",
    **dict.fromkeys(
        (
            *(
                f"rpc {each}"
                for each in (
                    "get_caller",
                    "create_token",
                    "list_tokens",
                    "rotate_token",
                    "revoke_token",
                    "rotate_signing_key",
                    "issue_credential",
                )
            ),
            *("store list_tokens", "store set_token"),
        ),
        "of installations with tokens; the simulated one has none, and no promise about tasks depends on them",
    ),
}
"""Calls that nobody in the simulation makes, and why not."""
CALLS: Final = tuple(
    each
    for each in (
        *(f"rpc {name}" for name in sorted(METHODS)),
        *(f"store {name}" for name in sorted((*FLAGS, *COMMANDS))),
        *(f"notification {name}" for name in NOTIFICATIONS),
    )
    if each not in EXCEPTED
)
"""What has to be disturbed."""
FATES: Final = ("slow", "late", "lost", "doubled", "answer lost")
"""How: the call or its answer comes later than usual, or so late that nobody waits for it; it never comes; twice; it is done, and reported as
failed."""
WAYS: Final = tuple(
    f"{call} {fate}" for call in CALLS for fate in (FATES[:3] if call.startswith("notification ") else FATES)
)  # a notification has no answer, and one more is what it does anyway
"""Each call with each fate that it can have."""


def way(kind: str, how: str, name: str) -> str:
    """A call and what the network did to it; `kind`: "rpc", "store answer", as the faults of the network have it."""
    carrier, _, answer = kind.partition(" ")
    return f"{carrier} {name} {'answer lost' if answer and how == 'lost' else how}"


def disturbed(ways: Mapping[str, int]) -> Counter[str]:
    """How often each call was disturbed, those among them that never were, by how often it met each fate."""
    found = Counter(dict.fromkeys(CALLS, 0))
    for each, count in ways.items():
        carrier, name, _ = each.split(" ", 2)
        found[f"{carrier} {name}"] += count
    return found
