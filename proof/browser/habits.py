"""What hands do on the pages: keys, tabbing, refreshing under them, going back, switching zones and themes, paging, acting on many."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from playwright.sync_api import Browser, Locator

from .cluster import Filled
from .look import NARROW, WIDE, Judge, open_form
from .progress import RowProgress

ROUND_MS: Final = 2_000
"""Between two refreshes of a page."""
_FOCUSED: Final = "() => { const at = document.activeElement; return at === document.body ? '' : (at.id || at.textContent.trim() || at.name || at.tagName); }"
_FOCUSABLE: Final = """() => [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, pre[tabindex='0']")]
  .filter((each) => each.checkVisibility({visibilityProperty: true, contentVisibilityAuto: true}) && !each.disabled && each.getClientRects().length).length"""
_OUTLINED: Final = """() => { const at = document.activeElement, style = getComputedStyle(at), box = at.getBoundingClientRect();
  return at === document.body || ((style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) && box.width > 0 && box.bottom > 0 && box.top < innerHeight + 1); }"""


class Hands:
    """Someone at a keyboard."""

    def __init__(self, judge: Judge, ids: dict[str, str]) -> None:
        self.judge, self.ids, self.page = judge, ids, judge.page
        self._asked: list[str] = []
        self.page.on(
            "request", lambda request: self._asked.append(request.url) if "hx-request" in request.headers else None
        )

    def expect(self, holds: object, what: str) -> None:
        """Notes what does not hold."""
        if not holds:
            self.judge.find(self.what, what)

    what = ""

    def refreshes(self, milliseconds: int = ROUND_MS + 1_000) -> int:
        """How often the page asks for itself within this time."""
        self._asked.clear()
        self.page.wait_for_timeout(milliseconds)
        return len(self._asked)

    def goes(self, by: str | Locator) -> None:
        """Presses a key or clicks on what leads to another page, and waits for it."""
        with self.page.expect_navigation():
            self.page.keyboard.press(by) if isinstance(by, str) else by.click()

    def focused(self) -> str:
        """What has the focus, by id or text."""
        return str(self.page.evaluate(_FOCUSED))


def skip_link(hands: Hands) -> None:
    """The first stop of Tab leads past the head of the page."""
    page = hands.judge.open("/lambdas")
    page.keyboard.press("Tab")
    hands.expect(hands.focused() == "Skip to the content", f"the first stop of Tab is {hands.focused()!r}")
    page.keyboard.press("Enter")
    hands.expect(hands.focused() == "live", f"the skip link leads to {hands.focused()!r}")


def help_by_key(hands: Hands) -> None:
    """`?` opens the list of keys, Escape closes it, and the focus is inside meanwhile."""
    page = hands.judge.open("/")
    page.keyboard.press("?")
    hands.expect(page.locator("#shortcuts[open]").count(), "? opens no list of keys")
    hands.judge.axe("the list of keys")
    page.keyboard.press("Escape")
    hands.expect(not page.locator("#shortcuts[open]").count(), "Escape does not close the list of keys")


def find_by_key(hands: Hands) -> None:
    """`/` goes to the search; an id leads to its task, another word to lambdas."""
    for sought, path in ((hands.ids["dead"], f"/tasks/{hands.ids['dead']}"), ("works", "/lambdas?q=works")):
        page = hands.judge.open("/")
        page.keyboard.press("/")
        hands.expect(hands.focused() == "search", f"/ leads to {hands.focused()!r}")
        page.keyboard.type(sought)
        hands.goes("Enter")
        hands.expect(page.url.endswith(path), f"{sought} leads to {page.url}")


def rows_by_key(hands: Hands) -> None:
    """j and k walk over rows, Enter opens one, and back returns."""
    page = hands.judge.open("/tasks?lambda=shop/works")
    rows = page.locator("table.rows tbody a.row").all_inner_texts()
    page.keyboard.press("j")
    page.keyboard.press("j")
    hands.expect(hands.focused() == rows[1], f"j j leads to {hands.focused()!r}")
    page.keyboard.press("k")
    hands.expect(hands.focused() == rows[0], f"k leads to {hands.focused()!r}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/tasks/{rows[0]}")
    page.go_back()
    hands.expect(page.url.endswith("/tasks?lambda=shop/works"), f"back leads to {page.url}")


def go_by_key(hands: Hands) -> None:
    """g and a letter lead to each page of the head."""
    page = hands.judge.open("/cluster")
    for key, path in (
        ("o", "/"),
        ("l", "/lambdas"),
        ("t", "/tasks"),
        ("f", "/failures"),
        ("j", "/jobs"),
        ("b", "/batches"),
        ("c", "/cluster"),
    ):
        page.keyboard.press("g")
        hands.goes(key)
        hands.expect(page.url == hands.judge.address + path, f"g {key} leads to {page.url}")


def tab_order(hands: Hands) -> None:
    """Tab reaches every control, each with an outline that is in sight."""
    for path in (
        "/",
        "/tasks?status=dead",
        f"/tasks/{hands.ids['dead']}",
        "/lambdas/shop/in_order?tab=keys",
        "/failures",
    ):
        page = hands.judge.open(path)
        wanted, seen, dim = page.evaluate(_FOCUSABLE), 0, []
        for _ in range(wanted + 5):
            page.keyboard.press("Tab")
            if not hands.focused():
                break
            seen += 1
            if not page.evaluate(_OUTLINED):
                dim.append(hands.focused()[:40])
        hands.expect(seen >= wanted, f"{path}: Tab reaches {seen} of {wanted} controls")
        hands.expect(not dim, f"{path}: no outline is seen on {dim[:5]}")


def action_by_key(hands: Hands) -> None:
    """Enter opens a form and puts the focus into its first field; Escape closes it and gives the focus back."""
    page = hands.judge.open("/lambdas/shop/fails")
    page.locator("#do-pause-lambda > summary").focus()
    page.keyboard.press("Enter")
    hands.expect(page.locator("#do-pause-lambda[open]").count(), "Enter does not open the form")
    page.wait_for_timeout(300)  # the browser says that a form is open a moment after
    hands.expect(hands.focused() == "why", f"the focus is on {hands.focused()!r}")
    page.keyboard.press("Escape")
    hands.expect(not page.locator("#do-pause-lambda[open]").count(), "Escape does not close the form")
    hands.expect(hands.focused() == "Pause", f"the focus goes to {hands.focused()!r}")


def refreshing(hands: Hands) -> None:
    """A page asks for itself every two seconds, and never under somebody's hands."""
    page = hands.judge.open("/")
    page.bring_to_front()
    hands.expect(hands.refreshes(), "a page in front does not refresh itself")
    page.evaluate("() => document.getSelection().selectAllChildren(document.querySelector('h1'))")
    hands.expect(not hands.refreshes(), "it refreshes while text is selected")
    page.evaluate("() => document.getSelection().removeAllRanges()")
    page.locator("#search").focus()
    page.keyboard.type("half")
    hands.expect(not hands.refreshes(), "it refreshes while somebody types")
    hands.expect(page.locator("#search").input_value() == "half", "what was typed is gone")
    page.locator("#search").blur()
    hands.expect(hands.refreshes(), "it does not go on after typing")
    page.keyboard.press("?")
    hands.expect(not hands.refreshes(), "it refreshes while the list of keys is open")
    page.keyboard.press("Escape")
    page.evaluate("() => { Object.defineProperty(document, 'hasFocus', {value: () => false, configurable: true}); }")
    hands.expect(not hands.refreshes(), "it refreshes while its window is not in front")
    page = hands.judge.open("/lambdas/shop/fails")
    page.locator("#do-pause-lambda > summary").click()
    hands.expect(not hands.refreshes(), "it refreshes while a form is open")
    hands.expect(page.locator("#do-pause-lambda[open]").count(), "an open form was closed")


def kept_open(hands: Hands) -> None:
    """A refresh keeps what was opened, where the page stands, and what has the focus."""
    page = hands.judge.open(f"/tasks/{hands.ids['dead']}")
    page.locator("#traceback > summary").click()
    page.evaluate("() => scrollTo(0, 200)")
    hands.expect(hands.refreshes(), "it does not refresh")
    hands.expect(page.locator("#traceback[open]").count(), "the traceback was closed")
    hands.expect(page.evaluate("() => scrollY") == 200, f"it scrolled to {page.evaluate('() => scrollY')}")


def back_and_state(hands: Hands) -> None:
    """Filters, tabs and places stand in the URL; back and reload keep them."""
    page = hands.judge.open("/tasks")
    page.locator("#filter-lambda").fill("shop/works")
    page.locator("#filter-status").select_option("done")
    hands.goes(page.locator("#filters > button"))
    hands.expect("lambda=shop" in page.url and "status=done" in page.url, f"the filters are not in {page.url}")
    first = page.locator("#tasks a.row").all_inner_texts()
    hands.goes(page.locator("#next-page"))
    second = page.locator("#tasks a.row").all_inner_texts()
    hands.expect(second and not set(first) & set(second), "the second page repeats rows of the first")
    hands.expect(len(first) <= 100, f"{len(first)} rows on a page")
    page.reload()
    hands.expect(page.locator("#tasks a.row").all_inner_texts() == second, "a reload shows other rows")
    page.go_back()
    hands.expect(page.locator("#filter-status").input_value() == "done", "back loses the filter")
    hands.expect(page.locator("#tasks a.row").all_inner_texts()[:1] == first[:1], "back shows other rows")


def zones(hands: Hands) -> None:
    """Times are in UTC or by the browser's clocks, and say so."""
    page = hands.judge.open("/tasks")
    hands.expect("UTC" in page.locator("main time, main .zone").first.locator("..").inner_text(), "no time says UTC")
    hands.goes(page.locator("#zone-local"))
    said = page.locator("main").inner_text()
    hands.expect("+0545" in said or "+05:45" in said or "Kathmandu" in said, "local times do not name the zone")
    hands.expect(page.url.endswith("/tasks"), f"the switch leads to {page.url}")
    page.locator("#zone-utc").click()


def themes(hands: Hands) -> None:
    """The switch of colours holds over pages, whatever the system says."""
    page = hands.judge.open("/tasks")
    for theme, ground in (("dark", "rgb(14, 18, 24)"), ("light", "rgb(246, 247, 249)")):
        hands.goes(page.locator(f"#theme-{theme}"))
        hands.judge.open("/jobs")
        got = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        hands.expect(got == ground, f"{theme} has the ground {got}")


def many_at_once(hands: Hands) -> None:
    """From a filter over a count of what would be done to doing it."""
    page = hands.judge.open("/tasks?lambda=shop/item&status=dead")
    hands.goes(page.locator("#retry-matching"))
    said = page.locator("#count h2").inner_text()
    hands.expect(said.startswith("20 of 20"), f"the count says {said!r}")
    form = page.locator("#do-retry-matching")
    open_form(form)
    form.locator("input[name=why]").fill("mended")
    hands.goes(form.locator("form > button"))
    flash = page.locator("#flash").inner_text()
    hands.expect("20 of 20 tasks run again" in flash, f"it says {flash!r}")


def narrow_forms(hands: Hands) -> None:
    """Forms fit a telephone."""
    page = hands.page
    page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    for path in (
        "/lambdas/shop/fails",
        "/lambdas/shop/fails?tab=gates",
        f"/tasks/{hands.ids['dead']}",
        "/cluster?tab=hosts",
        "/jobs/shop/nightly",
    ):
        hands.judge.open(path)
        for number in range(page.locator("details.action > summary").count()):
            page.locator("details.action > summary").nth(number).click()
            hands.judge.measure(f"{path}, form {number + 1} open at {NARROW[0]} px")
    page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})


def follow_log(hands: Hands) -> None:
    """The log of a task that runs grows on its page, by refreshes alone."""
    page = hands.judge.open(f"/tasks/{hands.ids['speaks']}")
    page.bring_to_front()
    page.evaluate("() => { window.stays = true; }")
    log = page.locator("#log")
    newest = [_newest_line(log)]
    for _ in range(8):
        page.wait_for_timeout(ROUND_MS)
        newest.append(_newest_line(log))
        if newest[-1] > newest[0] > 0 and len(set(newest)) >= 4:
            break
    hands.expect(newest == sorted(newest) and len(set(newest)) >= 4, f"the newest lines were {newest}")
    hands.expect(page.evaluate("() => window.stays === true"), "the page was loaded anew")
    hands.expect(hands.focused() == "", f"the focus went to {hands.focused()!r}")
    hands.expect(log.locator("script").count() == 0, "a text of the log became a script")


def _newest_line(log: Locator) -> int:
    said = re.findall(r"line (\d+) ", log.inner_text())
    return int(said[-1]) if said else 0


def copy_command(hands: Hands) -> None:
    """The button copies the command as it is shown, with what was written."""
    page = hands.judge.open("/lambdas/shop/works")
    form = page.locator("#do-pause-lambda")
    open_form(form)
    form.locator("input[name=why]").fill('it\'s "late"; $(reboot)')
    shown = " ".join(form.locator(".command code").inner_text().split())
    button = form.locator("[data-copy]")
    button.click()
    page.wait_for_timeout(100)
    hands.expect(button.inner_text() == "Copied", f"the button says {button.inner_text()!r}")
    copied = page.evaluate("() => navigator.clipboard.readText()")
    hands.expect(copied == shown, f"copied {copied!r} in place of {shown!r}")
    hands.expect("atf pause shop/works" in copied and "reboot" in copied, f"copied {copied!r}")
    page.wait_for_timeout(1_600)
    hands.expect(button.inner_text() == "Copy", f"afterwards the button says {button.inner_text()!r}")


HABITS: Final[tuple[Callable[[Hands], None], ...]] = (
    skip_link, help_by_key, find_by_key, rows_by_key, go_by_key, tab_order, action_by_key, refreshing, kept_open, back_and_state, zones,
    themes, many_at_once, narrow_forms, follow_log, copy_command,
)  # fmt: skip


def habits(browser: Browser, cluster: Filled, progress: RowProgress) -> dict[str, Any]:
    """Tries each habit."""
    context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, timezone_id="Asia/Kathmandu")
    context.set_default_timeout(10_000)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    judge = Judge(context, cluster.pages)
    hands = Hands(judge, cluster.ids)
    for number, habit in enumerate(HABITS, 1):
        hands.what = habit.__name__.replace("_", " ")
        progress.say(f"{number} of {len(HABITS)}: {hands.what}, {len(judge.findings)} findings")
        try:
            habit(hands)
        except Exception as error:  # noqa: BLE001  the next one is tried
            judge.find(hands.what, f"{type(error).__name__}: {str(error)[:300]}")
        judge.hear(hands.what)
    context.close()
    return {"habits": len(HABITS), "findings": judge.findings}
