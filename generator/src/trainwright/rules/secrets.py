"""Credentials that stand in a manifest, found by name, by known form and by entropy.

No message ever contains the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.credentials import RANDOM, kind, named, shows, suspicious
from trainwright.groupkind import CONFIGMAP
from trainwright.model import Severity
from trainwright.pointer import Pointer, token
from trainwright.rules.kinds import WITH_PODS
from trainwright.rules.rule import Rule, Sample, pod
from trainwright.rules.subject import Hit, Subject
from trainwright.rules.template import Container
from trainwright.rules.tolerant import mapping, text

CREDENTIAL = "TW710"
_BY_NAME = "what its name says is a credential"
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def _d10(subject: Subject) -> Iterator[Hit]:
    if subject.kind == CONFIGMAP:
        yield from _in_files(subject)
    for container in subject.containers:
        told = [text(entry.get(key)) for entry in container.env for key in ("name", "value")]
        if suspicious("\n".join((*told, *container.command_line))):
            yield from _in_variables(container)
            yield from _in_words(container.command_line, container.pointer)


def _in_variables(container: Container) -> Iterator[Hit]:
    for index, entry in enumerate(container.env):
        name, value = text(entry.get("name")), text(entry.get("value"))
        found = kind(value) if value else ""
        if found or (value and named(name, value)):
            what = f"a {found}" if found else _BY_NAME
            pointer = f"{container.pointer}/env/{index}/value"
            yield Hit(pointer, f"{name} holds {what}", spec=Pointer.of("env", name))


def _in_files(subject: Subject) -> Iterator[Hit]:
    """Scripts and settings that pods mount. Names in them are code, so only forms count."""
    for name, value in mapping(subject.body.get("data")).items():
        found = kind(text(value))
        if found and found != RANDOM:
            pointer = f"/data/{token(str(name))}"
            yield Hit(pointer, f"{name} holds a {found}", spec=Pointer("/entrypoint/inline"))


def _in_words(words: tuple[str, ...], pointer: str) -> Iterator[Hit]:
    for index, word in enumerate(words):
        flag = _FLAG.fullmatch(word) if word.startswith("-") else None
        name, value = (flag.group(1), flag.group(2)) if flag else ("", word)
        if value is None:  # --token VALUE: the value is found as the next word, by this name
            following = words[index + 1] if index + 1 < len(words) else ""
            value = "" if following.startswith("-") or kind(following) else following
        found = kind(value)
        by_name = bool(value and name and named(name, value)) or (not name and shows(value))
        if found or by_name:
            where = f"the option --{name}" if name else "a word of the command line"
            what = f"a {found}" if found else _BY_NAME
            yield Hit(
                pointer,
                f"{where} holds {what}",
                spec=Pointer.of("flags", name) if name else Pointer("/entrypoint"),
            )


D10 = Rule(
    id=CREDENTIAL,
    name="no-inline-secret",
    severity=Severity.ERROR,
    summary="No credential stands in a variable, an argument, a URL or a mounted file.",
    effect="It is in git for ever, and everybody who can read the repository has it.",
    remedy="Revoke it, put the new one into a Secret, and name that under secrets.",
    by_hand="Revoke it, put the new one into a Secret, and refer to that by secretKeyRef.",
    kinds=(*WITH_PODS, CONFIGMAP),
    spec=Pointer("/env"),
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    per_pod=True,
    run=_d10,
    passing=Sample(
        pod("env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]")
    ),
    failing=Sample(pod("env: [{name: DB_PASSWORD, value: 'correct-horse-7'}]")),
)
RULES = (D10,)
