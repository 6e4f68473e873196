"""Requests as they are asked for, and answers as they are judged: pure."""

from __future__ import annotations

import email.utils
import math
from typing import Any

import msgspec
import pytest

import atf
from atf.builtin import http_request
from atf.builtin.http_answer import MAX_BODY_BYTES, MAX_RETRY_AFTER_S, HttpAnswer, error_of, result_of, retry_after_s
from atf.builtin.http_request import MAX_ADDRESSES, Request, checked_request, without_sent
from atf.errors import InvalidArgument
from atf.task import MAX_RESULT_BYTES

WALL_US = 1_767_225_600_000_000


def request(url: Any = "http://a.example/x", **given: Any) -> Request:
    asked: dict[str, Any] = {"method": "POST", "headers": None, "body": None, "timeout": 30.0, **given}
    return checked_request(url, **asked)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"method": "CONNECT"}, "method"),
        ({"method": "GET /"}, "method"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": math.nan}, "timeout"),
        ({"timeout": math.inf}, "timeout"),
        ({"timeout": 86_401}, "timeout"),
        ({"url": []}, "url"),
        ({"url": ["http://a.example"] * (MAX_ADDRESSES + 1)}, "url"),
        ({"url": [["http://a.example"]]}, "url"),
        ({"url": "ftp://a.example"}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"url": "//a.example"}, "url"),
        ({"url": "http:a.example"}, "url"),
        ({"url": "http://"}, "url"),
        ({"url": "http://user:hush@a.example"}, "url"),
        ({"url": "http://a.example@b.example"}, "url"),
        ({"url": "http://a.example\\@b.example"}, "url"),
        ({"url": "http://a.example/\r\nHost: b"}, "url"),
        ({"url": "http://a.example/a b"}, "url"),
        ({"url": "http://a.example/\u202e"}, "url"),
        ({"url": "http://127.1/"}, "url"),
        ({"url": "http://a.example/" + "x" * 9_000}, "url"),
        ({"headers": {"Host": "b.example"}}, "Host"),
        ({"headers": {"content-length": "3"}}, "content-length"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "Transfer-Encoding"),
        ({"headers": {"Connection": "close"}}, "Connection"),
        ({"headers": {"Accept-Encoding": "gzip"}}, "Accept-Encoding"),
        ({"headers": {"ATF-Fence": "9"}}, "ATF-Fence"),
        ({"headers": {"X-A": "1", "x-a": "2"}}, "x-a"),
        ({"headers": {"X A": "1"}}, "headers"),
        ({"headers": {"": "1"}}, "headers"),
        ({"headers": {"X-A:": "1"}}, "headers"),
        ({"headers": {"X-A": "hush\r\nX-B: 2"}}, "X-A"),
        ({"headers": {"X-A": "hush\0"}}, "X-A"),
        ({"headers": {"X-A": "hush ü"}}, "X-A"),
        ({"headers": {"X-A": 3}}, "X-A"),
        ({"body": "\ud800"}, "body"),
        ({"body": object()}, "body"),
    ],
)
def test_a_bad_argument_is_refused_by_name_and_no_secret_is_repeated(given: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        request(**given)
    assert named in str(refused.value)
    assert "hush" not in str(refused.value)


def test_a_body_says_what_it_is_unless_the_user_does() -> None:
    assert (request(body="hi").body, request(body="hi").headers) == (
        b"hi",
        {"Content-Type": "text/plain; charset=utf-8"},
    )
    assert (request(body={"a": [1, None]}).body, request(body=0).headers) == (
        b'{"a":[1,null]}', {"Content-Type": "application/json"},
    )  # fmt: skip
    assert request(body=[1], headers={"content-type": "application/x"}).headers == {"content-type": "application/x"}
    assert (request().body, request().headers) == (None, {})


def test_addresses_are_known_by_their_origin_or_where_that_is_not_enough_by_their_path() -> None:
    assert [each.key for each in request(["http://a.example/x?k=1", "https://B.example:8443/y", "http://[::1]"]).addresses] == [
        "http://a.example:80", "https://b.example:8443", "http://[::1]:80",
    ]  # fmt: skip
    same = request(["http://a.example/x?k=1", "http://a.example/y", "http://a.example/y?k=2"]).addresses
    assert [each.key for each in same] == ["http://a.example/x", "http://a.example/y"]
    assert request("http://a.example/x?k=1#f").addresses[0].url == "http://a.example/x?k=1"


def test_a_task_of_it_is_prepared_without_an_app_and_checked_where_it_is_made() -> None:
    prepared = http_request("http://a.example/x", body={"n": 1})
    assert getattr(prepared.request.spec, "lambda") == "atf/http"
    assert msgspec.json.decode(prepared.request.spec.payload)["body"] == {"n": 1}
    with pytest.raises(InvalidArgument, match="method"):
        http_request("http://a.example/x", method="BREW")
    assert isinstance(prepared, atf.Prepared)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("7", 7), (" 7 ", 7), ("0", None), ("", None), ("-5", None), ("1.5", None), ("soon", None), ("\u0667", None), ("9" * 5_000, None),
        ("9" * 18, MAX_RETRY_AFTER_S), ("86401", MAX_RETRY_AFTER_S),
        (email.utils.formatdate(WALL_US / 1e6 + 90, usegmt=True), 90),
        (email.utils.formatdate(WALL_US / 1e6 - 90, usegmt=True), None),
        ("Thursday, 01-Jan-26 00:00:30 GMT", 30), ("Thu Jan  1 00:00:30 2026", 30),
        ("Thu, 99 Jan 2026 00:00:30 GMT", None), ("Thu, 01 Jan 9999 00:00:30 GMT", MAX_RETRY_AFTER_S),
    ],
)  # fmt: skip
def test_retry_after_is_seconds_or_a_date_within_bounds(text: str, seconds: float | None) -> None:
    assert retry_after_s({"Retry-After": text}, WALL_US) == seconds


def test_a_date_counts_by_the_clock_of_whoever_wrote_it() -> None:
    far = WALL_US / 1e6 + 1e6
    headers = {
        "Retry-After": email.utils.formatdate(far + 20, usegmt=True),
        "Date": email.utils.formatdate(far, usegmt=True),
    }
    assert retry_after_s(headers, WALL_US) == 20


@pytest.mark.parametrize(
    "body",
    [
        b"x" * MAX_BODY_BYTES,
        b"\0" * MAX_BODY_BYTES,
        b"\xff" * MAX_BODY_BYTES,
        b'"' * 30_000,
        "ü".encode() * 24_000,
        b"x" * 24_000 + b"\0" * 24_000,
    ],
)
def test_whatever_a_body_holds_the_result_has_room_for_it(body: bytes) -> None:
    answer = HttpAnswer(200, {"Content-Type": "text/plain" * 1_000}, body, truncated=False)
    result = result_of(answer, "http://" + "a" * 253)
    assert len(msgspec.json.encode(result)) <= MAX_RESULT_BYTES
    assert len(msgspec.json.encode(result["body"])) > MAX_BODY_BYTES * 0.98 or result["body"] == answer.text()
    assert result["truncated"] == (result["body"] != answer.text())


def test_a_body_is_text_in_its_own_letters() -> None:
    assert HttpAnswer(200, {}, b"\xfc", False, "ISO-8859-1").text() == "ü"
    assert HttpAnswer(200, {}, b"\xfc", False, "idna").text() == "\ufffd"
    assert HttpAnswer(200, {}, "ü".encode(), False).text() == "ü"


def test_an_error_shows_the_beginning_of_the_body_and_nothing_that_acts_or_is_secret() -> None:
    answer = HttpAnswer(404, {}, b"no \x1b[31msuch thing; you sent: Bearer s3cr3t-token " + b"x" * 9_999, True)
    asked = request(headers={"Authorization": "Bearer s3cr3t-token"})
    text = error_of(answer, "http://a.example:80", "", lambda said: without_sent(said, asked))
    assert text.startswith("http://a.example:80 answered 404 Not Found: no \\x1b[31msuch thing; you sent: [hidden] xxx")
    assert len(text) < 700
    assert error_of(HttpAnswer(599, {}, b"", False), "o", "") == "o answered 599"


@pytest.mark.parametrize(
    ("given", "echoed", "shown"),
    [
        ({"headers": {"X-Key": "s3cr3t-token"}}, "bad key s3cr3t-token!", "bad key [hidden]!"),
        (
            {"body": {"card": "4111111111111111", "n": 1}},
            '{"card":"4111111111111111","n":1}',
            '{"card":"[hidden]","n":1}',
        ),
        ({"body": {"cards": [{"number": 4111111111111111}]}}, "no card 4111111111111111", "no card [hidden]"),
        (
            {"body": {"name": 'Ada "Countess" Lovelace'}},
            '"Ada \\"Countess\\" Lovelace" and Ada "Countess"',
            '"[hidden]" and [hidden]',
        ),
        ({"body": {"customer_id": "x"}}, "customer_id is no number", "customer_id is no number"),
        ({"body": "card=4111+1111+1111+1111&n=1"}, "no 4111 1111 1111 1111", "no [hidden]"),
        ({"body": "Zanzibar" * 5_000}, "Zanzibar" * 60, "[hidden]"),
        ({"body": "[" * 5_000}, "[" * 100, "[hidden]"),
        ({"url": "http://a.example/hooks/T0/s3cr3tword?k=hush%20hush"}, "no /hooks/T0/s3cr3tword", "no [hidden]"),
        ({"url": "http://a.example/x?k=hush%20hush"}, "k is hush hush", "k is [hidden]"),
        ({"body": "1234567"}, "1234567", "1234567"),
    ],
)
def test_an_error_hides_what_the_target_echoes(given: dict[str, Any], echoed: str, shown: str) -> None:
    asked = request(**given)
    text = error_of(HttpAnswer(400, {}, echoed.encode(), False), "o", "", lambda said: without_sent(said, asked))
    assert text == f"o answered 400 Bad Request: {shown}"


def test_a_redirect_that_repeats_the_path_hides_it() -> None:
    asked = request("http://a.example/hooks/s3cr3tword")
    answer = HttpAnswer(301, {"Location": "/hooks/s3cr3tword/"}, b"", False)
    text = error_of(answer, "o", asked.addresses[0].url, lambda said: without_sent(said, asked))
    assert text.endswith("it points to http://a.example[hidden]/")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("/there?token=hush", "http://a.example/there"),
        ("https://u:hush@evil.example/x?hush", "https://evil.example/x"),
        ("//[bad", "no URL"),
        ("", "nowhere"),
        ("/a\x1b[2J", "http://a.example/a\\x1b[2J"),
    ],
)
def test_a_redirect_says_where_it_pointed_but_no_secret(location: str, shown: str) -> None:
    text = error_of(HttpAnswer(302, {"Location": location}, b"", False), "o", "http://a.example/x?y=hush")
    assert text == f"o answered 302 Found: redirects are not followed; it points to {shown}"
