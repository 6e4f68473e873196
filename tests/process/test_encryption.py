"""What lambdas say on a real cluster with a key file: nobody without the file can read it, in the store, a log or a page."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from pathlib import Path

import pytest

from atf import AsyncClient, TaskFailed
from atf.cli import main
from atf.cli.local.cluster import Cluster
from atf.cli.local.cluster_settings import ClusterSettings
from atf.codec.key_file import new_keys, read_keys, rotated, with_key, without_key, write_keys
from atf.rpc.tls_files import LOOK_EVERY_S
from atf.sdk.sealed import key_of

SHOP = """
import logging, sys
import atf

app = atf.App("shop")

def say(ctx, pin):
    print("pin is", pin)
    logging.getLogger("till").warning("no change for %s", pin)
    ctx.progress(f"asked {pin}")
    sys.stderr.write(f"{pin} again")
    raise RuntimeError(f"no {pin}")

@app.task(max_attempts=1)
def pay(ctx: atf.Context, pin: str) -> None:
    say(ctx, pin)

@app.task(max_attempts=1, isolate=True)
def pay_alone(ctx: atf.Context, pin: str) -> None:
    say(ctx, pin)
"""
SECRET = b"Zanzibar"


@pytest.mark.timeout(120)
async def test_no_plain_word_is_in_the_store_a_log_or_a_command(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    path = str(tmp_path / "codec.keys")
    write_keys(path, new_keys(), new=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith("ATF_")}
    said: list[str] = []
    settings = ClusterSettings(data_dir=str(tmp_path / "data"), free_ports=True, executors=1)
    roles = {**env, "PYTHONPATH": str(tmp_path), "ATF_CODEC_KEYS": path}
    async with Cluster(settings, ["shop:app"], env=roles, say=lambda _name, line: said.append(line)) as cluster:

        async def atf(*words: str) -> str:
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                await asyncio.to_thread(main, [*words, "--frontend", cluster.frontend_address])
            return said.getvalue()

        async with AsyncClient(cluster.frontend_address, codec_keys=path) as client:
            before = ""
            for name in ("shop/pay", "shop/pay_alone"):
                handle = await client.schedule(name, {"pin": SECRET.decode()})
                with pytest.raises(TaskFailed, match="no Zanzibar"):
                    await handle.result_async(timeout=60)
                (run,) = (await client.get_log(handle.id)).runs
                assert {"pin is Zanzibar", "WARNING till: no change for Zanzibar", "Zanzibar again"} <= {
                    line[13:] for line in run.text.splitlines()
                }
                told = [("logs", handle.id), ("get", handle.id), ("failures",)]
                shown = [await atf(*words) for words in told]
                log, task = [await atf(*words, "--codec-keys", path) for words in told[:2]]
                assert SECRET.decode() not in "".join(shown)
                assert "[encrypted]" in shown[0]
                assert "RuntimeError: [encrypted]" in shown[1]
                assert "no Zanzibar" in task
                assert "pin is Zanzibar" in log
                before = handle.id
            await rotation(client, path, before)
    assert any("attempt failed" in line for line in said)
    assert [line for line in said if SECRET.decode() in line] == []
    kept = [each for each in (tmp_path / "data").rglob("*") if each.is_file()]
    assert kept
    assert [each for each in kept if SECRET in each.read_bytes()] == []


async def rotation(client: AsyncClient, path: str, before: str) -> None:
    """An operator adds a key, has it encrypt, and takes the one before out: roles and clients that run go on by the file."""
    (old,) = read_keys(path).by_id
    write_keys(path, rotated(with_key(read_keys(path))), new=False)
    new = next(iter(read_keys(path).by_id))
    await asyncio.sleep(LOOK_EVERY_S)
    handle = await client.schedule("shop/pay", {"pin": SECRET.decode()})
    with pytest.raises(TaskFailed, match="no Zanzibar"):
        await handle.result_async(timeout=60)
    async with AsyncClient(client.address) as blind:
        keys = [key_of((await blind.get(each)).error) for each in (before, handle.id)]
    assert keys == [old, new]
    write_keys(path, without_key(read_keys(path), old), new=False)
    await asyncio.sleep(LOOK_EVERY_S)
    assert f"encrypted with the key {old}, which {path} does not have" in (await client.get(before)).error
    assert "no Zanzibar" in (await client.get(handle.id)).error
