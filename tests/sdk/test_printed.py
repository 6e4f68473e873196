"""Statuses as programs print them: by their names, in every way that Python has of making text."""

from __future__ import annotations

import pytest

import atf
from atf.task import NamedNumber


@pytest.mark.parametrize("each", [*atf.Status, *atf.BatchStatus, *atf.ItemStatus], ids=repr)
def test_a_status_is_shown_by_its_name(each: NamedNumber) -> None:
    assert str(each) == f"{each}" == "{}".format(each) == "%s" % each == each.name  # noqa: UP031, UP032
    assert f"{each:>30}" == each.name.rjust(30)


def test_a_status_is_still_the_number_that_travels() -> None:
    assert (atf.Status(5), int(atf.Status.SUCCESS), atf.Status["SUCCESS"]) == (atf.Status.SUCCESS, 5, 5)
    assert repr(atf.Status.SUCCESS) == "<Status.SUCCESS: 5>"
