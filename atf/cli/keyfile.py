"""Commands on the key file of clients and executors: new, ls, add, rotate, drop. They ask nobody, and print no key."""

from __future__ import annotations

import click

from atf.codec.key_file import Keys, new_keys, read_keys, rotated, with_key, without_key, write_keys
from atf.errors import InvalidArgument

from .output import show


@click.group()
def keyfile() -> None:
    """The file of keys that clients and executors encrypt by, so that nobody else reads what tasks carry."""


@keyfile.command()
@click.argument("path", metavar="FILE")
def new(path: str) -> None:
    """Make FILE with one key. Copy it to clients and executors, never to a frontend, and name it there: ATF_CODEC_KEYS."""
    keys = new_keys()
    write_keys(path, keys, new=True)
    _show(path, keys)


@keyfile.command()
@click.argument("path", metavar="FILE")
def ls(path: str) -> None:
    """Say which keys FILE has, by their ids: the one that encrypts, and those that only decrypt. So you see whether two hosts have the same file."""
    _show(path, read_keys(path))


@keyfile.command()
@click.argument("path", metavar="FILE")
def add(path: str) -> None:
    """Add a key to FILE that only decrypts. Copy the file to all clients and executors, then: atf keyfile rotate FILE"""
    _write(path, with_key(read_keys(path)))


@keyfile.command()
@click.argument("path", metavar="FILE")
def rotate(path: str) -> None:
    """Have the key of FILE that was added last encrypt from now on. The others still decrypt."""
    keys = read_keys(path)
    if len(keys.by_id) == 1:
        raise InvalidArgument(f"{path} has one key. Add one first, and copy the file to all: atf keyfile add {path}")
    _write(path, rotated(keys))


@keyfile.command()
@click.argument("path", metavar="FILE")
@click.argument("key_id", metavar="ID")
def drop(path: str, key_id: str) -> None:
    """Take the key ID out of FILE. Keep a copy: what that key encrypted can't be read without it, and its tasks wait until it is back."""
    _write(path, without_key(read_keys(path), key_id))


def _write(path: str, keys: Keys) -> None:
    write_keys(path, keys, new=False)
    _show(path, keys)


def _show(path: str, keys: Keys) -> None:
    first, *others = keys.by_id
    more = f"; {', '.join(others)} only decrypt" if others else ""
    show({"file": path, "encrypts": first, "decrypt": [*keys.by_id]}, f"{path}: {first} encrypts{more}")
