"""The matrix: every page, wide and narrow, light and dark, read-only and not."""

from __future__ import annotations

from typing import Any, Final, NamedTuple
from urllib.parse import quote, urljoin

from playwright.sync_api import Browser

from .cluster import ROOT, Filled
from .look import NARROW, WIDE, Judge
from .progress import RowProgress
from .proxy import NAME

SHOTS: Final = ROOT / ".build" / "browser" / "shots"
THEMES: Final = ("light", "dark")


class Look(NamedTuple):
    """A page to look at."""

    name: str
    path: str
    status: int = 200


def _tabs(name: str, path: str, *tabs: str) -> list[Look]:
    return [Look(f"{name}-{tab}", f"{path}?tab={tab}") for tab in tabs]


def full(ids: dict[str, str]) -> list[Look]:
    """Every page with everything on it, and every page of an error."""
    tasks = [Look(f"task-{name}", f"/tasks/{ids[name]}") for name in TASKS]
    parts = [Look("part-log", f"/tasks/{ids['dead']}/log"), Look("part-error", f"/tasks/{ids['dead']}/error")]
    fails, job = "/lambdas/shop/fails", f"/jobs/{quote(ids['job'])}"
    cluster_tabs = ("hosts", "store", "capacity", "gates", "audit")
    return [
        Look("overview", "/"),
        Look("lambdas", "/lambdas"),
        Look("lambdas-by-dead", "/lambdas?sort=dead"),
        *_tabs("lambda", fails, "settings", "gates", "keys", "queues", "audit"),
        *_tabs("lambda-ordered", "/lambdas/shop/in_order", "keys"),
        *_tabs("lambda-slots", "/lambdas/shop/sleeps", "keys"),
        *_tabs("lambda-gated", "/lambdas/shop/gated", "gates", "audit"),
        Look("lambda-paused", "/lambdas/shop/paused"),
        Look("lambda-unserved", "/lambdas/shop/nobody_runs"),
        Look("tasks", "/tasks"),
        Look("tasks-dead", "/tasks?status=dead"),
        Look("tasks-filtered", "/tasks?lambda=shop/fails&status=dead&since=1h&labels=a%3Db&error_type=ValueError"),
        Look("tasks-none", "/tasks?lambda=shop/works&status=dead"),
        Look("tasks-wrong", "/tasks?since=" + quote("</script>soon")),
        *tasks,
        Look("part-arguments", f"/tasks/{ids['big']}/arguments"),
        Look("part-result", f"/tasks/{ids['big']}/result"),
        *parts,
        Look("failures", "/failures"),
        Look("bulk", "/bulk/retry?lambda=shop/fails"),
        Look("bulk-cancel", "/bulk/cancel?status=running&labels=a%3Db"),
        Look("jobs", "/jobs"),
        Look("job-hostile", job),
        Look("job", "/jobs/shop/nightly"),
        Look("batches", "/batches"),
        Look("batch", f"/batches/{ids['batch']}"),
        Look("batch-going", f"/batches/{ids['going']}"),
        *_tabs("cluster", "/cluster", *cluster_tabs),
        Look("no-page", "/nowhere", 404),
        Look("no-task", "/tasks/0-nothing", 404),
        Look("no-lambda", "/lambdas/shop/nothing", 404),
        Look("no-job", "/jobs/shop/nothing", 404),
    ]


TASKS: Final = (
    "dead", "big", "retried", "running", "slot", "stopped", "behind", "later", "cancelled", "gated", "paused",
)  # fmt: skip


def many(ids: dict[str, str]) -> list[Look]:
    """The pages that list lambdas, with three hundred of them."""
    listed = [
        Look("lambdas", "/lambdas"),
        Look("lambdas-2", "/lambdas?page=100"),
        Look("lambdas-some", "/lambdas?q=29"),
    ]
    return [
        Look("overview", "/"),
        *listed,
        Look("lambda", f"/lambdas/{ids['lambda']}"),
        *_LISTS,
        Look("task", f"/tasks/{ids['later']}"),
    ]


def empty(_ids: dict[str, str]) -> list[Look]:
    """Every list with nothing in it."""
    return [
        Look("overview", "/"),
        Look("lambdas", "/lambdas"),
        *_LISTS,
        *_tabs("cluster", "/cluster", "store", "capacity", "gates", "audit"),
    ]


_LISTS: Final = (
    Look("tasks", "/tasks"),
    Look("failures", "/failures"),
    Look("jobs", "/jobs"),
    Look("batches", "/batches"),
    Look("cluster", "/cluster"),
)
LOOKS: Final = {"full": full, "many": many, "empty": empty}


def matrix(browser: Browser, cluster: Filled, variant: str, progress: RowProgress) -> dict[str, Any]:
    """Looks at every page of a variant in every way, and follows every link."""
    looks, views, findings = LOOKS[variant](cluster.ids), 0, []
    links: dict[str, str] = {}
    for acts, address in ((True, cluster.pages), (False, cluster.only_look)):
        for size in (WIDE, NARROW):
            context = browser.new_context(viewport={"width": size[0], "height": size[1]}, reduced_motion="reduce")
            judge = Judge(context, address)
            for number, look in enumerate(looks, 1):
                page = judge.open(look.path, look.status)
                for theme in THEMES:
                    where = f"{variant} {look.name} {size[0]} {theme}{'' if acts else ' read-only'}"
                    page.emulate_media(color_scheme=theme)
                    judge.measure(where)
                    judge.axe(where)
                    judge.hear(where)
                    views += 1
                    if acts:
                        SHOTS.joinpath(variant).mkdir(parents=True, exist_ok=True)
                        whole = not look.name.startswith("part-")  # a payload of 1 MiB is taller than any picture
                        page.screenshot(path=SHOTS / variant / f"{look.name}-{size[0]}-{theme}.png", full_page=whole)
                if not acts and page.locator("details.action, form[method=post]").count():
                    judge.find(look.path, "offers an action though it is read-only")
                if acts and size == WIDE:
                    links |= {
                        found: look.path for each in hrefs(page) if (found := urljoin(page.url, each)) != page.url
                    }
                progress.say(
                    f"{variant} {size[0]} {'' if acts else 'read-only '}{number} of {len(looks)}: {look.name}, {len(judge.findings)} findings"
                )
            findings += judge.findings
            context.close()
    findings += broken(browser, cluster.pages, links)
    return {"pages": len(looks), "views": views, "links": len(links), "findings": findings}


def hrefs(page: Any) -> list[str]:
    """The links of a page, without the switches of looks."""
    found = page.evaluate("() => [...document.querySelectorAll('a[href]')].map((each) => each.getAttribute('href'))")
    return [each for each in found if not each.startswith("#") and "/prefs" not in each]


def broken(browser: Browser, address: str, links: dict[str, str]) -> list[str]:
    """What is wrong with links, each with the page that has it: they lead elsewhere, or to nothing."""
    context, found = browser.new_context(), []
    for link, page in links.items():
        if not link.startswith(address):
            found.append(f"{page}: a link to elsewhere: {link[:200]}")
            continue
        status = context.request.get(link.replace(NAME, "127.0.0.1")).status  # it resolves names by itself
        if status != 200:
            found.append(f"{page}: its link {link[:200]} answers {status}")
    context.close()
    return found
