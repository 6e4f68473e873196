"""An app whose import starts a thread, beside a lambda that can't do with that."""

from __future__ import annotations

import threading

import atf

app = atf.App("g")
threading.Thread(target=threading.Event().wait, name="flusher", daemon=True).start()


@app.task(isolate=True)
def alone() -> None: ...
