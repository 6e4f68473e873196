"""Commands done on fakeredis's data itself, beside fakeredis: what they answer, and what they leave."""

from __future__ import annotations

import functools
import random
from collections.abc import Iterator, Sequence
from typing import Any, Final

import fakeredis
import pytest
from fakeredis._helpers import SimpleError
from fakeredis.commands_mixins import scripting_mixin
from fakeredis.commands_mixins._lua_functions import FunctionsEngine

from . import plans, watch

PROBE: Final = """#!lua name=probe
redis.register_function('probe', function(keys, args)
  for i, each in ipairs(args) do
    if string.sub(each, 1, 1) == '#' then args[i] = tonumber(string.sub(each, 2)) end
  end
  local reply = redis.call(unpack(args))
  return {type(reply), type(reply) == 'table' and #reply or 0, reply}
end)"""
"""Calls one command, and tells what comes of it. "#7" stands for the number."""
KEYS: Final = ("zset 1", "zset 2", "hash:t:1", "hash 2", "list", "none")
WORDS: Final = ("a", "b", "c", "7", "#7")
SCORES: Final = ("0", "5", "7", "12", "#7", "-3", "1.5", "inf", "(7")


class Server:
    """A server of fakeredis, called by a function."""

    def __init__(self, *, directly: bool) -> None:
        fake: Any = fakeredis.FakeServer(version=(7, 4))
        self.client = fakeredis.FakeRedis(server=fake)
        self.touched: dict[bytes, None] = {}
        if directly:
            self.touched = watch(fake)
        else:
            made = scripting_mixin
            fake._lua_functions = FunctionsEngine(
                made.LUA_MODULE,
                "redis",
                (7, 4),
                made._lua_redis_log,
                made._lua_cjson_encode,
                made._lua_cjson_decode,
                None,
            )
        self.client.execute_command("FUNCTION", "LOAD", PROBE)  # type: ignore[no-untyped-call]
        self.client.rpush("list", "one")
        connection: Any = self.client.connection_pool.get_connection()
        self.sock = connection._sock
        if not directly:
            self.sock._function_redis_call = functools.partial(plans.ORDINARY, self.sock)

    def call(self, command: Sequence[str]) -> Any:
        try:
            with self.sock._server.lock:
                return self.sock._fcall(
                    "fcall", b"probe", b"0", [each.encode() for each in command], read_only_command=False
                )
        except SimpleError as error:
            return error.value

    def content(self) -> list[tuple[bytes, list[Any]]]:
        values = [(key, item.value) for key, item in self.sock._db._dict.items()]
        return [(key, value if isinstance(value, list) else list(value.items())) for key, value in values]


def commands(chance: random.Random) -> Iterator[list[str]]:
    """Commands without end, such as the store's functions give, and some that are a little different."""

    def some(of: Sequence[str], least: int = 1) -> list[str]:
        return chance.choices(of, k=chance.randrange(least, 4))

    def pairs(of: Sequence[str]) -> list[str]:
        return [chance.choice(each) for _ in range(chance.randrange(1, 3)) for each in (of, WORDS)]

    while True:
        key, score = chance.choice(KEYS), chance.choice(SCORES)
        limit = chance.choice(
            ([], ["LIMIT", "#0", "2"], ["LIMIT", "#0", "#1"], ["LIMIT", "#0", "#-1"], ["LIMIT", "1", "2"])
        )
        yield from (
            ["ZCARD", key],
            ["ZCOUNT", key, chance.choice(("-inf", "3")), score],
            ["ZADD", key, *chance.choice(([], ["LT"], ["NX"], ["CH"])), *pairs(SCORES)],
            ["ZREM", key, *some(WORDS)],
            ["ZRANGE", key, "#0", chance.choice(("#0", "#-1")), *chance.choice(([], ["WITHSCORES"]))],
            ["ZRANGE", key, chance.choice(("-inf", "(5")), score, "BYSCORE", *limit],
            ["EXISTS", *some(KEYS)],
            ["LLEN", key],
            ["HGET", key, chance.choice(WORDS)],
            ["HMGET", key, *some(WORDS)],
            ["HSET", key, *pairs(WORDS)],
        )
        if chance.random() < 0.1:
            yield ["DEL", key]


@pytest.mark.parametrize("seed", range(3))
def test_commands_done_directly_answer_and_leave_what_fakeredis_does(seed: int) -> None:
    fast, ordinary = Server(directly=True), Server(directly=False)
    for command, _ in zip(commands(random.Random(seed)), range(2_000), strict=False):
        assert fast.call(command) == ordinary.call(command), command
        assert fast.content() == ordinary.content(), command
    assert fast.touched.keys() == {b"hash:t:1"}


def test_the_commands_are_done_directly() -> None:
    server = Server(directly=True)
    server.sock._function_redis_call = None  # what fakeredis's own way calls
    for command in (
        ["ZADD", "zset 1", "5", "a"],
        ["ZADD", "zset 1", "LT", "7", "a"],
        ["ZCARD", "zset 1"],
        ["ZCOUNT", "zset 1", "-inf", "5"],
        ["ZRANGE", "zset 1", "#0", "#0", "WITHSCORES"],
        ["ZRANGE", "zset 1", "-inf", "5", "BYSCORE", "LIMIT", "#0", "2"],
        ["ZREM", "zset 1", "a"],
        ["EXISTS", "zset 1"],
        ["LLEN", "list"],
        ["HSET", "hash 2", "a", "b"],
        ["HGET", "hash 2", "a"],
        ["HMGET", "hash 2", "a", "b"],
    ):
        server.call(command)
