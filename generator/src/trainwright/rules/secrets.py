"""Credentials that stand in a manifest, found by name, by known form and by entropy.

No message ever contains the value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.credentials import kind, named
from trainwright.model import Severity
from trainwright.rules.rule import Rule, Sample, pod
from trainwright.rules.subject import Hit, Subject, text

_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


def _d10(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, entry in enumerate(container.env):
            name, value = text(entry.get("name")), text(entry.get("value"))
            found = kind(value) if value else ""
            if found or (value and named(name, value)):
                what = f"a {found}" if found else "what its name says is a credential"
                pointer = f"{container.pointer}/env/{index}/value"
                yield Hit(pointer, f"{name} holds {what}", spec=f"env.{name}")
        yield from _in_words(container.command_line, container.pointer)


def _in_words(words: tuple[str, ...], pointer: str) -> Iterator[Hit]:
    for word in words:
        flag = _FLAG.fullmatch(word)
        name, value = (flag.group(1), flag.group(2) or "") if flag else ("", word)
        found = kind(value)
        if found or (value and name and named(name, value)):
            where = f"the option --{name}" if name else "a word of the command line"
            what = f"a {found}" if found else "what its name says is a credential"
            yield Hit(
                pointer, f"{where} holds {what}", spec=f"flags.{name}" if name else "entrypoint"
            )


D10 = Rule(
    id="TW710",
    name="no-inline-secret",
    severity=Severity.ERROR,
    summary="No credential stands in a variable, an argument or a command.",
    effect="It is in git for ever, and everybody who can read the repository has it.",
    remedy="Revoke it, put the new one into a Secret, and name that under secrets.",
    spec="env",
    source="https://kubernetes.io/docs/concepts/security/secrets-good-practices/",
    run=_d10,
    passing=Sample(
        pod("env: [{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}]")
    ),
    failing=Sample(pod("env: [{name: DB_PASSWORD, value: 'correct-horse-7'}]")),
)
RULES = (D10,)
