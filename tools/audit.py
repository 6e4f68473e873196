"""Looks for known holes in the requirements, for bad habits in the code, and at the licences; writes a bill of what an installation holds.

    holes      pip-audit over all pinned requirements. An index without advisories leaves them unaudited: then it says "not run"
    habits     bandit over the code that ships; what it calls low is left to the linter, which has the same rules
    bill       .build/audit/sbom.json, a bill of materials by CycloneDX, checked against its schema
    licences   each of what is installed beside ATF has one that its users can live with

The result is a dated JSON in proof/results/audit. Fails if anything was found.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

ROOT: Final = Path(__file__).parent.parent
BIN: Final = ROOT / ".build" / "audit" / "bin"
BILL: Final = ROOT / ".build" / "audit" / "sbom.json"
RESULTS: Final = ROOT / "proof" / "results" / "audit"
SHIPPED: Final = ("atf", "frontend", "store_consumer", "controller", "executor", "hsc")
GOOD: Final = (
    *(
        "MIT",
        "MIT-0",
        "BSD",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "Apache-2.0",
        "Apache Software",
        "PSF-2.0",
        "Python-2.0",
        "ISC",
    ),
    *("MPL-2.0", "Mozilla Public License 2.0 (MPL 2.0)"),
)
"""A licence is one of these, several of them, or a classifier that ends with one."""
SAID_ELSEWHERE: Final = {"lupa": "MIT", "protobuf": "BSD-3-Clause"}
"""Packages whose metadata have no licence in a field that can be read; their repositories have."""


class AuditLook(NamedTuple):
    """What one look came to."""

    status: str
    """ok, failed or "not run: why"."""
    said: list[str]


def holes() -> AuditLook:
    """Known holes in what is pinned."""
    known = [each for path in sorted((ROOT / "requirements").glob("*.txt")) for each in _looked_up(path)]
    audited = [each for each in known if "skip_reason" not in each]
    if not audited:
        why = known[0]["skip_reason"] if known else "pip-audit answered nothing"
        return AuditLook(f"not run: the index has no advisories ({why})", [])
    said = {f"{each['name']} {each['version']}: {hole['id']}" for each in audited for hole in each["vulns"]}
    return _found(sorted(said))


def _looked_up(requirements: Path) -> list[dict[str, Any]]:
    ran = _ran("pip-audit", f"--requirement={requirements}", "--disable-pip", "--format=json", "--progress-spinner=off")
    try:
        return list(json.loads(ran.stdout)["dependencies"])
    except (ValueError, KeyError):
        return [{"skip_reason": _last_line(ran.stderr)}]


def habits() -> AuditLook:
    """Bad habits in the code that ships."""
    ran = _ran("bandit", "--quiet", "--recursive", *SHIPPED, "--severity-level=medium", "--format=json")
    results = json.loads(ran.stdout)["results"]
    return _found(
        [f"{each['filename']}:{each['line_number']}: {each['test_id']} {each['issue_text']}" for each in results]
    )


def bill() -> AuditLook:
    """A bill of what an installation holds."""
    python = str(ROOT / ".venv" / "bin" / "python")
    ran = _ran("cyclonedx-py", "environment", python, "--of=JSON", "--validate", f"--output-file={BILL}")
    return AuditLook("ok", []) if ran.returncode == 0 else AuditLook("failed", [_last_line(ran.stderr)])


def licences() -> AuditLook:
    """The licence of each package on the bill."""
    components = json.loads(BILL.read_text(encoding="utf-8"))["components"]
    return _found([said for each in components if (said := _odd_licence(each))])


def _odd_licence(component: dict[str, Any]) -> str:
    name = component["name"]
    said = [SAID_ELSEWHERE[name]] if name in SAID_ELSEWHERE else list(_licences_of(component))
    if not said:
        return f"{name}: says no licence"
    return "" if any(map(_is_good, said)) else f"{name}: {', '.join(said)}"


def _licences_of(component: dict[str, Any]) -> Iterator[str]:
    for each in component.get("licenses", []):
        licence = each.get("license", {})
        if found := each.get("expression") or licence.get("id") or licence.get("name"):
            yield found


def _is_good(said: str) -> bool:
    if " OR " in said:
        return any(map(_is_good, said.split(" OR ")))
    if " AND " in said:
        return all(map(_is_good, said.split(" AND ")))
    return said.rpartition(":: ")[2].removesuffix(" License") in GOOD


def _ran(tool: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(BIN / tool), *words], cwd=ROOT, capture_output=True, text=True, check=False)


def _found(said: list[str]) -> AuditLook:
    return AuditLook("failed" if said else "ok", said)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:300] or "it said nothing"


LOOKS: Final[tuple[Callable[[], AuditLook], ...]] = (holes, habits, bill, licences)


def main() -> int:
    """Looks at everything, one after the other; returns the exit code."""
    found = {}
    for look in LOOKS:
        print(f"{look.__name__} ...", end=" ", flush=True)
        found[look.__name__] = each = look()
        print(each.status)
        for line in each.said:
            print(f"  {line}")
    at = datetime.now(UTC)
    RESULTS.mkdir(parents=True, exist_ok=True)
    path = RESULTS / f"{at:%Y-%m-%d}-audit.json"
    said = {"at": at.isoformat(timespec="seconds"), "looks": {name: each._asdict() for name, each in found.items()}}
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")
    print(f"{path.relative_to(ROOT)}; {BILL.relative_to(ROOT)}")
    return int(any(each.status == "failed" for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
