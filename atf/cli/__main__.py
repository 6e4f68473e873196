"""`python -m atf.cli`: the command without its script, as processes of ours start each other."""

from __future__ import annotations

import sys

from . import main

if __name__ == "__main__":
    sys.exit(main())
