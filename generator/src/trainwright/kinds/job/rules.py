"""The rules about Jobs: whether their pods meet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from trainwright.datatypes.data import Data, mapping, text
from trainwright.datatypes.groupkind import SERVICE
from trainwright.kinds.indexed_pod_templates import ReplicatedJob
from trainwright.kinds.indexed_rules import about_gangs, about_jobs, headless_service
from trainwright.kinds.job import KIND
from trainwright.objects.pods.launching import addresses, trains_together
from trainwright.objects.pods.template import PodTemplate
from trainwright.rule_model.rule import Rule
from trainwright.rule_model.subject import Hit, Subject


def _itself(subject: Subject) -> tuple[ReplicatedJob, ...]:
    return (ReplicatedJob("/spec", {"template": subject.body}, subject.templates[0]),)


def _meet(subject: Subject) -> Iterator[Hit]:
    template = subject.templates[0]
    if trains_together(template):
        yield from _not_served(subject, template)


def _not_served(subject: Subject, template: PodTemplate) -> Iterator[Hit]:
    """Yield a hit where the pods meet by a name that no Service gives them."""
    name = subject.manifest.name
    subdomain = text(template.spec.get("subdomain"))
    first = f"{name}-0"
    meets = [a for c in template.trains for a in addresses(c) if a.partition(".")[0] == first]
    if not subdomain:
        if meets:
            message = f"the pods have no subdomain, so {meets[0].partition(':')[0]} has no address"
            yield Hit("/spec/template/spec", message)
        return
    namespace = subject.manifest.namespace
    service = subject.around.named(SERVICE, subdomain, namespace)
    if service is not None:
        yield from _unfit(service.spec, subdomain, name, template)
    elif subject.job or any(
        s.namespace == namespace for s in subject.around.by_kind.get(SERVICE, ())
    ):
        yield Hit("/spec/template/spec/subdomain", f"there is no Service {subdomain}")


def _unfit(
    service: Mapping[str, Data], subdomain: str, job: str, template: PodTemplate
) -> Iterator[Hit]:
    """Yield why a Service gives the pods of a job no names."""
    pointer = "/spec/template/spec/subdomain"
    own = {"batch.kubernetes.io/job-name": job, "job-name": job, **template.labels}
    selector = mapping(service.get("selector"))
    if service.get("clusterIP") != "None":
        yield Hit(pointer, f"the Service {subdomain} is not headless (clusterIP: None)")
    if not selector or any(own.get(key) != value for key, value in selector.items()):
        yield Hit(pointer, f"the Service {subdomain} does not select the pods of {job}")
    if service.get("publishNotReadyAddresses") is not True:
        yield Hit(pointer, f"the Service {subdomain} hides pods that are not ready yet")


_KINDS = (KIND.group_kind,)
RULES: tuple[Rule, ...] = (
    *about_jobs(_KINDS, _itself),
    *about_gangs(_KINDS, _itself),
    headless_service(_KINDS, _meet),
)
