"""What an apply would change in the cluster: the API server's own answer to a dry run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from trainwright.cluster.client import DRY_RUN, Cluster
from trainwright.cluster.errors import NoKind, Refused
from trainwright.datatypes.data import Data
from trainwright.datatypes.finding import Finding, Location
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.layout import JobFile
from trainwright.datatypes.manifest import LAST_APPLIED, Manifest
from trainwright.datatypes.pointer import Pointer, typed
from trainwright.documents import yamlio
from trainwright.findings.credentials import HIDDEN
from trainwright.findings.diagnostics import REFUSED
from trainwright.findings.redaction import text_diff
from trainwright.kinds import NAMED
from trainwright.render.build import EnvironmentBuild
from trainwright.runs.record import VALUES_FILE

# Who applies, by GitOps engine. As that manager the answer is what a sync would do, down to the
# removal of fields that left git. https://kubernetes.io/docs/reference/using-api/server-side-apply/
MANAGERS = {"argocd": "argocd-controller", "flux": "kustomize-controller", "none": "trainwright"}
_BOOKKEEPING = ("creationTimestamp", "generation", "managedFields", "resourceVersion", "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One object in the cluster and as applied. `before` is None if it does not exist yet, `after`
    if the API server rejects it: `refused` is the reason, `fields` are those that it names."""

    manifest: Manifest
    before: str | None
    after: str | None
    refused: str = ""
    fields: tuple[str, ...] = ()

    @property
    def differs(self) -> bool:
        return self.before != self.after

    @property
    def title(self) -> str:
        group, kind, namespace, name = self.manifest.identity
        return "/".join(filter(None, (namespace, f"{kind}.{group}" if group else kind, name)))

    def diff(self) -> Iterator[str]:
        """Yield a unified diff from the live object to the applied one, without credentials."""
        if self.after is not None:
            names = {"old": f"live/{self.title}", "new": f"git/{self.title}"}
            yield from text_diff(self.before, self.after, **names)


def rendered(root: Path, planned: EnvironmentBuild) -> Iterator[tuple[JobFile, Manifest]]:
    """Yield the objects of each selected job as they would be rendered now, written or not."""
    fresh = planned.changes.written if planned.changes else {}
    for job in planned.jobs:
        run = planned.runs.get(job.name)
        if run is None or not NAMED[run.target].is_served:
            continue
        for file in sorted(run.files):
            path = f"{job.name}/{file}"
            if file != VALUES_FILE:
                text = fresh.get(path)
                if text is None:
                    text = (root / planned.folder / path).read_text("utf-8")
                for body in yamlio.load_rendered(text):
                    yield job, Manifest(body=body, path=file)


def finding(job: JobFile, comparison: Comparison) -> Finding:
    """Return a finding for an object that the API server refuses, at the job it comes from."""
    pointer = _pointer(comparison.fields[0]) if comparison.fields else ""
    return REFUSED.at(
        Location(job.path),
        f"the API server refuses it: {comparison.refused}",
        subject=str(job),
        manifest=comparison.manifest.title,
        pointer=pointer,
    )


def _pointer(field: str) -> Pointer:
    """Return the API server's `spec.containers[0].image` as a JSON pointer."""
    return Pointer.of(*(step.text for step in next(typed(field))))


def compare(cluster: Cluster, namespace: str, manifest: Manifest, manager: str) -> Comparison:
    """Compare a rendered object with the cluster by a dry run, which changes nothing there."""
    body = {**manifest.body, "metadata": {**manifest.body["metadata"], "namespace": namespace}}
    manifest = replace(manifest, body=body)
    try:
        resource = cluster.resource(manifest.api_version, manifest.kind)
        live = cluster.get(resource, namespace, manifest.name, DRY_RUN)
        result = cluster.dry_run(resource, namespace, body, manager)
    except NoKind as error:
        return Comparison(manifest=manifest, before=None, after=None, refused=str(error))
    except Refused as error:
        return Comparison(
            manifest=manifest, before=None, after=None, refused=error.message, fields=error.fields
        )
    if live is None:  # shown as in git: what defaults and webhooks add would only distract
        return Comparison(manifest=manifest, before=None, after=yamlio.dump(_hidden({}, body)[1]))
    before, after = _hidden(_stripped(live), _stripped(result))
    return Comparison(manifest=manifest, before=yamlio.dump(before), after=yamlio.dump(after))


def _stripped(body: Mapping[str, Data]) -> dict[str, Data]:
    """Return an object without what the API server and controllers write: status, bookkeeping."""
    metadata = {k: v for k, v in body["metadata"].items() if k not in _BOOKKEEPING}
    notes = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != LAST_APPLIED}
    metadata = {k: v for k, v in metadata.items() if k != "annotations"}
    if notes:
        metadata["annotations"] = notes
    rest = {k: v for k, v in body.items() if k not in ("status", "metadata")}
    head = {key: rest.pop(key, "") for key in ("apiVersion", "kind")}
    return {**head, "metadata": metadata, **rest}


def _hidden(
    before: dict[str, Data], after: dict[str, Data]
) -> tuple[dict[str, Data], dict[str, Data]]:
    """Return a Secret with its values replaced, so that a change shows and the values do not."""
    if after.get("kind") != "Secret":
        return before, after
    for part in ("data", "stringData"):
        old, new = before.get(part) or {}, after.get(part) or {}
        changed = {key for key in {*old, *new} if old.get(key) != new.get(key)}
        for body, values, when in ((before, old, "before"), (after, new, "after")):
            if values:
                shown = {k: f"{HIDDEN} ({when})" if k in changed else HIDDEN for k in values}
                body[part] = shown
    return before, after
