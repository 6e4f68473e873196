"""Looks at a page as a judge: its console, its requests, its width, its accessibility."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from playwright.sync_api import Browser, BrowserContext, Locator, Page, sync_playwright

from .cluster import ROOT
from .proxy import NAME

CHROMIUM: Final = Path("/usr/bin/chromium")
WIDE: Final = (1280, 800)
NARROW: Final = (390, 844)
AXE: Final = next((ROOT / ".build" / "browser").glob("lib/*/site-packages/axe_playwright_python/axe.min.js"), None)
RULES: Final = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa")
_AXE_RUN: Final = f"axe.run(document, {{runOnly: {{type: 'tag', values: {list(RULES)}}}, resultTypes: ['violations']}})"
_WIDER: Final = """() => {
  const room = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= room) return "";
  const found = [...document.querySelectorAll("body *")].filter((each) => each.getBoundingClientRect().right > room + 1 && getComputedStyle(each).position !== "absolute");
  const last = found[found.length - 1];
  return `${document.documentElement.scrollWidth} px wide in ${room}` + (last ? `, by <${last.tagName.toLowerCase()} class="${last.className}"> ${last.textContent.trim().slice(0, 60)}` : "");
}"""
_FLAGS: Final = ["--no-sandbox", "--disable-gpu", f"--host-resolver-rules=MAP {NAME} 127.0.0.1"]
_WITHOUT_TLS: Final = (
    "The Cross-Origin-Opener-Policy header has been ignored, because the URL's origin was untrustworthy"
)
"""What Chromium says where a name other than this machine's is asked without TLS, as behind the proxy of a row."""
_HEARD: Final = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's own, driven from outside."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=_FLAGS)
        yield browser
        browser.close()


def open_form(form: Locator) -> None:
    """Opens an action's form, and waits until the page has given it the focus: what is typed before goes into another field."""
    form.locator("summary").click()
    form.locator(":focus").wait_for()


class Judge:
    """A tab, and everything that goes wrong in it.

    Attributes:
        findings: sentences, each one a fault; [] is good.
    """

    def __init__(self, context: BrowserContext, address: str) -> None:
        self.findings: list[str] = []
        self.address = address
        self.page = context.new_page()
        self._heard: list[str] = []
        self._statuses: set[int] = set()
        self.page.on("console", self._on_console)
        self.page.on("pageerror", lambda error: self._heard.append(f"an error of its script: {error}"))
        self.page.on("dialog", self._on_dialog)
        self.page.on("request", self._on_request)

    def _on_console(self, message: Any) -> None:
        failed = _HEARD.search(message.text)
        expected = failed and int(failed[1]) in self._statuses
        if message.type in {"error", "warning"} and not expected and not message.text.startswith(_WITHOUT_TLS):
            self._heard.append(f"its console: {message.text[:300]}")

    def _on_dialog(self, dialog: Any) -> None:
        self._heard.append(f"a script of a text ran: {dialog.message[:100]}")
        dialog.dismiss()

    def _on_request(self, request: Any) -> None:
        if not request.url.startswith((self.address, "data:", "blob:")):
            self._heard.append(f"a request to elsewhere: {request.url[:200]}")

    def find(self, where: str, what: str) -> None:
        """Notes a fault."""
        self.findings.append(f"{where}: {what}")

    def open(self, path: str, status: int = 200) -> Page:
        """Opens a page, which must answer with a status."""
        self._statuses = {status}
        answer = self.page.goto(self.address + path)
        if answer is None or answer.status != status:
            self.find(path, f"answered {answer.status if answer else 'nothing'} in place of {status}")
        self.page.wait_for_load_state("load")
        return self.page

    def expect(self, *statuses: int) -> None:
        """What the next requests may be answered with beside success."""
        self._statuses = {*statuses}

    def hear(self, where: str) -> None:
        """Takes what the console and the network have said since the last time."""
        self.findings += [f"{where}: {each}" for each in dict.fromkeys(self._heard)]
        self._heard.clear()

    def measure(self, where: str) -> None:
        """Whether the page is wider than its window."""
        wider = self.page.evaluate(_WIDER)
        if wider:
            self.find(where, wider)

    def axe(self, where: str) -> None:
        """What axe finds of WCAG 2 A and AA."""
        if AXE is None:
            raise RuntimeError("axe.min.js is not in .build/browser: make .build/browser/.ready")
        # The pages' policy refuses scripts of others: this one comes by the debugger, as a bookmarklet's would.
        self.page.evaluate(AXE.read_text(encoding="utf-8") + ";0")
        for each in self.page.evaluate(_AXE_RUN)["violations"]:
            nodes = "; ".join(f"{node['target'][0]} {node['failureSummary'][:160]}" for node in each["nodes"][:2])
            self.find(where, f"axe {each['id']} ({len(each['nodes'])}): {each['help']}: {nodes}".replace("\n", " "))
