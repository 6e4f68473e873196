"""A bell by itself: what its waiter hears of several rings."""

from __future__ import annotations

from atf.store.servers.notifications import Notifications


async def test_a_waiter_hears_all_messages_since_its_last_look() -> None:
    bell = Notifications()
    bell.notify("{0}a")
    bell.notify("{1}b", "{0}a")
    assert await bell.wait(0) == {"{0}a", "{1}b"}
    bell.notify("{0}c")
    assert await bell.wait(0) == {"{0}c"}


async def test_a_message_does_not_hide_that_others_may_have_been_missed() -> None:
    """A new subscription rings without one: what happened before it is not known, whatever came right after it."""
    bell = Notifications()
    bell.notify()
    bell.notify("{1}b")
    assert await bell.wait(0) == set()
    bell.notify("{1}b")
    assert await bell.wait(0) == {"{1}b"}
