"""Isolated runs: lambdas with isolate=True, each in a process of its own."""
