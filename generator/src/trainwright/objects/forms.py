"""Forms of names, keys and values that the API server requires.

https://kubernetes.io/docs/concepts/overview/working-with-objects/names/
"""

from __future__ import annotations

import re
from functools import lru_cache

from trainwright.datatypes.frozen import dataclass

# What Helm, envsubst or Flux (https://fluxcd.io/flux/components/kustomize/kustomizations/) fill in
# before it is applied.
_PLACEHOLDER = re.compile(
    r"\{\{.{0,500}?\}\}|\$(?:[A-Z_][A-Z0-9_]*|\{\w++(?:[-:=+?][^}]{0,500}+)?\})"
)


def is_template(value: str) -> bool:
    """Whether Helm or envsubst fill in a part of a text."""
    return ("$" in value or "{{" in value) and bool(_PLACEHOLDER.search(value))


@dataclass(frozen=True, slots=True)
class Form:
    """The format of a sort of names: what it is called, its pattern, and its maximum length."""

    called: str
    pattern: re.Pattern[str]
    longest: int

    def problem(self, name: str) -> str:
        """Return why a text is not of this form, or "" if it is."""
        over = len(name) - self.longest
        if over <= 0 and self.pattern.fullmatch(name):
            return ""
        if is_template(name):
            return ""
        if over > 0:
            return f"has {len(name)} characters, {over} over {self.longest}"
        return f"is not {self.called}"


_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"  # RFC 1123
_QUALIFIED = "[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
SUBDOMAIN = Form(
    "a DNS subdomain: lower case letters, digits, . and -",
    re.compile(rf"{_LABEL}(\.{_LABEL})*"),
    253,
)
LABEL = Form("a DNS label: lower case letters, digits and -", re.compile(_LABEL), 63)
LETTER_FIRST = Form(
    "a DNS label that starts with a letter: lower case letters, digits and -",
    re.compile("[a-z]([-a-z0-9]*[a-z0-9])?"),  # RFC 1035
    63,
)
SEGMENT = Form("a path segment: no / and no %", re.compile(r"(?!\.{1,2}\Z)[^/%]+"), 10**6)
PORT = Form(
    "a name of a port: lower case letters, at least one, digits and single -",
    re.compile(r"(?=.*[a-z])(?!.*--)[a-z0-9]([-a-z0-9]*[a-z0-9])?"),
    15,
)
KEY = Form("a qualified name: letters, digits, ., _ and -", re.compile(_QUALIFIED), 63)
VALUE = Form(
    "the value of a label: letters, digits, ., _ and -, first and last a letter or digit",
    re.compile(f"({_QUALIFIED})?"),
    63,
)
CONFIG_KEY = Form(
    "a key of a ConfigMap or Secret: letters, digits, ., _ and -",
    re.compile(r"(?!\.\Z|\.\.)[-._a-zA-Z0-9]+"),
    253,
)
# Any printable character but = since 1.32, where the feature gate
# RelaxedEnvironmentVariableValidation is on.
VARIABLE = Form(
    "the name of a variable: letters, digits, _, - and ., and no digit first",
    re.compile(r"(?!\.\Z|\.\.)[-._a-zA-Z][-._a-zA-Z0-9]*"),
    10**6,
)
ANY_VARIABLE = Form(
    "the name of a variable: printable characters other than =",
    re.compile(r"[ -<>-~]+"),
    10**6,
)
SYSCTL = Form(
    "the name of a sysctl: lower case words with . or / between them, as net.core.somaxconn",
    re.compile(r"([a-z0-9]([-_a-z0-9]*[a-z0-9])?[./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"),
    253,
)
_SEARCHED = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
SEARCH = Form(
    "a domain to search: lower case letters, digits, ., - and _",
    re.compile(rf"\.|{_SEARCHED}(\.{_SEARCHED})*\.?"),
    254,
)
HEADER = Form("the name of a header: letters, digits and -", re.compile("[-A-Za-z0-9]+"), 10**6)
DRIVER = Form(
    "the name of a CSI driver: letters, digits, . and -",
    re.compile(SUBDOMAIN.pattern.pattern, re.IGNORECASE | re.ASCII),
    63,
)
SIGNER = Form(
    "the name of a signer: a domain, a / and a name, as example.com/signer",
    re.compile(rf"{_LABEL}(\.{_LABEL})+/{_LABEL}(\.{_LABEL})*"),
    571,
)
DOMAIN_PATH = Form(
    "a domain, a / and a path, as example.com/controller",
    re.compile(rf"{_LABEL}(\.{_LABEL})*/[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"),
    63,
)
WITHOUT_SLASH = Form("a name without /", re.compile("[^/]*"), 10**6)
ISCSI = Form(
    "a name of iSCSI, as iqn.2001-04.com.example:disk",
    re.compile(
        r"iqn\.\d{4}-\d{2}\.[-.a-zA-Z0-9]+:[^,;*&$|\s]+|(?:eui.[a-zA-Z0-9]{16}|naa.[a-zA-Z0-9]{32})",
        re.ASCII,
    ),
    10**6,
)


@lru_cache(maxsize=4096)  # objects have the same few labels
def key_problem(key: str) -> str:
    """Return what is wrong with a label key ([domain/]name), or an empty string."""
    domain, slash, name = key.rpartition("/")
    return KEY.problem(name) or (SUBDOMAIN.problem(domain) if slash else "")
