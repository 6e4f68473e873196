"""The buckets of histograms: upper bounds, in seconds."""

from __future__ import annotations

from typing import Final

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0)
"""What all histograms have but for run times. A lambda's promise of its start (`slo`) names one of these."""
RUN_SECONDS: Final = (0.01, 0.1, 1.0, 10.0, 60.0)
"""Of run times: fewer, since a controller has both histograms for each lambda, and 200 lambdas shall stay below 6,000 series.

Two histograms of 14 buckets are 34 series a lambda: 6,834 for 201, before any other. These five make it 25. Nothing else that a controller has could be
left out for that: outcomes are there only where they were seen, some 600 series in all. Nor could lambdas without runs in the last hour: 200 may all have
some, and a counter that goes and comes again breaks the windows of alerts. Start delays keep all edges, of which promises name one.
"""
