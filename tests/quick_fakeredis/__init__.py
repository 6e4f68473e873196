"""fakeredis at a fraction of its price: most of what unit tests and the simulation cost is its way from a command to its handler.

- `commands.py`: how a command that comes over a connection is read, looked up and prepared.
- `interpreter.py`: one Lua interpreter for all servers of the process, in which a library is loaded once.
- `plans.py`: how a command that a function calls is prepared, worked out once for each command and number of arguments.
- `inside.py`: what it holds, for those who look at it past its commands.
- `direct.py`: the few commands that functions call all the time, done on fakeredis's data itself.

The commands are fakeredis's own, on its own data; whatever is out of the ordinary goes fakeredis's own way. Nothing that a function
touches may expire, and nobody may wait for a key of it. tests/store/test_contract.py compares what comes of it with real servers.
"""

from __future__ import annotations

from . import commands, inside, interpreter, plans
from .interpreter import watch

__all__ = ["inside", "install", "watch"]


def install() -> None:
    """From now on, in this process. Twice is as good as once."""
    commands.install()
    plans.install()
    interpreter.install()
