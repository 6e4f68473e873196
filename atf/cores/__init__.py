"""The cores of a pool: which share of its executors a lambda may use, and how groups of executors rotate over them. Pure."""
