"""What is answered to a malformed schedule: what is wrong, where, and how to mend it."""

from __future__ import annotations

import pytest

from atf.schedule.refusal import GivenText

from .reading import refusal

REFUSED = [
    ("0 60 0 * * *", 2, "the minute 60 is over 59; write 0 to 59"),
    ("0 0 0 0 * *", 6, "the day of the month 0 is under 1; write 1 to 31"),
    ("0 0 0 * 0 *", 8, "the month 0 is under 1; write 1 to 12"),
    ("0 0 0 * * 7", 10, "the day of the week 7 is over 6; write 0 to 6 (Sunday is 0)"),
    ("0 6-3 * * * *", 2, "the minute 6-3 runs backwards; write the smaller one first, or two ranges: 6-59,0-3"),
    ("0 0 0 * * FRI-MON", 10, "the day of the week FRI-MON runs backwards"),
    ("0 5- * * * *", 4, "the end of a range of the minute is missing; write 0 to 59"),
    ("0 -5 * * * *", 2, "'-' does not fit into the minute"),
    ("0 1-2-3 * * * *", 5, "'-' does not fit into the minute"),
    ("0 */0 * * * *", 4, "the step of the minute is 0; write 1 or more"),
    ("0 */ * * * *", 4, "the step of the minute is missing"),
    ("0 */-12 * * * *", 4, "'-' does not fit into the minute"),
    ("0 *//2 * * * *", 4, "'/' does not fit into the minute"),
    ("0 */2/3 * * * *", 5, "'/' does not fit into the minute"),
    ("0 */9999999999999999999 * * * *", 4, "the step of the minute is too large; write fewer digits"),
    ("0 99999999999999999999 * * * *", 2, "the minute 99999999999999999999 is over 59"),
    ("0 *5 * * * *", 3, "'5' does not fit into the minute"),
    ("0 1.5 * * * *", 3, "'.' does not fit into the minute"),
    ("0 +5 * * * *", 2, "'+' does not fit into the minute"),
    ("0 1, * * * *", 4, "a value of the minute is missing; remove the comma, or write a value"),
    ("0 ,1 * * * *", 2, "a value of the minute is missing"),
    ("0 1,,2 * * * *", 4, "a value of the minute is missing"),
    ("0 MON * * * *", 2, "'MON' is no minute; write 0 to 59"),
    ("0 0 0 1 January *", 8, "'January' is no month; write JAN"),
    ("0 0 0 1 5-Januar *", 10, "'Januar' is no month; write JAN"),
    ("0 0 0 * * XYZ", 10, "'XYZ' is no day of the week; write 0 to 6, or SUN to SAT"),
    ("0 0 0 L * *", 6, "L, W, # and H of other crons are not known"),
    ("0 0 0 15W * *", 6, "L, W, # and H of other crons are not known"),
    ("0 0 0 * * 5#3", 11, "L, W, # and H of other crons are not known"),
    ("0 H * * * *", 2, "L, W, # and H of other crons are not known"),
    ("0 R * * * *", 2, "'R' is no minute"),
    ("\u0665 * * * * *", 0, "'\u0665' does not fit into the second"),
    ("30 3 * * *", 10, 'it has 5 fields, not 6; put the second in front: "0 30 3 * * *"'),
    ("* * * *", 7, "it has 4 fields, not 6; write second, minute, hour"),
    ("0 0 0 * * * 2030", 12, "it has 7 fields, not 6"),
    ("30 3 * * " + "1," * 20 + "1", 50, 'put the second in front: "0 30 3 * * 1,1,'),
    ("daily", 0, "'daily' is no schedule; write @daily"),
    ("soon", 0, "'soon' is no schedule; write such as"),
    ("   ", 3, "a schedule is missing"),
    ("@Daily", 0, "'@Daily' is not known; write @daily"),
    ("@dayly", 0, "'@dayly' is not known; write @daily"),
    ("@reboot", 0, "'@reboot' is not known; write one of @yearly"),
    ("@daily 5", 7, "nothing follows @daily; remove the rest"),
    ("@every", 6, "a duration is missing; write such as @every 1h30m"),
    ("@every 10", 9, "a unit is missing"),
    ("@every 1h 30m", 9, "a duration has no spaces"),
    ("@every  1h", 7, "a duration has no spaces"),
    ("@every1h", 0, "'@every1h' is not known; write @every"),
    ("@EVERY 1h", 0, "'@EVERY' is not known; write @every"),
    ("TZ=UTC @every 1h", 0, "@every has no time zone"),
    (" @every 1h", 0, "@every has no time zone, and stands first; remove what is before it"),
    ("TZ=UTC", 6, "a schedule is missing"),
    ("TZ= 0 0 0 * * *", 3, "the name of a time zone is missing; write such as TZ=Europe/Paris"),
    ("tz=UTC 0 0 0 * *", 2, "'=' does not fit into the second"),
    ("R/PT3S", 1, "a number is missing after R/; write such as R4/PT3S"),
    ("R4", 2, "a slash and a duration is missing after R4"),
    ("R4/", 3, "a duration of ISO 8601 begins with P"),
    ("R4/3s", 3, "a duration of ISO 8601 begins with P"),
    ("R0/PT3S", 1, "it repeats 0 times; write 1 to 4294967295"),
    ("P1D", 1, "a period has no years, months, weeks or days; write hours: PT24H is a day"),
    ("R3/P2WT1M", 4, "a period has no years, months, weeks or days"),
    ("10", 2, "a unit is missing"),
]


@pytest.mark.parametrize(("schedule", "place", "says"), REFUSED, ids=[each[0] for each in REFUSED])
def test_a_malformed_schedule(schedule: str, place: int, says: str) -> None:
    first, shown, caret = refusal(schedule=schedule).split("\n")
    assert says in first
    assert first.startswith("schedule: ")
    assert "; " in first, "how to mend it"
    assert (shown, caret) == (f"  {schedule}", f"  {' ' * place}^")


@pytest.mark.parametrize("name", ["Not/AZone", "Europe", "../UTC", "/etc/localtime", "right/UTC", "zone.tab", "Local"])
def test_a_zone_that_there_is_not(name: str) -> None:
    assert f"there is no time zone {name!r}" in refusal(schedule=f"CRON_TZ={name} 0 0 9 * * *")
    assert f"there is no time zone {name!r}" in refusal(schedule="@daily", tz=name)


def test_five_fields_are_not_read_as_six_nor_the_other_way_round() -> None:
    assert "leave the second out" in refusal(schedule="0 30 3 * * *", format="unix")
    assert "it has 4 fields, not 5" in refusal(schedule="30 3 * *", format="unix")
    assert "the day of the week 8 is over 6" in refusal(schedule="30 3 * * 8", format="unix")


def test_a_long_schedule_is_refused_and_shown_in_part() -> None:
    first, shown, caret = refusal(schedule="0," * 512 + "0 * * * * *").split("\n")
    assert first == "schedule: it has 1035 characters; at most 1024 are read"
    assert len(shown) < 80
    assert len(caret) < 80


def test_the_caret_stays_below_its_place_in_a_part() -> None:
    text = "1," * 200 + "61" + ",1" * 200 + " * * * * *"
    _, shown, caret = refusal(schedule=text).split("\n")
    assert shown.startswith("  …1,")
    assert shown.endswith("1…")
    assert shown[caret.index("^") :].startswith("61,1")


def test_what_would_move_the_caret_or_act_on_a_terminal_is_not_shown() -> None:
    text = "0\t0\n0 \x1b[2J \u202e \u4e2d\u0301x"
    error = str(GivenText("schedule", text).refuse(len(text), "it is wrong", "write another"))
    _, shown, caret = error.split("\n")
    assert shown == "  0 0 0 ?[2J ? ??x"
    assert len(caret) == len(shown) + 1
    assert refusal(schedule="0\n0 \x1b 0 *").count("\n") == 2
