"""An app whose import starts a thread that stays and one that ends, beside a lambda that can't do with the first."""

from __future__ import annotations

import threading

import atf

app = atf.App("g")
threading.Thread(target=threading.Event().wait, name="flusher", daemon=True).start()
short = threading.Timer(0.1, int)
short.name = "short"
short.start()


@app.task(isolate=True)
def alone() -> None: ...
