"""The files that pages load: read once, named by what they hold, so that browsers keep them for good.

static/vendor/ holds what others wrote, as their packages have it; VENDORED.txt there says which, and a test holds it to that.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final, NamedTuple

FOLDER: Final = Path(__file__).parent / "static"
TYPES: Final = {".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml", ".txt": "text/plain"}


class StaticFile(NamedTuple):
    """A file in memory."""

    body: bytes
    content_type: str
    digest: str
    """Of its content: part of its URL."""


@functools.cache
def load_static() -> dict[str, StaticFile]:
    """Every file by its path below the folder."""
    found = {}
    for path in sorted(each for each in FOLDER.rglob("*") if each.is_file()):
        body = path.read_bytes()
        digest = hashlib.sha256(body).hexdigest()[:12]
        found[path.relative_to(FOLDER).as_posix()] = StaticFile(body, TYPES[path.suffix], digest)
    return found
