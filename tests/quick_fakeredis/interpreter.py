"""One Lua interpreter for all servers of a process: to make one, and to load the store's library into it, takes longer than most tests.

A real server keeps its interpreter and its library from test to test, too: functions keep nothing between calls. A server has a list of
libraries of its own, so that one knows nothing of what another loaded.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

from fakeredis.commands_mixins import scripting_mixin
from fakeredis.commands_mixins._lua_functions import FunctionLibrary, FunctionsEngine, LuaFunction

from . import direct

_ONE_CALL: Final = threading.RLock()
"""A server runs one function at a time; servers that share an interpreter do so together, whatever their threads."""
_shared: dict[Any, FunctionsEngine] = {}
_loaded: dict[tuple[Any, bytes], FunctionLibrary] = {}
_prepared: list[FunctionsEngine] = []
reach: Final = direct.Reach()
"""What the function that is being called may touch."""


class SharedEngine(FunctionsEngine):
    """The libraries of one server, in the interpreter of all."""

    def __init__(self, lua_module: Any, server_type: Any, version: Any, *more: Any) -> None:
        self._kind = server_type, version
        with _ONE_CALL:
            if self._kind not in _shared:
                _shared[self._kind] = FunctionsEngine(lua_module, server_type, version, *more)
        self._engine = _shared[self._kind]
        self._server_type, self._version = server_type, version
        self.runtime = self._engine.runtime
        self.libraries = {}

    def _create_library(self, name: bytes, code: bytes, body: bytes) -> FunctionLibrary:
        key = self._kind, code
        with _ONE_CALL:
            if key not in _loaded:
                _loaded[key] = self._engine._create_library(name, code, body)
                if self._engine not in _prepared:
                    _prepared.append(self._engine)
                    direct.put_before(self._engine, _loaded[key], reach)
        return _loaded[key]

    def call(
        self, caller: Any, function: LuaFunction, keys: Sequence[bytes], args: Sequence[bytes], read_only: bool
    ) -> Any:
        with _ONE_CALL:
            reach.data, reach.touched = caller._db._dict, getattr(caller._server, "touched", None)
            return self._engine.call(caller, function, keys, args, read_only)


def watch(server: Any) -> dict[bytes, None]:
    """Answers the keys of tasks that functions write on a server from now on; whoever has looked at them clears it."""
    server.touched = {}  # in the order in which they were written, whatever the order of hashes
    touched: dict[bytes, None] = server.touched
    return touched


def install() -> None:
    """For servers that are made from now on."""
    place: Any = scripting_mixin  # which imports the name for itself alone
    assert hasattr(place, "FunctionsEngine"), "fakeredis makes its interpreters elsewhere"
    place.FunctionsEngine = SharedEngine
