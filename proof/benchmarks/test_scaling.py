"""docs/how-to/scaling.md: what is reckoned there from recorded figures follows from those that are recorded now.

The figures themselves are drawn (`make benchmarks`); what is reckoned from them is written by hand. A test that fails says what has to stand there.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from operator import truediv
from statistics import median
from typing import Any, Final

import pytest

from proof.benchmarks import results
from proof.benchmarks.svg import number as us
from tools import draw_benchmarks

SCALE: Final = results.latest(results.RESULTS)["scale"]
ROUNDS: Final = [each["levels"] for each in SCALE["systems"]["atf"]["rounds"]]
LEVELS: Final[Mapping[str, Mapping[str, Any]]] = SCALE["systems"]["atf"]["median"]["levels"]
FIRST: Final = "1 server, 1 partition"
FOUR: Final = "3 masters, 4 partitions"
TWO: Final = "3 masters, 4 partitions, 2 of each"
COST: Final[Mapping[str, float]] = LEVELS[TWO]["cpu_us"]
MINUS: Final = "\N{MINUS SIGN}"
R: Final = 100_000
U: Final = 0.6
FINISHED: Final = 680
"""Bytes of a finished task, as docs/how-to/stores.md has them; the recorded ones are those of an earlier layout."""
SWEEP_STORE, SWEEP_CONSUMER = 35.8, 2.8
"""µs; tried once, not recorded: in proportion to what was found beside a store that took 118."""
SWEPT_PER_S: Final = math.floor(1e4 / (2 * (SWEEP_STORE + SWEEP_CONSUMER))) * 100
"""Tasks that one store consumer can sweep, rounded down."""

PAGE: Final = re.sub("<!--.*?-->", "", draw_benchmarks.SCALING.read_text(encoding="utf-8"))
TEXT: Final = " ".join(PAGE.split())


def hundreds(value: float) -> str:
    return f"{round(value, -2):,.0f}"


@pytest.mark.parametrize(
    ("title", "role"),
    [
        ("client (SDK)", "client"),
        ("frontend", "frontend"),
        ("store consumer", "store-consumer"),
        ("controller", "controller"),
        ("HSC", "hsc"),
        ("executor", "executors"),
        ("store", "store"),
    ],
)
def test_what_a_role_costs(title: str, role: str) -> None:
    cost = COST[role]
    part, most = 100 * cost / LEVELS[TWO]["cpu_us_total"], 1e6 / cost
    a_master = " a master" if role == "store" else ""
    cells = [title, us(cost), f"{cost / 1000:.3f}", f"{part:.0f} %", f"{hundreds(most)} tasks/s{a_master}"]
    assert f"| {' | '.join(cells)} | {hundreds(U * most)} tasks/s |" in PAGE


def test_what_all_cost_together_and_the_sweeping() -> None:
    together = LEVELS[TWO]["cpu_us_total"]
    assert f"| together, without the sweeping | {us(together)} | {together / 1000:.2f} |" in PAGE
    assert f"| store, to sweep it when its time is over | {SWEEP_STORE} | {SWEEP_STORE / 1000:.3f} |" in PAGE
    assert math.isclose(SWEEP_STORE / COST["store"], 30 / 118, rel_tol=0.03)
    assert math.isclose(SWEEP_CONSUMER / COST["store"], 2.4 / 118, rel_tol=0.03)


def rounds_of(path: str) -> dict[str, list[float]]:
    """A figure of each level in every round."""
    return {level: [one[level][path] for one in ROUNDS] for level in LEVELS}


def to_first() -> dict[str, float]:
    """The CPU of each level in units of the first one's of the same round."""
    cpu = rounds_of("cpu_us_total")
    return {level: median(map(truediv, each, cpu[FIRST])) for level, each in cpu.items()}


def of_one_server() -> str:
    one = LEVELS[FIRST]["cpu_us"]
    cores = {role: cost / one["store"] for role, cost in one.items() if role != "client"}  # where the store has one
    busiest = {role: each for role, each in cores.items() if role not in {"store", "executors"}}
    assert max(busiest, key=lambda role: busiest[role]) == "hsc"
    return (
        f"On the machine of these measurements that is {hundreds(1e6 / one['store'])} tasks/s with one server and one partition, at {us(one['store'])} µs each."
        f" (The {hundreds(1e6 / COST['store'])} of the table hold for one of three masters, at {us(COST['store'])} µs each.)"
        f" At {hundreds(1e6 / one['store'])} tasks/s all other roles together take {sum(cores.values()) - 1:.1f} cores."
        f" The HSC is the busiest of them and takes {cores['hsc']:.2f}; two executors take {cores['executors']:.2f}."
    )


def of_store_consumers() -> str:
    one, two = LEVELS[FOUR]["cpu_us"]["store-consumer"], COST["store-consumer"]
    counts = (n for n in range(1, 99) if R * (one + (two - one) * (n - 1)) / 1e6 / U <= n)
    return (
        f"one takes {us(one)} µs per task here, and a second takes {two - one:.1f} more."
        f" So *n* of them take {us(one)} + {two - one:.1f} (*n* {MINUS} 1) together, which makes {next(counts)} at *k* = 1. Sweeping needs more of them: 100,000 ÷ {SWEPT_PER_S:,}, rounded up, is {math.ceil(R / SWEPT_PER_S)}."
    )


def of_differences() -> str:
    cpu, rate = (
        max(max(each) / min(each) for each in rounds_of(path).values()) - 1 for path in ("cpu_us_total", "per_s")
    )
    ratios = to_first().values()
    return (
        f"Rounds of one installation differ in CPU by up to {100 * cpu:.0f} %, and in tasks/s by up to {100 * rate:.0f} %."
        f" Within a round, installations differ from the first one by {MINUS}{100 * (1 - min(ratios)):.0f} to +{100 * (max(ratios) - 1):.0f} % in the median"
    )


def of_peers() -> str:
    roles = {"frontend", "hsc", "controller", "executors", "store-consumer"}
    by_process = [one[TWO]["cpu_us_by_process"] for one in ROUNDS]
    parts = [one / sum(each[role]) for each in by_process for role in roles for one in each[role]]
    return f"each took {100 * min(parts):.0f} to {100 * max(parts):.0f} % of its role's CPU"


def how_to_read() -> str:
    frontends, masters = R * COST["frontend"] / 1e6, R * (COST["store"] + SWEEP_STORE) / 1e6 / U
    return (
        f"for *k* = 1: - Frontends: 100,000 × {us(COST['frontend'])} ÷ 1,000,000 = {frontends:.2f} cores, ÷ 0.6 = {frontends / U:.1f},"
        f" so {math.ceil(frontends / U)}. - Masters, with the sweeping: 100,000 × ({us(COST['store'])} + {SWEEP_STORE}) ÷ 1,000,000 ÷ 0.6 = {masters:.1f},"
        f" so {math.ceil(masters)}."
    )


SENTENCES: Final = (
    f"some {hundreds(LEVELS[TWO]['per_s'] / 4)} tasks/s in a partition",
    of_one_server(),
    f"about 1,000,000 ÷ (2 × {SWEEP_STORE + SWEEP_CONSUMER:.1f}) = {SWEPT_PER_S:,} tasks/s",
    how_to_read(),
    of_store_consumers(),
    f"the executors of {round(U * 1e6 / COST['controller'], -3):,.0f} tasks/s here, {COST['controller'] / COST['executors']:.2f} of a core for every core",
    f"At 100,000/s that is {LEVELS[TWO]['store_bytes']['received'] / 10:.0f} and {LEVELS[TWO]['store_bytes']['sent'] / 10:.0f} MB/s",
    f"is 6 million records, {6e6 * FINISHED / 1e9:.1f} GB, and the tombstones",
    f"64 million records of one lambda, {64e6 * FINISHED / 1e9:.0f} GB.",
    of_differences(),
    of_peers(),
)


@pytest.mark.parametrize("sentence", SENTENCES, ids=lambda each: each[:40])
def test_what_is_reckoned_in_the_text(sentence: str) -> None:
    assert sentence in TEXT


@pytest.mark.parametrize("level", LEVELS)
def test_what_was_tried(level: str) -> None:
    of, ratio = LEVELS[level], to_first()[level]
    cells = [level, us(of["per_s"]), us(of["cpu_us_total"]), f"{ratio:.2f} ×", f"{100 * of['busiest_server']:.0f} %"]
    assert f"| {' | '.join(cells)} |" in PAGE


@pytest.mark.parametrize(
    ("title", "us_per_process"),
    [
        ("frontends", COST["frontend"] / U),
        ("HSCs", COST["hsc"] / U),
        ("store consumers", 1e6 / SWEPT_PER_S),
        ("controllers, one per worker host", COST["controller"] / U),
        ("executors, for tasks that do nothing", COST["executors"] / U),
        ("masters", (COST["store"] + SWEEP_STORE) / U),
    ],
)
def test_how_many_100_000_tasks_a_second_want(title: str, us_per_process: float) -> None:
    counts = [max(2, math.ceil(k * R * us_per_process / 1e6)) for k in (1, 1 / 2, 1 / 4)]
    assert f"| {title} | {' | '.join(map(str, counts))} |" in PAGE


def test_how_many_cores_100_000_tasks_a_second_use() -> None:
    cores = R * (LEVELS[TWO]["cpu_us_total"] - COST["client"] + SWEEP_STORE) / 1e6
    said = " | ".join(f"{k * cores:.0f}" for k in (1, 1 / 2, 1 / 4))
    assert f"| cores used, all roles and masters | {said} |" in PAGE


def test_the_machine_of_end_to_end_is_the_faster_one_and_has_as_many_cores() -> None:
    other = results.latest(results.RESULTS)["end-to-end"]
    assert SCALE["cores"] == other["cores"] == 2
    assert other["systems"]["atf"]["median"]["cpu_us"]["store"] < LEVELS[FIRST]["cpu_us"]["store"]
