"""Lists what ATF needs of a server's access control: the user that ships (atf.acl), what of it each role needs, and whether the present user may do
it all.

The trial changes nothing: commands that are queued in a transaction are checked for permission one by one, and then the
transaction is discarded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final, NamedTuple

import redis.exceptions as rx
from redis.asyncio.connection import AbstractConnection

from .check_results import CheckResult, ok, refuse, warn
from .connection import Link
from .refusals import translate
from .server_info import text

PLACEHOLDER: Final = "CHANGE-ME"
"""Stands in atf.acl for a password."""

_WHOLE: Final = "~atf:{*}*"
_BUT_TOKENS: Final = "~atf:{*}:[^t]* ~atf:{*}:t[^o]* ~atf:{*} ~atf:{*}:tom*"
"""All keys but those of the tokens: patterns of keys can only be added up."""
_LOADS: Final = "+function|load"
_SCANS: Final = "+scan"


class StoreUser(NamedTuple):
    """What a role needs of the user that ships."""

    keys: str
    less: tuple[str, ...]
    """Commands that it does without."""
    note: str
    """For whom it is, and what it can't do."""


STORE_USERS: Final[dict[str, StoreUser]] = {
    "server": StoreUser(
        _WHOLE, (), "for `atf server`, and for `atf store`, `atf doctor` and `atf token` on the store itself"
    ),
    "frontend": StoreUser(_WHOLE, (_SCANS,), "for frontends; it makes and revokes tokens"),
    "hsc": StoreUser(
        f"{_BUT_TOKENS} %R~atf:{{*}}:tokens ~atf:{{*}}:tokens:keys",
        (_LOADS, _SCANS),
        "for HSCs; it reads tokens and signs credentials, and can't make tokens or load functions",
    ),
    "store-consumer": StoreUser(
        f"{_BUT_TOKENS} %R~atf:{{*}}:tokens",
        (_LOADS, _SCANS),
        "for store consumers; it reads tokens, and can't make any, sign credentials or load functions",
    ),
    "direct": StoreUser(
        _BUT_TOKENS, (_LOADS, _SCANS), "for direct clients; it can't even read tokens, nor load functions"
    ),
}
"""The roles that know the task store. All others know a frontend or an HSC."""

_TASK: Final = "atf:{0}:t:0-doctor"
_QUEUE: Final = "rq:queue:{0}atf/doctor:1"
_CHANNEL: Final = "atf:{0}:notify:due"

SAMPLES: Final[dict[str, str]] = {
    # what roles call
    "+@connection": "PING",
    "+info": "INFO",
    "+config|get": "CONFIG GET appendonly",
    "+time": "TIME",
    "+cluster|nodes": "CLUSTER NODES",
    "+cluster|slots": "CLUSTER SLOTS",
    "+function|list": "FUNCTION LIST",
    "+function|load": "FUNCTION LOAD none",
    "+fcall": "FCALL none 1 atf:{0}",
    "+ssubscribe": f"SSUBSCRIBE {_CHANNEL}",
    "+scan": "SCAN 0",
    # what functions call in their name
    "+del": f"DEL {_TASK}",
    "+exists": f"EXISTS {_TASK}",
    "+get": f"GET {_TASK}",
    "+hdel": f"HDEL {_TASK} none",
    "+hexists": f"HEXISTS {_TASK} none",
    "+hget": f"HGET {_TASK} none",
    "+hgetall": f"HGETALL {_TASK}",
    "+hincrby": f"HINCRBY {_TASK} none 0",
    "+hmget": f"HMGET {_TASK} none",
    "+hset": f"HSET {_TASK} none 0",
    "+lindex": f"LINDEX {_TASK} 0",
    "+llen": f"LLEN {_QUEUE}",
    "+lpop": f"LPOP {_QUEUE}",
    "+lpos": f"LPOS {_QUEUE} none",
    "+lpush": f"LPUSH {_QUEUE} none",
    "+lrem": f"LREM {_TASK} 1 none",
    "+rpush": f"RPUSH {_QUEUE} none",
    "+sadd": "SADD rq:queues none",
    "+set": f"SET {_TASK} 0",
    "+smembers": "SMEMBERS rq:queues",
    "+spublish": f"SPUBLISH {_CHANNEL} none",
    "+srem": f"SREM {_TASK} none",
    "+zadd": f"ZADD {_TASK} 0 none",
    "+zcard": f"ZCARD {_TASK}",
    "+zcount": f"ZCOUNT {_TASK} 0 0",
    "+zmscore": f"ZMSCORE {_TASK} none",
    "+zrange": f"ZRANGE {_TASK} 0 0",
    "+zrank": f"ZRANK {_TASK} none",
    "+zrem": f"ZREM {_TASK} none",
    "+zscore": f"ZSCORE {_TASK} none",
}
"""What a user must be allowed, as rules of an ACL; each with a call that shows whether it is."""

_DENIED: Final = re.compile(r"to access (?:a|one of the) (key|channel)")
"""What servers say where it is not the command."""
_OPTIONAL: Final = {"+config|get", "+cluster|nodes", "+cluster|slots", _LOADS, _SCANS}
"""Needed by some stores or roles only, or missed by a warning of its own."""
_PATTERNS: Final = {"key": ("~atf:{*}*", "~rq:queue:{*}*", "~rq:queues"), "channel": ("&atf:{*}*",)}


def acl_user(password: str = PLACEHOLDER, role: str = "server") -> str:
    """The line of an ACL file that makes a user with all that a role needs and no more: `atf` for all of them, `atf-ROLE` for one."""
    assert __package__
    line = files(__package__).joinpath("atf.acl").read_text(encoding="ascii").strip()
    user = STORE_USERS[role]
    words = [user.keys if word == _WHOLE else word for word in line.split() if word not in user.less]
    words[1] = "atf" if role == "server" else f"atf-{role}"
    return " ".join(words).replace(PLACEHOLDER, password)


async def check(link: Link) -> CheckResult:
    """Whether the present user may do what ATF does.

    Raises:
        Unavailable: the server went away meanwhile.
    """
    try:
        connection = await link.pool.get_connection()
        try:
            return await _try(connection)
        except BaseException:
            await connection.disconnect(nowait=True)  # what was queued is gone with it
            raise
        finally:
            await link.pool.release(connection)
    except (rx.RedisError, OSError) as error:
        raise translate(error, link.where) from error


async def _try(connection: AbstractConnection) -> CheckResult:
    user, begun = await _ask(connection, ["ACL", "WHOAMI"], ["MULTI"])
    name = "?" if isinstance(user, rx.ResponseError) else text(user)
    if isinstance(begun, rx.ResponseError):
        return warn(
            "acl",
            name,
            "nobody can say whether this user may do all that ATF does, since it may not begin a transaction",
            f"ACL SETUSER {name} +multi +discard +acl|whoami",
        )
    tried = await _ask(connection, *(words.split(" ") for words in SAMPLES.values()), ["DISCARD"])
    answers = dict(zip(SAMPLES, tried[:-1], strict=True))
    return _judge(name, {rule: str(each) for rule, each in answers.items() if isinstance(each, rx.NoPermissionError)})


def _judge(user: str, denied: dict[str, str]) -> CheckResult:
    """The verdict, from the rules whose samples were denied and the server's words."""
    rules: list[str] = []
    for rule, words in denied.items():
        match = _DENIED.search(words)
        rules += _PATTERNS[match[1]] if match else [rule]
    missing = " ".join(dict.fromkeys(rules))
    if not set(rules) - _OPTIONAL:
        more = f" ({missing} would tell it more)" if missing else ""
        return ok("acl", user, f"this user may do all that ATF needs{more}")
    return refuse(
        "acl",
        user,
        f"this user may not do all that ATF does; it lacks {missing}",
        f"ACL SETUSER {user} {missing}, then ACL SAVE or CONFIG REWRITE; atf doctor --acl prints a whole user",
    )


async def _ask(connection: AbstractConnection, *commands: Sequence[str]) -> list[object]:
    """Sends some commands together. Their answers; a refusal is an answer, too."""
    await connection.send_packed_command(connection.pack_commands(commands))
    return [await _answer(connection) for _ in commands]


async def _answer(connection: AbstractConnection) -> object:
    try:
        return await connection.read_response()
    except rx.ResponseError as error:
        return error
