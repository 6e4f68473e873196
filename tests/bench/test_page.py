"""The page of benchmarks and its pictures: what is shown of results, and of none."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

from tests.bench import results, svg
from tests.bench.question import Bar, Figures, Question, all_questions
from tests.bench.test_results import SIZES, circumstances, one, question
from tools import draw_benchmarks

__all__ = ["circumstances"]  # a fixture

WORDS = {"title": "T", "intro": "I", "questions": {"speed": {"ahead": "SAQ is ahead.", "why": "It does less."}}}


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
    assert "SAQ is ahead.\n\nIt does less." in pages["index.md"]
    assert "smaller than those of a full measurement" in pages["index.md"]
    assert set(pages) == {"index.md", "speed.svg"}


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
