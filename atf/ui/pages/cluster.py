"""The page of the cluster: its hosts, its roles and store, the cores of its pools, its gates and its audit log."""

from __future__ import annotations

from typing import Any, Final

from atf.errors import PermissionDenied
from atf.rpc import frontend_pb2 as f
from atf.ui.visit import PAGE_ROWS, PageView, Visit

from .lambdas import audit_page

TABS: Final = ("hosts", "store", "capacity", "gates", "audit")


async def cluster(visit: Visit) -> PageView:
    """The cluster, with one of its tabs."""
    tab = visit.word("tab", TABS)
    refused, found = "", dict[str, Any]()
    try:
        found = await _TABS[tab](visit)
    except PermissionDenied as error:  # of this tab: its reader may see others
        refused = str(error)
    return PageView("cluster.html", "Cluster", {"tabs": TABS, "tab": tab, "refused": refused, **found})


async def _hosts(visit: Visit) -> dict[str, Any]:
    found = await visit.read(visit.frontend.list_hosts, f.ListHostsRequest())
    wanted = visit.query.get("q", "")
    hosts = [each for each in found.hosts if wanted in each.name or wanted in each.pool]
    begin = int(visit.query["page"]) if visit.query.get("page", "").isdecimal() and len(visit.query["page"]) < 5 else 0
    more = begin + PAGE_ROWS
    return {
        "hosts": hosts[begin:more],
        "of": len(hosts),
        "now_us": found.now_us,
        "next": more if more < len(hosts) else "",
    }


async def _store(visit: Visit) -> dict[str, Any]:
    return {"status": await visit.read(visit.frontend.get_status, f.GetStatusRequest())}


async def _capacity(visit: Visit) -> dict[str, Any]:
    pools = (await visit.read(visit.frontend.list_capacity, f.ListCapacityRequest())).pools
    chosen = visit.query.get("pool", "") or (pools[0] if pools else "")
    shown = await visit.read(visit.frontend.get_capacity, f.GetCapacityRequest(pool=chosen)) if chosen else None
    return {"pools": pools, "pool": chosen, "capacity": shown, "core_word": _core_word}


def _core_word(state: int) -> str:
    return f.CoreState.Name(state).lower() if state in f.CoreState.values() else f"state {state}"


async def _gates(visit: Visit) -> dict[str, Any]:
    return {"gates": (await visit.read(visit.frontend.list_gates, f.ListGatesRequest())).gates[:PAGE_ROWS]}


async def _audit(visit: Visit) -> dict[str, Any]:
    return await audit_page(visit)


_TABS: Final = {"hosts": _hosts, "store": _store, "capacity": _capacity, "gates": _gates, "audit": _audit}
