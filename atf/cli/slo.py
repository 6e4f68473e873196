"""`atf slo`: what is left of the error budgets, from a Prometheus, or from what roles have counted since they started."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import click

from atf.client.registration import listed
from atf.config.loading import load
from atf.config.settings import CONTROLLER_PORT, METRICS_ABOVE, setting
from atf.errors import AtfError, FailedPrecondition, InvalidArgument, Unavailable
from atf.rpc.listen_address import split_address
from atf.sdk.slo import DEFAULT_SLO, slo_of

from .budgets import BURN_QUERY, SLO_QUERY, Budget, of_prometheus, of_roles, worst_first
from .options import any_lambda_argument, kept, lists, option, wants_json
from .output import Columns, show_rows, when
from .remote import FrontendAddress, ask

_SECONDS: Final = 10
_MOST_BYTES: Final = 32 << 20
_MOST_ROLES: Final = 200
_SHOWN: Final = ("5m", "1h", "6h", "3d")


@dataclass(frozen=True)
class PrometheusAddress:
    """Where budgets are asked for."""

    prometheus: str = setting("", "URL of the Prometheus that scrapes ATF")


@click.command()
@any_lambda_argument
@option("--prometheus", "URL", "The Prometheus that scrapes ATF, such as http://prometheus:9090.  [ATF_PROMETHEUS]")
@option(
    "--metrics",
    "HOST:PORT",
    "Metrics of a frontend or controller; again for each.  [default: those of this frontend's host, at their usual ports]",
    multiple=True,
)
@lists
def slo(lambda_name: str, prometheus: str | None, metrics: tuple[str, ...]) -> None:
    """Show what is left of the error budgets: of starts by lambda, and of the calls that schedule tasks.

    With --prometheus: over 30 days, or as many as it keeps, with the rules of deploy/prometheus loaded. Without: since the frontends and
    controllers started whose metrics are asked.
    """
    if prometheus and metrics:
        raise InvalidArgument("--metrics: of no use with --prometheus; leave it out")
    url = "" if metrics else load(PrometheusAddress, {"prometheus": prometheus}).prometheus
    budgets, since = (_from_prometheus(url), 0.0) if url else _from_roles(metrics)
    if lambda_name:
        budgets = [each for each in budgets if each.of == lambda_name] or [Budget(lambda_name, "", None, {})]
    show_rows(budgets, lambda each: _json(each, since), _columns(by_window=bool(url)))
    if since and not wants_json():
        click.echo(
            f"counted since {when(round(since * 1e6))}, when the first of these processes started; --prometheus URL has 30 days",
            err=True,
        )


def budgets_now(within_s: float) -> list[Budget]:
    """The budgets that `atf slo` shows without options; none where nobody can be asked within some seconds."""
    try:
        url = load(PrometheusAddress).prometheus
        return _from_prometheus(url, within_s) if url else _from_roles((), within_s)[0]
    except AtfError:
        return []


def _columns(*, by_window: bool) -> Columns[Budget]:
    columns: Columns[Budget] = {"of": "of", "promise": "promise", "budget left": lambda each: _percent(each.left)}
    if by_window:
        return {**columns, **{f"burn {window}": _burn(window) for window in _SHOWN}}
    return {**columns, "burn": _burn("start"), "counted": "counted", "bad": "bad"}


def _burn(window: str) -> Any:
    return lambda each: f"{each.burn[window]:.2f}" if window in each.burn else ""


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share * 100:.1f} %"


def _json(each: Budget, since: float) -> dict[str, Any]:
    told = {
        "of": each.of,
        "promise": each.promise,
        "left": each.left,
        "burn": dict(each.burn),
        "counted": each.counted,
        "bad": each.bad,
    }
    return {**told, "since": datetime.fromtimestamp(since, UTC).isoformat() if since else None}


def _from_prometheus(url: str, within_s: float = _SECONDS) -> list[Budget]:
    if not url.startswith(("http://", "https://")):
        raise InvalidArgument(f"prometheus {url!r}: write its URL, such as http://prometheus:9090")
    base = f"{url.rstrip('/')}/api/v1/query"
    queries = {"query": BURN_QUERY}, {"query": SLO_QUERY}
    burns, promises = (_result(text, url) for text in asyncio.run(_get([(base, each) for each in queries], within_s)))
    return of_prometheus(burns, promises)


def _result(text: str, url: str) -> list[Any]:
    """The samples of an instant query's answer."""
    try:
        answer = json.loads(text)
        if answer["status"] != "success":
            raise FailedPrecondition(f"Prometheus at {url}: {str(answer.get('error', answer))[:200]}")
        return list(answer["data"]["result"])
    except (ValueError, TypeError, KeyError):
        raise FailedPrecondition(f"{url}: its answer is not that of a Prometheus") from None


def _from_roles(given: Sequence[str], within_s: float = _SECONDS) -> tuple[list[Budget], float]:
    addresses = list(given) or _usual()
    if len(addresses) > _MOST_ROLES:
        raise InvalidArgument(
            f"--metrics: {len(addresses)} addresses, at most {_MOST_ROLES}; ask a Prometheus by --prometheus"
        )
    for each in addresses:
        split_address(each, "--metrics")
    promised = {each.spec.name: slo_of(each.in_force.slo) for each in ask(listed).lambdas}
    texts = asyncio.run(_get([(f"http://{each}/metrics", {}) for each in addresses], within_s))
    budgets, since = of_roles(texts, lambda name: promised.get(name, DEFAULT_SLO))
    known = {each.of for each in budgets}
    silent = [Budget(name, str(each), None, {}, 0, 0) for name, each in promised.items() if name not in known]
    return worst_first([*budgets, *silent]), since


def _usual() -> list[str]:
    """The metrics of the frontend that is asked, and of a controller beside it."""
    host, port = split_address(load(FrontendAddress, {"frontend": kept("frontend")}).frontend, "frontend")
    return [f"{host}:{port + METRICS_ABOVE}", f"{host}:{CONTROLLER_PORT + METRICS_ABOVE}"]


async def _get(requests: Sequence[tuple[str, dict[str, str]]], within_s: float) -> list[str]:
    """The answers of these addresses, asked together.

    Raises:
        Unavailable: one does not answer in time, or too much.
    """
    import aiohttp

    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=within_s)) as session:

        async def get(url: str, query: dict[str, str]) -> str:
            try:
                async with session.get(url, params=query) as answer:
                    data = await answer.content.read(_MOST_BYTES)
                    while len(data) < _MOST_BYTES and (more := await answer.content.read(_MOST_BYTES - len(data))):
                        data += more
                    if answer.status != 200 and not data.startswith(b"{"):
                        raise Unavailable(
                            f"{url} answers with HTTP {answer.status}: is that the address of {_what(query)}?"
                        )
                    return data.decode(errors="replace")
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
                mend = (
                    "give its URL by --prometheus"
                    if query
                    else "give the addresses that `atf up` printed, or those of --metrics-listen, by --metrics; or --prometheus URL"
                )
                raise Unavailable(f"{url} can't be reached: {_why(error)}. See whether it runs, or {mend}") from None

        return list(await asyncio.gather(*(get(url, query) for url, query in requests)))


def _what(query: dict[str, str]) -> str:
    return "a Prometheus" if query else "a role's metrics"


def _why(error: Exception) -> str:
    """Why a server can't be reached; aiohttp's own words name its settings, too."""
    return str(getattr(error, "os_error", "") or error) or f"no answer within {_SECONDS} s"
