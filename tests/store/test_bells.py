"""A bell by itself: what its waiter hears of several rings."""

from __future__ import annotations

from atf.store.servers.notifications import Notifications


async def test_a_waiter_hears_all_messages_since_its_last_look() -> None:
    bell = Notifications()
    bell.ring("{0}a")
    bell.ring("{1}b", "{0}a")
    assert await bell.wait(0) == {"{0}a", "{1}b"}
    bell.ring("{0}c")
    assert await bell.wait(0) == {"{0}c"}


async def test_a_message_does_not_hide_that_others_may_have_been_missed() -> None:
    """A new subscription rings without one: what happened before it is not known, whatever came right after it."""
    bell = Notifications()
    bell.ring()
    bell.ring("{1}b")
    assert await bell.wait(0) == set()
    bell.ring("{1}b")
    assert await bell.wait(0) == {"{1}b"}
