"""Every key of the task store, with its Redis type, on one page.

A partition's keys share the hash tag {p}, so that on a cluster they share a slot. The Lua functions build them the same
way (lua/shared/keys.lua); a test runs a whole life of tasks and holds every key it finds against `KEYS`.
"""

from __future__ import annotations

import functools
import re
import zlib
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote, unquote

KEYS: Final = {
    "atf:{p}": "hash: the partition's record: number of partitions, version of the data, heartbeat timeout, whether direct clients are allowed, server last seen, until when no claims are"
    " given and why, how far TIME has come and when it last went back, versions, when finished tasks last went before their retention, how long the audit log is; KEYS[1] of every function",
    "atf:{p}:roster": "hash: who may have been answered leases, by the names under which they were -> the number of the last call that gave or renewed some",
    "atf:{p}:asked": "hash: the same of before a restart, of those who have not said yet that they were answered no higher number; @ -> the pause that they may end",
    "atf:{p}:t:<id>": "hash: a task: see fields.FIELDS; or the tombstone of its id",
    "atf:{p}:v:<id>:<field>": "string: a value of a task's record that is long, and lies apart from it",
    "atf:{p}:due": "zset: queue -> the instant at which a store consumer must visit it: the due index, upper level",
    "atf:{p}:unvisited": "zset: queue that was not to be visited for a while though it held live tasks; with the due index it names all that hold some",
    "atf:{p}:s:<queue>:<STATUS>": "zset: live task -> next_timestamp: the due index, lower level, and the list by status",
    "atf:{p}:f:<lambda>:<STATUS>:<retention>": "zset: finished task, of one retention -> when it ended; with FATAL_FAILURE the lambda's dead-letter set",
    "atf:{p}:n:<lambda>": "zset: task, until its record is gone -> when it was made",
    "atf:{p}:x:<lambda>:<entry>": "zset: task that stands in the opt-in index as <name>=<value> -> when it was made",
    "atf:{p}:x:<lambda>:!<group>": "zset: dead letter of a group of those that failed alike -> when it ended",
    "atf:{p}:groups": "zset: <lambda>:!<group> that has dead letters -> when the newest of them ended",
    "atf:{p}:lists": "zset: <lambda> or <lambda>:<STATUS>:<retention> of the lists n and f that exist, by name",
    "atf:{p}:newest": "zset: the same -> an instant that none which was ever in it is above: the end of the newest one's second, mostly",
    "atf:{p}:q:<queue>": "hash: what a queue was ever pushed, whether it was full at its last visit, why due tasks were left to the next one, and whether tasks of it had concurrency keys",
    "atf:{p}:gates": "zset: lambda -> when a store consumer must look at its gates: one ends, was lifted, or is to let something pass",
    "atf:{p}:g:<lambda>": "hash: tasks that its gates have dropped, by gate and together; the last pauses of the lambda; in the registry partition what people said of each gate",
    "atf:{p}:g:<lambda>:<number>": "zset: task that a gate keeps -> since when, or until when",
    "atf:{p}:e:<lambda>": "hash: runs that have ended of a lambda with an automatic gate, and those that failed for good (f), by ten seconds",
    "atf:{p}:audit": "zset: what was done to lambdas and tasks, by whom and why -> its number; in the registry partition",
    "atf:{p}:tokens": "hash: id of a token -> what it may do and its SHA-256; version; in the registry partition",
    "atf:{p}:tokens:keys": "hash: keys -> what credentials of executors are signed with; version; in the registry partition",
    "atf:{p}:l:<lambda>": "hash: a lambda: spec, queue limit, enqueue timeout, other settings, gates, paused, versions, until when misfits are looked for,"
    " credits of its priorities, of takes and of pushes"
    " (priority:ten-thousandths of a place); in the registry partition what its code and an operator said",
    "atf:{p}:p:<lambda>": "hash: a lambda's permits that this partition has and used: see fields.PERMIT_FIELDS",
    "atf:{p}:h:<lambda>": "hash: in the partition of the lambda's limits ledger: partition -> what permits it got, gave back and needs (lua/shared/limits_ledger.lua); v, grants, e, seen, z",
    "atf:{p}:lambdas": "set: names of the lambdas",
    "atf:{p}:o:<key>": "list: the unfinished tasks of an ordering key; the first one may run. Before them, where it has stopped, ! and the task at which",
    "atf:{p}:slots:<key>": "zset: tasks that hold a slot of a concurrency key -> since when",
    "atf:{p}:line:<key>": "zset: tasks that wait for a slot of a concurrency key -> since when they are due",
    "atf:{p}:lines": "zset: concurrency key for which tasks wait -> when it is looked at, should no slot be let go",
    "atf:{p}:stops:<lambda>": "zset: ordering key that has stopped -> when",
    "atf:{p}:batch:<batch>": "hash: a batch, in its own partition, or for ten minutes that it was deleted: see fields.BATCH_FIELDS",
    "atf:{p}:batches": "zset: batch -> minus the instant at which it was made; in its own partition",
    "atf:{p}:batches:open": "zset: batch that has not ended -> when its parts are asked how they stand; in its own partition",
    "atf:{p}:batches:ended": "zset: batch that has ended, or was deleted -> expiry; in its own partition",
    "atf:{p}:b:<batch>": "hash: the part of a batch that lies in this partition: see fields.PART_FIELDS",
    "atf:{p}:b:<batch>:i": "zset: work-item id of an item of a batch -> its number",
    "atf:{p}:b:<batch>:p": "hash: target, as an ordering key -> until when no item of it may start",
    "atf:{p}:tombs": "zset: tombstone -> expiry",
    "atf:{p}:outbox": "hash: number -> a change that another partition has to apply",
    "atf:{p}:outbox:due": "zset: number -> when it is delivered (again)",
    "atf:{p}:j:<job>": "hash: a job: see fields.JOB_FIELDS",
    "atf:{p}:ticks:<job>": "zset: live task of a job -> 1: a tick; 2: one that the job's pause keeps, or will when its run has failed; 3: made beside its ticks; 0: a tick that runs of a job that was deleted",
    "atf:{p}:ticking": "zset: names of the jobs that have such tasks, but for those with 0, by name",
    "atf:{p}:jobs": "zset: job -> when it is looked at next: its tick, or later while somebody deals with that",
    "atf:{p}:jobs:ended": "zset: job that has ended -> expiry of its record",
    "atf:{p}:jobnames": "zset: names of the jobs that have not ended, by name",
    "atf:{p}:firsts": "hash: key of first_time, <namespace>/<key> -> the task that asked for it first",
    "atf:{p}:firsts:expiry": "zset: key of first_time -> expiry",
    "atf:{p}:pools": "set: names of the pools that have cores; in the registry partition",
    "atf:{p}:c:<pool>": "hash: a pool's cores: version, state, groups of executors, the version at which these were dealt, membership, and to which they were",
    "atf:{p}:c:<pool>:members": "zset: executor of a pool -> until when it is one unless it is named again",
    "atf:{p}:workers": "zset: pool, empty for none -> until when workers of it count as alive",
    "atf:{p}:served": "zset: pool and lambda, and the digest of its signature where that was said -> until when a worker there counts as running it; pool and *: somebody did not say",
    "atf:{p}:signatures": "hash: pool and lambda -> digests of the signatures of it that workers there run, or ran not long ago",
    "atf:{p}:misfits": "set: names of the sets that follow, <queue> and behind a space the digests of the signatures that all in it do not fit",
    "atf:{p}:m:<queue> <digests>": "zset: task for executors of another signature -> since when",
    "atf:{p}:ask:<nonce>": "string: what an ask has claimed here, ids with a blank between two; -: it was given up. It expires after two heartbeat timeouts",
    "atf:{p}:roles": "zset: process of a role, <role> <version> <host:pid> -> until when it counts as alive; in the registry partition",
    "atf:{p}:said": "zset: warning that a role has said for all -> until when that counts; in the registry partition",
    "atf:{p}:hosts": "zset: worker host, by its controller's name -> until when it counts as alive",
    "atf:{p}:hosts:say": "hash: worker host -> its pool, and the lambdas that it quarantines: pool=<pool> executors=<number> <lambda>=<until> ...",
    "atf:{p}:hosts:drain": "hash: worker host that drains -> until when, 0 until that is ended, and since when; in the registry partition",
    "atf:{p}:hosts:run": "hash: worker host -> the lambdas that it serves, with a space before and behind each",
    "atf:{p}:hosts:why": 'hash: worker host on which no executor works yet -> why none can start; "=": they start',
    "atf:{p}:near": "hash: affinity key, lambda:key -> the host that had its last task; !lambda and a host -> until when that is not waited for",
    "atf:{p}:near:expiry": "zset: field of near -> expiry",
    "atf:{p}:spread:<lambda>": "hash: worker host -> tasks of a lambda that is spread which it was given",
    "atf:{p}:uniques": "hash: unique key, lambda:key -> the task of its window",
    "atf:{p}:uniques:expiry": "zset: unique key -> the end of its window",
    "rq:queue:{p}<queue>": "list: the queue itself, in RQ's layout: ids of ENQUEUED tasks",
    "rq:queues": "set: keys of the queues, RQ's registry; the only key without a tag",
}
"""Pattern -> Redis type: meaning. {p} is a partition, <digests> those of signatures, <id> a stored task id, <queue> "lambda:priority", <number> that of
a gate, <key> "lambda:key" with the key as `stored_key` has it.
"""


TICK_OF: Final = "@"
BESIDE_OF: Final = "+"
"""What the task field `w` of a job's tick, or of a task made beside its ticks, begins with."""
LAST_RUN: Final = "j"
"""The task field `x` of one whose job was deleted while it ran."""
TASKS: Final = "atf:{*}:t:*"
"""Matches every task's key, for SCAN."""


def record(partition: int) -> str:
    """The partition's record; its name begins the names of the partition's other keys."""
    return f"atf:{{{partition}}}"


def asked(partition: int) -> str:
    """Who is asked after a restart of a partition's server, and which pause of claims that may end."""
    return f"{record(partition)}:asked"


@functools.lru_cache(maxsize=1024)  # most tasks of a call have the same
def queue(lambda_name: str, priority: int) -> str:
    """A queue's name within its partition."""
    return f"{lambda_name}:{priority}"


_PLAIN = re.compile(r"[A-Za-z0-9._-]*")


def stored_key(key: str) -> str:
    """A user's key as it stands in names and records of the store: with neither blanks nor `:`, `{`, `}` or line ends."""
    return key if _PLAIN.fullmatch(key) else quote(key, safe="")


def ordering(lambda_name: str, key: str) -> str:
    """An ordering key as the store knows it: keys of different lambdas are different keys."""
    return f"{lambda_name}:{stored_key(key)}"


def concurrency(lambda_name: str, key: str, limit: int, policy: int) -> str:
    """A task's concurrency key as the store knows it."""
    return f"{lambda_name}:{stored_key(key)} {limit} {policy}"


def unique(lambda_name: str, key: str, window_us: int, policy: int) -> str:
    """A task's unique key as the store knows it."""
    return f"{lambda_name}:{stored_key(key)} {window_us} {policy}"


def labels(given: Mapping[str, str]) -> str:
    """A task's or a gate's labels as the store knows them: name=value, sorted, with a blank between two."""
    return " ".join(f"{stored_key(name)}={stored_key(given[name])}" for name in sorted(given))


def entry(name: str, value: str) -> str:
    """An entry of the opt-in index."""
    return f"{stored_key(name)}={stored_key(value)}"


def entries(found: Mapping[str, str]) -> str:
    """All entries of a task, with a blank between two."""
    return " ".join(entry(name, value) for name, value in found.items())


def key_of(text: str) -> str:
    """The concurrency key of a task as the task gives it."""
    return bare(text.partition(" ")[0])


def bare(ordering_name: str) -> str:
    """A key as its tasks give it."""
    return unquote(ordering_name.rpartition(":")[2])


def rq_name(partition: int, queue_name: str) -> str:
    """A queue's name for RQ."""
    return f"{{{partition}}}{queue_name}"


def channel(partition: int, kind: str) -> str:
    """The channel of a partition on which `due`, `ready` or `done` is notified."""
    return f"{record(partition)}:notify:{kind}"


_RQ_NAME = re.compile(r"\{(\d+)\}(.+):(\d)")


def partition_for(routing_key: str, partitions: int) -> int:
    """The partition that a routing key leads to, of so many."""
    return zlib.crc32(routing_key.encode()) % partitions


def parse_rq_name(name: str) -> tuple[int, str, int] | None:
    """(partition, lambda, priority) of one of our queues; None for a queue of somebody else's."""
    match = _RQ_NAME.fullmatch(name)
    return (int(match[1]), match[2], int(match[3])) if match else None
