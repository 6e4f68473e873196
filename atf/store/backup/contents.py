"""Finds what is in a task store, for `atf doctor`: function libraries, and what the partitions' records say. It reads, and writes nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

from atf.config.settings import Timing
from atf.errors import Unavailable
from atf.store import keys, library
from atf.store.claim_pause import ClaimPause, PauseCause
from atf.store.partitions import new_partitions
from atf.store.servers.check_results import CheckResult, ok, refuse, warn
from atf.store.servers.checks import told
from atf.store.servers.connection import Link
from atf.store.servers.server_info import text
from atf.store.servers.settings import retention
from atf.task import US

_FIELDS: Final = ("partitions", "data", "timeout", "pause_until", "pause_over", "cause", "early")
_PAUSE: Final = "@"
"""Among those who are asked after a restart: the pause that their answers may end."""
_LIBRARY: Final = re.compile(r"atf_(\d+)_[0-9a-f]+")
_CLIENT: Final = re.compile(r"\bname=(atf_\S+)(?=\s)")


async def libraries(link: Link) -> CheckResult:
    """The function libraries on one server, and the roles that use each."""
    listed = await told(link, "FUNCTION", "LIST", "LIBRARYNAME", "atf_*", "WITHCODE") or []
    entries = [dict(zip(map(text, each[::2]), each[1::2], strict=True)) for each in listed]
    code = {text(each["library_name"]): text(each["library_code"]) for each in entries}
    clients = await told(link, "CLIENT", "LIST")
    used = Counter(_CLIENT.findall(text(clients))) if clients is not None else None
    return judge_libraries(code, used)


def judge_libraries(code: Mapping[str, str], used: Mapping[str, int] | None) -> CheckResult:
    """The judgement on libraries: name -> text, and name -> connections that call it; None: the server does not tell."""
    ours = library.NAME
    shown = ", ".join(
        f"{name} ({_whose(name)}{_users(name, used)})" for name in sorted(code, key=lambda name: (name != ours, name))
    )
    if ours in code and code[ours] != library.CURRENT.source:
        return refuse(
            "library",
            shown,
            f"the function library {ours} is another one than this release's",
            f"stop the roles that use it, then FUNCTION DELETE {ours}",
        )
    newer = [name for name in code if (_version(name) or 0) > library.VERSION]
    if newer:
        return refuse(
            "library", shown, "roles of a release with newer data have used this store", "run that release's roles here"
        )
    if ours not in code:
        said = f"this release's, {ours}, is not there yet; the first role loads it"
        return ok("library", shown or "none", said)
    idle = [name for name in code if name != ours and used is not None and not used.get(name)]
    if idle:
        return ok(
            "library",
            shown,
            f"nobody calls {', '.join(idle)} now; FUNCTION DELETE removes it when no role of that release is left",
        )
    return ok("library", shown, "this release's is loaded" + ("; others stand beside it" if len(code) > 1 else ""))


async def partitions(link: Link, configured: int, timing: Timing) -> list[CheckResult]:
    """What the partitions' records say, against what this host's roles are set to.

    Args:
        link: to the store.
        configured: how many partitions they are set to; 0: what is on record.
        timing: how long they take a lease to last.

    Raises:
        Unavailable: none of the partitions can be reached.
    """
    away: dict[Link | None, Unavailable] = {}

    async def record(partition: int) -> dict[str, str] | None:
        """None: its server is away."""
        node = link.link_for(keys.record(partition))
        if node is None or node not in away:
            try:
                return await _record(link, partition)
            except Unavailable as error:
                if not link.parted:
                    raise
                away[link.link_for(keys.record(partition))] = error
        return None

    found: dict[int, dict[str, str] | None] = {}
    number = 0
    made = configured or new_partitions(link)
    for each in range(made):  # the first that answers tells how many there are
        found[each] = await record(each)
        if (first := found[each]) is not None:
            number = int(first.get("partitions", "0"))
            break
    else:
        raise next(iter(away.values()))
    for each in range(number):
        if each not in found:
            found[each] = await record(each)
    answered = {partition: known for partition, known in found.items() if known is not None}
    time = await told(link.link_for(keys.record(next(iter(answered)))) or link, "TIME")
    now_us = int(time[0]) * US + int(time[1]) if time else 0
    if not number:
        answered = {}
    judged = judge_partitions(list(answered.values()), configured, made, timing, now_us) if number or not away else []
    unread = [each for each in found if found[each] is None]
    return [*judged, *([_unread(unread)] if unread else [])]


def judge_partitions(
    records: Sequence[Mapping[str, str]], configured: int, made: int, timing: Timing, now_us: int
) -> list[CheckResult]:
    """The judgements on the records of all partitions; none: the store is new, and the first role gives it `made`."""
    ours = timing.heartbeat_timeout
    if not records:
        return [
            ok("partitions", "none yet", f"the store is new; the first role makes it one of {made} partitions"),
            ok("timing", "none yet", f"the first role puts heartbeat_timeout on record; here it is {ours:g} s"),
        ]
    return [
        _number(int(records[0]["partitions"]), configured),
        *_data(records),
        _timing(records, ours),
        _claims(records, now_us),
        retention(max(int(each.get("early", 0)) for each in records), now_us),
    ]


def _unread(partitions: Sequence[int]) -> CheckResult:
    shown = ", ".join(map(str, partitions))
    mend = "see whether the servers run that they lie on, then look again"
    return warn("records", "away", f"nothing can be said of partitions {shown}: their servers can't be reached", mend)


def _number(recorded: int, configured: int) -> CheckResult:
    if not configured:
        return ok("partitions", str(recorded), "on record in the store; this host's roles take what is on record")
    if recorded == configured:
        return ok("partitions", str(recorded), "the store and this host's settings agree")
    return refuse(
        "partitions",
        str(recorded),
        f"the store was made with {recorded} partitions, and this host's roles are set to {configured}",
        "leave partitions (ATF_PARTITIONS) unset, or move the tasks with atf store export and atf store import",
    )


def _data(records: Sequence[Mapping[str, str]]) -> list[CheckResult]:
    versions = sorted({int(each["data"]) for each in records})
    if versions == [library.VERSION]:
        return [ok("data", f"version {library.VERSION}", "the data are of this release's version")]
    shown = ", ".join(map(str, versions))
    mend = (
        "run the release that the data are of, or move the tasks: its atf store export, this release's atf store import"
    )
    return [refuse("data", f"version {shown}", f"this release works on version {library.VERSION}", mend)]


def _timing(records: Sequence[Mapping[str, str]], ours: float) -> CheckResult:
    recorded = sorted({int(each["timeout"]) / US for each in records if "timeout" in each})
    shown = ", ".join(f"{each:g} s" for each in recorded)
    if not recorded:
        return ok("timing", "none yet", f"the next role puts heartbeat_timeout on record; here it is {ours:g} s")
    if recorded == [ours]:
        return ok("timing", shown, "the heartbeat_timeout on record and this host's agree")
    if len(recorded) > 1:
        mend = f"atf store timing --set {recorded[-1]:g}"
        return refuse("timing", shown, "a change of the heartbeat_timeout on record was cut off", mend)
    return refuse(
        "timing",
        shown,
        f"the store is used with heartbeat_timeout = {shown}, and this host's roles are set to {ours:g} s",
        f"set heartbeat_timeout = {recorded[0]:g} (ATF_HEARTBEAT_TIMEOUT={recorded[0]:g}), or change it for all roles:"
        f" atf store timing --set {ours:g}",
    )


def _claims(records: Sequence[Mapping[str, str]], now_us: int) -> CheckResult:
    pause = ClaimPause.longest_of([_pause(each, now_us) for each in records])
    if pause is None:
        return ok("claims", "given", "tasks that are due start")
    mend = "wait. With appendfsync always there is no such pause, nor with --all-stopped after an import"
    if pause.unseen:
        mend = "see that a store consumer runs; after a jump of the clock wait for one heartbeat_timeout"
    return warn("claims", "paused", pause.sentence, mend)


def _pause(record: Mapping[str, str], now_us: int) -> ClaimPause | None:
    """As `pause_left` of the store's functions has it; they may not be there."""
    pause_until, pause_over = record.get("pause_until"), record.get("pause_over")
    if pause_until is None or pause_over == pause_until or not now_us:
        return None
    left_us = int(pause_until) - now_us
    return ClaimPause(left_us, left_us <= 0, int(record.get("waits_for", "0")), PauseCause(record["cause"]))


async def _record(link: Link, partition: int) -> dict[str, str]:
    key = keys.record(partition)
    answer: list[Any] = await link.command("HMGET", key, *_FIELDS, key=key)
    found = {name: text(value) for name, value in zip(_FIELDS, answer, strict=True) if value is not None}
    if found.get("pause_over") != found.get("pause_until"):
        asked = list(map(text, await link.command("HGETALL", keys.asked(partition), key=key)))
        of_pause = dict(zip(asked[::2], asked[1::2], strict=True)).pop(_PAUSE, None)
        if of_pause is not None and of_pause == found.get("pause_until"):
            found["waits_for"] = str(len(asked) // 2 - 1)
    return found


def _version(name: str) -> int | None:
    match = _LIBRARY.fullmatch(name)
    return int(match[1]) if match else None


def _whose(name: str) -> str:
    version = _version(name)
    if name == library.NAME:
        return "this release's"
    if version is None:
        return "nobody's"
    return "another release's" if version == library.VERSION else f"of data version {version}"


def _users(name: str, used: Mapping[str, int] | None) -> str:
    return "" if used is None else f", {used.get(name, 0)} connections"
