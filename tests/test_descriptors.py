"""A process that has used up its file descriptors says so, and not that others are away."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import pytest
import redis.exceptions as rx

from atf.process import descriptors
from atf.store.servers.refusals import translate
from atf.testing.runtime import VirtualRuntime
from tests.virtual import virtual


@contextmanager
def used_up() -> Iterator[None]:
    """Within the block nothing more can be opened."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def caused(by: Exception) -> Exception:
    try:
        try:
            raise by
        except Exception as error:
            raise RuntimeError("no connection") from error
    except RuntimeError as error:
        return error


class Mute(Exception):
    """Of a user."""

    def __str__(self) -> str:
        raise ValueError("no")


@pytest.mark.parametrize(
    ("error", "is_it"),
    [
        (OSError(errno.EMFILE, "x"), True),
        (OSError(errno.ENFILE, "x"), True),
        (caused(OSError(errno.EMFILE, "x")), True),
        (rx.ConnectionError("Error 24 connecting to 10.0.0.5:6379. Too many open files."), True),
        ("last error: UNKNOWN: Too many open files", True),
        (OSError(errno.ECONNREFUSED, "Connection refused"), False),
        (caused(ValueError("no")), False),
        (caused(Mute()), False),
    ],
    ids=repr,
)
def test_which_errors_say_that_no_descriptors_are_left(error: Exception | str, *, is_it: bool) -> None:
    assert descriptors.is_out_of_descriptors(error) is is_it


def test_the_sentence_names_the_process_the_limit_and_what_to_do() -> None:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    said = descriptors.error_text(OSError(errno.EMFILE, "Too many open files"))
    assert f"process {os.getpid()} has used up its {limit} file descriptors" in said
    assert "ulimit -n" in said
    assert "LimitNOFILE=" in said
    assert descriptors.error_text(ValueError("no")) == "no"


def test_a_store_that_can_not_be_connected_to_for_that_is_not_called_away() -> None:
    said = str(translate(rx.ConnectionError("Error 24 connecting to s:1. Too many open files."), "s:1"))
    assert "file descriptors" in said
    assert "can't be reached" not in said
    assert "can't be reached" in str(translate(rx.ConnectionError("Connection refused"), "s:1"))


def test_none_is_free_at_the_limit_and_just_below() -> None:
    assert not descriptors.has_no_descriptors()
    with used_up():
        assert descriptors.has_no_descriptors()
    lowest = os.open(os.devnull, os.O_RDONLY)
    os.close(lowest)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest + descriptors.SPARE, hard))
        assert descriptors.has_no_descriptors()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Log:
    """Notes when it was told what."""

    def __init__(self, runtime: VirtualRuntime) -> None:
        self.lines: list[tuple[float, str]] = []
        self._runtime = runtime

    def error(self, event: str, **_fields: object) -> None:
        self.lines.append((self._runtime.monotonic(), event))


@asynccontextmanager
async def world(runtime: VirtualRuntime) -> AsyncIterator[VirtualRuntime]:
    yield runtime


@virtual(world)
async def test_it_is_said_once_a_minute_while_it_lasts(runtime: VirtualRuntime) -> None:
    full = [False]
    log = Log(runtime)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(descriptors, "has_no_descriptors", lambda: full[0])
        watch = runtime.spawn(descriptors.watch(runtime, log), name="watch")
        began = runtime.monotonic()
        await asyncio.sleep(10)
        assert log.lines == []
        full[0] = True
        await asyncio.sleep(125)
        assert [(round(at - began), event) for at, event in log.lines] == [
            (each, "out of file descriptors") for each in (10, 70, 130)
        ]
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
