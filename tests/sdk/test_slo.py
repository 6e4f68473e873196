"""What a lambda promises about its starts."""

from __future__ import annotations

import pytest

import atf
from atf.metrics.buckets import SECONDS
from atf.sdk.slo import DEFAULT_SLO, Slo, parse_slo, slo_of


@pytest.mark.parametrize("seconds", SECONDS)
def test_every_edge_of_the_buckets_can_be_promised_and_is_told_as_it_is_read(seconds: float) -> None:
    slo = Slo(seconds, 0.995)
    assert parse_slo(str(slo)) == slo


@pytest.mark.parametrize(
    ("text", "told"),
    [("5s 99%", "5s 99%"), ("0.005 90 %", "5ms 90%"), (" 300s  99.99% ", "5m 99.99%"), ("1m 99.90%", "1m 99.9%")],
)
def test_it_is_told_in_one_form(text: str, told: str) -> None:
    assert str(parse_slo(text)) == told


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("99% 5s", "write a time and a share of the starts, such as"),
        ("5s", "write a time"),
        ("5s 99", "write a time"),
        (5, "write a time"),
        ("5s 99%" + " " * 50, "write a time"),
        ("3s 99%", "3s is not measured; use one of 5ms, 10ms, 25ms, .*, 1s, 2.5s, 5s, 10s, 30s, 1m, 5m$"),
        ("5s 89.9%", "89.9 % can't be alerted on; use 90 % to 99.99 %"),
        ("5s 100%", "100 % can't be alerted on"),
    ],
)
def test_what_can_not_be_measured_is_refused_with_what_can(text: object, says: str) -> None:
    with pytest.raises(atf.InvalidArgument, match=says):
        parse_slo(text)


def test_an_app_refuses_it_by_the_names_of_the_lambda_and_the_option() -> None:
    with pytest.raises(atf.InvalidArgument, match="lambda photos/bad: slo '3s 99%': 3s is not measured"):
        atf.App("photos").task(name="bad", slo="3s 99%")(lambda: None)


def test_without_one_and_for_what_a_newer_release_wrote_the_default_holds() -> None:
    assert slo_of("") == slo_of("7 of 8") == DEFAULT_SLO
    assert slo_of("10s 99.9%") == Slo(10, 0.999)
