"""The guard of one worker: the process that watches it, and kills it in time."""
