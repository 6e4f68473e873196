"""What the trial measured with which the design began: rates of the peers on its machine, no-op tasks per second. The CPU budget comes from it."""

from __future__ import annotations

from typing import Final

END_TO_END_PER_S: Final = {
    "taskiq": 4_090.0,
    "huey": 4_840.0,
    "dramatiq": 3_410.0,
    "saq": 2_900.0,
    "arq": 1_290.0,
    "celery": 720.0,
    "rq": 460.0,
}
"""While tasks were being scheduled, as the question end-to-end has it."""
DRAIN_PER_S: Final = {
    "taskiq": 7_360.0,
    "huey": 5_690.0,
    "dramatiq": 4_090.0,
    "saq": 3_350.0,
    "arq": 1_420.0,
    "celery": 730.0,
    "rq": 500.0,
}
"""From a queue that was full, as the question drain has it."""
BUDGET_US: Final = {
    "client": 8.0,
    "frontend": 10.0,
    "store-consumer": 3.0,
    "controller": 8.0,
    "hsc": 14.0,
    "guards": 0.0,
    "executors": 26.0,
    "store": 28.0,
}
"""CPU per task that each process of ATF may take: together 97 µs, with which two cores do five times the fastest safe peer of the trial.
They are µs of its machine, where the store had 28 of them.
"""
