"""The numbers that every process shows: what is counted and measured, under which names, and how it is served over HTTP."""
