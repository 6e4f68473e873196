"""The doors of an `atf server`: gRPC, Dapr's HTTP port, the metrics, the pages and their login. Each is tried with what shows nothing valid.

A try gives the answer in a word: a gRPC status, an HTTP status, or that the connection was ended. What is not in EXPECTED is a finding.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

import grpc

from . import raw_http2 as raw
from .shown import ValidSecrets, cookies, damaged, header, metadata

ENDED: Final = "ended"
"""The connection, or the stream, without an answer: what came was no HTTP."""
SILENT: Final = "silent"
_SECONDS: Final = 10.0
_METHODS: Final = (
    "/atf.v1.Frontend/ListTasks",
    "/atf.v1.Frontend/Schedule",
    "/atf.v1.Frontend/CreateToken",
    "/atf.v1.HSC/NextClaims",
    "/atf.v1.HSC/IssueCredential",
    "/dapr.proto.runtime.v1.Dapr/GetJobAlpha1",
)
_CODES: Final[Mapping[str, str]] = {str(code.value[0]): code.name for code in grpc.StatusCode}
_PAGES: Final = ("/", "/tasks", "/tasks/0-x", "/find?q=a", "/login", "/prefs?zone=UTC", "/logout")
_CSRF: Final = "c" * 64


@dataclass(frozen=True)
class Addresses:
    """Where the doors are, host:port."""

    rpc: str
    dapr: str
    metrics: str
    pages: str


Try = Callable[[Addresses, random.Random, ValidSecrets], Awaitable[str]]


async def call(address: str, path: str, more: Sequence[tuple[str, str | bytes]]) -> str:
    """A gRPC call with these headers; its status."""
    connection = await raw.RawConnection.open(address)
    try:
        request = raw.Frame(raw.DATA, raw.END_STREAM, 1, raw.message(b"")).packed()
        connection.send(raw.call(path, 1, more) + request)
        while True:
            frame = await connection.frame(raw.HEADERS, raw.RESET, raw.GOAWAY)
            if frame.kind != raw.HEADERS:
                return ENDED
            found = re.search(rb"grpc-status[\x01\x02]([0-9]{1,2})", frame.data)
            if found:
                code = _CODES[found[1].decode()]
                return code if b"grpc-status-details-bin" in frame.data or code == "OK" else f"{code} of gRPC"
    except (ConnectionError, asyncio.IncompleteReadError):
        return ENDED
    except TimeoutError:
        return SILENT
    finally:
        await connection.close()


async def ask(address: str, line: str, headers: Sequence[tuple[str, str]], body: str = "") -> str:
    """A request by HTTP; its status."""
    answer = await answered(address, line, headers, body)
    return answer if answer in {ENDED, SILENT} else answer.split()[1]


async def answered(address: str, line: str, headers: Sequence[tuple[str, str]], body: str = "") -> str:
    """The head of the answer to it."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    head = "".join(f"{name}: {value}\r\n" for name, value in headers)
    text = f"{line} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {len(body)}\r\n{head}\r\n{body}"
    try:
        writer.write(text.encode("latin-1"))
        async with asyncio.timeout(_SECONDS):
            answer = await reader.readuntil(b"\r\n\r\n")
        return answer.decode("latin-1") if answer.startswith(b"HTTP/") else ENDED
    except (ConnectionError, asyncio.IncompleteReadError):
        return ENDED
    except TimeoutError:
        return SILENT
    finally:
        writer.close()


async def _rpc(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    sent = [(name.lower(), value.encode("latin-1")) for name, value in metadata(chance, valid)]
    return await call(at.rpc, chance.choice(_METHODS), sent)


async def _dapr(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    body = chance.choice(("", '{"schedule": "@daily"}'))
    return await ask(at.dapr, f"{'POST' if body else 'GET'} /v1.0/jobs/x", metadata(chance, valid), body)


async def _metrics(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    return await ask(at.metrics, "GET /metrics", [("Authorization", header(chance, damaged(chance, valid)))])


async def _page(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    return await ask(at.pages, f"GET {chance.choice(_PAGES)}", [("Cookie", cookies(chance, valid))])


async def _action(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    form = {"csrf": chance.choice((_CSRF, damaged(chance, valid))), "lambda": "a/b", "next": damaged(chance, valid)}
    path = chance.choice(("/do/pause-lambda", "/logout"))
    return await ask(at.pages, f"POST {path}", *_form(at, form, cookies(chance, valid)))


async def _login(at: Addresses, chance: random.Random, valid: ValidSecrets) -> str:
    form = {"csrf": _CSRF, "token": damaged(chance, valid), "next": damaged(chance, valid)}
    return await ask(at.pages, "POST /login", *_form(at, form, chance.choice(("", cookies(chance, valid)))))


async def sign_in(at: Addresses, token: str) -> str:
    """Signs in at the pages; the cookie of the session."""
    answer = await answered(at.pages, "POST /login", *_form(at, {"csrf": _CSRF, "token": token}, ""))
    found = re.search("atf_session=([0-9a-f]{64})", answer)
    assert found, answer
    return found[1]


def _form(at: Addresses, form: Mapping[str, str], more: str) -> tuple[list[tuple[str, str]], str]:
    """Headers and body of a form that one of the pages sends."""
    headers = [
        ("Origin", f"http://{at.pages}"),
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Cookie", f"atf_csrf={_CSRF}" + (f"; {more}" if more else "")),
    ]
    return headers, urlencode(form, encoding="latin-1")


DOORS: Final[Mapping[str, Try]] = {
    "gRPC": _rpc,
    "Dapr's HTTP": _dapr,
    "metrics": _metrics,
    "page": _page,
    "action": _action,
    "login": _login,
}
_NOT_READ: Final = {"400", "431", ENDED}
EXPECTED: Final[Mapping[str, set[str]]] = {
    # gRPC itself refuses headers that no call may have, and too large ones.
    "gRPC": {"UNAUTHENTICATED", "INTERNAL of gRPC", "RESOURCE_EXHAUSTED of gRPC", ENDED},
    "Dapr's HTTP": {"401", *_NOT_READ},
    "metrics": {"401", "431", *_NOT_READ},
    "page": {"303", "200", "405", *_NOT_READ},
    "action": {"303", "403", "413", *_NOT_READ},
    "login": {"401", "403", "413", *_NOT_READ},
}
"""By door: every refusal that there may be. A page is 200 where it is for everybody, and 303 leads to the login."""
