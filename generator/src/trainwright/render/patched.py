"""What a job's podPatch does to its pods: a comparison of the pods with and without the patch.

Plans, quotas, the lock of images and the target itself read fields of the spec. So a patch may not
change what they read, and what a rule finds only with the patch is reported at the patch's line.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import field, fields
from decimal import Decimal
from functools import cached_property

from trainwright.datatypes.data import Data, dig, is_accelerator, mappings
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.fields import spelled
from trainwright.datatypes.finding import Finding
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import DIRECTIVE, Job, Security
from trainwright.datatypes.manifest import Manifest
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.documents.validation.kubernetes_fields import CONTAINER, POD, Place
from trainwright.findings import diagnostics as dx
from trainwright.kinds import TARGETS
from trainwright.kinds.capabilities import left_to_flavor
from trainwright.kinds.subjects import pod_templates
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.requests import pod_requests
from trainwright.objects.pods.template import Container, PodTemplate
from trainwright.specs import allowed, pod_patch
from trainwright.specs.containers import UNCOUNTED
from trainwright.specs.merge import Layered
from trainwright.specs.pod_patch import AT, Item

_CONTAINERS = ("containers", "initContainers")
# Where a pod template begins in an object of any kind.
_TEMPLATE = re.compile(r".*/(?:template|podTemplateOverrides/\d+)(?=/(?:metadata|spec)(?:/|$))")


@dataclass(frozen=True)
class Patched:
    """The manifests of a job with a patch, and the same without it."""

    job: Job
    spec: Layered
    environment: Environment
    manifests: Sequence[Manifest] = field(repr=False)
    plain: Sequence[Manifest] = field(repr=False)

    def findings(self) -> Iterator[Finding]:
        """Yield what is wrong with the patch, and what belongs in a field of the job instead."""
        overruled: list[Pointer] = []
        for old, new in self._pods[:1]:  # all pods of a job are patched alike
            yield from self._absent(old)
            for pointer, message, remedy in self._overruled(old, new):
                at = self._setting(new, pointer)
                overruled.append(at)
                yield self.spec.finding(dx.PATCH_OVERRULES, at, message, remedy=remedy)
            yield from self._not_allowed(old, new)
        for at, name in _fields(self.job.pod_patch, self._container):
            if any(error.within(at) for error in overruled):
                continue
            message = f"{at.dotted} sets what {name} is for"
            remedy = f"Write it under {name}."
            yield dx.PATCH_OF_FIELD.at(self.spec.key_origin(at), message, remedy=remedy, path=at)

    def at(self, manifest: Manifest, pointer: str) -> Pointer:
        """Return the pointer in the patch that sets a part of a rendered object."""
        for template in pod_templates(manifest, Bundle(self.manifests)):
            for inside in _inside(template, Pointer(pointer)):
                return self._setting(template, inside)
        if match := _TEMPLATE.match(pointer):
            template = PodTemplate(match[0], lookup(manifest.body, Pointer(match[0])) or {})
            return self._setting(template, Pointer(pointer[match.end() :]))
        return AT

    def _setting(self, template: PodTemplate, inside: Pointer) -> Pointer:
        return pod_patch.setting(self.job.pod_patch, template.body, inside, self._version)

    @property
    def _version(self) -> str:
        return self.environment.kubernetes_version

    @property
    def _container(self) -> str:
        """The container that trains."""
        return next((main.name for old, _ in self._pods if (main := self._main(old))), "")

    @cached_property
    def _pods(self) -> tuple[tuple[PodTemplate, PodTemplate], ...]:
        """Each pod template without the patch, and with it."""
        old, new = (
            [t for manifest in each for t in pod_templates(manifest, Bundle(each))]
            for each in (self.plain, self.manifests)
        )
        return tuple(zip(old, new, strict=True))

    def _main(self, template: PodTemplate) -> Container | None:
        wanted = TARGETS[self.job.target].container
        named = (c for c in template.trains if not wanted or c.name == wanted)
        return next(named, None)

    # --- what is not there -----------------------------------------------------------------------

    def is_absent(self, at: Pointer) -> bool:
        """Whether a position is in an item of the patch that the pods do not have."""
        return any(at.within(item.at) for item in self._absent_items)

    @cached_property
    def _absent_items(self) -> tuple[Item, ...]:
        """Containers that are to be changed, and items to be deleted, that the pods do not have."""
        items = pod_patch.items(self.job.pod_patch, self._version)
        return tuple(item for item in items for old, _ in self._pods[:1] if self._misses(item, old))

    def _misses(self, item: Item, old: PodTemplate) -> bool:
        added = item.at.parent.last not in _CONTAINERS or "image" in item.body
        if old.partial or (added and not item.deleted):
            return False
        return item.name not in [str(other.get(item.key)) for other in self._beside(item, old)]

    def _absent(self, old: PodTemplate) -> Iterator[Finding]:
        for item in self._absent_items:
            holder = item.at.parent.last
            have = [str(other.get(item.key)) for other in self._beside(item, old)]
            message = f'{holder} of the pods have no item with {item.key} "{item.name}"'
            remedy = f"Use one of {', '.join(have)}." if have else "Remove it."
            if holder in _CONTAINERS and not item.deleted:
                remedy = f"{remedy[:-1]}, or give it an image, which adds a container."
            place = self.spec.origin(item.at / item.key)
            effect = "The patch would change nothing, or add a part that the API server refuses."
            yield dx.REFERENCE.at(place, message, remedy=remedy, effect=effect, path=item.at)

    def _beside(self, item: Item, old: PodTemplate) -> list[Data]:
        """Return the items that the unpatched pod has in the list of an item of the patch."""
        patch: Data = self.job.pod_patch
        pod: Data = old.body
        for key in item.at.parent.parts[1:]:
            if isinstance(patch, list):
                patch = patch[int(key)]
                name = next((k for k in ("name", item.key) if k in patch), "")
                same = (
                    candidate for candidate in pod or () if candidate.get(name) == patch.get(name)
                )
                pod = next(same, {})
            else:
                patch, pod = patch[key], (pod or {}).get(key)
        return list(pod or ())

    # --- what an environment has to allow --------------------------------------------------------

    def _not_allowed(self, old: PodTemplate, new: PodTemplate) -> Iterator[Finding]:
        """Yield what only the patched pods take of their node or cluster, if it is not allowed."""
        before = {name for name, _ in _taken(old)}
        for name, pointer in _taken(new):
            if name not in before:
                at = self._setting(new, pointer)
                yield from allowed.refused(name, at, self.spec, self.environment)

    # --- what a patch may not change -------------------------------------------------------------

    def _overruled(self, old: PodTemplate, new: PodTemplate) -> Iterator[tuple[Pointer, str, str]]:
        """Yield patched parts that are read from job fields: position, message, remedy."""
        yield from self._of_the_target(old, new)
        before, after = self._main(old), self._main(new)
        if before is None:
            return
        if after is None:
            message = f'the container "{before.name}" trains, and is not in the patched pods'
            yield Pointer("/spec/containers"), message, "Keep it."
            return
        at = Pointer(f"/spec/containers/{new.trains.index(after)}")
        for name, key in (("image", "image"), ("resources", "resources")):
            if before.body.get(key) != after.body.get(key):
                message = f"plans, quotas and the lock of images read {name}, and not a patch"
                yield at / key, message, f"Write it under {name}."
        yield from self._accelerators(old, new)
        yield from self._variables(before, after, at)

    def _accelerators(
        self, old: PodTemplate, new: PodTemplate
    ) -> Iterator[tuple[Pointer, str, str]]:
        if _accelerators(old) != _accelerators(new):
            where = "containers" if old.accelerators != new.accelerators else "initContainers"
            yield Pointer.of("spec", where), UNCOUNTED, "Ask for them in resources.gpu."

    def _of_the_target(
        self, old: PodTemplate, new: PodTemplate
    ) -> Iterator[tuple[Pointer, str, str]]:
        target = TARGETS[self.job.target]
        for key in ("restartPolicy", "subdomain", "hostname", "setHostnameAsFQDN"):
            if old.spec.get(key) != new.spec.get(key):
                message = f"{key} is how the pods of a {target.kind} are restarted or found"
                yield Pointer.of("spec", key), message, "Remove it."
        left = left_to_flavor(self.job, self.environment)
        for key in (*left, "affinity") if "nodeSelector" in left else left:
            if old.spec.get(key) != new.spec.get(key):
                message = f"the ResourceFlavor of {self.job.queue} places the pods"
                yield Pointer.of("spec", key), message, "Remove it."
        own = {
            "labels": {*self.job.labels, *self.job.pod_labels},
            "annotations": {*self.job.annotations, *self.job.pod_annotations},
        }
        for part, mine in own.items():
            before, after = (each.metadata.get(part) or {} for each in (old, new))
            for key, value in before.items():
                if after.get(key) != value and key not in mine:
                    message = f"{key} is set for every {target.kind}, and would be lost"
                    yield Pointer.of("metadata", part, key), message, "Remove it."

    def _variables(
        self, before: Container, after: Container, at: Pointer
    ) -> Iterator[tuple[Pointer, str, str]]:
        """Yield variables that the target or the runtime reads and the patch would change."""
        mine = {*self.job.env, *self.job.secrets}
        named = {str(entry.get("name")): entry for entry in after.env}
        index = {str(entry.get("name")): place for place, entry in enumerate(after.env)}
        for entry in before.env:
            name = str(entry.get("name"))
            if name not in mine and named.get(name) != entry:
                message = f"the variable {name} is set for every run, and would be lost"
                place = at / "env" / index[name] if name in index else at / "env"
                yield place, message, "Remove it, or use another name."


def _taken(template: PodTemplate) -> Iterator[tuple[str, Pointer]]:
    """Yield each privilege that pods take, by its name in `allow`, and where in the template."""
    for name in ("hostNetwork", "hostIPC", "hostPID"):
        if template.spec.get(name) is True:
            yield name, Pointer.of("spec", name)
    token = "automountServiceAccountToken"  # noqa: S105 - the name of a field
    if not template.partial and template.spec.get(token) is not False:
        yield "serviceAccountToken", Pointer.of("spec", token)
    for index, (_, volume) in enumerate(template.volumes):
        if allowed.opens_the_api(volume):
            yield "serviceAccountToken", Pointer.of("spec", "volumes", index, "projected")
    for kind in _CONTAINERS:
        for index, container in enumerate(mappings(template.spec.get(kind))):
            if dig(container, "securityContext", "privileged") is True:
                at = Pointer.of("spec", kind, index, "securityContext", "privileged")
                yield "privileged", at


def _inside(template: PodTemplate, pointer: Pointer) -> Iterator[Pointer]:
    """Yield a pointer into an object as one into its pod template, if it is in there."""
    for key in _CONTAINERS:
        for index, container in enumerate(
            c for c in template.containers if c.init is (key[0] == "i")
        ):
            if pointer.within(container.pointer):
                yield Pointer(f"/spec/{key}/{index}{pointer[len(container.pointer) :]}")
    if pointer.within(template.pointer):
        yield Pointer(pointer[len(template.pointer) :])


# --- what fields are for -------------------------------------------------------------------------


def _written_as(table: Mapping[str, Place], without: Collection[str]) -> dict[str, str]:
    """Return the job's field for each field of a pod, without those that are checked separately."""
    named = {key: place.at.dotted for key, place in table.items() if place.fields}
    return {key: field for key, field in named.items() if key not in without}


_OF_PODS = _written_as(POD, ("containers", "restartPolicy", "securityContext"))
_OF_CONTAINERS = _written_as(CONTAINER, ("ports", "restartPolicy", "securityContext"))
_SECURITY = {key: f"security.{key}" for key in map(spelled, (f.name for f in fields(Security)))}
_OF_METADATA = {"labels": "podLabels", "annotations": "podAnnotations"}


def _fields(patch: Mapping[str, Data], container: str) -> Iterator[tuple[Pointer, str]]:
    """Yield parts of a patch that a field of the job is for, each with the name of the field."""
    spec = patch.get("spec", {})
    yield from _set(patch.get("metadata", {}), _OF_METADATA, AT / "metadata")
    yield from _set(spec, _OF_PODS, AT / "spec")
    yield from _set(spec.get("securityContext"), _SECURITY, AT / "spec" / "securityContext")
    for index, item in enumerate(spec.get("containers") or ()):
        at = AT / "spec" / "containers" / index
        if item.get("name") == container:
            yield from _set(item, _OF_CONTAINERS, at)
            yield from _set(item.get("securityContext"), _SECURITY, at / "securityContext")
        elif "image" in item:
            yield at, "sidecars"


def _set(data: Data, names: Mapping[str, str], at: Pointer) -> Iterator[tuple[Pointer, str]]:
    """Yield each position that sets (not just removes) one of `names`, and the field for it."""
    for key, value in data.items() if isinstance(data, dict) else ():
        if key in names and _sets(value):
            yield at / key, names[key]


def _sets(value: Data) -> bool:
    if isinstance(value, dict):
        return value.get(DIRECTIVE) != "delete" and any(map(_sets, value.values()))
    if isinstance(value, list):
        return any(map(_sets, value))
    return value is not None


def _accelerators(pod: PodTemplate) -> dict[str, Decimal]:
    """Return how many of each accelerator one pod requests, in all of its containers."""
    requests = pod_requests(pod).items()
    return {name: amount for name, amount in requests if amount and is_accelerator(name)}
