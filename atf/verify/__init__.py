"""Whether the promises were kept: a history of what happened to tasks, and its checker; `atf verify` makes one with real processes."""
