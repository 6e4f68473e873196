"""Debian's `prometheus` with ATF's rules, on a free port: started, asked, ended."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from atf.embedded.child import Child

from . import rules

PROGRAM: Final = "prometheus"
MISSING: Final = "not run: prometheus is not installed: apt-get install prometheus"


def installed() -> bool:
    return shutil.which(PROGRAM) is not None


@dataclass(frozen=True)
class FiringAlert:
    """An alert as whoever is paged sees it."""

    name: str
    severity: str
    summary: str
    runbook: str
    lambda_name: str

    @property
    def about(self) -> tuple[str, str]:
        """What keeps it apart from the others."""
        return self.name, self.lambda_name


class PrometheusServer:
    """Watches the processes of a cluster.

    Args:
        folder: its data, rules and log.
        address: host:port to serve on.
        targets: addresses of metrics by role.
        factor: how much faster than in deploy/ the rules are.
    """

    def __init__(self, folder: Path, address: str, targets: Mapping[str, list[str]], factor: float) -> None:
        self.url = f"http://{address}"
        folder.mkdir()
        names = rules.write(folder, factor)
        scrapes = [{"targets": each, "labels": {"role": role}} for role, each in targets.items()]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": names,
            "scrape_configs": [{"job_name": "atf", "static_configs": scrapes}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config), "utf-8")  # JSON is YAML, too
        log = (folder / "log").open("a", encoding="utf-8")
        flags = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", "--log.level=warn"]
        program = shutil.which(PROGRAM) or PROGRAM
        self._child = Child(
            [program, *flags, f"--web.listen-address={address}"], on_line=lambda line: print(line, file=log, flush=True)
        )

    async def alerts(self) -> list[FiringAlert]:
        """Those that fire."""
        found = (await self._ask("alerts"))["alerts"]
        return sorted(
            (_alert(each) for each in found if each["state"] == "firing"), key=lambda each: (each.severity, each.name)
        )

    async def value(self, expression: str) -> float | None:
        """The greatest value of an expression; None: it has none."""
        found = (await self._ask("query", query=expression))["result"]
        return max((float(each["value"][1]) for each in found), default=None)

    async def ready(self) -> bool:
        try:
            await self._ask("query", query="1")
        except (aiohttp.ClientError, KeyError, ValueError):
            return False
        return True

    async def stop(self) -> None:
        await self._child.stop(5)

    async def _ask(self, what: str, **parameters: str) -> Any:
        timeout = aiohttp.ClientTimeout(total=5)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{self.url}/api/v1/{what}", params=parameters) as answer,
        ):
            return (await answer.json())["data"]


def _alert(found: Mapping[str, Any]) -> FiringAlert:
    labels, notes = found["labels"], found["annotations"]
    return FiringAlert(
        labels["alertname"], labels["severity"], notes["summary"], notes["runbook"], labels.get("lambda", "")
    )
