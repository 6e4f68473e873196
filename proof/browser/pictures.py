"""The pictures of docs/pictures: pages over a shop's tasks, light and dark, 1280 by 800."""

from __future__ import annotations

import base64
from typing import Final

from playwright.sync_api import Browser

from .cluster import ROOT, Filled
from .look import WIDE
from .progress import RowProgress

PICTURES: Final = ROOT / "docs" / "pictures"
MOST_BYTES: Final = 120_000
QUALITY: Final = 85
"""Of WebP, of 100: letters stay crisp."""
SAMPLES_MS: Final = 65_000
"""Until the chart of the first page has some points."""
_PATHS: Final = {
    "overview": "/",
    "tasks": "/tasks?lambda=shop/charge_card",
    "task": "/tasks/{failed}",
    "failures": "/failures",
    "jobs": "/jobs",
}


def pictures(browser: Browser, cluster: Filled, progress: RowProgress) -> int:
    """Draws them; 1 where one is too large."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    too_large = 0
    for theme in ("light", "dark"):
        context = browser.new_context(viewport={"width": WIDE[0], "height": WIDE[1]}, color_scheme=theme)
        page = context.new_page()
        if theme == "light":
            page.goto(cluster.pages)
            page.wait_for_timeout(SAMPLES_MS)
        for name, path in _PATHS.items():
            progress.say(f"{name}, {theme}")
            page.goto(cluster.pages + path.format(**cluster.ids))
            page.wait_for_load_state("load")
            page.wait_for_timeout(500)
            file = PICTURES / f"{name}-{theme}.webp"
            taken = context.new_cdp_session(page).send("Page.captureScreenshot", {"format": "webp", "quality": QUALITY})
            file.write_bytes(base64.b64decode(taken["data"]))
            if file.stat().st_size > MOST_BYTES:
                print(f"{file.relative_to(ROOT)} has {file.stat().st_size:,} bytes; {MOST_BYTES:,} are the most")
                too_large = 1
        context.close()
    return too_large
