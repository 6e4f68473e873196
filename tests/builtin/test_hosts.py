"""The allow-list: what it lets through, and what is no host."""

from __future__ import annotations

import pytest

from atf.config.allowed_hosts import AllowedHosts, split_authority
from atf.config.loading import load
from atf.config.settings import ExecutorSettings
from atf.errors import ConfigError, InvalidArgument


def allows(entries: str, authority: str, default: int = 80) -> bool:
    host, port = split_authority(authority)
    return AllowedHosts.parse(entries).allows(host, port or default)


def test_nothing_is_allowed_unless_it_is_listed() -> None:
    assert not allows("", "localhost")
    assert not allows(" , ", "127.0.0.1:80")
    assert not allows("api.example.com", "example.com")
    assert ExecutorSettings().http_allow == ""


@pytest.mark.parametrize(
    ("entries", "authority"),
    [
        ("api.example.com", "api.example.com"),
        ("api.example.com", "API.Example.COM."),
        ("Api.Example.com.", "api.example.com:8443"),
        ("a.example, api.example.com:8443", "api.example.com:8443"),
        ("*.example.com", "a.b.example.com"),
        ("*.example.com:81", "a.example.com:81"),
        ("127.0.0.1", "127.0.0.1:9"),
        ("[::1]:8080", "[0:0:0:0:0:0:0:1]:8080"),
        ("xn--bcher-kva.example", "XN--bcher-kva.example"),
        ("*", "93.184.215.14"),
        ("*", "localhost"),
        ("169.254.169.254", "169.254.169.254"),
        ("my_service:80", "my_service"),
    ],
)
def test_a_listed_host_is_allowed(entries: str, authority: str) -> None:
    assert allows(entries, authority)


@pytest.mark.parametrize(
    ("entries", "authority"),
    [
        ("api.example.com:443", "api.example.com:8443"),
        ("*.example.com", "example.com"),
        ("*.example.com", "evil-example.com"),
        ("*.example.com", "example.com.evil.net"),
        ("example.com", "a.example.com"),
        ("127.0.0.1", "localhost"),
        ("127.0.0.1", "[::ffff:127.0.0.1]"),
        ("[::1]", "127.0.0.1"),
        ("*", "169.254.169.254"),
        ("*", "100.100.100.200"),
        ("*", "10.0.0.7"),
        ("*", "0.0.0.0"),
        ("*", "224.0.0.1"),
        ("*", "[::1]"),
        ("*", "[::]"),
        ("*", "[fd00:ec2::254]"),
        ("*", "[::ffff:169.254.169.254]"),
        ("*", "[::ffff:127.0.0.1]"),
        ("*", "[2002:7f00:1::]"),
        ("*", "[64:ff9b::a00:7]"),
        ("*", "[64:ff9b:1::a9fe:a9fe]"),
        ("*", "[::169.254.169.254]"),
        ("*", "[::10.0.0.7]"),
        ("*", "[::ffff:0:7f00:1]"),
        ("*", "[fec0::1]"),
    ],
)
def test_a_host_that_only_looks_like_a_listed_one_is_not(entries: str, authority: str) -> None:
    assert not allows(entries, authority)


@pytest.mark.parametrize(
    ("entries", "found", "may"),
    [
        ("*", "93.184.215.14", True),
        ("*", "10.0.0.7", False),
        ("*", "::1", False),
        ("*", "::ffff:10.0.0.7", False),
        ("a.example", "10.0.0.7", True),
        ("*.example", "127.0.0.1", True),
        ("a.example", "169.254.169.254", False),
        ("a.example", "::ffff:169.254.169.254", False),
        ("a.example", "fe80::1%eth0", False),
        ("a.example", "fd00:ec2::254", False),
        ("a.example", "64:ff9b:1::a9fe:a9fe", False),
        ("a.example", "::169.254.169.254", False),
        ("a.example", "::ffff:0:a9fe:a9fe", False),
        ("a.example", "64:ff9b:1::a00:7", True),
        ("a.example", "::1", True),
        ("*", "64:ff9b:1::5db8:d70e", True),
        ("*", "fec0::1", False),
        ("a.example, 169.254.169.254", "169.254.169.254", False),
        ("b.example", "93.184.215.14", False),
        ("a.example:81", "93.184.215.14", False),
    ],
)
def test_the_address_that_a_name_leads_to_is_looked_at_too(entries: str, found: str, may: bool) -> None:
    assert AllowedHosts.parse(entries).allows_address("a.example", 80, found) is may


@pytest.mark.parametrize(
    "authority",
    [
        "", ":80", "2130706433", "0x7f000001", "0x", "127.1", "0177.0.0.1", "127.0.0.1.5", "127.0.0.0x1", "1.2.3.4.", "::1", "[::1",
        "[::1%eth0]", "[1.2.3.4]", "a..b", "-a.example", "a-.example", "a b", "bücher.example", "ⓔxample.com", "a" * 64,
        ".".join(["a" * 60] * 5), "example.com:", "example.com:0", "example.com:65536", "example.com:8O", "example.com:80:80",
        "example.com:\u0668", "user@example.com", "a%2eb", "a\r\nb", "*.example.com", "*",
    ],
)  # fmt: skip
def test_what_is_no_host_is_refused_even_where_every_host_is_allowed(authority: str) -> None:
    if authority == "1.2.3.4.":  # the dot at the end is that of every name
        assert split_authority(authority) == ("1.2.3.4", None)
        return
    with pytest.raises(InvalidArgument):
        split_authority(authority)


@pytest.mark.parametrize(
    "entry",
    ["https://a.example", "a.example/x", "u@a.example", "::1", "*.1.2.3.4", "*.[::1]", "a*.b", "**", "*:80", "a:x"],
)
def test_an_entry_that_is_no_host_keeps_the_executor_from_starting(entry: str) -> None:
    with pytest.raises(ConfigError, match="http_allow") as refused:
        load(ExecutorSettings, env={"ATF_HTTP_ALLOW": f"good.example,{entry}"})
    assert repr(entry) in str(refused.value)
