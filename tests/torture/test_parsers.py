"""What the other files of this folder leave over of the functions that read a text or bytes; and the list of them all.

A function of the product that is called parse or decode, or begins so, stands in FUZZED with the test that gives it anything, or in
LEFT_OUT with the reason why none does. Those that read such a thing under another name stand in OTHERS.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import hypothesis.strategies as st
import pytest
from hypothesis import given

from atf.auth import executor_credentials, secrets
from atf.builtin import command_result, http_answer
from atf.builtin.http_request import target_address
from atf.cli import arguments
from atf.cli.batch import rows
from atf.config.allowed_hosts import AllowedHosts, split_authority
from atf.config.allowed_programs import AllowedPrograms
from atf.cores.pool import CorePool, CoreSettings
from atf.errors import ConfigError, Internal as InternalError, InvalidArgument
from atf.frontend import batches, cancel_matching, filters, jobs, list_failures, redrive
from atf.frontend.dapr import http
from atf.frontend.settings import SETTINGS
from atf.sdk import work_items
from atf.sdk.items import NamedElements
from atf.sdk.slo import parse_slo
from atf.store import reading, user_keys
from atf.store.backup import export_files
from atf.store.values.lists import TaskQuery
from proof.chaos.frame import PRODUCT
from tests.schedule import test_fuzz as schedules

from .examples import BROKEN_TEXTS, JSON_VALUES, TEXTS, fuzz, understood_or
from .texts import BOMBS

ROOT: Final = Path(__file__).parents[2]
_HERE: Final = "torture/test_parsers.py::"
_DECODERS: Final = "torture/test_decoders.py::"
_PAYLOADS: Final = _DECODERS + "test_a_payload_becomes_arguments_or_is_refused"
_SCHEDULES: Final = _HERE + "test_any_schedule_is_read_or_refused"
_URLS: Final = _HERE + "test_any_url_is_an_address_or_refused_without_its_secrets"
_TOKENS: Final = _HERE + "test_any_page_token_is_ours_or_refused"
FUZZED: Final = {
    "atf/sdk/signature.py::Codec.decode": _PAYLOADS,
    "atf/sdk/signature.py::Codec.decode_result": _PAYLOADS,
    "atf/sdk/lambdas.py::Lambda.decode": _PAYLOADS,
    "atf/sdk/payload.py::decode_result": _PAYLOADS,
    "atf/sdk/items.py::Elements.decode": _HERE + "test_any_recorded_result_is_read_or_refused",
    "atf/store/backup/export_lines.py::decode": "torture/test_files.py::test_any_line_is_read_or_refused",
    "atf/store/backup/export_files.py::decode_line": _HERE + "test_any_line_of_an_export_that_goes_on_is_ours_or_none",
    "atf/store/servers/address.py::parse": "torture/test_store_address.py::test_an_address_of_a_store_is_understood_or_refused",
    "atf/store/keys.py::parse_rq_name": _DECODERS + "test_names_and_ids_are_of_their_alphabet_or_refused",
    "atf/store/user_keys.py::parse_token": _TOKENS,
    "atf/store/reading.py::parse_cursor": _TOKENS,
    "frontend/batches.py::parse_token": _TOKENS,
    "frontend/filters.py::parse_token": _TOKENS,
    "frontend/jobs.py::parse_token": _TOKENS,
    "frontend/list_failures.py::parse_token": _TOKENS,
    "frontend/redrive.py::parse_position": _TOKENS,
    "frontend/cancel_matching.py::parse_position": _TOKENS,
    "atf/sdk/slo.py::parse_slo": _HERE + "test_any_promise_about_starts_is_read_or_refused",
    "frontend/settings.py::_whole.parse": _HERE + "test_any_setting_of_a_lambda_is_read_or_refused",
    "controller/losses.py::parse_death": _DECODERS + "test_any_event_of_a_guard_is_taken_or_passed_over",
    "atf/config/allowed_hosts.py::AllowedHosts.parse": _HERE + "test_any_list_of_what_is_allowed_is_read_or_refused",
    "atf/config/allowed_programs.py::AllowedPrograms.parse": _HERE
    + "test_any_list_of_what_is_allowed_is_read_or_refused",
    "atf/auth/secrets.py::parse": _HERE + "test_whatever_a_caller_shows_is_a_token_or_none",
    "atf/sdk/work_items.py::parse": _HERE + "test_any_id_is_that_of_an_item_or_none",
    "atf/cores/pool.py::CorePool.decode": _HERE + "test_any_state_of_cores_is_read_or_said_to_be_damaged",
    **{
        f"atf/schedule/{each}": _SCHEDULES
        for each in (
            *("plan.py::Plan.parse", "plan.py::parse_schedule", "plan.py::parse_clocks", "zones.py::parse_zone"),
            *("cron.py::parse_cron", "fields.py::parse_field", "every.py::parse_every", "every.py::parse_period"),
            *("durations.py::parse_go", "durations.py::parse_iso"),
            *("instants.py::parse_instant", "instants.py::parse_point"),
        )
    },
}
"""By the function, as "<file>::<name>", a test of `make fuzz`."""
OTHERS: Final = {
    "frontend/dapr/http.py::read_body": _HERE + "test_any_body_of_dapr_s_http_is_a_job_or_refused",
    "atf/cli/batch/rows.py::rows": _HERE + "test_any_file_of_items_is_read_or_refused_by_its_line",
    "atf/cli/arguments.py::parameters_of": _HERE + "test_any_signature_is_read_or_not",
    "atf/cli/options.py::duration": "torture/test_settings.py::test_a_duration_is_seconds_or_refused",
    "atf/rpc/listen_address.py::split_address": "torture/test_settings.py::test_an_address_is_host_and_port_or_refused",
    "atf/config/allowed_hosts.py::split_authority": _URLS,
    "atf/builtin/http_request.py::target_address": _URLS,
    "atf/builtin/http_answer.py::retry_after_s": _HERE + "test_any_retry_after_is_so_many_seconds_or_none",
    "atf/builtin/http_answer.py::_instant": _HERE + "test_any_retry_after_is_so_many_seconds_or_none",
    "atf/builtin/command_result.py::read_failure": _HERE + "test_any_error_is_that_of_a_program_or_none",
}
"""The same for what reads something that somebody else wrote and is not called so: no test finds it by its name."""
LEFT_OUT: Final = {
    "atf/sdk/lambdas.py::Lambda.decode_without": "calls that of its codec",
    "atf/sdk/signature.py::Codec.decode_without": "reads as decode does, with one parameter less: sdk/test_aliases.py and cli/test_payload_check.py",
    "atf/sdk/signature.py::Codec._decode_old": "the part of decode for lambdas with aliases: sdk/test_aliases.py",
    "atf/cli/nouns.py::Noun.parse_args": "puts the name of a command before words that click then parses: cli/test_nouns.py",
    "atf/cli/commands.py::_Commands.parse_args": "prints the help where no word was given: cli/test_outputs.py",
    "atf/cli/payload_check.py::DecodingLambda.decode": "calls that of the lambda",
    "atf/cli/payload_check.py::DecodingLambda.decode_without": "calls that of the lambda",
    "atf/sdk/batch_handle.py::Batch._decode": "answers a function: decode of the elements",
    "atf/store/gates.py::_parse": "reads what the store's functions alone write, of labels that were checked and quoted",
}


def functions(tree: ast.AST, within: str = "") -> Iterator[str]:
    """The names of all functions of a file, with those of what they stand in."""
    for each in ast.iter_child_nodes(tree):
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{within}{each.name}"
            if not isinstance(each, ast.ClassDef):
                yield name
            yield from functions(each, f"{name}.")
        else:
            yield from functions(each, within)


def test_every_function_that_parses_or_decodes_is_fuzzed_or_left_out_for_a_reason() -> None:
    files = [path for each in PRODUCT for path in (ROOT / each).rglob("*.py")]
    known = {
        f"{path.relative_to(ROOT)}::{name}"
        for path in files
        for name in functions(ast.parse(path.read_text(encoding="utf-8")))
    }
    named = {each for each in known if re.fullmatch(r"_?(parse|decode)(_\w+)?", re.split(r"::|\.", each)[-1])}
    assert named - FUZZED.keys() - LEFT_OUT.keys() == set(), "give it a fuzz test, or a reason"
    assert (FUZZED.keys() | LEFT_OUT.keys()) - named == set(), "they are gone, or others"
    assert OTHERS.keys() - (known - named) == set(), "they are gone, or called as the test finds them"


@pytest.mark.parametrize("test", sorted({*FUZZED.values(), *OTHERS.values()}))
def test_the_tests_of_the_list_are_fuzz_tests(test: str) -> None:
    file, _, name = test.partition("::")
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    (found,) = [each for each in tree.body if isinstance(each, ast.FunctionDef) and each.name == name]
    assert "fuzz" in {each.id for each in found.decorator_list if isinstance(each, ast.Name)}


# --- rows of a file ---------------------------------------------------------------------------------------------------

SIGNATURES = st.one_of(
    st.sampled_from(["(path: str, *, size: int = 256) -> dict", "()", "(a, /, b='x)', *c, **d)", "(" * 300, ")"]),
    TEXTS.map(lambda text: f"({text})"),
    BROKEN_TEXTS,
)
ROWS = st.one_of(
    TEXTS,
    JSON_VALUES.map(json.dumps),
    st.sampled_from(sorted(BOMBS)).map(lambda name: BOMBS[name][:20_000].decode("utf-8", "replace")),
    st.sampled_from(['path,size\n"a",1', '"a"b,c', '"', "a,a", "path\n[1", "\0", "\r", "1e999", "NaN", "\ufeff[1]"]),
)


@fuzz
@given(signature=SIGNATURES)
def test_any_signature_is_read_or_not(signature: str) -> None:
    found = arguments.parameters_of(signature)
    assert found is None or found.required | found.takes.keys() <= set(found.names)


@fuzz
@given(
    lines=st.lists(ROWS, max_size=4),
    form=st.sampled_from(["jsonl", "csv"]),
    name=st.sampled_from(["shop/mail", work_items.COMMAND]),
    signature=st.sampled_from(["(path: str, size: int = 1)", "()", ""]),
)
def test_any_file_of_items_is_read_or_refused_by_its_line(
    lines: list[str], form: str, name: str, signature: str
) -> None:
    given_lines = "\n".join(lines).splitlines(keepends=True)
    parameters = arguments.parameters_of(signature) if signature else None
    try:
        for number, row in rows.rows(given_lines, form, name, parameters):
            assert number >= 1
            json.dumps(row, allow_nan=False)
    except InvalidArgument as error:
        said = str(error)
    else:
        return
    assert re.match(r"line \d+[: ]", said), said
    assert 10 < len(said) < 5_000


# --- what stands in the store, or came from it ------------------------------------------------------------------------

POOL: Final[dict[str, Any]] = json.loads(CorePool.make(CoreSettings(cores=2), 5).encode())


@fuzz
@given(
    state=st.one_of(
        st.binary(max_size=60),
        st.sampled_from(sorted(BOMBS)).map(BOMBS.__getitem__),
        st.dictionaries(st.sampled_from(sorted(POOL)), JSON_VALUES, max_size=2).map(
            lambda fields: json.dumps(POOL | fields).encode("utf-8", "surrogatepass")
        ),
    )
)
def test_any_state_of_cores_is_read_or_said_to_be_damaged(state: bytes) -> None:
    with understood_or(InternalError):
        pool = CorePool.decode(state)
        assert CorePool.decode(pool.encode()) == pool


@fuzz
@given(TEXTS | st.from_regex(r"\A(Bearer )?atfx?_[a-z2-7]{0,12}_[A-Za-z0-9_-]{0,50}\Z"))
def test_whatever_a_caller_shows_is_a_token_or_none(text: str) -> None:
    found = secrets.parse(text)
    assert found is None or (len(found.id), len(found.digest)) == (10, 64)
    assert executor_credentials.check(text, [b"k" * 32]) is None


@fuzz
@given(
    text=st.one_of(
        BROKEN_TEXTS,
        st.tuples(st.sampled_from(["0", "65535", "9" * 5_000, "-1", "\u0663", ""]), TEXTS, TEXTS).map(
            lambda part: f"{part[0]}-{part[1]}.{part[2]}"
        ),
    )
)
def test_any_id_is_that_of_an_item_or_none(text: str) -> None:
    found = work_items.parse(text)
    if found is not None:
        assert (found.batch_id in text, text.endswith(found.work_item_id), found.partition >= 0) == (True, True, True)


PLACES = st.sampled_from(["0", "1", "65535", "9" * 30, "\u0663"])
PAGE_TOKENS = st.one_of(
    BROKEN_TEXTS,
    st.lists(st.one_of(PLACES, st.sampled_from([".", "/", ":", "a", "\n"])), max_size=9).map("".join),
    st.lists(PLACES, min_size=1, max_size=2).map(lambda places: ":".join([*places, "a"])),
)


@fuzz
@given(token=PAGE_TOKENS, most=st.integers(1, 16_384))
def test_any_page_token_is_ours_or_refused(token: str, most: int) -> None:
    for read in (user_keys.parse_token, jobs.parse_token):
        with understood_or(InvalidArgument):
            assert 0 <= read(token, most)[0] < most
    with understood_or(InvalidArgument):
        redrive.parse_position(token)
    with understood_or(InvalidArgument):
        cancel_matching.parse_position(token)
    with understood_or(InvalidArgument):
        list_failures.parse_token(token)
    with understood_or(InvalidArgument):
        filters.parse_token(token, TaskQuery())
    with understood_or(InvalidArgument):
        place = batches.parse_token(token, most)
        assert place is None or 0 <= place.partition < most
    assert reading.parse_cursor(token)[0] >= 0


@fuzz
@given(line=st.one_of(st.binary(max_size=60), JSON_VALUES.map(lambda value: json.dumps(value).encode() + b"\n")))
def test_any_line_of_an_export_that_goes_on_is_ours_or_none(line: bytes) -> None:
    assert export_files.decode_line(line) is None or line.endswith(b"\n")


@fuzz
@given(
    result=st.one_of(st.binary(max_size=60), st.sampled_from(sorted(BOMBS)).map(BOMBS.__getitem__)),
    encoding=st.integers(0, 3),
)
def test_any_recorded_result_is_read_or_refused(result: bytes, encoding: int) -> None:
    with understood_or(InvalidArgument):
        NamedElements("shop/mail").decode(result, encoding)


# --- what operators and callers write ---------------------------------------------------------------------------------


@fuzz
@given(text=BROKEN_TEXTS)
def test_any_setting_of_a_lambda_is_read_or_refused(text: str) -> None:
    for each in SETTINGS.values():
        with understood_or(InvalidArgument):
            each.write(each.parse(text))


@fuzz
@given(text=st.one_of(BROKEN_TEXTS, st.tuples(TEXTS, st.floats()).map(lambda pair: f"{pair[0]}s {pair[1]:.10g}%")))
def test_any_promise_about_starts_is_read_or_refused(text: str) -> None:
    with understood_or(InvalidArgument):
        promise = parse_slo(text)
        assert parse_slo(str(promise)) == promise


@fuzz
@given(
    text=st.one_of(BROKEN_TEXTS, st.tuples(TEXTS, TEXTS).map(lambda pair: f"{pair[0]}=/bin/{pair[1]}, *.{pair[0]}:80"))
)
def test_any_list_of_what_is_allowed_is_read_or_refused(text: str) -> None:
    with understood_or(ConfigError):
        AllowedHosts.parse(text).allows("example.com", 80)
    with understood_or(ConfigError):
        AllowedPrograms.parse(text).path_of("convert")


SECRET: Final = "hunter2"
URLS = st.one_of(
    BROKEN_TEXTS,
    st.tuples(st.sampled_from(["http://", "https://", "HTTPS://", "ftp://", "http:/", ""]), TEXTS, TEXTS).map("/".join),
    st.tuples(st.sampled_from(["a", "[::1]", "[::", "a:0", "a:65536", "a:80", "A.b.", "\u0661", "u:p@a"]), TEXTS).map(
        lambda part: f"https://{part[0]}/{part[1]}"
    ),
)


@fuzz
@given(url=URLS)
def test_any_url_is_an_address_or_refused_without_its_secrets(url: str) -> None:
    try:
        found = target_address(url)
    except InvalidArgument as error:
        said = str(error)
    else:
        assert found.url.startswith(("http://", "https://"))
        assert split_authority(f"{found.host}:{found.port}") == (found.host, found.port)
        assert found.origin.isprintable()
        said = found.origin
    assert 10 < len(said) < 5_000
    with pytest.raises(InvalidArgument) as caught:
        target_address(f"https://u:{SECRET}@{url}")
    assert SECRET not in str(caught.value)


HEADERS = st.one_of(
    TEXTS,
    st.integers(-(1 << 70), 1 << 70).map(str),
    st.sampled_from(
        ["Wed, 21 Oct 2015 07:28:00 GMT", "Fri, 31 Dec 9999 23:59:59 -2359", "1 Jan 1 0:0 +9999", "\u0663"]
    ),
    st.tuples(st.integers(), st.sampled_from(["Jan", "Feb", "x"]), st.integers(-1, 99_999), TEXTS).map(
        lambda part: f"Mon, {part[0]} {part[1]} {part[2]} {part[3]}"
    ),
)


@fuzz
@given(after=HEADERS, date=HEADERS, wall_us=st.integers(0, 1 << 62))
def test_any_retry_after_is_so_many_seconds_or_none(after: str, date: str, wall_us: int) -> None:
    for headers in ({"Retry-After": after}, {"Retry-After": after, "Date": date}, {"Date": date}):
        seconds = http_answer.retry_after_s(headers, wall_us)
        assert seconds is None or 0 < seconds <= http_answer.MAX_RETRY_AFTER_S, headers


@fuzz
@given(
    error=st.one_of(
        BROKEN_TEXTS,
        st.tuples(st.integers(0, 9_999), TEXTS, JSON_VALUES.map(json.dumps), TEXTS).map(
            lambda part: f"exit code {part[0]}: {part[1]}\nstdout: {part[2]}\n{part[3]}"
        ),
        st.sampled_from(
            ['exit code 1\nstdout: "\\ud800"', 'exit code 1\nstdout: "\\x"', 'exit code 1\nstdout: "a" "b"']
        ),
    ),
    ended=st.tuples(st.integers(0, 255), st.binary(max_size=4_000), st.binary(max_size=4_000)),
)
def test_any_error_is_that_of_a_program_or_none(error: str, ended: tuple[int, bytes, bytes]) -> None:
    found = command_result.read_failure(error)
    assert found is None or f"exit code {found.exit_code}" in error
    code, stdout, stderr = ended
    said = command_result.error_of(command_result.EndedProgram(code, stdout, stderr))
    read = command_result.read_failure(said)
    assert read is not None
    assert read.exit_code == code
    assert stdout.decode("utf-8", "replace").endswith(read.stdout.lstrip("\ufffd"))


BODIES = st.dictionaries(
    st.sampled_from(
        ["schedule", "repeats", "dueTime", "due_time", "ttl", "data", "overwrite", "failurePolicy", "name", "x"]
    ),
    st.one_of(JSON_VALUES, st.just({"constant": {"interval": "1s", "maxRetries": 3}}), st.just({"drop": {}})),
    max_size=4,
)


@fuzz
@given(
    sent=st.one_of(
        st.binary(max_size=60),
        st.sampled_from(sorted(BOMBS)).map(BOMBS.__getitem__),
        BODIES.map(lambda body: json.dumps(body).encode()),
    )
)
def test_any_body_of_dapr_s_http_is_a_job_or_refused(sent: bytes) -> None:
    with understood_or(InvalidArgument):
        http.read_body(sent).SerializeToString()


@fuzz
@given(text=schedules.TEXTS, other=schedules.TEXTS, form=st.sampled_from([None, "unix"]), repeats=st.integers())
def test_any_schedule_is_read_or_refused(text: str, other: str, form: str | None, repeats: int) -> None:
    schedules.check(schedule=text, format=form)
    schedules.check(schedule=f"TZ={other} {text}")
    schedules.check(due_time=text, ttl=other)
    schedules.check(schedule="@daily", tz=text, repeats=repeats)
    schedules.check(schedule="@daily", gap=text, fold=other)
