"""Draws docs/reliability from the results of `make chaos` in proof/results/reliability/, or checks that it is current.

That is the table and the picture of its opening page, and the table of all rows. Beneath the latter a line each for the newest result of `make contract`, of `make fuzz` and of `make upgrade`, which are no rows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the rows are not installed

from proof.chaos import frame  # noqa: E402
from tools import contract, fuzz, reliability_front, rolling_upgrade  # noqa: E402

FOLDER: Final = ROOT / "docs" / "reliability"
START: Final = "<!-- results: drawn from proof/results/reliability/*.json by tools/draw_reliability.py -->"
END: Final = "<!-- end of results -->"
ALWAYS: Final = ("lost", "concurrent", "early")
"""Counts that are shown where they are 0, too."""
HIDDEN: Final = frozenset({"attempted", "acknowledged", "succeeded", "took_s"})
OLDER: Final = "of older code"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Draws docs/reliability from the results in proof/results/reliability/."
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page is not what would be written"
    )
    args = parser.parse_args()
    stale = {path: text for path, text in pages().items() if not path.exists() or path.read_text("utf-8") != text}
    if args.check and stale:
        names = ", ".join(str(path.relative_to(ROOT)) for path in stale)
        sys.exit(
            f"what is drawn is not what the results in proof/results/reliability/ say ({names}). Run make reliability and commit it."
        )
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path}")


def pages() -> dict[Path, str]:
    """Each file that is drawn, in whole or between markers, as it should be."""
    results = frame.by_row(frame.RESULTS)
    rows = table(frame.all_rows().values(), results, frame.code())
    drawn = "\n".join([rows, "", "No rows, and held beside them:", "", *beside(frame.RESULTS, proofs())])
    front, archive = FOLDER / "index.md", FOLDER / "results.md"
    return {
        front: put(front.read_text(encoding="utf-8"), reliability_front.table(results)),
        archive: put(archive.read_text(encoding="utf-8"), drawn),
        FOLDER / reliability_front.PICTURE: reliability_front.picture(results),
    }


def put(page: str, text: str) -> str:
    """The page with `text` between the markers."""
    before, found, rest = page.partition(START)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        sys.exit(f"a page of docs/reliability has lost its markers:\n{START}\n{END}")
    return f"{before}{START}\n{text}\n{END}{after}"


def proofs() -> dict[str, tuple[str, str]]:
    """The digests of the code, and of it with the suite that tries it, as they are now; of what is no row."""
    return {
        name: (frame.code(), frame.proof(*tool.ALSO, harness=tool.SUITE))
        for name, tool in (("contract", contract), ("fuzz", fuzz), ("upgrade", rolling_upgrade))
    }


def table(rows: Iterable[frame.Row], results: Mapping[str, Sequence[Mapping[str, Any]]], code: str) -> str:
    """A line per row, in the order of their files; below, the machines.

    Args:
        rows: all of them.
        results: of each, by name; the one that counts comes last.
        code: the digest of the product as it is now.
    """
    machines: list[str] = []
    lines = ["| row | what was tried | bar | trials | measured | result | when |", "|---|---|---|---|---|---|---|"]
    for row in rows:
        *others, found = results.get(row.name) or [{}]
        if not found:
            cells = [row.what, row.bar, f"0 of {row.full}", "–", "not run: no result is recorded", "–"]
        else:
            cells = [  # what was tried then, and held to, whatever the row says now
                found["what"],
                found["bar"],
                f"{found['done']} of {row.full}",
                measured(found["figures"]),
                "; ".join(
                    [verdict(found, row) + ("" if found["code"] == code else f", {OLDER}"), *contrary(found, others)]
                ),
                when(found, machines),
            ]
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in (f"`{row.name}`", *cells)) + " |")
    notes = [f"{number}. {machine}" for number, machine in enumerate(machines, 1)]
    return "\n".join([*lines, *(["", "Machines:", "", *notes] if notes else [])])


def beside(results: Path, now: Mapping[str, tuple[str, str]]) -> list[str]:
    """A line each for the newest result of `make contract`, of `make fuzz` and of `make upgrade`, with its file.

    Args:
        results: the folder of results.
        now: see proofs.
    """
    read = [(path, json.loads(path.read_text(encoding="utf-8"))) for path in results.glob("*.json")]
    lines = []
    for name, key, said in (("contract", "row", _contract), ("fuzz", "what", _fuzz), ("upgrade", "row", _upgrade)):
        found = [each for each in read if each[1].get(key) == name]
        if not found:
            lines.append(f"- `make {name}`: not run: no result is recorded")
            continue
        path, newest = max(found, key=lambda each: str(each[1]["at"]))
        status, counts, changed = said(newest)
        when = f"{newest['at'][:10]}, {newest['commit'][:8]}{', with changes' if changed else ''}"
        lines.append(f"- `make {name}`: {status}{_age(newest, *now[name])}; {counts}; {when}: `{path.name}`")
    return lines


def _age(found: Mapping[str, Any], code: str, proof: str) -> str:
    """Whether a result is of other code than now's, or of another suite; one without a digest is of the time before these were kept."""
    if found.get("code") != code:
        return f", {OLDER}"
    return "" if found["proof"] == proof else ", of an older suite"


def _contract(found: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Status, counts, and whether the tree had changes."""
    status = "**failed**: " + "; ".join(found["failures"][:3]) if found["status"] == "failed" else found["status"]
    figures = found["figures"]
    counts = [
        _tests(found["tests"]),
        *([f"as the user that ships {_tests(found['acl'])}"] if "acl" in found else []),
        f"of {figures['calls']:,} calls the slowest took {max((each['ms'] for each in found['slowest']), default=0):.1f} ms",
        f"{figures['too_slow']} functions too slow (the bar is {found['limit_ms']:g} ms)",
    ]
    return status, ", ".join(counts), found["dirty"]


def _tests(by_server: Mapping[str, Mapping[str, int]]) -> str:
    """So many tests failed, or passed."""
    passed, failed = (sum(each.get(end, 0) for each in by_server.values()) for end in ("passed", "failed"))
    return f"{passed:,} tests passed, {failed} failed"


def _fuzz(found: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Status, counts, and whether the tree had changes."""
    status = "**failed**: " + "; ".join(found["failed"][:3]) if found["verdict"] == "failed" else found["verdict"]
    counts = f"{found['tests'] - len(found['failed']):,} tests passed, {len(found['failed'])} failed, {found['examples']:,} examples of each fuzz test"
    return status, counts, found["dirty"] if "dirty" in found else bool(found["changed_files"])


def _upgrade(found: Mapping[str, Any]) -> tuple[str, str, bool]:
    """Status, counts, and whether the tree had changes."""
    status = "**failed**: " + "; ".join(found["failures"][:3]) if found["status"] == "failed" else found["status"]
    figures = found["figures"]
    counts = (
        f"{len(figures.get('exit_codes', ()))} times a role was replaced, by this code from {found['from']} and back, under {found['rate']:g} tasks a"
        f" second: {figures.get('accepted', 0):,} tasks, {figures.get('first_attempt', 0):,} with their first attempt, {figures.get('failed', 0)}"
        f" failed, {figures.get('losses', 0)} losses"
    )
    return status, counts, found["dirty"]


def measured(figures: Mapping[str, Any]) -> str:
    """Figures in words: counts that matter or are not 0, and times. Of counts that are called "group: member" the fewest.

    Parts of a delay ("…_until_…") stand in the result's file alone.
    """
    counts = [
        f"{name.replace('_', ' ')} {value:,}"
        for name, value in figures.items()
        if not isinstance(value, dict) and name not in HIDDEN and ": " not in name and (value or name in ALWAYS)
    ]
    groups: dict[str, list[tuple[int, str]]] = {}
    for name, value in figures.items():
        group, colon, member = name.partition(": ")
        if colon:
            groups.setdefault(group, []).append((value, member))
    counts += [
        f"{group} {sum(count for count, _ in each):,} of {len(each)} kinds (fewest: {min(each)[1]}, {min(each)[0]:,})"
        for group, each in groups.items()
    ]
    rates = [
        f"{name.removesuffix('_per_s').replace('_', ' ')} {each['p50']:,.0f}/s"
        for name, each in figures.items()
        if name.endswith("_per_s")
    ]
    times = [
        f"{name.removesuffix('_s').replace('_', ' ')} {each['p50']:.2f} / {each['p99']:.2f} / {each['max']:.2f} s"
        for name, each in figures.items()
        if isinstance(each, dict) and name not in HIDDEN and not name.endswith("_per_s") and "_until_" not in name
    ]
    tasks = [f"{figures['acknowledged']:,} tasks"] if "acknowledged" in figures else []
    return "; ".join(filter(None, [*tasks, *rates, ", ".join(counts), *times])) or "–"


def verdict(found: Mapping[str, Any], row: frame.Row) -> str:
    """ok, and of how much if not of all; what failed; or why it was not run."""
    if found["status"] == "ok" and found["done"] < row.full:
        return f"ok so far, {found['done']} of {row.full}"
    if found["status"] != "failed":
        return str(found["status"])
    return _failed(found)


def _failed(found: Mapping[str, Any]) -> str:
    return "**failed**: " + "; ".join(found["failures"][:3])


def contrary(found: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """What other results of a row say against the one that counts: full runs of the same code that failed, and newer ones that are not full."""
    full = [each for each in (*others, found) if each["done"] >= each["full"] and each.get("code") == found["code"]]
    failed = [each for each in full if each["status"] == "failed" and each is not found]
    if failed and found in full:
        count = sum(each["status"] == "failed" for each in full)
        yield f"{count} of {len(full)} full runs of this code failed: " + "; ".join(map(_dated, failed))
    newer = [each for each in others if each["status"] == "failed" and each["at"] > found["at"]]
    if newer:
        *before, last = newer
        more = f" (and {len(before)} before it)" if before else ""
        yield f"a newer run of {last['done']} trials{more} {_dated(last)}"
        mended = [each for each in others if each["status"] == "ok" and each["at"] > last["at"]]
        if mended:
            yield f"after it a run of {mended[-1]['done']} trials was ok ({mended[-1]['date']}, {mended[-1]['commit'][:8]})"


def _dated(failed: Mapping[str, Any]) -> str:
    return f"{_failed(failed)} ({failed['date']}, {failed['commit'][:8]})"


def when(found: Mapping[str, Any], machines: list[str]) -> str:
    """Date, commit, digest of the product's files, and the number of the machine, which is added where it is new."""
    memory = f"{found['memory_mib'] / 1024:.0f} GiB"
    machine = f"{found['cores']} cores, {memory}, {found['kernel']}, Python {found['python']}; {found['server']}"
    if machine not in machines:
        machines.append(machine)
    changed = ", with changes" if found["dirty"] else ""
    return f"{found['date']}, {found['commit'][:8]}{changed}, code {found['code'][:8]}, machine {machines.index(machine) + 1}"


if __name__ == "__main__":
    main()
