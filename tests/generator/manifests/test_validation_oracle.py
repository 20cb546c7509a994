"""Objects and verdicts of Kubernetes' own validation tests, held against `validate`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Severity
from trainwright.manifests import run
from trainwright.manifests.run import ManifestOptions

API_VERSIONS = {"core": "v1", "batch": "batch/v1", "jobset": "jobset.x-k8s.io/v1alpha2"}
PODS = ("Pod", "Job", "CronJob", "JobSet")
# Of images and of names for good, which are not the server's.
POLICIES = ("TW501", "TW709")
NAMELESS = "name or generateName is required"  # which the server, too, says
# Accepted there, and refused here:
KNOWN = {
    **dict.fromkeys(("core:222", "core:235", "core:352"), "zeros in addresses: its gate is off"),
    **dict.fromkeys(("core:135", "core:144"), "the mounts alone, without the volumes of the pod"),
    **dict.fromkeys(("core:166", "core:167"), "the handler alone, without the container's ports"),
    "core:111": "names alone, of one container each",
    "core:154": "the numbers of any probe, and it is put into a livenessProbe",
    "core:476": "a claim twice, of which each has a request: no two items of such a list are alike",
    "core:504": "init containers alone: the pod has no others",
    **dict.fromkeys(
        ("jobset:6", "jobset:13", "jobset:16", "jobset:17", "jobset:18", "jobset:22"),
        "without the defaults that the webhook writes",
    ),
}
LONG = 100_000
# The selector that the server makes, with the labels that it looks for.
MADE = ("controller-uid", "job-name")


@pytest.fixture
def entries(shared: Callable[[str], Path]) -> Mapping[str, Data]:
    return _read(shared("oracles/validation"))


@cache
def _read(folder: Path) -> Mapping[str, Data]:
    found = {}
    for name, api_version in API_VERSIONS.items():
        for number, line in enumerate((folder / f"{name}.jsonl").read_text().splitlines(), start=1):
            entry = json.loads(line)
            if entry["fn"] == "JobSetUpdate" or len(line) > LONG:
                continue  # of two objects; and sizes alone
            kind = "JobSet" if name == "jobset" else "Job"
            body = {"apiVersion": api_version, "kind": kind, **entry["obj"]}
            _without_what_is_made(body, entry["errs"])
            found[f"{name}:{number}"] = {**entry, "obj": body}
    return found


def _without_what_is_made(body: Data, errors: list[str]) -> None:
    spec = body.get("spec") or {}
    if body["kind"] == "Job" and not any("selector" in error for error in errors):
        spec.pop("selector", None)
        labels = spec["template"].get("metadata", {}).get("labels") or {}
        for label in MADE:
            labels.pop(label, None)
            labels.pop(f"batch.kubernetes.io/{label}", None)


def _refused(folder: Path, entries: Mapping[str, Data], crds: Path) -> dict[str, list[str]]:
    for name, entry in entries.items():
        (folder / f"{name.replace(':', '-')}.json").write_text(json.dumps(entry["obj"]))
    options = ManifestOptions(today="2026-01-01", kubernetes="1.36", crds=crds)
    refused: dict[str, list[str]] = {}
    for finding in run.check((str(folder),), options).findings:
        name = Path(finding.place.file).stem.replace("-", ":")
        policy = finding.rule in POLICIES and not any(NAMELESS in e for e in entries[name]["errs"])
        if finding.severity is Severity.ERROR and not policy:
            refused.setdefault(name, []).append(f"{finding.rule} {finding.message}")
    return refused


def test_what_the_server_refuses_is_refused_and_nothing_else(
    entries: Mapping[str, Data], tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    refused = _refused(tmp_path, entries, shared("crds/jobset.x-k8s.io"))
    accepted = [name for name, entry in entries.items() if not entry["errs"]]
    assert {name: refused[name] for name in accepted if name in refused}.keys() == KNOWN.keys()

    bad = [name for name, entry in entries.items() if entry["errs"]]
    unseen = [name for name in bad if name not in refused]
    assert len(bad) > 390
    assert len(unseen) <= 0.07 * len(bad), unseen
    pods = [name for name in bad if entries[name]["obj"]["kind"] in PODS]
    assert len({*pods} & {*unseen}) <= 0.07 * len(pods), unseen
