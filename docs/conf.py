"""How `make docs` builds these pages into a site: Sphinx reads Markdown (MyST), and Furo draws it.

The pages stay readable as they are on any forge: links between them are relative paths, and so are links to files beside docs/.
Where a broken link stands, the build fails. The site asks nobody else for anything: no fonts, no scripts, no images.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

DOCS = Path(__file__).parent
ROOT = DOCS.parent

project = "ATF"
author = "the authors of ATF"
release = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
html_title = f"ATF {release}"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_static"]
myst_heading_anchors = 4
highlight_language = "text"
pygments_style = "friendly"
pygments_dark_style = "github-dark"

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"footer_icons": [], "source_repository": ""}

LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(((?:\.\./)+[^)\s]*)\)")
log = logging.getLogger(__name__)


def unlink_sources(app: Sphinx, docname: str, source: list[str]) -> None:
    """Keeps the text alone of links to files beside docs/, which the site does not hold; warns where there is no such file."""
    page = DOCS / f"{docname}.md"

    def text(link: re.Match[str]) -> str:
        target = (page.parent / link[2].partition("#")[0]).resolve()
        if target.is_relative_to(DOCS):
            return link[0]
        if not target.exists():
            log.warning("there is no %s", link[2], location=docname)
        return link[1]

    source[0] = LINK.sub(text, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers what this file adds to Sphinx."""
    app.connect("source-read", unlink_sources)
    return {"parallel_read_safe": True}
