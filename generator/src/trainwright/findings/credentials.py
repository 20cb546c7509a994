"""What looks like a credential: by known form, by entropy, or by the name of what holds it."""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from functools import cache, lru_cache

HIDDEN = "***"
RANDOM = "random-looking word"  # the kind of what has no known form

# What services put at the front of their tokens so that they are found; each pattern is read in
# linear time. https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns
_FORMS = r"""
    (?P<AWS_access_key>\b(?:AKIA|ASIA)[0-9A-Z]{16}\b)
  | (?P<GitHub_token>\bgh[pousr]_[0-9A-Za-z]{36,}\b|\bgithub_pat_[0-9A-Za-z_]{22,})
  | (?P<GitLab_token>\bgl(?:pat|ptt|dt|rt|cbt)-[0-9A-Za-z_-]{20,})
  | (?P<Hugging_Face_token>\b(?:hf|api_org)_[0-9A-Za-z]{30,}\b)
  | (?P<API_key>\bsk-(?:[A-Za-z]+-)*[0-9A-Za-z_-]{20,}|\b[rs]k_(?:live|test)_[0-9A-Za-z]{20,})
  | (?P<Slack_token>\bxox[abeprs]-[0-9A-Za-z-]{10,}|\bxapp-[0-9]-[0-9A-Z]+-[0-9A-Za-z-]{10,})
  | (?P<webhook_address>\bhttps://hooks\.slack\.com/services/[0-9A-Za-z/]{20,}
      |\bhttps://discord(?:app)?\.com/api/webhooks/[0-9]+/[0-9A-Za-z_-]{20,})
  | (?P<Google_API_key>\bAIza[0-9A-Za-z_-]{35}\b|\bGOCSPX-[0-9A-Za-z_-]{20,}|\bya29\.[\w-]{20,})
  | (?P<npm_token>\bnpm_[0-9A-Za-z]{36}\b)
  | (?P<PyPI_token>\bpypi-AgE[0-9A-Za-z_-]{40,})
  | (?P<Docker_token>\bdckr_(?:pat|oat)_[0-9A-Za-z_-]{20,})
  | (?P<Databricks_token>\bdapi[0-9a-f]{32}\b)
  | (?P<Vault_token>\bhv[sbr]\.[0-9A-Za-z_-]{20,})
  | (?P<DigitalOcean_token>\bdo[opr]_v1_[0-9a-f]{64}\b)
  | (?P<SendGrid_key>\bSG\.[0-9A-Za-z_-]{16,32}\.[0-9A-Za-z_-]{16,64})
  | (?P<Replicate_token>\br8_[0-9A-Za-z]{37}\b)
  | (?P<Azure_storage_key>\bAccountKey=[0-9A-Za-z+/]{40,}={0,2})
  | (?P<signature_in_a_URL>[?&](?:sig|X-Amz-Signature|X-Goog-Signature)=[0-9A-Za-z%+/=]{20,})
  | (?P<JSON_web_token>\beyJ[0-9A-Za-z_-]{8,}\.eyJ[0-9A-Za-z_-]{8,}\.[0-9A-Za-z_-]{8,})
  | (?P<private_key>-----BEGIN\ [A-Z0-9\ ]*PRIVATE\ KEY(?:\ BLOCK)?-----
      (?s:.*?)(?:-----END\ [A-Z0-9\ ]*PRIVATE\ KEY(?:\ BLOCK)?-----|\Z))
  | (?P<authorization_header>\bAuthorization:\ ?(?:Bearer|Basic|token)\ [0-9A-Za-z._~+/=-]{8,})
  | (?P<password_in_a_URL>\b[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:[^/\s:@$]+@
      |[?&](?:access_token|api_?key|auth_?token|client_secret|password|token)=[^&\s$]{6,})
    """


@cache
def _forms() -> re.Pattern[str]:
    return re.compile(_FORMS, re.VERBOSE)  # 5 ms, and mostly nothing hints at any


_NAME = re.compile(
    r"(?:^|[/_.-])(?:(?:PG|DB|MYSQL_|REDIS_)?PASSWORD|MYSQL_PWD|PASSWD|PASSPHRASE|SECRET"
    r"|(?:IDENTITY|REGISTRY)?TOKEN|API[_-]?KEY"
    r"|ACCESS[_-]?KEY|SECRET[_-]?KEY|ACCOUNT[_-]?KEY|PRIVATE[_-]?KEY|CREDENTIALS?|AUTH"
    r"|CONNECTION[_-]?STRING)(?:$|[_-](?:ID|KEY|VALUE)$)",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # dbPassword is db-Password
# Values under such a name that are no secret: empty, a boolean, a number, a path, a reference.
_HARMLESS = re.compile(
    r"|true|false|none|null|\d{1,7}|/[^\s]*|\$\([A-Za-z_]\w*\)|\$\{[^}]*\}|<[^>]*>|[a-z_]+",
    re.IGNORECASE,
)
_WORD = re.compile(r"(?<![0-9A-Za-z+_=-])[0-9A-Za-z+_=-]{32,}")  # looked for once a word
_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")
# What only looks random: keys and certificates that are public, and digests with their name.
_PUBLIC = re.compile(
    r"ssh-(?:rsa|dss|ed25519)\ [0-9A-Za-z+/=]+|ecdsa-sha2-\S+\ [0-9A-Za-z+/=]+"
    r"|-----BEGIN\ CERTIFICATE-----[^-]*|\b(?:sha(?:256|384|512)|SHA256|md5)[-:][0-9A-Za-z+/=_-]+",
    re.VERBOSE,
)


# Every form contains one of these: looking for them costs a hundredth of trying all forms.
_HINTS = tuple(
    "AKIA ASIA ghp_ gho_ ghu_ ghs_ ghr_ github_pat_ glpat- glptt- gldt- glrt- glcbt- hf_ api_org_"
    " sk- k_live_ k_test_ xox xapp- hooks.slack.com /api/webhooks/ AIza GOCSPX- ya29. npm_"
    " pypi-AgE dckr_ dapi hvs. hvr. hvb. o_v1_ p_v1_ r_v1_ SG. r8_ AccountKey= sig= Signature= eyJ"
    " uthorization: :// token= key= secret= password=".split()
) + ("PRIVATE KEY",)


def _hinted(text: str) -> bool:
    for hint in _HINTS:  # noqa: SIM110 - a generator takes longer than to look
        if hint in text:
            return True
    return False


# Every name of a credential contains one of these.
_STEMS = ("pass", "pwd", "secret", "token", "key", "credential", "auth", "connection")


def suspicious(text: str) -> bool:
    """Whether a text may hold a credential or the name of one. Never false where it does."""
    if _hinted(text) or _WORD.search(text):
        return True
    small = text.lower()
    return any(stem in small for stem in _STEMS)


@lru_cache(maxsize=4096)
def kind(value: str) -> str:
    """What kind of credential a text contains, or nothing."""
    if len(value) < _SHORTEST_FORM and not any(sign in value for sign in ("://", "?", "&")):
        return ""
    match = _forms().search(value) if _hinted(value) else None
    if match:
        return str(match.lastgroup).replace("_", " ")
    if len(value) < _SHORTEST:
        return ""
    words = _WORD.findall(_PUBLIC.sub("", value))
    return RANDOM if any(map(_random, words)) else ""


_SHORTEST = 32  # characters of a random word; shorter ones are names as often as not
_SHORTEST_FORM = 15  # characters of a Slack token; only what stands in URLs can be shorter


def _random(word: str) -> bool:
    """Long words of letters in both cases and digits, as random as base64 of random bytes is.

    Digests and UUIDs are hexadecimal and not secret. Names repeat letters and stay below. What is
    base64 of a text, with a name in front or without, is as secret as the text.
    """
    if _HEX.fullmatch(word):
        return False
    assigned = _ASSIGNED.match(word)
    if assigned and _random(assigned["name"]):
        return True
    text = _encoded(word[assigned.end() :] if assigned else word)
    if text:
        return not _plain(text)
    return len(word) <= 512 and _mixed(word) and _entropy(word) > 4.2


_SMALL = re.compile("[a-z]{4,}")
_ASSIGNED = re.compile(r"(?P<name>[A-Za-z_-][\w-]*)=(?=[^=])")  # --config= in front of base64
_ONE_WORD = re.compile(r"[0-9A-Za-z+=_-]+")
# https://docs.docker.com/reference/cli/docker/login/ and basic authentication have it so in base64.
_USER_AND_PASSWORD = re.compile(r"[^\s:{]+:(?!//)\S+")


def _mixed(word: str) -> bool:
    """Letters in both cases and digits that make no words: a third of CheckpointOfRun12 is in runs
    of small letters, of random text a twelfth.
    """
    if not all(any(test(c) for c in word) for test in (str.isupper, str.islower, str.isdigit)):
        return False
    return sum(map(len, _SMALL.findall(word))) < 0.35 * len(word)


def _entropy(word: str) -> float:
    """Bits a letter, of this word alone."""
    counts = Counter(word).values()
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts)


def _encoded(word: str) -> str:
    """The text on one line that a word is base64 of; nothing where it is not of any."""
    body = word.rstrip("=")
    altchars = b"-_" if {"-", "_"} & set(word) else None
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=altchars, validate=True)
        text = raw.decode("ascii")
    except ValueError:
        return ""
    return text if text.isprintable() else ""


def _plain(text: str) -> bool:
    """Whether what base64 encoded is public: no credential, user with password, or key."""
    if _USER_AND_PASSWORD.fullmatch(text) or (_ONE_WORD.fullmatch(text) and _mixed(text)):
        return False
    return redact(text) == text


def named(name: str, value: str) -> bool:
    """Whether a name says that its value is a credential, and the value could be one."""
    return _secret_name(name) and not _HARMLESS.fullmatch(value)


@lru_cache(maxsize=4096)
def _secret_name(name: str) -> bool:
    return bool(_NAME.search(name) or _NAME.search(_HUMP.sub("-", name)))


_PAIR = re.compile(
    r"""(?<![\w.-])(?P<name>[\w.-]{0,100}?(?:PASS|SECRET|TOKEN|KEY|CREDENTIAL|AUTH)[\w-]*)
        (?P<between>["']?\]?\s*[:=]\s*)
        (?P<value>"(?:[^"\\]|\\.)*"|'[^']*'|[^\s,}\]"'{\[|>&*][^\s,}\]]*)""",
    re.IGNORECASE | re.VERBOSE,
)


# An option and its value in a command line: --token x, or "--token", "x" in a list.
_OPTION = re.compile(
    r"""(?P<before>(?<![\w-])--?(?P<name>[A-Za-z][\w.-]{0,100})(?:["']?\s*,\s*["']?|\s+["']?))
        (?P<value>[^\s"',\]\-$<>|&][^\s"',\]]*)""",
    re.VERBOSE,
)
# What is in a Secret is given by a reference to it: --secret hf-token.
_OF_A_SECRET = re.compile(
    r"(?:(?:k8s|kube|kubernetes|image[-_]?pull|pull|tls)[-_]?)?secret", re.IGNORECASE
)
_OBJECT = re.compile(r"[a-z]+[0-9]{0,2}(?:[-.][a-z]+[0-9]{0,2})*")


def given(option: str, value: str) -> bool:
    """Whether the value of an option is a credential by the option's name.

    What is called a secret may be the name of one in the cluster, which is words.
    """
    named_object = _OF_A_SECRET.fullmatch(option) and _OBJECT.fullmatch(value)
    return named(option, value) and not named_object


def shows(line: str) -> bool:
    """Whether a line such as `export TOKEN=x; train` gives a credential a name and a value."""
    if any(given(match["name"], match["value"]) for match in _OPTION.finditer(line)):
        return True
    for match in _PAIR.finditer(line) if "=" in line else ():
        value = match["value"].strip("\"'")
        # What a shell fills in is not there yet.
        assigned = "=" in match["between"] and not value.startswith("$")
        if assigned and given(match["name"].rpartition(".")[2].lstrip("-"), value):
            return True
    return False


def redact(text: str) -> str:
    """Text for people and logs, with everything that looks like a credential hidden."""
    if not suspicious(text):
        return text
    if _hinted(text):
        text = _forms().sub(HIDDEN, text)
    text = _WORD.sub(lambda match: HIDDEN if _random(match.group()) else match.group(), text)
    return _OPTION.sub(_hide_option, _PAIR.sub(_hide_value, text))


def _hide_option(match: re.Match[str]) -> str:
    shown = not given(match["name"], match["value"])
    return match[0] if shown else f"{match['before']}{HIDDEN}"


def _hide_value(match: re.Match[str]) -> str:
    name, between, value = match.group("name", "between", "value")
    last = name.rpartition(".")[2]
    return f"{name}{between}{HIDDEN}" if named(last, value.strip("\"'")) else match.group()
