"""Encrypts what tasks carry, in clients and executors, so that the store, the frontends, the pages and the logs can't read it."""
