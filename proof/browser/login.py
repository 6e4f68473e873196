"""Row: the pages behind a login, as people meet them, wide and narrow, light and dark.

Whoever opens a page is asked for a token; a wrong one is told, and what was opened follows the right one. A reader sees no action, and why what tasks carry
is withheld; an operator sees which key it is encrypted with. Who signs out, or whose token is revoked, is asked again.
"""

from __future__ import annotations

from typing import Any, Final

from playwright.sync_api import Browser, expect

from .cluster import Guarded, atf, guarded
from .look import WIDE, Judge
from .pages import SHOTS, THEMES
from .progress import RowProgress

NARROW: Final = (400, 844)
_REVOKED_MS: Final = 40_000
"""Within which a token that was revoked is one everywhere."""


def login(browser: Browser, progress: RowProgress) -> dict[str, Any]:
    """Tries it all in four looks, and the end of a session once."""
    progress.say("starting a cluster that asks for tokens")
    looks, findings = [(size, theme) for size in (WIDE, NARROW) for theme in THEMES], list[str]()
    with guarded() as cluster:
        for size, theme in looks:
            progress.say(f"{size[0]} {theme}, {len(findings)} findings")
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]}, color_scheme=theme, reduced_motion="reduce"
            )
            context.set_default_timeout(10_000)
            findings += _Visitor(Judge(context, cluster.pages), cluster, f"{size[0]}-{theme}").tried()
            context.close()
        progress.say("a token is revoked")
        context = browser.new_context()
        findings += _Visitor(Judge(context, cluster.pages), cluster, "revoked").is_sent_away()
        context.close()
    return {"looks": len(looks), "findings": findings}


class _Visitor:
    def __init__(self, judge: Judge, cluster: Guarded, look: str) -> None:
        self._judge, self._cluster, self._look, self._page = judge, cluster, look, judge.page

    def tried(self) -> list[str]:
        """What is wrong with what somebody sees who comes, errs, signs in, looks around, leaves, and comes back as somebody else."""
        for step in (self._comes, self._errs, self._reads, self._leaves, self._operates):
            name = step.__name__.strip("_")
            try:
                step()
            except Exception as error:  # noqa: BLE001  the next one is tried
                self._judge.find(f"{name} {self._look}", f"{type(error).__name__}: {str(error)[:300]}")
            self._judge.hear(f"{name} {self._look}")
        return self._judge.findings

    def is_sent_away(self) -> list[str]:
        """What is wrong where a token is revoked while its holder looks: the page asks again, and says why."""
        self._judge.open("/tasks")
        self._signs_in("operator")
        expect(self._page.locator("#tasks")).to_be_visible()
        atf(*self._cluster.revoke)
        self._judge.expect(401)
        try:  # the page refreshes itself
            self._page.wait_for_selector("#login-why", timeout=_REVOKED_MS)
            expect(self._page.locator("#login-why")).to_contain_text("has ended")
        except Exception as error:  # noqa: BLE001  it is a finding
            self._judge.find("revoked", f"{type(error).__name__}: {str(error)[:300]}")
        self._shoot("ended")
        return self._judge.findings

    # --- steps --------------------------------------------------------------------------------------------------------

    def _comes(self) -> None:
        page = self._judge.open(f"/tasks/{self._cluster.ids['refused']}")
        expect(page.locator("#token")).to_be_focused()
        page.keyboard.press("Tab")
        expect(page.locator("#login-go")).to_be_focused()
        self._looks_well("login")

    def _errs(self) -> None:
        self._judge.expect(401)
        self._signs_in_by("atf_aaaaaaaaaa_" + "A" * 43)
        said = self._page.locator("#login-said")
        expect(said).to_be_visible()
        expect(self._page.locator("#token")).to_have_value("")
        expect(self._page.locator("#token")).to_be_focused()
        self._looks_well("login-wrong")

    def _reads(self) -> None:
        self._signs_in("reader")
        expect(self._page.locator("h1")).to_contain_text(self._cluster.ids["refused"])
        expect(self._page.locator("#withheld")).to_contain_text("read_payload")
        self._offers(actions=False)
        self._looks_well("withheld")
        self._judge.open("/")
        self._looks_well("overview-reader")
        if self._page.locator("main .verdict.bad li:has-text('none is alive')").count():
            self._judge.find(self._look, "takes what is withheld for what is dead")
        self._judge.open("/failures")
        self._looks_well("failures-reader")
        self._judge.open("/cluster")
        expect(self._page.locator("#withheld")).to_contain_text("all namespaces")
        self._looks_well("cluster-reader")

    def _leaves(self) -> None:
        self._page.locator("#sign-out-go").click()
        expect(self._page.locator("#login-why")).to_have_text("You are signed out.")
        self._looks_well("login-out")
        self._page.go_back()
        self._page.reload()
        expect(self._page.locator("#token")).to_be_visible()

    def _operates(self) -> None:
        self._judge.open(f"/tasks/{self._cluster.ids['later']}")
        self._signs_in("operator")
        expect(self._page.locator("#encrypted")).to_contain_text("with the key")
        self._offers(actions=True)
        self._looks_well("encrypted")
        self._judge.open(f"/tasks/{self._cluster.ids['refused']}")
        self._looks_well("encrypted-failed")
        self._judge.open("/tasks?lambda=cards/pay&search=card%3D4711")
        expect(self._page.locator("#wrong")).to_contain_text("are encrypted")
        self._looks_well("encrypted-search")

    # --- parts of them ------------------------------------------------------------------------------------------------

    def _signs_in(self, name: str) -> None:
        self._signs_in_by(self._cluster.tokens[name])
        expect(self._page.locator("#sign-out-go")).to_be_visible()

    def _signs_in_by(self, token: str) -> None:
        self._page.locator("#token").fill(token)
        self._page.keyboard.press("Enter")
        self._page.wait_for_load_state("load")

    def _offers(self, *, actions: bool) -> None:
        count = self._page.locator("details.action").count()
        if bool(count) != actions:
            self._judge.find(self._look, f"offers {count} actions")

    def _looks_well(self, name: str) -> None:
        where = f"{name} {self._look}"
        self._judge.measure(where)
        self._judge.axe(where)
        self._shoot(name)

    def _shoot(self, name: str) -> None:
        SHOTS.joinpath("login").mkdir(parents=True, exist_ok=True)
        self._page.screenshot(path=SHOTS / "login" / f"{name}-{self._look}.png", full_page=True)
