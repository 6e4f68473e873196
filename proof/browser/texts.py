"""The worst texts that people and programs put into fields."""

from __future__ import annotations

from typing import Final

SCRIPT: Final = "</script><script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
TURNED: Final = "\u202egnp.exe\u202c \u2066left\u2069 \u200b"
"""Marks that turn the order of letters, and one that nobody sees."""
RIGHT_TO_LEFT: Final = "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627"
EMOJI: Final = "\U0001f468\u200d\U0001f469\u200d\U0001f467\U0001f1e8\U0001f1ed\U0001f600"
LONG: Final = "W" * 300
"""A word that no line breaks in by itself."""

WORST: Final = f"{SCRIPT} {TURNED} {RIGHT_TO_LEFT} {EMOJI} {{{{7*7}}}} &amp; \x1b[31m\x07 {LONG}"
SEEN: Final = f"{SCRIPT} {RIGHT_TO_LEFT} \U0001f600 {{{{7*7}}}} &amp; {'W' * 100}"
"""What passes where every character must be visible: keys."""
SHORT: Final = "</script><script>alert(1)</script>\U0001f600\u05e9\u05dc\u05d5\u05dd"
"""What passes where 64 characters are the most: labels."""
JOB: Final = "shop/<script>alert(1)<&\"' \u05e9\u05dc\u05d5\u05dd \U0001f600 " + "W" * 150
"""The name of a job, which has no slash."""
