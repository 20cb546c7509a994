"""Credentials that stand in a manifest, found by name, by known form and by entropy.

No message ever contains the value.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from trainwright.model import Severity
from trainwright.rules.rule import Rule, Sample
from trainwright.rules.subject import Hit, Subject, text

_FORMS = re.compile(
    r"""
    (?P<AWS_access_key>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)
  | (?P<GitHub_token>\bgh[pousr]_[0-9A-Za-z]{36,}\b|\bgithub_pat_[0-9A-Za-z_]{22,})
  | (?P<GitLab_token>\bglpat-[0-9A-Za-z_-]{20,})
  | (?P<Hugging_Face_token>\bhf_[0-9A-Za-z]{30,}\b)
  | (?P<API_key>\bsk-(?:[A-Za-z]+-)*[0-9A-Za-z_-]{20,})
  | (?P<Slack_token>\bxox[abprs]-[0-9A-Za-z-]{10,})
  | (?P<Google_API_key>\bAIza[0-9A-Za-z_-]{35}\b)
  | (?P<JSON_web_token>\beyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,})
  | (?P<private_key>-----BEGIN\ [A-Z ]*PRIVATE\ KEY-----)
  | (?P<password_in_a_URL>[a-z][a-z0-9+.-]*://[^/\s:@]*:[^/\s:@$]+@)
    """,
    re.VERBOSE,
)
_NAME = re.compile(
    r"(?:^|[_-])(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY"
    r"|CREDENTIALS?|AUTH)(?:$|[_-](?:ID|KEY|VALUE)$)",
    re.IGNORECASE,
)
# Values under such a name that are no secret: empty, a boolean, a number, a path, a reference.
_HARMLESS = re.compile(
    r"|true|false|none|null|\d+|/[^\s]*|\$\([A-Za-z_]\w*\)|[a-z_]+", re.IGNORECASE
)
_WORD = re.compile(r"[0-9A-Za-z+_=-]{32,}")
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
_FLAG = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)


@lru_cache(maxsize=4096)
def form(value: str) -> str:
    """What kind of credential a text contains, or nothing."""
    match = _FORMS.search(value)
    if match:
        return str(match.lastgroup).replace("_", " ")
    return "random-looking word" if any(map(_random, _WORD.findall(value))) else ""


def _random(word: str) -> bool:
    """Long words of letters in both cases and digits, as random as base64 of random bytes is.

    Digests and UUIDs are hexadecimal and not secret; names repeat letters and stay below.
    """
    if _HEX.fullmatch(word) or len(word) > 512:
        return False
    mixed = all(any(test(c) for c in word) for test in (str.isupper, str.islower, str.isdigit))
    counts = Counter(word).values()
    entropy = -sum(n / len(word) * math.log2(n / len(word)) for n in counts)
    return mixed and entropy > 4.2


def _named(name: str, value: str) -> bool:
    return bool(_NAME.search(name)) and not _HARMLESS.fullmatch(value)


def _d10(subject: Subject) -> Iterator[Hit]:
    for container in subject.containers:
        for index, entry in enumerate(container.env):
            name, value = text(entry.get("name")), text(entry.get("value"))
            found = form(value) if value else ""
            if found or (value and _named(name, value)):
                what = f"a {found}" if found else "what its name says is a credential"
                pointer = f"{container.pointer}/env/{index}/value"
                yield Hit(pointer, f"{name} holds {what}", spec=f"env.{name}")
        yield from _in_words(container.command_line, container.pointer)


def _in_words(words: tuple[str, ...], pointer: str) -> Iterator[Hit]:
    for word in words:
        flag = _FLAG.fullmatch(word)
        name, value = (flag.group(1), flag.group(2) or "") if flag else ("", word)
        found = form(value)
        if found or (value and name and _named(name, value)):
            where = f"the option --{name}" if name else "a word of the command line"
            what = f"a {found}" if found else "what its name says is a credential"
            yield Hit(
                pointer, f"{where} holds {what}", spec=f"flags.{name}" if name else "entrypoint"
            )


def _sample(env: str) -> str:
    return (
        "kind: PyTorchJob\nspec: {pytorchReplicaSpecs: {Master: {template: {spec: "
        f"{{containers: [{{name: pytorch, env: [{env}]}}]}}}}}}}}}}"
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
    passing=Sample(_sample("{name: HF_TOKEN, valueFrom: {secretKeyRef: {name: hf, key: token}}}")),
    failing=Sample(_sample("{name: DB_PASSWORD, value: 'correct-horse-7'}")),
)
RULES = (D10,)
