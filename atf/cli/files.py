"""Writes files of commands: one that is there is replaced only if that was asked for, and never by half a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TypeVar

import click

from atf.errors import InvalidArgument
from atf.runtime import SystemRuntime, new_id

F = TypeVar("F", bound=Callable[..., Any])


def overwrite_flag(what: str) -> Callable[[F], F]:
    """Adds --overwrite: the argument `overwrite` of the command.

    Args:
        what: the file, as the command's help names it.
    """
    return click.option("--overwrite", is_flag=True, help=f"Replace {what} if it is there.")


def check_free(path: Path, *, overwrite: bool) -> None:
    """Lets pass a path at which nothing would be lost; devices and pipes are such.

    Raises:
        InvalidArgument: a file is there, and it is not to be replaced.
    """
    if path.is_file() and not overwrite:
        raise InvalidArgument(f"{path} is there already: give another name, or --overwrite")


@contextmanager
def whole_file(path: Path, flag: str, *, overwrite: bool) -> Iterator[IO[str]]:
    """A text file that appears when all is in it. A device or a pipe, such as /dev/stdout, is written to as it is.

    Args:
        path: of the file.
        flag: that named it, for errors.
        overwrite: replace one that is there.

    Raises:
        InvalidArgument: it is there, or can't be written.
    """
    check_free(path, overwrite=overwrite)
    target = path.resolve()  # what a link names is replaced, and not the link
    unfinished = target.with_name(f".{new_id(SystemRuntime().random, 64)}.unfinished")
    try:
        if target.exists() and not target.is_file():
            with target.open("w", encoding="utf-8", newline="") as out:
                yield out
            return
        with unfinished.open("w", encoding="utf-8", newline="") as out:
            yield out
        check_free(path, overwrite=overwrite)  # somebody else may have been quicker
        unfinished.replace(target)
    except OSError as error:
        raise InvalidArgument(f"{flag} {path}: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
