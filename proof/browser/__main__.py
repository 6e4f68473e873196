"""`make browser`: tries the pages of atf ui in a real Chromium, over real clusters. See the rows below; ROW=name,name tries some.

Runs in .build/browser, which has playwright; clusters run in ATF's own environment. Exit code 4 says that it was not run.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from playwright.sync_api import Browser

from . import results
from .acting import acting
from .cluster import Filled, end_in_order, filled
from .habits import habits
from .login import login
from .look import CHROMIUM, chromium
from .pages import matrix
from .pictures import pictures
from .progress import RowProgress
from .proxied import proxied

NOT_RUN: Final = 4
Row = Callable[[Browser, RowProgress], dict[str, Any]]


def _over(variant: str, row: Callable[[Browser, Filled, RowProgress], dict[str, Any]]) -> Row:
    def tried(browser: Browser, progress: RowProgress) -> dict[str, Any]:
        progress.say(f"starting a cluster: {variant}")
        with filled(variant) as cluster:
            return row(browser, cluster, progress)

    return tried


def _matrix(variant: str) -> Row:
    return _over(variant, lambda browser, cluster, progress: matrix(browser, cluster, variant, progress))


ROWS: Final[dict[str, Row]] = {
    "pages-empty": _matrix("empty"),
    "pages-many": _matrix("many"),
    "acting": _over("full", acting),
    "habits": _over("full", habits),
    "proxied": _over("full", proxied),
    "login": login,
    "pages-full": _matrix("full"),
}


def main() -> int:
    """Tries the rows that are not yet done; the exit code says whether all is well."""
    parser = argparse.ArgumentParser(prog="make browser")
    parser.add_argument(
        "--row", default="", help=f"of {', '.join([*ROWS, 'pictures'])}; several with commas; default: all not yet done"
    )
    wanted = [each for each in parser.parse_args().row.split(",") if each] or list(ROWS)
    unknown = sorted(set(wanted) - {*ROWS, "pictures"})
    if unknown:
        parser.error(f"no row {', '.join(unknown)}: use {', '.join([*ROWS, 'pictures'])}")
    end_in_order()
    if not CHROMIUM.exists():
        print("not run: chromium is not installed: apt-get install chromium", file=sys.stderr)
        return NOT_RUN
    with chromium() as browser:
        if wanted == ["pictures"]:
            with filled("pictured") as cluster:
                return pictures(browser, cluster, RowProgress("pictures"))
        return _rows(browser, wanted)


def _rows(browser: Browser, wanted: list[str]) -> int:
    count = 0
    for name in wanted:
        found = results.done(name) or _row(browser, name)
        print(
            f"\n{name}: {', '.join(f'{value} {what}' for what, value in found.items() if what != 'findings')}, {len(found['findings'])} findings"
        )
        for each in found["findings"]:
            print(f"  {each[:600]}")
        count += len(found["findings"])
    return 1 if count else 0


def _row(browser: Browser, name: str) -> dict[str, Any]:
    progress, begun, code = RowProgress(name), time.monotonic(), results.code()
    try:
        found = ROWS[name](browser, progress)
    except Exception as error:  # noqa: BLE001  what could not be judged did not hold
        return {"findings": [f"it broke down: {type(error).__name__}: {error}"]}
    found["seconds"] = round(time.monotonic() - begun)
    if results.code() != code:
        found["findings"].append("the pages, or what tries them, were changed meanwhile")
        return found
    results.keep(name, found)
    return found


if __name__ == "__main__":
    sys.exit(main())
