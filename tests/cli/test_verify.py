"""`atf verify`: what makes no sense is refused before anything is started. The proof itself is tests/process/test_verify.py's."""

from __future__ import annotations

import pytest

from atf.cli import main


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--redis-url", "redis://127.0.0.1:1", "--role", "store"], "was not started here"),
        (["--durability", "some"], "durability = 'some'"),
        (["--rate", "0"], "--rate"),
        (["--rate", "5000", "--seconds", "3600"], "18,000,000 tasks"),
        (["--role", "nobody"], "--role"),
    ],
)
def test_what_makes_no_sense_is_bad_input(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", *arguments]) == 2
    assert said in capsys.readouterr().err
