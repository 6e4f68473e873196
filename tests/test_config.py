"""Where a setting comes from, and what is said of one that breaks a rule."""

from __future__ import annotations

import os
import re
from dataclasses import fields
from pathlib import Path
from unittest.mock import patch

import pytest

from atf.cli import remote, slo, store
from atf.cli.local import cluster_settings
from atf.config.loading import TABLES, load
from atf.config.secret_files import exposed
from atf.config.settings import (
    ControllerSettings,
    ExecutorSettings,
    FrontendSettings,
    HscSettings,
    LogSettings,
    SecuritySettings,
    StoreConsumerSettings,
    StoreSettings,
    Timing,
    metrics_address,
)
from atf.errors import ConfigError
from atf.executor.table import SPARE_SLOTS
from atf.task import MAX_HELD, MAX_RUNNING


def toml(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "atf.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_flag_beats_variable_beats_file_beats_default(tmp_path: Path) -> None:
    path = toml(tmp_path, "partitions = 4")
    env = {"ATF_PARTITIONS": "8"}
    nowhere = tmp_path / "none.toml"

    assert load(StoreSettings, {"partitions": "2"}, env=env, path=path).partitions == 2
    assert load(StoreSettings, {"partitions": None}, env=env, path=path).partitions == 8
    assert load(StoreSettings, {}, env={}, path=path).partitions == 4
    assert load(StoreSettings, {}, env={}, path=nowhere).partitions == 0


def test_a_roles_table_beats_the_top_level(tmp_path: Path) -> None:
    path = toml(tmp_path, 'listen = "0.0.0.0:1"\n[frontend]\nlisten = "0.0.0.0:2"')

    assert load(FrontendSettings, table="frontend", env={}, path=path).listen == "0.0.0.0:2"
    assert load(StoreConsumerSettings, table="store_consumer", env={}, path=path).listen == "0.0.0.0:1"


@pytest.mark.parametrize(
    ("listen", "metrics_listen", "found"),
    [
        ("127.0.0.1:7401", "auto", "127.0.0.1:9401"),
        ("[::1]:7401", "auto", "[::1]:9401"),
        ("0.0.0.0:0", "auto", "0.0.0.0:0"),
        ("127.0.0.1:64000", "auto", "127.0.0.1:0"),  # there is no such port
        ("127.0.0.1:7401", "0.0.0.0:80", "0.0.0.0:80"),
        ("127.0.0.1:7401", "none", ""),
        ("127.0.0.1:7401", "", ""),
        ("nowhere", "auto", ":0"),  # what is wrong with `listen` is said of `listen`
    ],
)
def test_metrics_are_served_beside_the_role(listen: str, metrics_listen: str, found: str) -> None:
    assert metrics_address(FrontendSettings(listen=listen, metrics_listen=metrics_listen)) == found


def test_the_file_is_named_by_atf_config(tmp_path: Path) -> None:
    path = toml(tmp_path, "threads = 3")

    assert load(ExecutorSettings, env={"ATF_CONFIG": str(path)}).threads == 3


@pytest.mark.parametrize(("text", "value"), [("true", True), ("ON", True), ("1", True), ("no", False), ("0", False)])
def test_truth_is_written_in_many_ways(text: str, value: bool, tmp_path: Path) -> None:
    assert load(StoreSettings, env={"ATF_WAKEUPS": text}, path=tmp_path / "none").wakeups is value


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ({"ATF_PARTITIONS": "many"}, "ATF_PARTITIONS = 'many': give a whole number"),
        ({"ATF_WAKEUPS": "perhaps"}, "ATF_WAKEUPS = 'perhaps': give true or false"),
        ({"ATF_POLL_INTERVAL": "soon"}, "ATF_POLL_INTERVAL = 'soon': give a number"),
        ({"ATF_PARTITIONS": "16385"}, "partitions = 16385: use 1 to 16384"),
    ],
)
def test_a_bad_value_says_where_it_came_from(env: dict[str, str], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(StoreSettings, env=env, path=tmp_path / "none")

    assert says in str(caught.value)


def test_a_bad_flag_is_named_as_it_is_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--store-timeout = 'x': give a number"):
        load(StoreSettings, {"store_timeout": "x"}, env={}, path=tmp_path / "none")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = toml(tmp_path, "partitions = = 4")

    with pytest.raises(ConfigError, match=str(path)):
        load(StoreSettings, env={}, path=path)


def test_times_that_break_the_lease_arithmetic_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"heartbeat_timeout = 10\.0 s is too short: .* = 15\.1 s"):
        load(Timing, env={"ATF_HEARTBEAT_TIMEOUT": "10"}, path=tmp_path / "none")
    with pytest.raises(ConfigError, match=r"0\.05 s for a task to start in"):
        Timing(heartbeat_timeout=15.1)


def test_the_default_times_keep_the_arithmetic() -> None:
    timing = Timing()

    assert timing.heartbeat_timeout >= timing.start_margin


def test_an_executor_holds_no_more_than_one_heartbeat_may_name() -> None:
    assert MAX_RUNNING + SPARE_SLOTS <= MAX_HELD
    ExecutorSettings(threads=84, async_tasks=MAX_RUNNING - 84)
    with pytest.raises(ConfigError, match="at most 3584 together"):
        ExecutorSettings(threads=85, async_tasks=MAX_RUNNING - 84)


@pytest.mark.parametrize("value", ["-1", "0", "inf", "nan", "86400"])
def test_a_time_that_is_none_is_refused(value: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rpc_deadline"):
        load(Timing, env={"ATF_RPC_DEADLINE": value}, path=tmp_path / "none")


def test_unknown_words_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="use debug, info, warning or error"):
        load(LogSettings, env={"ATF_LOG_LEVEL": "loud"}, path=tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("partitons = 4", r"atf\.toml: partitons: there is no such setting; did you mean partitions\?"),
        ("redis-url = 'x'", r"redis-url: .* did you mean redis_url\?"),
        ("colour = 'red'", r"colour: there is no such setting; atf ROLE --help lists"),
        ("[frontend]\nlisen = 'x'", r"\[frontend\] lisen: .* did you mean listen\?"),
        ("[frontend]\nthreads = 4", r"\[frontend\] threads: this is no setting of frontend; put it into \[executor\]"),
        ("[executors]\nthreads = 4", r"no role reads a table \[executors\]; did you mean executor\?"),
        ("[store-consumer]\nlisten = 'x'", r"\[store-consumer\]; did you mean store_consumer\?"),
        ('"\\u001b[2J" = 1', r"\.toml: \S*\[2J: there is no such setting"),
    ],
)
def test_a_name_that_nothing_reads_is_refused(text: str, says: str, tmp_path: Path) -> None:
    path = toml(tmp_path, text)

    for settings in (StoreSettings, ExecutorSettings):  # whoever reads it, whether it is theirs or not
        with pytest.raises(ConfigError, match=says) as caught:
            load(settings, env={}, path=path)
        assert "\x1b" not in str(caught.value)


def test_no_pool_is_called_as_the_hosts_without_one(tmp_path: Path) -> None:
    for settings in (ControllerSettings, ExecutorSettings):
        with pytest.raises(ConfigError, match="pool 'default': that is what the hosts without a pool are called"):
            load(settings, {"pool": "default"}, env={}, path=tmp_path / "none.toml")


def test_every_setting_may_stand_in_the_file(tmp_path: Path) -> None:
    commands = (cluster_settings.ClusterSettings, remote.FrontendAddress, slo.PrometheusAddress, store.StoreFlags)
    for cls in (*commands, StoreSettings, FrontendSettings, StoreConsumerSettings, HscSettings, ControllerSettings,
                ExecutorSettings, Timing, LogSettings):  # fmt: skip
        assert {each.name for each in fields(cls)} <= TABLES[""], cls
    assert {each.name for each in fields(cluster_settings.ClusterSettings)} == TABLES["up"]
    path = toml(tmp_path, "threads = 3\nfrontend = 'h:1'\n[executor]\nthreads = 4\n[up]\nexecutors = 2")
    assert load(ExecutorSettings, table="executor", env={}, path=path).threads == 4


def test_apps_of_dapr_are_read_from_one_text() -> None:
    given = FrontendSettings(dapr_app="orders=10.0.0.1:50061, mail.eu=[::1]:7,", dapr_app_id="orders")
    assert given.dapr_apps == {"orders": "10.0.0.1:50061", "mail.eu": "[::1]:7"}
    assert FrontendSettings().dapr_apps == {}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("orders", "dapr_app = 'orders': write ID=HOST:PORT"),
        ("orders=7401", "write ID=HOST:PORT"),
        ("orders=http://a:1", "write ID=HOST:PORT"),
        ("=a:1", "dapr_app: app id ''"),
        ("a/b=a:1", "dapr_app: app id 'a/b'"),
        ("x" * 60 + "=a:1", "1 to 59"),
        ("a=b:1,a=c:1", "the app 'a' has two addresses"),
    ],
)
def test_a_malformed_app_of_dapr_s_is_refused(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(says)):
        FrontendSettings(dapr_app=text)


def test_a_malformed_id_of_nameless_calls_is_refused() -> None:
    with pytest.raises(ConfigError, match="dapr_app_id: app id 'a b'"):
        FrontendSettings(dapr_app_id="a b")


def test_hosts_for_dapr_are_addresses_with_commas_between_them() -> None:
    assert FrontendSettings(dapr_hosts="a:1, [::1]:2,").told_hosts == ("a:1", "[::1]:2")
    assert FrontendSettings().told_hosts == ()
    for text in ("a", "http://a:1", "a:b", "a:1;b:2"):
        with pytest.raises(ConfigError, match="dapr_hosts"):
            FrontendSettings(dapr_hosts=text)


# --- secrets in files -------------------------------------------------------------------------------------------------


def secret(path: Path, text: str, mode: int = 0o600) -> str:
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_the_stores_address_comes_from_a_file_where_it_is_given_nowhere_else(tmp_path: Path) -> None:
    env = {"ATF_REDIS_URL_FILE": secret(tmp_path / "url", "redis://:pw@store/0\n")}
    assert load(StoreSettings, env=env).redis_url == "redis://:pw@store/0"
    assert load(StoreSettings, env={**env, "ATF_REDIS_URL": "redis://other/0"}).redis_url == "redis://other/0"
    assert load(StoreSettings, {"redis_url": "redis://flag/0"}, env=env).redis_url == "redis://flag/0"


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("redis://:pw@store/0", 0o644, "other users of this machine can read it. Run: chmod 600"),
        ("redis://:pw@store/0", 0o640, "other users of this machine can read it. Run: chmod 600"),
        ("", 0o600, "write one line into it"),
        ("redis://:pw@a\nredis://:pw@b", 0o600, "write one line into it"),
        (None, 0, "it can't be read: No such file"),
    ],
)
def test_a_file_of_a_secret_that_will_not_do_is_refused_without_what_is_in_it(
    text: str | None, mode: int, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "url"
    if text is not None:
        secret(path, text, mode)
    with pytest.raises(ConfigError, match=re.escape(says)) as refused:
        load(StoreSettings, env={"ATF_REDIS_URL_FILE": str(path)})
    assert "pw" not in str(refused.value)


def test_credentials_of_systemd_count_where_nothing_else_is_given(tmp_path: Path) -> None:
    for name, text in (("atf.token", "atf_x"), ("atf.redis_url", "redis://:pw@store/0"), ("atf.codec_keys", "")):
        secret(tmp_path / name, text)
    env = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert load(StoreSettings, env=env).redis_url == "redis://:pw@store/0"
    assert load(SecuritySettings, env=env).token_file == str(tmp_path / "atf.token")
    assert load(SecuritySettings, env=env).tls_key == ""
    assert load(ExecutorSettings, env=env).codec_keys == str(tmp_path / "atf.codec_keys")
    assert load(SecuritySettings, env={**env, "ATF_TOKEN_FILE": "/etc/token"}).token_file == "/etc/token"


def test_a_file_that_others_can_read_is_noticed_and_one_of_somebody_else_is_theirs(tmp_path: Path) -> None:
    mine, open_to_all = secret(tmp_path / "a", "x"), secret(tmp_path / "b", "x", 0o604)
    assert exposed([mine, open_to_all, "", str(tmp_path / "none")]) == [open_to_all]
    with patch("os.geteuid", lambda: os.getuid() + 1):
        assert exposed([open_to_all]) == []
