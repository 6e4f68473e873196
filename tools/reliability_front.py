"""The opening page of docs/reliability: the main trials in a table and a picture, drawn from their newest results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from proof.benchmarks import svg

Result = Mapping[str, Any]

PICTURE: Final = "recovery.svg"


class Trial(NamedTuple):
    """A row of the page: its name, what happens in it, and the figure that says how long tasks wait for it ("": none)."""

    row: str
    what: str
    wait: str = ""


TRIALS: Final = (
    Trial("kill-executor", "an executor is killed", "rescued_s"),
    Trial("kill-controller", "a controller is killed", "resumed_s"),
    Trial("kill-hsc", "an HSC is killed", "resumed_s"),
    Trial("kill-frontend", "a frontend is killed", "resumed_s"),
    Trial("kill-store-consumer", "a store consumer is killed", "resumed_s"),
    Trial("freeze-three-leases", "an executor stands still", "rescued_s"),
    Trial("partition-executor-hsc", "an executor is cut off", "rescued_s"),
    Trial("stop-host", "a host is stopped in order", "resumed_s"),
    Trial("store-killed", "the store is killed, always", "start_s"),
    Trial("power-loss", "the store loses power, always", "start_s"),
    Trial("power-loss-everysec", "the store loses power, everysec", "start_s"),
    Trial("split-brain", "Sentinels: the master is cut off", "claims_s"),
    Trial("cluster-kill", "Cluster: a master is killed", "schedule_away_s"),
    Trial("datacenter-cut", "one of three sites is cut off", "claims_s"),
    Trial("ordinary-life", "an ordinary month of a cluster"),
    Trial("simulation", "all faults at once, simulated"),
)


def table(results: Mapping[str, Sequence[Result]]) -> str:
    """A line for each of TRIALS that has a result.

    Args:
        results: of each row, by its name; the one that counts comes last.
    """
    lines = [
        "| what happens | row | trials | tasks | lost | twice at once | early | tasks wait, median / worst |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for trial in TRIALS:
        found = _newest(results, trial)
        if found is None:
            lines.append(f"| {trial.what} | `{trial.row}` | not run" + " | –" * 5 + " |")
            continue
        figures = found["figures"]
        cells = [
            trial.what,
            f"`{trial.row}`",
            f"{found['done']:,}" + ("" if found["status"] == "ok" else f", **{found['status']}**"),
            f"{figures.get('acknowledged', 0):,}",
            _lost(figures),
            *(f"{figures.get(name, 0):,}" for name in ("concurrent", "early")),
            _wait(figures, trial),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def picture(results: Mapping[str, Sequence[Result]]) -> str:
    """How long tasks wait after each fault: the median, and to the worst."""
    bars = []
    for trial in TRIALS:
        found = _newest(results, trial)
        figure = found["figures"].get(trial.wait) if found else None
        if figure:
            bars.append(svg.ChartBar(trial.what, figure["p50"], figure["p50"], figure["max"], ours=True))
    return svg.chart("seconds from a fault until the tasks that it touched go on, median and worst", "s", bars)


def _newest(results: Mapping[str, Sequence[Result]], trial: Trial) -> Result | None:
    found = results.get(trial.row)
    return found[-1] if found else None


def _lost(figures: Mapping[str, Any]) -> str:
    """Tasks that were lost, and beside them those that the store's durability class may lose."""
    forgiven = figures.get("forgiven", 0)
    return f"{figures.get('lost', 0):,}" + (f", and {forgiven:,} that the store forgot" if forgiven else "")


def _wait(figures: Mapping[str, Any], trial: Trial) -> str:
    found = figures.get(trial.wait)
    return f"{found['p50']:.1f} / {found['max']:.1f} s" if found else "–"
