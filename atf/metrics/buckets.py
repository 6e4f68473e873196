"""The buckets of histograms: upper bounds, in seconds."""

from __future__ import annotations

from typing import Final

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""What all histograms have but for run times. A lambda's promise of its start (`slo`) names one of these."""
RUN_SECONDS: Final = (0.01, 0.1, 1.0, 10.0, 60.0)
"""Of run times: fewer, since a controller has both histograms for each lambda, and 200 lambdas shall stay below 6,000 series."""
