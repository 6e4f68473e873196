"""The page of benchmarks and its pictures: what is shown of results, and of none."""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ET
from typing import Any

from tests.bench import results, svg
from tests.bench.question import Bar, Figures, Question, Sizes, all_questions
from tests.bench.test_results import SIZES, circumstances, one, question
from tools import draw_benchmarks

__all__ = ["circumstances"]  # a fixture

WORDS = {"title": "T", "intro": "I", "questions": {"speed": {"why": "It does less."}}}


def drawn(asked: Question, rounds: list[dict[str, Any]]) -> dict[str, str]:
    found = results.result(asked, SIZES, 1, rounds)
    return draw_benchmarks.draw({"speed": asked}, {"speed": found}, WORDS)


def test_without_results_the_page_says_so_and_draws_nothing() -> None:
    pages = draw_benchmarks.draw(all_questions(), {}, WORDS)
    assert list(pages) == ["index.md"]
    assert pages["index.md"].count("not run: no result is recorded") == len(all_questions())
    assert "### Celery" in pages["index.md"]
    assert "visibility_timeout" in pages["index.md"]


def test_ratios_and_the_best_peer_that_loses_nothing() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq",)),)
    rounds = [one("atf", {"per_s": 9000.0}), one("saq", {"per_s": 1500.0}), one("huey", {"per_s": 4000.0})]
    pages = drawn(question(bars=bars), rounds)
    assert (
        "| [speed](#speed) | 9,000 tasks/s | SAQ, 1,500 tasks/s | 6.00 × | 5 × | at small sizes yes, 6.00 × |"
        in pages["index.md"]
    )
    assert "| Huey (x 1) | 4,000 | 1: 4,000 to 4,000 | 0.44 × |" in pages["index.md"]
    assert "It does less." in pages["index.md"]
    assert "Ahead of ATF" not in pages["index.md"]
    assert "smaller than those of a full measurement (tasks 10 in place of 50,000)" in pages["index.md"]
    assert "machine 1, load 0.10 to 0.10 on " in pages["index.md"]
    assert set(pages) == {"index.md", "speed.svg"}


def test_ratios_are_medians_over_rounds_of_one_number() -> None:
    rounds = [one("atf", {"per_s": each}) for each in (10.0, 100.0, 200.0)]
    rounds += [one("saq", {"per_s": each}) for each in (5.0, 50.0, 50.0)]  # medians: 100 and 50; in pairs 2, 2, 4
    rounds += [one("huey", {"per_s": each}, round=number) for number, each in ((7, 1.0), (8, 1.0))]
    page = drawn(question(), rounds)["index.md"]
    assert "| SAQ, 50.0 tasks/s | 2.00 × |" in page
    assert "| SAQ (x 1) | 50.0 | 3: 5.00 to 50.0 | 0.50 × |" in page
    assert "| Huey (x 1) | 1.00 | 2: 1.00 to 1.00 | – |" in page, "no round in common, no ratio"


def test_who_is_ahead_follows_from_the_figures_and_a_loser_is_marked() -> None:
    rounds = [one("atf", {"per_s": 10.0}), one("saq", {"per_s": 20.0}), one("huey", {"per_s": 30.0})]
    page = drawn(question(), rounds)["index.md"]
    loses = "and loses what a killed process had taken from the queue"
    assert f"Ahead of ATF: Huey (3.00 × ATF's, {loses}); SAQ (2.00 × ATF's).\n\nIt does less." in page
    page = drawn(question(more=False), rounds)["index.md"]
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
    page = draw_benchmarks.draw({"speed": asked}, {"speed": found}, WORDS)["index.md"]
    assert "| in few rounds yes, 6.00 × |" in page
    assert "sizes are those of a full measurement, which has 5 rounds" in page
    assert "smaller than" not in page


def test_the_budget_stands_beside_what_roles_take() -> None:
    asked = question(budget={"client": 8.0, "store": 28.0})
    page = drawn(asked, [one("atf", {"per_s": 1.0, "cpu_us": {"client": 7.0, "store": 40.5}})])["index.md"]
    assert (
        "| client | 8.00 | 7.00 | -1.00 |\n| store | 28.0 | 40.5 | 12.5 |\n| sum of these | 36.0 | 47.5 | 11.5 |"
        in page
    )
    assert "The largest excess is that of: store, 12.5 µs." in page


def test_a_system_that_became_part_of_a_question_later_is_not_run() -> None:
    found = results.result(question(systems=("atf",)), SIZES, 1, [one("atf", {"per_s": 1.0})])
    page = draw_benchmarks.draw({"speed": question(systems=("atf", "saq"))}, {"speed": found}, WORDS)["index.md"]
    assert "| SAQ | – | – | – | not run |" in page


def test_levels_are_lines_of_a_table_and_bars_of_the_picture() -> None:
    def round_of(rate: float, nodes: dict[str, float]) -> Figures:
        return {"per_s": rate, "levels": {"small": {"per_s": 9.0}, "large": {"per_s": rate, "cpu_us": nodes}}}

    asked = question(by_level=("per_s", "cpu_us"), systems=("atf",))
    rounds = [one("atf", round_of(rate, {"hsc": rate, "the store": 2.5})) for rate in (10.0, 30.0, 20.0)]
    pages = drawn(asked, rounds)
    page = pages["index.md"]
    assert "| level | median (tasks/s) | rounds | cpu us hsc | cpu us the store |" in page
    assert "| small | 9.00 | 3: 9.00 to 9.00 | – | – |" in page
    assert "| large | 20.0 | 3: 10.0 to 30.0 | 20.0 | 2.50 |" in page
    picture = pages["speed.svg"]
    assert picture.index(">small<") < picture.index(">large<"), "in their order, not by size"
    assert ">ATF<" not in picture


def test_a_question_of_levels_without_figures_has_neither_table_nor_picture() -> None:
    pages = drawn(question(by_level=("per_s",), systems=("atf",)), [one("atf", error="it broke")])
    assert list(pages) == ["index.md"]
    assert "| level |" not in pages["index.md"]


def test_long_names_begin_within_the_picture() -> None:
    name = "3 masters, 4 partitions, 2 of each"
    root = ET.fromstring(svg.chart("speed", "tasks/s", [svg.Bar(name, 1.0, 1.0, 1.0)]))
    (text,) = [each for each in root.iter("{http://www.w3.org/2000/svg}text") if each.text == name]
    assert float(text.get("x", "0")) >= 7 * len(name)


def test_what_did_not_run_has_no_figure_but_a_reason() -> None:
    pages = drawn(question(), [one("atf", {"per_s": 1.0}), one("saq", not_run="it has no such call")])
    assert "| SAQ | – | – | – | not run: it has no such call |" in pages["index.md"]
    assert "| Huey | – | – | – | not run |" in pages["index.md"]
    assert "not run: it has no such call" in pages["speed.svg"]


def test_an_own_failure_is_shown_in_place_of_a_figure() -> None:
    pages = drawn(question(), [one("atf", error="it broke"), one("saq", {"per_s": 1.0})])
    assert "| [speed](#speed) | failed: it broke |" in pages["index.md"]
    assert "This result is failed: atf: failed: it broke." in pages["index.md"]


def test_the_picture_is_a_document_and_comes_out_the_same() -> None:
    bars = [svg.Bar("a & b", 10.0, 5.0, 20.0, ours=True), svg.Bar("c", 0.0), svg.Bar("d", None, word="not run: <why>")]
    picture = svg.chart("speed", "tasks/s", bars)
    assert picture == svg.chart("speed", "tasks/s", bars)
    root = ET.fromstring(picture)
    texts = ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == ["speed", "a & b", "10.0 tasks/s", "c", "0 tasks/s", "d", "not run: <why>"]
    widths = [each.get("width") for each in root.iter("{http://www.w3.org/2000/svg}rect")][1:]
    assert widths == ["205", "0"]  # half of what the largest round takes


def test_figures_have_about_three_digits() -> None:
    assert [svg.number(each) for each in (0, 0.123, 12.34, 123.4, 12345.6)] == ["0", "0.12", "12.3", "123", "12,346"]


def test_what_a_round_left_out_is_told_once() -> None:
    figures = {"per_s": 1.0, "not_run": {"9 pending": "too little memory"}}
    pages = drawn(question(), [one("atf", figures), one("atf", figures)])
    assert pages["index.md"].count("Not run: ATF with 9 pending: too little memory.") == 1


def test_a_bar_is_not_known_while_a_peer_is_missing_or_has_failed() -> None:
    bars = (Bar(words="5 ×", figure="per_s", limit=5.0, least=True, against=("saq", "huey")),)
    ours, saq = one("atf", {"per_s": 9000.0}), one("saq", {"per_s": 1500.0})
    for other in ([], [one("huey", {"per_s": 1.0, "never": 3})]):
        page = drawn(question(bars=bars), [ours, saq, *other])["index.md"]
        assert "| SAQ, 1,500 tasks/s | 6.00 × | 5 × | not known |" in page


def test_the_floor_stands_beside_our_rate() -> None:
    asked = question(name="end-to-end", systems=("atf",))
    floor = question(name="floor", systems=("floor", "atf"))
    found = {
        "end-to-end": results.result(asked, SIZES, 1, [one("atf", {"per_s": 50.0})]),
        "floor": results.result(floor, SIZES, 1, [one("atf", {"per_s": 40.0}), one("floor", {"per_s": 160.0})]),
    }
    pages = draw_benchmarks.draw({"end-to-end": asked, "floor": floor}, found, WORDS)
    assert "do 160 tasks/s ([floor](#floor)); ATF's rate beside it is 25 % of that." in pages["index.md"]


def test_what_the_cpu_of_others_is_stands_in_the_rounds_of_end_to_end() -> None:
    fast, cpu = question(name="end-to-end"), question(name="cpu", figure="cpu_us_total", unit="µs", also=("cpu_us",))
    took = {"per_s": 1.0, "cpu_us_total": 9.0, "cpu_us": {"client": 2.0, "workers": 7.0}}
    asked = {"end-to-end": fast, "cpu": cpu}
    others = results.result(fast, SIZES, 1, [one("atf", took), one("saq", took), one("huey", took)])
    ours = results.result(cpu, SIZES, 1, [one("atf", took)])
    page = draw_benchmarks.draw(asked, {"end-to-end": others, "cpu": ours}, WORDS)["index.md"]
    assert page.count("The rounds of [end-to-end](#end-to-end) measure it, too:") == 1
    assert "| SAQ (x 1) | 9.00 | 1: 9.00 to 9.00 | 1.00 × | client 2.00, workers 7.00 | ok |" in page
    page = draw_benchmarks.draw(asked, {"end-to-end": others, "cpu": {**others, "question": "cpu"}}, WORDS)["index.md"]
    assert "measure it, too" not in page
