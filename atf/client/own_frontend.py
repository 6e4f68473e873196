"""Gives a client whose address is a task store's a frontend within its own process (atf/direct), which it loads then and not before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from atf.config.store_urls import shown_url
from atf.errors import ConfigError, FailedPrecondition
from atf.runtime import Runtime

from .fork import FORK_GUARD

if TYPE_CHECKING:
    from atf.direct.blocking_channel import DirectBlockingChannel
    from atf.direct.channel import DirectChannel

_IN_EXECUTOR: Final = (
    "this process is an executor's, and its clients take no address of a task store: the code of users runs here, and must not hold the key to"
    " everybody's tasks. Give the HOST:PORT of a frontend, or none: ATF_FRONTEND is set"
)
_refused = False


def refuse_direct() -> None:
    """From now on no client of this process, which runs the code of users for others, gets a frontend of its own."""
    global _refused  # noqa: PLW0603  of the process, as what it runs is
    _refused = True


def open_frontend(url: str, runtime: Runtime, *, operator: bool = False) -> DirectChannel:
    """A channel to a frontend on this store, for event loops. It is opened by the first call; `operator` as of `opener`.

    Raises:
        ConfigError: the libraries of the extra `server` are missing.
        FailedPrecondition: see `refuse_direct`.
    """
    with _loading():
        from atf.direct.channel import DirectChannel
        from atf.direct.own_frontend import opener
    channel = DirectChannel(shown_url(url), opener(url, operator=operator), runtime)
    FORK_GUARD.add(channel)
    return channel


def open_blocking_frontend(url: str, seconds: float) -> DirectBlockingChannel:
    """A channel to a frontend on this store, for threads; each answer of the store may take so many seconds. Raises as `open_frontend`."""
    with _loading():
        from atf.direct.blocking_channel import DirectBlockingChannel
        from atf.direct.own_frontend import opener
    channel = DirectBlockingChannel(opener(url, blocking_s=seconds))
    FORK_GUARD.add(channel)
    return channel


@contextmanager
def _loading() -> Iterator[None]:
    if _refused:
        raise FailedPrecondition(_IN_EXECUTOR)
    with FORK_GUARD.loading():
        try:
            yield
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("atf"):
                raise
            raise ConfigError(
                f"a client that is given a task store's address needs the package {error.name}: pip install 'atf-tasks[server]', or give it the"
                " HOST:PORT of a frontend"
            ) from error
