"""What becomes of redacted values in texts and payloads."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote_plus

import pytest

import atf
from atf.errors import InvalidArgument
from atf.rpc import task_pb2 as t
from atf.sdk.redaction import MASK, TOO_MANY, Redactor, redacted_payload


def redactor(value: Any, name: str = "password", **more: Any) -> Redactor:
    return Redactor([name], json.dumps({name: value, "user": "anna"}).encode(), **more)


SECRET = "p\u00e4ss\n'w\"o/rd&"  # what every notation writes in another way


@pytest.mark.parametrize(
    "written",
    [
        SECRET,
        repr(SECRET),
        ascii(SECRET),
        json.dumps(SECRET),
        json.dumps(SECRET, ensure_ascii=False),
        repr({"auth": [SECRET]}),
        repr(repr(SECRET)),
        repr(SECRET.encode()),
        "https://host/?q=" + quote_plus(SECRET),
        base64.b64encode(SECRET.encode()).decode(),
    ],
)
def test_a_value_is_found_however_it_is_written(written: str) -> None:
    said = redactor(SECRET)(f"can't log in with {written}: try again")
    assert MASK in said
    assert "ss" not in said.replace("ss\\n", "")
    assert said.startswith("can't log in with ")
    assert said.endswith(": try again")


@pytest.mark.parametrize(
    "value", ["hunter2", "1234", 1234, 12.75, {"a": ["deep", {"b": "hunter2"}]}, ["hunter2", "swordfish"]]
)
def test_values_of_any_kind_and_in_any_depth(value: Any) -> None:
    said = redactor(value)(f"got {value!r} and {value} and {json.dumps(value)}")
    for leaf in ("hunter2", "1234", "12.75", "deep", "swordfish"):
        assert leaf not in said


def test_a_number_counts_only_as_a_whole_one() -> None:
    assert redactor(1234)("line 12345, line 1234, id 91234") == f"line 12345, line {MASK}, id 91234"
    assert redactor("1234")("1234 of 12345") == f"{MASK} of 12345"


@pytest.mark.parametrize("value", [12, "12", True, None, "x"])
def test_short_values_are_replaced_only_where_they_stand_as_the_argument(value: Any) -> None:
    redact = redactor(value, "pin")
    assert redact(f"f(pin={value}) of {value} apples") == f"f(pin={MASK}) of {value} apples"
    for said in (f"{{'pin': {value!r}}}", json.dumps({"pin": value}), f"pin = {value!r}", f"pin: {value}"):
        assert re.fullmatch(r"""[{'"]*pin['"]*\s*[:=]\s*['"]*\[redacted\]['"}]*""", redact(said)), redact(said)


def test_short_values_in_an_argument_are_replaced_where_they_stand_as_their_key() -> None:
    redact = redactor({"cvc": 737, "owner": {"pin": "12"}, "more": [{"code": 9}]}, "card")
    said = redact("bad cvc=737, pin: '12' and \"code\": 9 of 737 in line 9")
    assert said == f"bad cvc={MASK}, pin: '{MASK}' and \"code\": {MASK} of 737 in line 9"


@pytest.mark.parametrize("said", ["pin 42", "the pin is 42!", "pin is '42'"])
def test_a_short_value_is_found_behind_its_name(said: str) -> None:
    assert redactor(42, "pin")(said) == said.replace("42", MASK)
    assert redactor(42, "pin")("pins 42, pin of 42") == "pins 42, pin of 42"


@pytest.mark.parametrize("before", ["", "u", "us", "user:"])
@pytest.mark.parametrize("after", ["", "\x00", " and more"])
def test_a_value_in_what_is_encoded_by_base64(before: str, after: str) -> None:
    whole = f"{before}{SECRET}{after}".encode()
    for encoded in (base64.b64encode(whole).decode(), base64.urlsafe_b64encode(whole).decode()):
        said = redactor(SECRET)(f"Authorization: Basic {encoded}")
        assert len(said) < len(f"Authorization: Basic {encoded}")
        left = said.removeprefix("Authorization: Basic ").split(MASK)
        assert [len(each) <= len(part) * 2 + 3 for each, part in zip(left, (before, after), strict=True)] == [True] * 2
    assert SECRET.encode().hex() not in redactor(SECRET)(SECRET.encode().hex())


def test_a_value_that_a_message_has_cut_is_found_by_its_ends() -> None:
    value = "sk_live_" + "".join(str(each) for each in range(40))
    said = redactor(value)(f"input_value='{value[:20]}...{value[-20:]}' is no token")
    assert said == f"input_value='{MASK}...{MASK}' is no token"


def test_each_line_of_a_text_of_several_lines_counts() -> None:
    pem = "-----BEGIN KEY-----\nMIIEvgIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"
    said = redactor(pem)("  | " + pem.replace("\n", "\n  | "))
    assert "MIIE" not in said
    assert "kqhk" not in said


def test_decoded_values_defaults_and_old_names_count() -> None:
    at = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
    redact = redactor("2026-03-04T05:06:07Z", "at")
    redact.add({"at": at})
    said = redact(f"{at} {at!r} 2026-03-04T05:06:07Z {at.isoformat()}")
    assert said == f"{MASK} {MASK} {MASK} {MASK}"
    assert Redactor(["pw"], b"{}", defaults={"pw": "default"})("the default") == f"the {MASK}"
    assert (
        Redactor(["pw"], b'{"pw": "given"}', defaults={"pw": "default"})("the default, given") == f"the default, {MASK}"
    )


def test_raw_payloads() -> None:
    assert Redactor(["data"], b"\x00\xffsecret", t.RAW)(repr(b"\x00\xffsecret")) == f"b'{MASK}'"
    assert redacted_payload(b"\x00", t.RAW, ["data"]) == MASK.encode()
    assert redacted_payload(b"\x00", t.RAW, []) == b"\x00"


def test_too_many_values_leave_no_text() -> None:
    values = [f"value {each}" for each in range(1_001)]
    assert redactor(values)("anything") == TOO_MANY
    assert redactor(values[:-1])("value 999 and all") == f"{MASK} and all"


def test_nothing_is_replaced_where_nothing_is_redacted() -> None:
    assert Redactor([])("hunter2") == "hunter2"
    assert redacted_payload(b'{"a": 1}', t.JSON, []) == b'{"a": 1}'
    assert redactor("")("an empty text") == "an empty text"


def test_payloads_keep_all_else() -> None:
    payload = b'{"user": "anna", "password": {"old": "a", "new": "b"}, "n": 1.50}'
    assert json.loads(redacted_payload(payload, t.JSON, ["password", "token"])) == {
        "user": "anna",
        "password": MASK,
        "n": 1.5,
    }
    assert json.loads(redacted_payload(payload, t.JSON, None)) == dict.fromkeys(("user", "password", "n"), MASK)
    assert json.loads(redacted_payload(b"{no json", t.JSON, ["password"])) == MASK


def test_what_is_no_parameter_is_refused_with_the_nearest() -> None:
    app = atf.App("shop")
    with pytest.raises(
        InvalidArgument, match=r"shop/pay: redact: there is no parameter 'pasword'; did you mean 'password'\?"
    ):

        @app.task(redact=["pasword"])
        def pay(password: str) -> None: ...

    with pytest.raises(InvalidArgument, match=r"did you mean 'password'"):

        @app.task(redact=["pw"], aliases={"pw": "password"})
        def pay_(password: str) -> None: ...

    with pytest.raises(InvalidArgument, match=r'give a list of parameters, such as \["password"\]'):

        @app.task(redact="password")
        def pay__(password: str) -> None: ...

    with pytest.raises(InvalidArgument, match="there is no parameter 'ctx'; it has password"):

        @app.task(redact=["ctx"])
        def pay___(ctx: atf.Context, password: str) -> None: ...


def test_the_registration_names_what_is_redacted_and_hides_defaults() -> None:
    app = atf.App("shop")

    @app.task(redact=["password"], aliases={"pw": "password"})
    def pay(user: str, password: str = "hunter2") -> None: ...

    spec = pay.spec()
    assert list(spec.redact) == ["password", "pw"]
    assert spec.signature == "(user: str, password: str = [redacted]) -> None  # aliases: pw = password"
    assert "hunter2" not in repr(pay)


def test_messages_at_the_caller_hold_no_values() -> None:
    app = atf.App("shop")

    @app.task(redact=["secret"])
    def pay(secret: bytes) -> None: ...

    with pytest.raises(TypeError, match=r"argument 'secret' must be bytes, got a str"):
        pay.prepare("hunter2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="number 2 is a str"):
        pay.prepare(b"", "hunter2")  # type: ignore[call-arg]


def test_what_callers_are_told_holds_no_value() -> None:
    app = atf.App("shop")

    @app.task(redact=["password"])
    def login(user: str, password: str) -> None: ...

    def says(call: Callable[[], object]) -> str:
        with pytest.raises((TypeError, InvalidArgument)) as caught:
            call()
        return str(caught.value)

    elements = login.elements(None)
    told = [
        says(lambda: login.prepare("anna", b"hunter2")),  # type: ignore[arg-type]
        says(lambda: login.prepare("anna", "hunter2", "hunter2")),  # type: ignore[call-arg]
        elements.shown(("anna", "hunter2")),
        repr(login.prepare("anna", "hunter2")),
    ]
    assert "hunter2" not in str(told)
    assert told[-1] == "<Prepared shop/login>"
    assert elements.shown(("anna", "hunter2")) == "a tuple"
