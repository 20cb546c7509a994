"""Variables: whether those in command lines are there, and whether each has one value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.kinds import SERVED, TRAINING
from trainwright.model import Severity
from trainwright.objects.rule import Rule, Sample, pod
from trainwright.objects.subject import Hit, Subject
from trainwright.pods.launching import SHELLS
from trainwright.pods.template import Container
from trainwright.pointer import Pointer
from trainwright.tolerant import sequence, text

_REFERENCE = re.compile(r"\$?\$\(([A-Za-z_][A-Za-z0-9_]*)\)")
_OF_SERVICES = re.compile(r".*_(?:SERVICE_HOST|SERVICE_PORT(?:_.*)?|PORT(?:_.*)?)")


def _j07(subject: Subject) -> Iterator[Hit]:
    given = SERVED[subject.kind].variables
    for template in subject.templates:
        for container in template.containers:
            if not any("$(" in word for word in container.command_line):
                continue
            if template.partial or sequence(container.body.get("envFrom")):
                continue  # what is declared there cannot be seen
            for name in dict.fromkeys(_referred(container)):
                if name not in container.variables and not name.startswith(given):
                    message = f"$({name}) names no variable of {container.name!r}"
                    yield Hit(container.pointer, message)


def _referred(container: Container) -> Iterator[str]:
    """The variables in a command line, but for those in a shell's script: they are commands."""
    words = container.command_line
    shell = bool(words) and bool(SHELLS.fullmatch(words[0]))
    for index, word in enumerate(words):
        if shell and index and words[index - 1].startswith("-") and words[index - 1].endswith("c"):
            continue
        for match in _REFERENCE.finditer(word) if "$(" in word else ():
            if not match.group().startswith("$$") and not _OF_SERVICES.fullmatch(match.group(1)):
                yield match.group(1)


_JOB = (
    "kind: Job\nmetadata: {name: a}\n"
    "spec: {template: {spec: {containers: [{command: [a, $(%s)]}]}}}"
)

J07 = Rule(
    id="TW307",
    name="undeclared-variable",
    severity=Severity.WARNING,
    summary="Variables in a command line are declared in the same container.",
    effect="The kubelet passes the text on as it is: the program gets the word $(NAME).",
    remedy="Declare the variable under env, or write $$(NAME) if the text is meant.",
    kinds=TRAINING,
    spec=Pointer("/entrypoint"),
    source="https://kubernetes.io/docs/tasks/inject-data-application/define-interdependent-environment-variables/",
    per_pod=True,
    run=_j07,
    passing=Sample(_JOB % "JOB_COMPLETION_INDEX"),
    failing=Sample(_JOB % "MASTER_ADDR"),
)


def _d51(subject: Subject) -> Iterator[Hit]:
    for template in subject.pod_templates:
        for container in (*template.containers, *template.ephemeral):
            for index, entry in enumerate(container.env):
                if entry.get("value") and entry.get("valueFrom") is not None:
                    name = text(entry.get("name"))
                    pointer = f"{container.pointer}/env/{index}"
                    message = f"{name} has a value, and one from elsewhere"
                    yield Hit(pointer, message, Pointer.of("env", name))


D51 = Rule(
    id="TW751",
    name="variable-with-two-values",
    severity=Severity.ERROR,
    summary="Every variable has a value, or takes it from one place.",
    effect="The API server refuses a Pod, a Deployment and a Job; anything else is accepted and "
    "waits for pods that are refused.",
    remedy="Keep one of the two: in a podPatch, remove the other with null.",
    by_hand="Keep value or valueFrom.",
    spec=Pointer("/env"),
    source="https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#environment-variables",
    per_pod=True,
    run=_d51,
    passing=Sample(pod("env: [{name: A, value: b}]")),
    failing=Sample(
        pod("env: [{name: A, value: b, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]")
    ),
)
RULES = (J07, D51)
