"""The metrics of a whole cluster of real processes, as somebody who scrapes it sees them."""

from __future__ import annotations

import asyncio
import signal
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from atf.cli.local.cluster import Cluster
from atf.metrics import table
from atf.metrics.table import CERTIFICATE_EXPIRES, METRICS, ROLES, MetricSpec

from .test_up import env, folder, results, running, schedule  # noqa: F401  fixtures among them

pytestmark = pytest.mark.timeout(120)

RARE: Final = {
    CERTIFICATE_EXPIRES,
    *(table.TICKS_MISSED, table.TASKS_DUE, table.QUEUE_DEPTH, table.DUE_OLDEST, table.LAMBDA_GATED),
    table.SLO_RATIO,
}
"""What is there only in some events."""
SILENT: Final = {"store-consumer": {table.RPC_REQUESTS, table.RPC_SECONDS, table.TASKS_ENDED}}
"""What a process could have, and has not done here."""
Families = dict[str, list[Any]]


def get(address: str, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def scrape(cluster: Cluster, role: str) -> Families:
    """The samples of a process, by the metric's name as the table has it."""
    status, text = await asyncio.to_thread(get, cluster.metrics[role], "/metrics")
    assert status == 200
    found = {}
    for family in text_string_to_metric_families(text):
        found[f"{family.name}_total" if family.type == "counter" else family.name] = family.samples
    return {name: samples for name, samples in found.items() if name.startswith("atf_")}


def fits(spec: MetricSpec, samples: list[Any]) -> bool:
    return all(set(each.labels) - ({"le"} - set(spec.labels)) == set(spec.labels) for each in samples)


async def test_every_process_exports_what_the_table_says_and_goes_on_while_the_store_is_away(
    folder: Path,  # noqa: F811
    env: dict[str, str],  # noqa: F811
) -> None:
    by_name = {spec.name: spec for spec in METRICS}
    async with running(folder, env) as cluster:
        address = cluster.frontend_address
        assert await results(address, [await schedule(address, "shop/add", {"a": 2, "b": 3})], 15) == [5]
        await asyncio.sleep(1.5)  # the executor reports
        for role in ROLES:
            found = await scrape(cluster, role)
            assert all(role in by_name[name].roles for name in found), role
            assert all(fits(by_name[name], samples) for name, samples in found.items()), role
            expected = {each for each in METRICS if role in each.roles} - RARE - SILENT.get(role, set())
            assert {each.name for each in expected} - found.keys() == set(), role
            for path in ("/livez", "/readyz"):
                assert (await asyncio.to_thread(get, cluster.metrics[role], path))[0] == 200
        runs = (await scrape(cluster, "controller"))["atf_runs_ended_total"]
        assert [(each.labels, each.value) for each in runs] == [({"lambda": "shop/add", "outcome": "succeeded"}, 1)]

        cluster.kill("store", signal.SIGSTOP)
        try:
            await asyncio.sleep(5)
            found = await scrape(cluster, "store-consumer")
            for role in ROLES:
                for path in ("/livez", "/readyz"):
                    assert (await asyncio.to_thread(get, cluster.metrics[role], path))[0] == 200
        finally:
            cluster.kill("store", signal.SIGCONT)
        assert "atf_due_lag_seconds" in found
