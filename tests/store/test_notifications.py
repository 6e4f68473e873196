"""Notifications by themselves: what one who waits gets of several."""

from __future__ import annotations

from atf.store.servers.notifications import Notifications


async def test_a_waiter_hears_all_messages_since_its_last_look() -> None:
    notifications = Notifications()
    notifications.notify("{0}a")
    notifications.notify("{1}b", "{0}a")
    assert await notifications.wait(0) == {"{0}a", "{1}b"}
    notifications.notify("{0}c")
    assert await notifications.wait(0) == {"{0}c"}


async def test_a_message_does_not_hide_that_others_may_have_been_missed() -> None:
    """A new subscription wakes its listener without one: what happened before it is not known, whatever came right after it."""
    notifications = Notifications()
    notifications.notify()
    notifications.notify("{1}b")
    assert await notifications.wait(0) == set()
    notifications.notify("{1}b")
    assert await notifications.wait(0) == {"{1}b"}
