"""The page of benchmarks and its pictures: what is shown of results, and of none."""

from __future__ import annotations

import re
import tomllib
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from proof.benchmarks import results, svg, trial
from proof.benchmarks.explain import comparable, resident_mib
from proof.benchmarks.known import PEERS, SYSTEMS
from proof.benchmarks.question import Bar, Figures, Question, Sizes, all_questions
from proof.benchmarks.test_results import SIZES, circumstances, one, question
from tools import draw_benchmarks

__all__ = ["circumstances"]  # a fixture

WORDS = {
    "front": {"title": "T", "intro": "I", "after": "A"},
    "figures": {"title": "F", "intro": "I"},
    "method": {"title": "M", "intro": "I"},
    "questions": {"speed": {"why": "It does less.", "means": "It is fast."}},
}
PAGES = {"index.md", "method.md", "figures.md"}


def _said(words: dict[str, str]) -> str:
    return "\n".join(words.values())


KILLED: dict[str, Any] = {
    "systems": {name: {"rounds": [{"never": int(name == "huey")}]} for name in PEERS},
}
"""Huey has lost a task."""


def drawn(asked: Question, rounds: list[dict[str, Any]], kill: dict[str, Any] = KILLED) -> dict[str, str]:
    found = results.result(asked, SIZES, 1, rounds)
    return draw_benchmarks.draw({"speed": asked}, {"speed": found, "kill": kill}, WORDS)


def test_without_results_the_page_says_so_and_draws_nothing() -> None:
    pages = draw_benchmarks.draw(all_questions(), {}, WORDS)
    assert set(pages) == PAGES
    assert pages["figures.md"].count("not run: no result is recorded") == len(all_questions())
    assert "### Celery" in pages["method.md"]
    assert "visibility_timeout" in pages["method.md"]


def test_ratios_and_the_best_peer_that_loses_nothing() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq",)),)
    rounds = [one("atf", {"per_s": 9000.0}), one("saq", {"per_s": 1500.0}), one("huey", {"per_s": 4000.0})]
    pages = drawn(question(bars=bars), rounds)
    assert (
        "| [speed](#speed) | 9,000 tasks/s (1 of 5 rounds) | SAQ, 1,500 tasks/s (1 of 5 rounds) | 6.00 × | 5 × | at small sizes yes, 6.00 × |"
        in pages["figures.md"]
    )
    assert "| Huey (x 1) | 4,000 | 1 of 5: 4,000 to 4,000 | 0.44 × |" in pages["figures.md"]
    assert "It does less." in pages["figures.md"]
    assert "Ahead of ATF" not in pages["figures.md"]
    assert "smaller than those of a full measurement (tasks 10 in place of 50,000)" in pages["figures.md"]
    assert "machine 1, load 0.10 to 0.10 on " in pages["figures.md"]
    assert set(pages) == PAGES | {"speed.svg", "overview.svg"}


def test_ratios_are_medians_over_rounds_of_one_number() -> None:
    rounds = [one("atf", {"per_s": each}) for each in (10.0, 100.0, 200.0)]
    rounds += [one("saq", {"per_s": each}) for each in (5.0, 50.0, 50.0)]  # medians: 100 and 50; in pairs 2, 2, 4
    rounds += [one("huey", {"per_s": each}, round=number) for number, each in ((7, 1.0), (8, 1.0))]
    page = drawn(question(), rounds)["figures.md"]
    assert "| SAQ, 50.0 tasks/s (3 of 5 rounds) | 2.00 × (2.00 to 4.00) |" in page
    assert "| SAQ (x 1) | 50.0 | 3 of 5: 5.00 to 50.0 | 0.50 × (0.25 to 0.50) |" in page
    assert "| Huey (x 1) | 1.00 | 2 of 5: 1.00 to 1.00 | – |" in page, "no round in common, no ratio"


def test_who_is_ahead_follows_from_the_figures_and_a_loser_is_marked() -> None:
    rounds = [one("atf", {"per_s": 10.0}), one("saq", {"per_s": 20.0}), one("huey", {"per_s": 30.0})]
    page = drawn(question(), rounds)["figures.md"]
    loses = "and loses what a killed process had taken from the queue"
    assert f"Ahead of ATF: Huey (3.00 × ATF's, {loses}); SAQ (2.00 × ATF's).\n\nIt does less." in page
    page = drawn(question(more=False), rounds)["figures.md"]
    assert "Ahead of ATF" not in page


def test_where_a_recorded_result_has_a_peer_ahead_the_page_says_why() -> None:
    words = tomllib.loads(draw_benchmarks.WORDS.read_text(encoding="utf-8"))["questions"]
    found = results.latest(results.RESULTS)
    behind = [
        name
        for name, each in all_questions().items()
        if name in found and draw_benchmarks.ahead(each, found[name]) and not words.get(name, {}).get("why")
    ]
    assert behind == []


def test_full_sizes_in_few_rounds_are_not_called_small() -> None:
    full = {"tasks": Sizes().tasks}
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq",)),)
    asked = question(bars=bars, systems=("atf", "saq"))
    rounds = [one("atf", {"per_s": 9.0}, sizes=full), one("saq", {"per_s": 1.5}, sizes=full)]
    found = results.result(asked, Sizes(), 1, rounds)
    page = draw_benchmarks.draw({"speed": asked}, {"speed": found, "kill": KILLED}, WORDS)["figures.md"]
    assert (
        "| 9.00 tasks/s (1 of 5 rounds) | SAQ, 1.50 tasks/s (1 of 5 rounds) | 6.00 × | 5 × | in 1 of 5 rounds yes, 6.00 × |"
        in page
    )
    assert "| SAQ (x 1) | 1.50 | 1 of 5: 1.50 to 1.50 |" in page
    assert "1 of 5 rounds: the sizes are those of a full measurement. That has 5 rounds" in page
    assert "smaller than" not in page


def test_the_budget_stands_beside_what_roles_take() -> None:
    asked = question(budget={"client": 8.0, "store": 28.0})
    page = drawn(asked, [one("atf", {"per_s": 1.0, "cpu_us": {"client": 7.0, "store": 40.5}})])["figures.md"]
    assert (
        "| client | 8.00 | 7.00 | -1.00 | 0.88 × |\n| store | 28.0 | 40.5 | 12.5 | 1.45 × |\n"
        "| sum of these | 36.0 | 47.5 | 11.5 | 1.32 × |" in page
    )
    assert "Over it, the largest first: store 12.5 µs." in page


def test_a_role_without_a_figure_has_no_line_in_the_budget() -> None:
    asked = question(budget={"client": 8.0, "store": 28.0})
    page = drawn(asked, [one("atf", {"per_s": 1.0, "cpu_us": {"store": 20.0}})])["figures.md"]
    assert "| store | 28.0 | 20.0 | -8.00 | 0.71 × |\n| sum of these | 28.0 | 20.0 | -8.00 | 0.71 × |" in page
    assert "| client |" not in page
    assert "None is over it." in page


def test_what_the_machine_explains_of_the_excess_follows_from_the_peers() -> None:
    fast, cpu = question(name="end-to-end"), question(name="cpu", figure="cpu_us_total", budget={"store": 20.0})
    rates = {name: 0.5 * rate for name, rate in trial.END_TO_END_PER_S.items()} | {"huey": 0.8 * 4_840}
    ours = {"cpu_us_total": 80.0, "cpu_us": {"store": 80.0}}

    def page(rates: dict[str, float], **other: str) -> str:
        measured = [one("atf", ours), *(one(name, {"per_s": rate}) for name, rate in rates.items())]
        systems = ("atf", *rates)
        found = {
            "end-to-end": results.result(question(systems=systems), SIZES, 1, measured),
            "cpu": results.result(cpu, SIZES, 1, [one("atf", {"cpu_us_total": 1.0, "cpu_us": {"store": 1.0}})]) | other,
        }
        return draw_benchmarks.draw({"end-to-end": fast, "cpu": cpu}, found, WORDS)["figures.md"]

    said = page(rates)
    assert "| Huey | 4,840 | 3,872 | 0.80 | 5,690 | – | – |" in said
    assert (
        "the peers do here 0.50 to 0.80 × what they did in the trial, 0.50 × at the median. In the same rounds ATF takes 4.00 ×"
        in said
    )
    assert "a factor of 1.25 by Huey, which kept most of its rate, and of 2.00 if all is put down to it" in said
    assert "The rest, a factor of 2.00 to 3.20, is ATF's own" in said
    said = page({name: 2 * rate for name, rate in trial.END_TO_END_PER_S.items()})
    assert "by the peers the machine explains nothing of it" in said, "a machine that is faster explains nothing"
    by_the_peers = "can be told from the peers, which ran on that of the trial, too:\n\n| peer |"
    assert by_the_peers in said
    assert by_the_peers in page(rates, commit="another"), "of the same code"
    assert "told from the peers" not in page({})
    for elsewhere in ({"cpu": "Another one"}, {"code": "another"}, {"python": "4"}):
        said = page(rates, **elsewhere)
        assert "what they did in the trial" not in said, elsewhere
        assert "told from the peers" not in said, elsewhere


def test_results_explain_each_other_if_machine_code_versions_and_settings_are_the_same() -> None:
    def found(**more: Any) -> dict[str, dict[str, Any]]:
        return {
            "one": results.result(question(), SIZES, 1, [one("atf", {"per_s": 1.0}), one("saq", {"per_s": 1.0})]),
            "two": results.result(question(), SIZES, 1, [one("atf", {"per_s": 1.0}, **more)]),
        }

    assert comparable(found(), "one", "two")
    assert comparable({**found(), "two": found()["two"] | {"commit": "another"}}, "one", "two"), (
        "the product's code decides"
    )
    assert not comparable({**found(), "two": found()["two"] | {"code": "another"}}, "one", "two")
    assert not comparable(found(versions={"x": "2"}), "one", "two")
    assert not comparable(found(settings="others"), "one", "two")
    assert not comparable(found(), "one", "three")


def test_why_the_cpu_of_a_task_stands_on_the_page_twice() -> None:
    asked = {each: question(name=each, systems=("atf", "saq")) for each in ("cpu", "end-to-end")}

    def page(cpu: dict[str, Any], **more: Any) -> str:
        at = {"at": "2026-11-23T09:46:58+00:00", "load": 2.5}
        rounds = [
            one("atf", {"cpu_us_total": 132.0}, at="2026-11-23T08:40:24+00:00"),
            one("saq", {"cpu_us_total": 9.0}),
        ]
        found = {
            "cpu": results.result(asked["cpu"], SIZES, 1, [one("atf", cpu, **at, **more)]),
            "end-to-end": results.result(asked["end-to-end"], SIZES, 1, rounds),
        }
        return draw_benchmarks.draw(asked, found, WORDS)["figures.md"]

    said = page({"cpu_us_total": 176.0})
    assert "[cpu](#cpu) measures a task's CPU in rounds of its own, and finds 176 µs; it says what differs." in said
    assert (
        "ATF's 176 µs in the rounds of `cpu` and 132 in those of `end-to-end` are of one and the same measurement, taken at other times:"
        " 1 runs from 2026-11-23 09:46 to 09:46 (ATF alone, load 2.50 to 2.50) and 1 runs from 2026-11-23 08:40 to 08:40 (beside others, load 0.10 to 0.10)."
        " Machine, code, versions, settings and sizes are the same in both;" in said
    )
    assert "They are not of the same sizes, machine, code" in page({"cpu_us_total": 176.0}, settings="others")
    assert "one and the same measurement" not in page({"another": 1.0})


def test_bars_of_another_question_are_shown_where_a_reader_looks_for_them() -> None:
    mine = Bar(words="the ratio at most 3", figure="ratio", limit=3.0, least=False)
    other = Bar(words="no dearer", figure="us", limit=1.05, least=False, against=("floor-then",), of="floor")
    cpu = question(name="cpu", bars=(mine,), also_judged=("floor",), systems=("atf",))
    floor = question(name="floor", bars=(other,), systems=("floor", "floor-then"))
    rounds = [one("floor", {"us": 2.0}), one("floor-then", {"us": 1.0})]
    found = {
        "cpu": results.result(cpu, SIZES, 1, [one("atf", {"per_s": 1.0, "ratio": 1.5})]),
        "floor": results.result(floor, SIZES, 1, rounds),
    }
    page = draw_benchmarks.draw({"cpu": cpu, "floor": floor}, found, WORDS)["figures.md"]
    assert (
        "| the ratio at most 3; no dearer ([floor](#floor)) | at small sizes yes, 1.50; at small sizes **no**, 2.00 × |"
        in page
    )
    section = page.partition("## cpu")[2].partition("## floor")[0]
    assert "* to reach: the ratio at most 3; reached: at small sizes yes, 1.50\n" in section
    assert "* to reach: no dearer ([floor](#floor)); reached: at small sizes **no**, 2.00 ×" in section
    page = draw_benchmarks.draw({"cpu": cpu, "floor": floor}, {"cpu": found["cpu"]}, WORDS)["figures.md"]
    assert "* to reach: no dearer ([floor](#floor)); reached: not known" in page


def test_figures_in_words_are_those_that_are_recorded() -> None:
    found = {"speed": results.result(question(), SIZES, 1, [one("atf", {"per_s": 1234.0, "ms": {"p99": 0.5}})])}
    words = "It is {speed/atf:per_s}, p99 {speed/atf:ms.p99}; {speed/saq:per_s} and {other/atf:per_s}."
    assert draw_benchmarks.filled(words, found) == "It is 1,234, p99 0.50; – and –."


def test_every_figure_that_the_words_name_is_one_of_its_question() -> None:
    words = tomllib.loads(draw_benchmarks.WORDS.read_text(encoding="utf-8"))["questions"]
    found, asked = results.latest(results.RESULTS), all_questions()
    named = [match for each in words.values() for match in draw_benchmarks.FIGURE.finditer(_said(each))]
    named += draw_benchmarks.IN_PLACE.finditer(draw_benchmarks.SCALING.read_text(encoding="utf-8"))
    assert {match["question"] for match in named} >= {"batch", "ahead", "floor"}
    strange = [match for match in named if match["question"] not in asked or match["system"] not in {None, *SYSTEMS}]
    assert [match[0] for match in strange] == []
    # A result may be older than a figure that its question has now.
    shown = {name: (each.figure, *each.also) for name, each in asked.items()}
    unknown = [
        match for match in named if draw_benchmarks.recorded(match, found) is None and match["question"] in found
    ]
    assert [match[0] for match in unknown if not match["path"].startswith(shown[match["question"]])] == []
    drawn = [draw_benchmarks.filled(_said(each), found) for each in words.values()]
    assert [each for each in drawn if "{" in each or "}" in each] == []


def test_a_system_that_became_part_of_a_question_later_is_not_run() -> None:
    found = results.result(question(systems=("atf",)), SIZES, 1, [one("atf", {"per_s": 1.0})])
    page = draw_benchmarks.draw({"speed": question(systems=("atf", "saq"))}, {"speed": found}, WORDS)["figures.md"]
    assert "| SAQ | – | – | – | not run |" in page


def test_levels_are_lines_of_a_table_and_bars_of_the_picture() -> None:
    def round_of(rate: float, nodes: dict[str, float]) -> Figures:
        return {"per_s": rate, "levels": {"small": {"per_s": 9.0}, "large": {"per_s": rate, "cpu_us": nodes}}}

    asked = question(by_level=("per_s", "cpu_us"), systems=("atf",))
    rounds = [one("atf", round_of(rate, {"hsc": rate, "the store": 2.5})) for rate in (10.0, 30.0, 20.0)]
    pages = drawn(asked, rounds)
    page = pages["figures.md"]
    assert "| level | median (tasks/s) | rounds | cpu us hsc | cpu us the store |" in page
    assert "| small | 9.00 | 3 of 5: 9.00 to 9.00 | – | – |" in page
    assert "| large | 20.0 | 3 of 5: 10.0 to 30.0 | 20.0 | 2.50 |" in page
    picture = pages["speed.svg"]
    assert picture.index(">small<") < picture.index(">large<"), "in their order, not by size"
    assert ">ATF<" not in picture


def test_a_question_of_levels_without_figures_has_neither_table_nor_picture() -> None:
    pages = drawn(question(by_level=("per_s",), systems=("atf",)), [one("atf", error="it broke")])
    assert set(pages) == PAGES
    assert "| level |" not in pages["figures.md"]


def test_long_names_begin_within_the_picture() -> None:
    name = "3 masters, 4 partitions, 2 of each"
    root = ET.fromstring(svg.chart("speed", "tasks/s", [svg.ChartBar(name, 1.0, 1.0, 1.0)]))
    (text,) = [each for each in root.iter("{http://www.w3.org/2000/svg}text") if each.text == name]
    assert float(text.get("x", "0")) >= 7 * len(name)


def test_a_long_title_has_several_lines_within_the_picture() -> None:
    title = "what is measured here " * 12
    root = ET.fromstring(svg.chart(title, "tasks/s", [svg.ChartBar("one", 1.0, 1.0, 1.0)]))
    texts = list(root.iter("{http://www.w3.org/2000/svg}text"))
    *lines, name, _ = ["".join(each.itertext()) for each in texts]
    assert " ".join(lines) == title.strip()
    assert len(lines) > 1
    assert all(7 * len(each) < int(root.get("width", "0")) for each in lines)
    (place,) = [float(each.get("y", "0")) for each in texts if each.text == name]
    assert place > max(float(each.get("y", "0")) for each in texts if each.text in lines) + 10


def test_what_did_not_run_has_no_figure_but_a_reason() -> None:
    pages = drawn(question(), [one("atf", {"per_s": 1.0}), one("saq", not_run="it has no such call")])
    assert "| SAQ | – | – | – | not run: it has no such call |" in pages["figures.md"]
    assert "| Huey | – | – | – | not run |" in pages["figures.md"]
    assert "not run: it has no such call" in pages["speed.svg"]


def test_rounds_without_the_figure_that_is_asked_for_now_are_not_called_ok() -> None:
    page = drawn(question(), [one("atf", {"another": 1.0})])["figures.md"]
    assert "| [speed](#speed) | not known: its rounds have no such figure |" in page


def test_an_own_failure_is_shown_in_place_of_a_figure() -> None:
    pages = drawn(question(), [one("atf", error="it broke"), one("saq", {"per_s": 1.0})])
    assert "| [speed](#speed) | failed: it broke |" in pages["figures.md"]
    assert "This result is failed: atf: failed: it broke." in pages["figures.md"]


def test_the_picture_is_a_document_and_comes_out_the_same() -> None:
    bars = [
        svg.ChartBar("a & b", 10.0, 5.0, 20.0, ours=True),
        svg.ChartBar("c", 0.0),
        svg.ChartBar("d", None, word="not run: <why>"),
    ]
    picture = svg.chart("speed", "tasks/s", bars)
    assert picture == svg.chart("speed", "tasks/s", bars)
    root = ET.fromstring(picture)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["speed", "a & b", "10.0 tasks/s", "c", "0 tasks/s", "d", "not run: <why>"]
    widths = [each.get("width") for each in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths == ["205", "0"]  # half of what the largest round takes


def test_figures_have_about_three_digits() -> None:
    assert [svg.number(each) for each in (0, 0.123, 12.34, 123.4, 12345.6)] == ["0", "0.12", "12.3", "123", "12,346"]


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("store_us_by_batch", "1: 350 µs, 16: 62.0 µs"),
        ("ticks_per_s", "1: 350/s, 16: 62.0/s"),
        ("last_start_s", "1: 350 s, 16: 62.0 s"),
        ("call_ms", "1: 350 ms, 16: 62.0 ms"),
        ("rss_mib.100000", "1: 350 MiB, 16: 62.0 MiB"),
        ("percent_by_role", "1: 350 %, 16: 62.0 %"),
        ("ratios", "1: 350 ×, 16: 62.0 ×"),
        ("counts", "1: 350, 16: 62.0"),
    ],
)
def test_figures_of_one_cell_have_their_names_and_units(path: str, shown: str) -> None:
    figures: Any = {"1": 350.0, "16": 62.0}
    for name in reversed(path.split(".")):
        figures = {name: figures}
    pages = drawn(question(also=(path,)), [one("atf", {"per_s": 1.0, **figures})])
    assert f"| {shown} | ok |" in pages["figures.md"]


def test_what_a_round_left_out_is_told_once() -> None:
    figures = {"per_s": 1.0, "not_run": {"9 pending": "too little memory"}}
    pages = drawn(question(), [one("atf", figures), one("atf", figures)])
    assert pages["figures.md"].count("Not run: ATF with 9 pending: too little memory.") == 1


def test_who_was_not_killed_yet_is_no_best_peer_and_leaves_the_bar_open() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq", "arq"), at_least_once=True),)
    asked = question(bars=bars, systems=("atf", "saq", "arq"))
    rounds = [one("atf", {"per_s": 90.0}), one("saq", {"per_s": 15.0}), one("arq", {"per_s": 10.0})]
    assert (
        "| SAQ, 15.0 tasks/s (1 of 5 rounds) | 6.00 × | 5 × | at small sizes yes" in drawn(asked, rounds)["figures.md"]
    )

    def kill(**never: int) -> dict[str, Any]:
        return {"systems": {name: {"rounds": [{"never": each}]} for name, each in never.items()}}

    page = drawn(asked, rounds, kill(saq=1, arq=0))["figures.md"]
    assert "| arq, 10.0 tasks/s (1 of 5 rounds) | 9.00 × | 5 × | at small sizes yes, 9.00 × |" in page
    page = drawn(asked, rounds, kill(arq=0))["figures.md"]
    assert "| arq, 10.0 tasks/s (1 of 5 rounds) | 9.00 × | 5 × | not known |" in page, "SAQ may be safe, and is faster"
    page = drawn(asked, rounds, kill(saq=0))["figures.md"]
    assert "| SAQ, 15.0 tasks/s (1 of 5 rounds) | 6.00 × | 5 × | at small sizes yes" in page, "arq is slower anyway"
    assert "| – | – | 5 × | not known |" in drawn(asked, rounds, kill())["figures.md"]


def test_who_was_not_killed_with_all_its_workers_is_called_neither_safe_nor_a_loser() -> None:
    asked = question(systems=("atf", "saq", "celery"))
    rounds = [one("atf", {"per_s": 90.0}), one("saq", {"per_s": 10.0}), one("celery", {"per_s": 15.0})]
    killed = {name: {"rounds": [{"never": 0}]} for name in ("saq", "celery")}
    not_killed = "| ok; not killed with all the workers that it is measured with |"
    page = drawn(asked, rounds, {"systems": killed})["figures.md"]
    assert page.count(not_killed) == 1
    assert "| SAQ, 10.0 tasks/s (1 of 5 rounds) | 9.00 × |" in page
    page = drawn(asked, rounds, {"systems": killed | {"celery-later": {"rounds": [{"never": 0}]}}})["figures.md"]
    assert not_killed not in page
    assert "| Celery, 15.0 tasks/s (1 of 5 rounds) | 6.00 × |" in page


def test_where_a_peer_keeps_less_in_memory_the_page_says_so_and_why() -> None:
    def of(name: str, **mib: float) -> dict[str, Any]:
        return one(name, {"per_s": 1.0, "rss_mib": {"client": 99.0, "store": 99.0, **mib}})

    drain = question(name="drain", systems=("atf", "saq", "huey", "arq"))
    rounds = [of("atf", hsc=60.0, executors=140.0), of("saq", workers=65.0), of("huey", workers=155.0)]
    found = results.result(drain, SIZES, 1, [*rounds, one("arq", error="it broke")])
    page = draw_benchmarks.draw({"drain": drain}, {"drain": found}, WORDS)["figures.md"]
    assert "together keep 200 MiB resident with ATF, with the peers 65.0 MiB (SAQ) to 155 MiB (Huey); a page" in page
    found = results.result(drain, SIZES, 1, [one("atf", {"per_s": 1.0}), one("saq", {"per_s": 1.0})])
    assert "together keep" not in draw_benchmarks.draw({"drain": drain}, {"drain": found}, WORDS)["figures.md"]
    words = tomllib.loads(draw_benchmarks.WORDS.read_text(encoding="utf-8"))["questions"]
    assert words["drain"]["why"].startswith("ATF takes more memory than a peer because")
    recorded = resident_mib(results.latest(results.RESULTS)["drain"])
    assert max(recorded, key=lambda name: recorded[name]) == "atf", "mend these words"
    assert "(../how-to/scaling.md#partitions)" in words["idle"]["why"]


def test_the_page_says_what_was_killed_in_other_versions_or_settings_than_it_is_measured_with() -> None:
    def of(name: str, redis: str, settings: str = "s", **more: str) -> dict[str, Any]:
        return one(name, {"per_s": 1.0, "never": 0}, versions={"redis": redis, **more}, settings=settings)

    kill = question(name="kill", figure="never", systems=("atf", "saq", "arq", "rq", "huey", "celery-later"))
    killed = [of("atf", "8.1"), of("saq", "7.4"), of("arq", "5.3"), of("rq", "5.3"), of("celery-later", "8.1")]
    fast = [
        of("atf", "8.1"),
        of("saq", "5.3", "others"),
        of("arq", "5.3", hiredis="3.5"),
        of("rq", "5.3"),
        of("celery", "6.4"),
    ]
    slow = [of("saq", "7.4"), of("rq", "5.3", "others"), of("huey", "9.9")]
    systems = ("atf", "saq", "arq", "rq", "huey", "celery")
    asked = {"kill": kill, **{name: question(name=name, systems=systems) for name in ("slow", "fast")}}
    found = {
        name: results.result(asked[name], SIZES, 1, each)
        for name, each in (("kill", killed), ("slow", slow), ("fast", fast))
    }

    def page() -> str:
        return draw_benchmarks.draw(asked, found, WORDS)["figures.md"].partition("## kill")[2].partition("## slow")[0]

    assert page().endswith(
        "Killed otherwise than measured, as far as both are recorded (of settings, what is said of them):\n\n"
        "* SAQ: killed with redis 7.4, measured with redis 5.3, other settings (fast)\n"
        "* RQ: other settings (slow)\n"
        "* Celery, with its workers for what is due later: killed with redis 8.1, measured with redis 6.4 (everywhere)\n\n"
    )
    found["fast"]["code"] = "another"
    assert "* ATF: another code (everywhere)\n" in page(), "that of peers is not the product's"
    found = {"kill": found["kill"], "slow": found["kill"] | {"question": "slow"}}
    assert "Killed otherwise" not in page()


def test_a_result_says_where_what_is_compared_did_not_run_in_pairs_or_in_one_run() -> None:
    def said(*rounds: dict[str, Any]) -> list[bool]:
        page = drawn(question(systems=("atf", "saq")), list(rounds))["figures.md"]
        return ["not in pairs" in page, "not recorded of which run" in page]

    def of(system: str, **more: Any) -> dict[str, Any]:
        return one(system, {"per_s": 1.0}, **more)

    assert said(of("atf", group=1), of("saq", group=1)) == [False, False]
    assert said(of("atf"), of("saq")) == [True, False]
    found = results.result(question(systems=("atf", "saq")), SIZES, 1, [of("atf"), of("saq", run="another")])
    for each in found["systems"].values():
        del each["rounds"][0]["run"]  # as it was recorded once
    page = draw_benchmarks.draw({"speed": question()}, {"speed": found}, WORDS)["figures.md"]
    assert "It is not recorded of which run its rounds are" in page
    builds = [of("atf", versions={"python": "3.11.2"}), of("saq", versions={"python": "3.11.7"})]
    page = drawn(question(systems=("atf", "saq")), builds)["figures.md"]
    assert "Its systems ran on different builds of Python (3.11.2, 3.11.7)" in page


def test_figures_in_a_page_that_is_written_by_hand_are_drawn_anew() -> None:
    found = {"speed": results.result(question(), SIZES, 1, [one("atf", {"per_s": 1234.0})])}
    page = "It is <!--=speed/atf:per_s-->9<!--/-->/s, <!--=speed/saq:per_s-->7<!--/--> there."
    drawn_once = "It is <!--=speed/atf:per_s-->1,234<!--/-->/s, <!--=speed/saq:per_s-->–<!--/--> there."
    assert draw_benchmarks.with_figures(page, found) == drawn_once
    assert draw_benchmarks.with_figures(drawn_once, found) == drawn_once


def test_figures_of_levels_and_what_a_result_says_of_itself_can_be_named() -> None:
    levels = {"3 masters, 4 partitions, 2 of each": {"cpu_us": {"store-consumer": 16.04}}}
    found = {
        "speed": results.result(question(), SIZES, 1, [one("atf", {"levels": levels})]) | {"cpu": "A (R) @ 2.5GHz"}
    }
    path = "speed/atf:levels.3 masters, 4 partitions, 2 of each.cpu_us.store-consumer"
    page = f"| <!--={path}-->9<!--/--> | <!--=speed:cpu-->B<!--/--> | <!--=speed:sizes.tasks-->9<!--/--> | <!--=speed:none.such-->9<!--/--> |"
    shown = ["16.0", "A (R) @ 2.5GHz", "10.0", "–"]
    drawn_once = draw_benchmarks.with_figures(page, found)
    assert re.sub("<!--.*?-->", "", drawn_once) == f"| {' | '.join(shown)} |"
    assert draw_benchmarks.with_figures(drawn_once, found) == drawn_once
    assert draw_benchmarks.filled(f"{{{path}}}", found) == "16.0"


def test_a_bar_is_not_known_while_a_peer_is_missing_or_has_failed() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq", "huey")),)
    ours, saq = one("atf", {"per_s": 9000.0}), one("saq", {"per_s": 1500.0})
    for other in ([], [one("huey", {"per_s": 1.0, "never": 3})]):
        page = drawn(question(bars=bars), [ours, saq, *other])["figures.md"]
        assert "| SAQ, 1,500 tasks/s (1 of 5 rounds) | 6.00 × | 5 × | not known |" in page


def test_the_floor_stands_beside_our_rate() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq",)),)
    asked = question(name="end-to-end", systems=("atf", "saq"), bars=bars)
    floor = question(name="floor", systems=("floor", "atf"))
    ours = {"per_s": 50.0, "cpu_us_total": 300.0, "cpu_us": {"store": 120.0}}
    found = {
        "end-to-end": results.result(asked, SIZES, 1, [one("atf", ours), one("saq", {"per_s": 40.0})]),
        "floor": results.result(floor, SIZES, 1, [one("atf", {"per_s": 40.0}), one("floor", {"per_s": 120.0})]),
    }
    pages = draw_benchmarks.draw({"end-to-end": asked, "floor": floor}, found, WORDS)
    page = pages["figures.md"]
    assert "Of the 300 µs of CPU that a task takes with ATF here the store has 120, 40 %." in page
    assert "called in batches by one client, do 3.00 × ATF's rate beside them ([floor](#floor))." in page
    out = "5 × SAQ's rate are 4.00 × ATF's here, 1.33 × what these functions do: out of reach of this design."
    assert out in page
    found["floor"]["code"] = "another"
    page = draw_benchmarks.draw({"end-to-end": asked, "floor": floor}, found, WORDS)["figures.md"]
    assert "here the store has 120, 40 %." in page
    assert "do 3.00 × ATF's rate beside them ([floor](#floor), of another code, machine or settings than these" in page
    assert out in page, "both are ratios of one run each"


def test_without_atf_beside_it_the_floor_says_nothing_of_its_rate() -> None:
    asked, floor = question(name="end-to-end", systems=("atf",)), question(name="floor", systems=("floor", "atf"))
    ours = one("atf", {"per_s": 50.0, "cpu_us_total": 300.0, "cpu_us": {"store": 120.0}})
    for beside in ([], [one("atf", {"per_s": 40.0}, round=7)]):
        found = {
            "end-to-end": results.result(asked, SIZES, 1, [ours]),
            "floor": results.result(floor, SIZES, 1, [*beside, one("floor", {"per_s": 160.0})]),
        }
        page = draw_benchmarks.draw({"end-to-end": asked, "floor": floor}, found, WORDS)["figures.md"]
        assert "here the store has 120, 40 %." in page
        assert "functions of a task's life alone, called" not in page


def test_a_bar_that_the_floor_lets_one_reach_is_not_called_out_of_reach() -> None:
    bars = (Bar(words="2 ×", figure="per_s", limit=2.0, least=True, against=("saq",)),)
    asked = question(name="end-to-end", systems=("atf", "saq"), bars=bars)
    floor = question(name="floor", systems=("floor", "atf"))
    found = {
        "end-to-end": results.result(asked, SIZES, 1, [one("atf", {"per_s": 50.0}), one("saq", {"per_s": 40.0})]),
        "floor": results.result(floor, SIZES, 1, [one("atf", {"per_s": 40.0}), one("floor", {"per_s": 160.0})]),
    }
    page = draw_benchmarks.draw({"end-to-end": asked, "floor": floor}, found, WORDS)["figures.md"]
    assert "2 × SAQ's rate are 1.60 × ATF's here, 0.40 × what these functions do." in page


def test_what_the_cpu_of_others_is_stands_in_the_rounds_of_end_to_end() -> None:
    fast, cpu = question(name="end-to-end"), question(name="cpu", figure="cpu_us_total", unit="µs", also=("cpu_us",))
    took = {"per_s": 1.0, "cpu_us_total": 9.0, "cpu_us": {"client": 2.0, "workers": 7.0}}
    asked = {"end-to-end": fast, "cpu": cpu}
    others = results.result(fast, SIZES, 1, [one("atf", took), one("saq", took), one("huey", took)])
    ours = results.result(cpu, SIZES, 1, [one("atf", took)])
    page = draw_benchmarks.draw(asked, {"end-to-end": others, "cpu": ours, "kill": KILLED}, WORDS)["figures.md"]
    assert page.count("The rounds of [end-to-end](#end-to-end) measure it, too:") == 1
    assert "| SAQ (x 1) | 9.00 | 1 of 5: 9.00 to 9.00 | 1.00 × | client: 2.00 µs, workers: 7.00 µs | ok |" in page
    page = draw_benchmarks.draw(asked, {"end-to-end": others, "cpu": {**others, "question": "cpu"}}, WORDS)[
        "figures.md"
    ]
    assert "measure it, too" not in page


def test_the_opening_page_has_the_main_figures_and_where_a_peer_is_ahead() -> None:
    found = [one("atf", {"per_s": 50.0}), one("saq", {"per_s": 100.0})]
    pages = drawn(question(systems=("atf", "saq")), found)
    assert "| [speed](figures.md#speed) | 50.0 tasks/s | SAQ, 100 tasks/s | It is fast. |" in pages["index.md"]
    assert "0.50 ×" in pages["overview.svg"]


def test_where_less_is_better_the_opening_picture_turns_the_ratio_round() -> None:
    found = [one("atf", {"per_s": 50.0}), one("saq", {"per_s": 100.0})]
    assert "2.00 ×" in drawn(question(systems=("atf", "saq"), more=False), found)["overview.svg"]
