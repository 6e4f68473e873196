"""Which functions of the store a test calls, for tests of how few there are."""

from __future__ import annotations

from typing import Any

import pytest

from atf.store.store import Store


def note_calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all that are called from now on, in order."""
    called: list[str] = []
    whole = Store._call

    async def call(self: Store, verb: str, *args: Any, **options: Any) -> Any:
        called.append(verb)
        return await whole(self, verb, *args, **options)

    monkeypatch.setattr(Store, "_call", call)
    return called
