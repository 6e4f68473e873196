"""`atf server`: frontend, HSC, store consumer and pages in one process."""
