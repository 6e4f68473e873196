"""What is written in place of a time zone that is refused: it is accepted, and means the same."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from atf.errors import InvalidArgument
from atf.schedule.refusal import GivenText
from atf.schedule.zones import parse_zone

ANY = "write a name of the tz database, such as Europe/Paris or UTC"


def mend(name: str) -> str:
    with pytest.raises(InvalidArgument) as caught:
        parse_zone(GivenText("tz", name))
    return str(caught.value).split("\n")[0].partition("; ")[2]


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Z", "UTC"),
        ("utc+0", "UTC"),
        ("+00:00", "UTC"),
        ("UTC+2", "Etc/GMT-2"),
        ("gmt-05:00", "Etc/GMT+5"),
        ("+0900", "Etc/GMT-9"),
        ("Etc/UTC+2", "Etc/GMT-2"),
        ("posix/Europe/Paris", "Europe/Paris"),
        ("paris", "Europe/Paris"),
        ("New York", "America/New_York"),
        ("Europe/Pariss", "Europe/Paris"),
    ],
)
def test_a_zone_that_means_the_same(name: str, zone: str) -> None:
    assert mend(name) == f"write {zone}"
    assert parse_zone(GivenText("tz", zone)).key == zone
    if match := re.search(r"([+-])(\d\d?)", name):
        offset = timedelta(hours=int(match[1] + match[2]))
        assert datetime(2030, 7, 1, tzinfo=ZoneInfo(zone)).utcoffset() == offset


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("CEST", f"an abbreviation may mean several zones; {ANY}"),
        ("PST", f"an abbreviation may mean several zones; {ANY}"),
        ("UTC+05:30", f"an offset is no zone; {ANY}"),
        ("GMT+15", f"an offset is no zone; {ANY}"),
        ("local", ANY),
        ("localtime", ANY),
        ("Mars", ANY),
        ("Moon/Base", ANY),
        ("Europe", ANY),
    ],
)
def test_nothing_is_suggested_where_it_would_be_a_guess(name: str, hint: str) -> None:
    assert mend(name) == hint
