"""Keeps who is signed in: a token for each browser that has shown one, known by a cookie of 32 random bytes.

The token stays in this process; the browser gets a name for it that is good here alone, and for a while. What a session may do is decided by
whoever answers its calls, each time: a token that is revoked ends its sessions with their next look.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from atf.auth.grants import Verb
from atf.auth.routes import rule_of_action
from atf.rpc import api, frontend_pb2 as f
from atf.runtime import Runtime, new_id

from .log_watch import LogWatches
from .reads import SharedReads
from .samples import Samples

COOKIE: Final = "atf_session"
IDLE_S: Final = 3_600.0
"""Seconds without a look after which a session is over."""
LIFE_S: Final = 12 * 3_600.0
"""Seconds after which it is over in any case."""
MOST: Final = 1_000
"""Sessions at a time; the one that was looked at least lately gives way."""
MOST_OF_ONE: Final = 50
"""Of them by one token: who signs in again and again ends only their own."""


class Desk:
    """What the pages of one reader are made from: nothing that was read for one is shown to another.

    Attributes:
        read, samples, logs: see there.
    """

    def __init__(self, frontend: api.Frontend, runtime: Runtime, samples: Samples | None = None) -> None:
        self.samples = samples or Samples(frontend, SharedReads(runtime), runtime)
        self.read = self.samples.read
        self.logs = LogWatches(frontend, runtime)


@dataclass
class Session:
    """Somebody who is signed in.

    Attributes:
        token: what its calls show. Its `repr` does not.
        caller: who that is, and what it may do.
        desk: what its pages are made from.
        begun, seen: on the monotonic clock.
    """

    token: str
    caller: f.CallerInfo
    desk: Desk
    begun: float
    seen: float

    def __repr__(self) -> str:
        return f"Session({self.caller.name})"

    def may_do(self, action: str) -> bool:
        """Whether it has the verb of what an action calls for anything at all."""
        verb = rule_of_action(action).verb
        return self.caller.everything or verb is None or {verb, Verb.ADMIN} & set(self.caller.verbs) != set()


class Sessions:
    """The sessions of one process.

    Args:
        frontend: what their pages show.
        runtime: clocks and chance.
    """

    def __init__(self, frontend: api.Frontend, runtime: Runtime) -> None:
        self._frontend, self._runtime = frontend, runtime
        self._open: OrderedDict[str, Session] = OrderedDict()

    def begin(self, token: str, caller: f.CallerInfo) -> str:
        """Somebody has shown a token that is good; gives the cookie's value."""
        now, name = self._runtime.monotonic(), new_id(self._runtime.random, 256)
        own = [each for each, session in self._open.items() if session.caller.name == caller.name]
        if len(own) >= MOST_OF_ONE:
            del self._open[own[0]]
        elif len(self._open) >= MOST:
            self._open.popitem(last=False)
        self._open[name] = Session(token, caller, Desk(self._frontend, self._runtime), now, now)
        return name

    def of(self, cookie: str) -> Session | None:
        """The session of a cookie, which is looked at now; None: it is over, or there is none."""
        session, now = self._open.get(cookie), self._runtime.monotonic()
        if session is None:
            return None
        if now - session.seen > IDLE_S or now - session.begun > LIFE_S:
            self.end(cookie)
            return None
        session.seen = now
        self._open.move_to_end(cookie)
        return session

    def end(self, cookie: str) -> None:
        """Ends a session; there may be none."""
        self._open.pop(cookie, None)
