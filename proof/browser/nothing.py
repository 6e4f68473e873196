"""No lambdas."""

from __future__ import annotations

import atf

app = atf.App("nothing")
