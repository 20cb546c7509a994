"""What looks like a credential: by known form, by entropy, or by the name of what holds it."""

from __future__ import annotations

import math
import re
from collections import Counter
from functools import lru_cache

HIDDEN = "***"

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
  | (?P<password_in_a_URL>\b[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:[^/\s:@$]+@)
    """,
    re.VERBOSE,
)
_NAME = re.compile(
    r"(?:^|[_-])(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|API[_-]?KEY|ACCESS[_-]?KEY|PRIVATE[_-]?KEY"
    r"|CREDENTIALS?|AUTH)(?:$|[_-](?:ID|KEY|VALUE)$)",
    re.IGNORECASE,
)
# Values under such a name that are no secret: empty, a boolean, a number, a path, a reference.
_HARMLESS = re.compile(
    r"|true|false|none|null|\d{1,5}|/[^\s]*|\$\([A-Za-z_]\w*\)|[a-z_]+", re.IGNORECASE
)
_WORD = re.compile(r"[0-9A-Za-z+_=-]{32,}")
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")


@lru_cache(maxsize=4096)
def kind(value: str) -> str:
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


def named(name: str, value: str) -> bool:
    """Whether a name says that its value is a credential, and the value could be one."""
    return bool(_NAME.search(name)) and not _HARMLESS.fullmatch(value)


_PAIR = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{0,100}?(?:PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH)[\w-]*)
        (?P<between>["']?\s*[:=]\s*)
        (?P<value>"[^"]*"|'[^']*'|[^\s,}\]"'{\[|>&*][^\s,}\]]*)""",
    re.IGNORECASE | re.VERBOSE,
)


def redact(text: str) -> str:
    """Text for people and logs, with everything that looks like a credential hidden."""
    text = _FORMS.sub(HIDDEN, text)
    text = _WORD.sub(lambda match: HIDDEN if _random(match.group()) else match.group(), text)
    return _PAIR.sub(_hide_value, text)


def _hide_value(match: re.Match[str]) -> str:
    name, between, value = match.group("name", "between", "value")
    last = name.rpartition(".")[2]
    return f"{name}{between}{HIDDEN}" if named(last, value.strip("\"'")) else match.group()
