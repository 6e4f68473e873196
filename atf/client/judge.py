"""Judges for `atf status` what is wrong in a cluster, or worth a look, line by line. It asks nobody."""

from __future__ import annotations

from typing import Final, NamedTuple

from atf.rpc import frontend_pb2 as f
from atf.task import US
from atf.times import length

_FULL: Final = 0.9
"""The share of its memory from which a server counts as nearly full."""
_ROLES: Final = ("frontend", "store-consumer", "hsc", "controller")
_MIB: Final = 1 << 20
HOST_KNOWN_US: Final = 30 * US
"""How long a host counts as alive (controller/host_state.py); its HSC says so every few seconds while they are connected."""
_SILENT_US: Final = 15 * US
"""A host is silent of which that was not said for this long."""
_KEPT_US: Final = 60 * US
"""What is kept on purpose is worth a look once it has been due for so long."""
_RETRYING: Final = 20
"""A lambda with so many tasks to retry is worth a look, where these are most of what waits."""
_IN_FULL: Final = {"retention"}
"""Warnings that `atf doctor` does not say for ever: they tell what happens now."""

WITHHELD: Final = "withheld, with worker hosts and store servers: they take a token that may read every namespace"


class StatusLine(NamedTuple):
    """A line of the screen."""

    about: str
    text: str
    wrong: bool = False
    look: bool = False  # not wrong, but whoever is on call wants to see it

    def __str__(self) -> str:
        return f"{self.about}: {self.text}"


def judge(found: f.GetStatusReply, late_us: int, recent: str) -> dict[str, list[StatusLine]]:
    """All that there is to say, by section: store, roles, hosts, lambdas, jobs.

    Args:
        found: what the frontend answered.
        late_us: how long a task that is due may wait.
        recent: how long ago a failure counts as recent, in words.
    """
    seen = not found.cluster_withheld
    return {
        "store": _store(found),
        "roles": _roles(found) if seen else [StatusLine("roles", WITHHELD)],
        "hosts": _hosts(found) if seen else [],
        "lambdas": _lambdas(found, late_us, recent),
        "jobs": _jobs(found),
    }


def _store(found: f.GetStatusReply) -> list[StatusLine]:
    lines = [_memory(each) for each in found.memory]
    if not lines and not found.cluster_withheld:
        lines = [StatusLine("store", "its memory is not known")]
    lines += [
        StatusLine("store", each.sentence, each.state == "refuse")
        for each in found.check_results
        if each.state == "refuse" or each.check in _IN_FULL
    ]
    warned = sorted({each.check for each in found.check_results if each.state != "refuse"} - _IN_FULL)
    if warned:
        lines.append(StatusLine("store", f"warnings about {', '.join(warned)}: see atf doctor"))
    if found.partitions_away:
        lines.append(
            StatusLine("store", f"{found.partitions_away} of {found.partitions} partitions can't be reached", True)
        )
    if found.claims_paused:
        lines.append(StatusLine("store", found.claims_paused, True))
    return lines


def _memory(each: f.StoreMemory) -> StatusLine:
    used = f"{each.where}: {each.used_bytes / _MIB:,.0f} MiB"
    if not each.max_bytes:
        return StatusLine("store", f"{used}, no bound set")
    share = each.used_bytes / each.max_bytes
    return StatusLine("store", f"{used} of {each.max_bytes / _MIB:,.0f} MiB ({share:.0%})", share >= _FULL)


def _roles(found: f.GetStatusReply) -> list[StatusLine]:
    lines = []
    for role in _ROLES:
        counts = {each.version: each.processes for each in found.roles if each.role == role}
        said = ", ".join(f"{number} of {version}" for version, number in sorted(counts.items()))
        lines.append(StatusLine("roles", f"{role}: {said or _none(found)}", not counts))
    return lines


def _hosts(found: f.GetStatusReply) -> list[StatusLine]:
    lines = []
    for each in found.hosts:
        quarantined = [f"{getattr(one, 'lambda')}".replace("*", "everything") for one in each.quarantined]
        said = f"{each.executors} executor{'' if each.executors == 1 else 's'}" + (", drains" if each.draining else "")
        said += f", quarantines {', '.join(quarantined)}, since executors died there" if quarantined else ""
        said = f"no executor can start: {each.why_not}" if each.why_not else said + ", starts" * each.starting
        silent = silent_for(each, found.now_us)
        said += f", {silent}" if silent else ""
        wrong = not (each.executors or each.draining or each.starting)
        wrong = bool(wrong or quarantined or each.why_not or silent)
        lines.append(StatusLine("hosts", f"{each.name} (pool {each.pool}): {said}", wrong))
    return lines or [StatusLine("hosts", f"{_none(found)}: no task runs", True)]


def silent_for(host: f.WorkerHost, now_us: int) -> str:
    """That nothing has been heard of a host for a while; empty: it was heard of lately, or is known to be in trouble."""
    silent_us = HOST_KNOWN_US - (host.until_us - now_us) if host.until_us and not host.why_not else 0
    return f"silent for {silent_us // US} s: it may be dead" if silent_us > _SILENT_US else ""


def _none(found: f.GetStatusReply) -> str:
    """That no process is known. A store that has just come back empty pauses claims, and those that live tell it so within seconds."""
    return "none has told the store yet that it lives" if found.claims_paused else "none is alive"


def _lambdas(found: f.GetStatusReply, late_us: int, recent: str) -> list[StatusLine]:
    total = [sum(getattr(each, name) for each in found.lambdas) for name in ("waiting", "later", "running", "dead")]
    sum_of = "{} due, {} later, {} running, ".format(*total) + _dead(total[3])
    head = StatusLine("lambdas", f"{found.lambdas_known} registered; {sum_of}")
    return [head, *(_lambda(each, found.now_us, late_us, recent) for each in found.lambdas)]


def _lambda(each: f.LambdaStatus, now_us: int, late_us: int, recent: str) -> StatusLine:
    kept, said, wrong, look = each.paused or each.gated, [], False, False
    if kept:
        said.append(("paused" if each.paused else "has a gate") + (f" by {each.kept_by}" if each.kept_by else ""))
    if each.waiting:
        waits = max(now_us - each.due_since_us, 0) if each.due_since_us else 0
        said.append(f"{each.waiting} due, the first for {length(waits // US * US)}")
        wrong, look = not kept and waits > late_us, kept and waits > _KEPT_US
    if not each.served and (each.waiting or each.running):
        said.append("no live worker runs it")
        wrong = wrong or not kept
    if each.later:
        said.append(f"{each.later} later")
    if each.retrying:
        said.append(f"{each.retrying} to retry")
        look = look or each.retrying >= max(_RETRYING, (each.waiting + each.later) / 2)
    if each.running:
        said.append(f"{each.running} running")
    if each.failed_recently:
        said.append(f"{each.failed_recently} failed within {recent}: atf get {each.failed_id}")
        wrong = True
    elif each.dead:
        said.append(f"{_dead(each.dead)}, the newest: atf get {each.failed_id}")
    return StatusLine(getattr(each, "lambda"), ", ".join(said), wrong, look)


def _dead(number: int) -> str:
    return f"{number} failed for good"


def _jobs(found: f.GetStatusReply) -> list[StatusLine]:
    lines = [StatusLine("job " + each.name, f"{each.why}: atf job rm {each.name} ends it", True) for each in found.jobs]
    more = [StatusLine("jobs", "only the first 1,000 were looked at")] if found.more_jobs else []
    return [*lines, *more]
