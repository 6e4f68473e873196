"""The frontend is put together of classes by subject, which must not get into each other's way."""

from __future__ import annotations

from collections import Counter

from atf.frontend.service import FrontendService


def test_no_two_classes_define_one_name() -> None:
    defined = Counter(
        name
        for kind in FrontendService.__mro__[:-1]
        for name, what in vars(kind).items()
        if callable(what) and not name.startswith("__")
    )
    assert [name for name, times in defined.items() if times > 1] == []
