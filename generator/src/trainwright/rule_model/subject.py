"""What a rule looks at: one object, and what is known around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace

from trainwright.datatypes.data import Data, dig, mapping, text, words
from trainwright.datatypes.environment import Environment
from trainwright.datatypes.frozen import cached_property, dataclass
from trainwright.datatypes.groupkind import CONFIGMAP, GroupKind
from trainwright.datatypes.job import Job
from trainwright.datatypes.manifest import Manifest, ObjectBody
from trainwright.datatypes.pointer import Pointer, lookup
from trainwright.objects.bundle import Bundle
from trainwright.objects.pods.core_templates import core_templates
from trainwright.objects.pods.launching import is_training
from trainwright.objects.pods.template import Container, PodTemplate


@dataclass(frozen=True, slots=True)
class Hit:
    """One place where a rule fails, as a JSON pointer into the object.

    `spec` is the position in the job spec that decides it ("/resources/gpu"), so that the finding
    can point at the authored line; the rule's own `spec` is used when it is empty. `also` are
    further positions in the job spec that the message mentions. `remedy` is what a job spec does in
    this case, where that of the rule is for all of them. `form` is the key of the effect that this
    case has, of those in the words of the rule.
    """

    pointer: str
    message: str
    spec: Pointer = Pointer()
    note: str = ""
    also: tuple[Pointer, ...] = ()
    remedy: str = ""
    form: str = ""


Finder = Callable[[Manifest, Bundle], Iterable[PodTemplate]]


def _shaped(manifest: Manifest, _: Bundle) -> Iterable[PodTemplate]:
    return core_templates(manifest)


@dataclass(frozen=True)
class Subject(ObjectBody):
    """One object to check, with its environment, its job, and the objects around it.

    `job` is None for manifests people wrote by hand; `siblings` are the objects rendered or read
    together with this one, itself included. `finder` knows where its kind
    has pod templates. Many subjects share a `Bundle` of them, so that its
    indexes are made once.
    """

    manifest: Manifest
    environment: Environment
    job: Job | None = None
    siblings: Sequence[Manifest] = field(default=(), repr=False)
    finder: Finder = field(default=_shaped, repr=False, kw_only=True)

    @cached_property
    def kind(self) -> GroupKind:
        return self.manifest.group_kind

    @cached_property
    def around(self) -> Bundle:
        """An index of the objects rendered or read together with this one."""
        siblings = self.siblings
        return siblings if isinstance(siblings, Bundle) else Bundle(siblings)

    @cached_property
    def body(self) -> Mapping[str, Data]:
        return self.manifest.body

    @cached_property
    def templates(self) -> tuple[PodTemplate, ...]:
        """The pod templates that train: in kinds that may also serve, those that look like it."""
        return tuple(t for t in self.pod_templates if not t.foreign or is_training(t))

    @cached_property
    def pod_templates(self) -> tuple[PodTemplate, ...]:
        """Every pod template of the object, also of kinds that train nothing, such as a Pod."""
        return tuple(map(self._with_configs, self.finder(self.manifest, self.around)))

    def _with_configs(self, template: PodTemplate) -> PodTemplate:
        """A template with the data of the ConfigMaps around it that it has as volumes."""
        if CONFIGMAP not in self.around.by_kind:
            return template
        where = self.manifest.namespace
        names = {text(dig(volume, "configMap", "name")) for _, volume in template.volumes}
        config_maps = {name: self.around.named(CONFIGMAP, name, where) for name in names}
        configs = {
            name: mapping(config_map.body.get("data"))
            for name, config_map in config_maps.items()
            if config_map
        }
        return replace(template, configs=configs) if configs else template

    @cached_property
    def words(self) -> frozenset[str]:
        """Every key and every text of the object, and of what its pods take from other objects.

        The pod templates of a TrainJob, for example, are in a runtime, and a script in a ConfigMap.
        """
        elsewhere = [
            template.body
            for template in self.unlike
            if lookup(self.body, template.pointer) is not template.body
        ]
        scripts = [template.configs for template in self.pod_templates if template.configs]
        again = {id(t.body) for t in self.pod_templates} - {id(t.body) for t in self.unlike}
        return frozenset(words([self.body, *elsewhere, *scripts], again))

    @cached_property
    def unlike(self) -> tuple[PodTemplate, ...]:
        """One pod template of each group of similar ones."""
        kept: list[PodTemplate] = []
        for template in self.pod_templates:
            if not any(template.alike(other) for other in kept):
                kept.append(template)
        return tuple(kept)

    @cached_property
    def distinct(self) -> Subject:
        """This object with one pod template of each group of similar ones, though with as many pods
        and ranks; itself if all differ.
        """
        if len(self.unlike) == len(self.pod_templates):
            return self
        narrowed = Subject(
            self.manifest, self.environment, self.job, self.siblings, finder=self.finder
        )
        counts = {"pods": self.pods, "ranks": self.ranks}
        narrowed.__dict__.update(pod_templates=self.unlike, words=self.words, **counts)
        return narrowed

    @cached_property
    def containers(self) -> tuple[Container, ...]:
        """Every container of every pod template."""
        return tuple(c for template in self.templates for c in template.containers)

    @cached_property
    def training(self) -> tuple[tuple[PodTemplate, Container], ...]:
        """Each pod template that trains, with each of its containers but init containers."""
        return tuple((template, c) for template in self.templates for c in template.trains)

    @cached_property
    def pods(self) -> int:
        """How many pods there are at most."""
        return sum(template.replicas for template in self.templates)

    @cached_property
    def ranks(self) -> int:
        """How many pods train together at most: those of one group of a LeaderWorkerSet."""
        return sum(template.ranks for template in self.templates)

    def job_of(self, template: PodTemplate) -> Job | None:
        """The job, or the role of it, that the pods of a template are of."""
        roles = self.job.roles if self.job else ()
        return next((r for r in roles if r.role and r.role.name == template.role), self.job)

    def pods_with(self, volume: Mapping[str, Data]) -> int:
        """Return how many pods have a volume with the same source, whatever its name."""
        source = {key: value for key, value in volume.items() if key != "name"}
        return sum(
            template.replicas
            for template in self.templates
            if any(source.items() <= other.items() for _, other in template.volumes)
        )
