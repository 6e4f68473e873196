"""The pages of lambdas: all of them, and one with its settings, gates, keys, queues and audit."""

from __future__ import annotations

from typing import Any, Final

from atf.client.settings import settings_of
from atf.rpc import frontend_pb2 as f
from atf.ui.lambda_list import every_lambda, one_lambda
from atf.ui.visit import PAGE_ROWS, PageView, Visit
from atf.ui.words import counted, lambda_of

TABS: Final = ("settings", "gates", "keys", "queues", "audit")
_ORDERS: Final = ("name", "waiting", "running", "dead")


async def lambdas(visit: Visit) -> PageView:
    """The registered lambdas, a page of them."""
    wanted, order = visit.query.get("q", "").lower(), visit.word("sort", _ORDERS)
    found = [each for each in await every_lambda(visit.frontend, visit.read) if wanted in each.spec.name.lower()]
    if order != "name":
        found.sort(key=lambda each: -counted(each.counts, order))
    after = visit.query.get("page", "")
    begin = int(after) if after.isascii() and after.isdigit() and len(after) < 6 else 0
    rows = [{"info": each, "counts": {word: counted(each.counts, word) for word in _WORDS}} for each in found]
    values = {
        "rows": rows[begin : begin + PAGE_ROWS],
        "of": len(found),
        "begin": begin,
        "next": begin + PAGE_ROWS if begin + PAGE_ROWS < len(found) else "",
        "order": order,
        "orders": _ORDERS,
    }
    return PageView("lambdas.html", "Lambdas", values)


_WORDS: Final = ("waiting", "running", "failed", "dead", "done", "cancelled")


async def one_lambda_page(visit: Visit) -> PageView:
    """One lambda, with one of its tabs."""
    name, tab = visit.names["name"], visit.word("tab", TABS)
    info = await one_lambda(visit.frontend, visit.read, name)
    gates = (await visit.read(visit.frontend.list_gates, f.ListGatesRequest(**{"lambda": name}))).gates
    values: dict[str, Any] = {
        "info": info,
        "name": name,
        "counts": {word: counted(info.counts, word) for word in _WORDS},
        "tabs": TABS,
        "tab": tab,
        "gates": [each for each in gates if lambda_of(each) == name][:PAGE_ROWS],
        **await _TABS[tab](visit, name, info),
    }
    return PageView("lambda.html", name, values)


async def _settings(_visit: Visit, _name: str, info: f.LambdaInfo) -> dict[str, Any]:
    code = settings_of(info.spec)
    rows = [
        {
            "name": name,
            "value": value or info.overrides.get(name, ""),
            "code": code[name],
            "set": name in info.overrides,
        }
        for name, value in settings_of(info.in_force).items()
    ]
    return {"settings": [row for row in rows if row["value"] or row["set"]]}


async def _gates(_visit: Visit, _name: str, _info: f.LambdaInfo) -> dict[str, Any]:
    return {}  # the page has them in any case: its head says whether there are any


async def _keys(visit: Visit, name: str, _info: f.LambdaInfo) -> dict[str, Any]:
    key, token, of_name = visit.query.get("key", ""), visit.query.get("page", ""), {"lambda": name}
    half = PAGE_ROWS // 2  # there are two tables
    asked = f.ListKeysRequest(key=key, page_size=half, page_token=token, **of_name)
    stopped = await visit.read(visit.frontend.list_keys, asked)
    busy = await visit.read(
        visit.frontend.list_concurrency_keys, f.ListConcurrencyKeysRequest(key=key, page_size=half, **of_name)
    )
    return {
        "keys": stopped.keys[:half],
        "next": stopped.next_page_token,
        "busy": busy.keys[:half],
        "key": key,
    }


async def _queues(_visit: Visit, _name: str, info: f.LambdaInfo) -> dict[str, Any]:
    return {"queues": sorted(info.queues, key=lambda each: (each.priority, each.partition))[:PAGE_ROWS]}


async def _audit(visit: Visit, name: str, _info: f.LambdaInfo) -> dict[str, Any]:
    return await audit_page(visit, name)


async def audit_page(visit: Visit, name: str = "") -> dict[str, Any]:
    """A page of who did what to a lambda, or to all."""
    before = visit.query.get("page", "")
    number = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
    only: dict[str, Any] = {each: visit.query.get(each, "").strip() for each in ("who", "what")}
    request = f.ListAuditRequest(
        page_size=PAGE_ROWS, before=number, task_id=visit.query.get("task", "").strip(), **only
    )
    setattr(request, "lambda", name)
    found = await visit.read(visit.frontend.list_audit, request)
    return {"entries": found.entries[:PAGE_ROWS], "next": found.before or ""}


_TABS: Final = {"settings": _settings, "gates": _gates, "keys": _keys, "queues": _queues, "audit": _audit}
