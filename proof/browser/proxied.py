"""The pages behind a proxy, below a path and under another name: every page, every link, and what hands do there."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urljoin

from playwright.sync_api import Browser

from .cluster import Filled
from .look import WIDE, Judge, open_form
from .pages import broken, full, hrefs
from .progress import RowProgress
from .proxy import PATH

WHY: Final = "behind a proxy"


def proxied(browser: Browser, cluster: Filled, progress: RowProgress) -> dict[str, Any]:
    """Looks at every page, follows every link, and acts."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]})
    context.set_default_timeout(10_000)
    judge, looks, links = Judge(context, cluster.proxied), full(cluster.ids), dict[str, str]()
    for number, look in enumerate(looks, 1):
        page = judge.open(look.path, look.status)
        judge.hear(look.name)
        links |= {found: look.path for each in hrefs(page) if (found := urljoin(page.url, each)) != page.url}
        progress.say(f"{number} of {len(looks)}: {look.name}, {len(judge.findings)} findings")
    for tried in (_act, _search, _prefers, _refreshes, _copies_by_hand):
        progress.say(tried.__name__.strip("_"))
        try:
            tried(judge, cluster)
        except Exception as error:  # noqa: BLE001  the next one is tried
            judge.find(tried.__name__, f"{type(error).__name__}: {str(error)[:300]}")
        judge.hear(tried.__name__)
    context.close()
    return {
        "pages": len(looks),
        "links": len(links),
        "findings": judge.findings + broken(browser, cluster.proxied, links),
    }


def _act(judge: Judge, _cluster: Filled) -> None:
    """A form is sent below the path, counts though the host is another one, and leads back."""
    page = judge.open("/lambdas/shop/works")
    for action, seen in (
        ("pause-lambda", "h1 .badge:has-text('paused')"),
        ("resume-lambda", "h1:not(:has(.badge.warn))"),
    ):
        form = page.locator(f"#do-{action}")
        open_form(form)
        form.locator("input[name=why]").fill(WHY)
        form.locator("form > button").click()
        page.wait_for_selector(seen)
        if not page.url.startswith(f"{judge.address}/lambdas/shop/works"):
            judge.find(action, f"leads to {page.url}")


def _search(judge: Judge, cluster: Filled) -> None:
    page = judge.open("/")
    page.locator("#search").fill(cluster.ids["dead"])
    with page.expect_navigation():
        page.keyboard.press("Enter")
    if page.url != f"{judge.address}/tasks/{cluster.ids['dead']}":
        judge.find("search", f"leads to {page.url}")


def _prefers(judge: Judge, _cluster: Filled) -> None:
    """What a reader prefers is kept in cookies of the path alone."""
    page = judge.open("/lambdas")
    page.goto(f"{judge.address}/prefs?theme=dark&next={PATH}/lambdas")
    if page.url != f"{judge.address}/lambdas":
        judge.find("preferences", f"lead to {page.url}")
    for each in page.context.cookies():
        if each.get("path") != PATH:
            judge.find("preferences", f"the cookie {each.get('name')} is for {each.get('path')}")


def _refreshes(judge: Judge, _cluster: Filled) -> None:
    page = judge.open("/")
    page.bring_to_front()
    with page.expect_response(lambda answer: "hx-request" in answer.request.headers) as found:
        pass
    if found.value.status != 200:
        judge.find("refresh", f"answers {found.value.status}")


def _copies_by_hand(judge: Judge, _cluster: Filled) -> None:
    """Without TLS a browser lets no script write to the clipboard: the button selects the command instead."""
    page = judge.open("/lambdas/shop/works")
    form = page.locator("#do-pause-lambda")
    open_form(form)
    form.locator("[data-copy]").click()
    chosen = " ".join(str(page.evaluate("() => document.getSelection().toString()")).split())
    if not chosen.startswith("atf pause shop/works"):
        judge.find("copy", f"selects {chosen[:100]!r}")
