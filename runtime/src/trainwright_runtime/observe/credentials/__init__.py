"""Recognition of credentials: by known form, by randomness, or by the name of their variable.

The generator has this folder by a link, as it has the chart, since neither imports the other, and
what one hides, the other hides. Every pattern is read in linear time, since others write the text.

Rules of other scanners were weighed. detect-secrets looks at whole files by plug-ins and has not
been released since 2024; the rules of gitleaks are for RE2, report a line and not what to hide,
and neither knows what stands behind an escaped line break, in base64 or in a list of arguments.
"""

from __future__ import annotations

import base64
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache, lru_cache
from itertools import pairwise
from typing import NamedTuple

HIDDEN = "***"
RANDOM = "random-looking word"  # the kind of what has no known form
COMMAND = "password on a command line"


class Found(NamedTuple):
    """One credential in a text: where it is, and its kind."""

    start: int
    end: int
    kind: str


class _Form(NamedTuple):
    """A known form of credentials: strings that each of its texts contains, and its pattern.

    The group `v` is hidden, or the whole match. `whole` forms begin where a word does. A form that
    goes over several `lines` has each of its hints on one of them.
    """

    kind: str
    hints: str
    pattern: str
    whole: bool = True
    lines: bool = False


# What services put at the front of their tokens so that they are found.
# https://docs.github.com/en/code-security/reference/secret-security/supported-secret-scanning-patterns
_FORMS = (
    _Form(
        "private key",
        "PRIVATE+KEY",
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
        whole=False,
        lines=True,
    ),
    _Form("AWS access key", "AKIA ASIA ABIA", r"A(?:KIA|SIA|BIA)[0-9A-Z]{16}(?![0-9A-Z])"),
    _Form("Google access key", "GOOG1E", r"GOOG1E[0-9A-Z]{50,}"),
    _Form("AWS API key", "ABSK", r"ABSK[0-9A-Za-z+/]{100,}={0,2}"),
    _Form(
        "GitHub token",
        "ghp_ gho_ ghu_ ghs_ ghr_ github_pat_",
        r"gh[pousr]_[0-9A-Za-z]{20,}|github_pat_[0-9A-Za-z_]{22,}",
    ),
    _Form(
        "GitLab token", "gl", r"gl(?:pat|ptt|dt|rtr?|cbt|imt|ft|wt|soat|agent|oas|ffct)-[\w.-]{16,}"
    ),
    _Form("Hugging Face token", "hf_ api_org_", r"(?:hf|api_org)_[0-9A-Za-z]{16,}"),
    _Form("Kaggle token", "KGAT_", r"KGAT_[0-9a-f]{32}"),
    _Form("Weights & Biases key", "wandb_v", r"wandb_v[0-9]_[\w-]{40,}"),
    _Form("age key", "AGE-SECRET-KEY-", r"(?i:AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Z]{40,})"),
    _Form("Azure client secret", "Q~", r"[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}"),
    _Form(
        "Azure storage key",
        "AccountKey= SharedAccessKey=",
        r"(?:Shared)?(?:Access|Account)Key=(?P<v>[0-9A-Za-z+/]{40,}={0,2})",
    ),
    _Form("Twilio key", "SK", r"SK[0-9a-f]{32}(?![0-9a-f])"),
    _Form("Mailgun key", "key-", r"key-[0-9a-f]{32}(?![0-9a-f])"),
    _Form("Mailgun key", "-", r"[0-9a-f]{32}-[0-9a-f]{8}-[0-9a-f]{8}(?![0-9a-f-])"),
    _Form("Mailchimp key", "-us", r"[0-9a-f]{32}-us[0-9]{1,2}(?![0-9a-z])"),
    _Form(
        "Supabase key", "sbp_ sb_secret_", r"sbp_(?:v0_)?[0-9a-f]{40}|sb_secret_[0-9A-Za-z_-]{20,}"
    ),
    _Form("API key", "sk- k_live_ k_test_", r"sk-[\w-]{16,}|[rs]k_(?:live|test)_[0-9A-Za-z]{20,}"),
    _Form("API key", "sk_", r"sk_[0-9a-f]{48}"),
    _Form("API key", "nvapi- pplx- xai- gsk_", r"(?:nvapi-|pplx-|xai-|gsk_)[\w-]{32,}"),
    _Form("API key", "lsv2_ pcsk_ fw_ tgp_v1_", r"(?:lsv2_[ps][tk]_|pcsk_|fw_|tgp_v1_)[\w-]{20,}"),
    _Form("API key", "rpa_", r"rpa_[0-9A-Z]{40,}"),
    _Form(
        "Slack token", "xox xapp-", r"xox[abceoprs][.-][\w.-]{10,}|xapp-[0-9]-[0-9A-Z]+-[\w-]{10,}"
    ),
    _Form(
        "webhook address",
        "hooks.slack.com /api/webhooks/ webhook.office.com",
        r"https://hooks\.slack\.com/(?:services|workflows)/[\w/]{20,}"
        r"|https://discord(?:app)?\.com/api/webhooks/[0-9]+/[\w-]{20,}"
        r"|https://[\w-]{0,60}\.?webhook\.office\.com/webhookb2/[\w@/-]{20,}",
    ),
    _Form(
        "Google API key",
        "AIza GOCSPX- ya29. 1//0",
        r"AIza[0-9A-Za-z_-]{30,}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}|1//0[\w-]{40,}",
    ),
    _Form("npm token", "npm_", r"npm_[0-9A-Za-z]{36}"),
    _Form("PyPI token", "pypi-AgE", r"pypi-AgE[0-9A-Za-z_-]{40,}"),
    _Form("Docker token", "dckr_", r"dckr_(?:pat|oat)_[0-9A-Za-z_-]{20,}"),
    _Form("Databricks token", "dapi dose", r"(?:dapi|dose)[0-9a-f]{32}(?:-[0-9])?(?![0-9a-f])"),
    _Form("Vault token", "hvs. hvr. hvb.", r"hv[sbr]\.[0-9A-Za-z_-]{20,}"),
    _Form("DigitalOcean token", "_v1_", r"do[opr]_v1_[0-9a-f]{64}"),
    _Form("SendGrid key", "SG.", r"SG\.[\w-]{16,32}\.[\w-]{16,64}"),
    _Form("Replicate token", "r8_", r"r8_[0-9A-Za-z]{37}"),
    _Form("Grafana token", "glsa_ glc_", r"glsa_[0-9A-Za-z]{32}_[0-9a-f]{8}|glc_[\w+/=]{32,}"),
    _Form("Stripe secret", "whsec_", r"whsec_[0-9A-Za-z+/]{24,}={0,2}"),
    _Form("Telegram token", ":AA", r"[0-9]{8,10}:AA[\w-]{32,34}"),
    _Form("Discord token", ".", r"[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,40}"),
    _Form("New Relic key", "NRAK-", r"NRAK-[0-9A-Z]{27}"),
    _Form("Sentry token", "sntrys_ sntryu_", r"sntry[su]_[\w=+/-]{40,}"),
    _Form("Brevo key", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[0-9a-f]{64}-[0-9A-Za-z]{16}"),
    _Form("Asana token", "0/ 1/ 2/", r"[012]/[0-9]{13,19}(?:/[0-9]{13,19})?:[0-9a-f]{32}"),
    _Form("Jina key", "jina_", r"jina_[0-9A-Za-z]{60}"),
    _Form("E2B key", "e2b_", r"e2b_[0-9a-f]{40}"),
    _Form("Rancher token", "token-", r"token-[0-9a-z]{5}:[0-9a-z]{54}"),
    _Form(
        "Modal secret",
        "as-",
        r"as-(?=[0-9A-Za-z]{0,21}[0-9])(?=[0-9a-z]{0,21}[A-Z])[0-9A-Za-z]{22}(?![\w-])",
    ),
    _Form(
        "Vault token",
        "s.",
        r"s\.(?=[0-9A-Za-z]{0,23}[0-9])(?=[0-9a-z]{0,23}[A-Z])[0-9A-Za-z]{24}(?![\w.])",
    ),
    _Form("Figma token", "figd_", r"figd_[\w-]{40}"),
    _Form("Fly.io token", "fm1_ fm2_ fo1_", r"(?:fm[12]|fo1)_[0-9A-Za-z+/=_,-]{40,}"),
    _Form("Heroku key", "HRKU-", r"HRKU-[\w-]{36,}"),
    _Form("Doppler token", "dp.", r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{40,}"),
    _Form("Artifactory token", "AKCp cmVmdGtu", r"AKCp[0-9A-Za-z]{60,}|cmVmdGtu[0-9A-Za-z]{50,}"),
    _Form("RubyGems key", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    _Form("crates.io token", "cio", r"cio[0-9A-Za-z]{32}(?![0-9A-Za-z])"),
    _Form("Airtable token", "pat", r"pat[0-9A-Za-z]{14}\.[0-9a-f]{64}"),
    _Form("Atlassian token", "ATATT3 ATCTT3 ATBB", r"AT(?:ATT3|CTT3|BB)[0-9A-Za-z_=-]{28,}"),
    _Form("Alibaba access key", "LTAI", r"LTAI[0-9A-Za-z]{16,24}"),
    _Form("Yandex key", "AQVN y0_", r"AQVN[\w-]{35,}|y0_[\w-]{40,}"),
    _Form("Pulumi token", "pul-", r"pul-[0-9a-f]{40}"),
    _Form("Terraform token", ".atlasv1.", r"[0-9A-Za-z]{14}\.atlasv1\.[\w-]{60,}"),
    _Form("Shopify token", "shpat_ shpca_ shppa_ shpss_", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}"),
    _Form("Square token", "sq0", r"sq0[a-z]{3}-[\w-]{22,}"),
    _Form("SonarQube token", "sqp_ squ_ sqa_", r"sq[pua]_[0-9a-f]{40}"),
    _Form("CircleCI token", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[\w]{30,}"),
    _Form("Buildkite token", "bkua_", r"bkua_[0-9a-f]{40}"),
    _Form("Netlify token", "nfp_", r"nfp_[0-9A-Za-z]{36,}"),
    _Form("PlanetScale token", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w.-]{32,}"),
    _Form("Dynatrace token", "dt0", r"dt0[a-z][0-9]{2}\.[0-9A-Z]{24}\.[0-9A-Z]{64}"),
    _Form("Tailscale key", "tskey-", r"tskey-[a-z]+-[0-9A-Za-z-]{16,}"),
    _Form("Linear key", "lin_api_", r"lin_(?:api|oauth)_[0-9A-Za-z]{32,}"),
    _Form("Notion token", "ntn_ secret_", r"ntn_[0-9A-Za-z]{40,}|secret_[0-9A-Za-z]{43}"),
    _Form("Postman key", "PMAK-", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}"),
    _Form("Prefect key", "pnu_ pnb_", r"pn[ub]_[0-9A-Za-z]{36}"),
    _Form("PostHog key", "phx_", r"phx_[0-9A-Za-z]{40,}"),
    _Form("1Password token", "ops_eyJ", r"ops_eyJ[\w-]{40,}"),
    _Form("Cloudflare token", "v1.0-", r"v1\.0-[0-9a-f]{24}-[0-9a-f]{100,}"),
    _Form("Facebook token", "EAA", r"EAA[0-9A-Za-z]{60,}"),
    _Form(
        "LaunchDarkly key", "api- sdk-", r"(?:api|sdk)-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
    ),
    _Form(
        "password hash",
        "$2 $apr1$ $6$ $5$ $argon2",
        r"\$(?:2[aby]\$[0-9]{2}|apr1|5|6|argon2[id]{1,2}\$v=[0-9]+\$[\w=,]+)\$[0-9A-Za-z./$+]{22,}",
        whole=False,
    ),
    _Form(
        "signature in a URL",
        "sig= Signature=",
        r"[?&;](?:sig|X-Amz-Signature|X-Goog-Signature)=(?P<v>[0-9A-Za-z%+/=_-]{9,})",
        whole=False,
    ),
    _Form("JSON web token", "eyJ", r"eyJ[\w-]{8,500}\.(?:eyJ)?[\w-]{8,500}\.[\w-]{8,}"),
    _Form(
        "authorization header",
        "uthorization UTHORIZATION",
        r"(?i:authorization)[\"']?[ \t]{0,9}[:=][ \t]{0,9}[\"']?"
        r"(?i:bearer|basic|token|digest|apikey)[ \t]{1,9}(?P<v>[0-9A-Za-z._~+/=-]{6,})",
    ),
    _Form(
        "authorization header",
        "earer EARER",
        r"(?i:bearer)[ \t]{1,9}(?P<v>[0-9A-Za-z._~+/=-]{20,})",
    ),
    _Form(
        "password in a URL",
        "://",
        r"[a-zA-Z][a-zA-Z0-9+.-]{0,30}://[^/\s:@\"'<>]{0,300}:(?!\$[({A-Za-z_])(?P<v>[^/\s\"'<>]+)@",
    ),
    _Form(
        "token in a URL",
        "://",
        r"https?://(?P<v>(?=[\w.~-]{0,300}[0-9])(?=[\w.~-]{0,300}[A-Za-z])[\w.~-]{16,300})@",
    ),
    _Form(
        "password in a URL",
        "token= key= secret= password= passwd= Token= Key= sig=",
        r"[?&;](?i:(?:[\w-]{0,40}[_-])?(?:token|api_?key|secret|password|passwd|accesskey|sharedkey))"
        r"=(?P<v>(?!\$[({])[^&\s\"'<>]{6,})",
        whole=False,
    ),
    _Form("token in a URL", "/t/", r"https?://[\w.:@-]{1,200}/t/(?P<v>[\w-]{10,300})/"),
    _Form(
        "password of a data source",
        "PWD= Pwd= pwd=",
        r";[ ]?(?i:pwd)=(?P<v>[^;\s\"'$/][^;\s\"']{2,})",
        whole=False,
    ),
    # What programs are given by other words.
    _Form(
        "password for a login",
        "login(",
        r"login\([ \t]{0,9}(?:\w{1,30}[ \t]{0,9}=[ \t]{0,9})?[\"']?[ ]{0,7}"
        r"(?P<v>(?=[\w.-]{0,300}[0-9])[\w.-]{20,300})[\"')]",
    ),
    _Form(
        "password for standard input",
        "password-stdin sudo",
        r"(?:echo|printf)[ \t]{1,9}(?:(?:-[neE]+|[\"']?%s(?:\\n)?[\"']?)[ \t]{1,9}){0,2}[\"']?"
        r"(?P<v>[^\s\"'$|;&<>-][^\s\"'|;&<>]{2,300})[\"']?[ \t]{0,9}\|"
        r"[\w \t./:@=,\"'-]{0,300}(?:password-stdin|sudo(?: -\S)? -S)",
    ),
    _Form(
        "password for standard input",
        "password-stdin",
        r"password-stdin[ \t]{0,9}<<<[ \t]{0,9}[\"']?[ ]{0,7}(?P<v>[^\s\"'$][^\s\"']{2,300})",
    ),
    # What programs read passwords from. https://everything.curl.dev/usingcurl/netrc.html
    _Form(
        "password of a .netrc",
        "password",
        r"(?:machine|login|account|default)[\s\"',-]{1,40}(?:[^\s\"',]{1,200}[\s\"',-]{1,40})?"
        r"(?:account[\s\"',-]{1,40}[^\s\"',]{1,200}[\s\"',-]{1,40})?"
        r"password[\s\"',-]{1,40}(?P<v>[^\s\"',]{3,})",
        lines=True,
    ),
    _Form(
        "password of a .pgpass",
        ":",
        r"[\w.*-]{1,100}:(?:[0-9]{4,5}|\*):[\w*-]{1,60}:[\w*-]{1,60}:(?P<v>[^\s:\"'/]{3,})",
    ),
)


# --- command lines -------------------------------------------------------------------------------


class _Command(NamedTuple):
    """How programs take a password: after an option, or as the `place`th word after `behind`.

    The password follows `sign`, if the value has to hold one. No blank precedes it after a
    `joined` option.
    """

    programs: str
    options: str
    sign: str = ""
    joined: bool = False
    behind: str = ""
    place: int = 0


_COMMANDS = (
    _Command("curl wget http https xh", "-u -U -a --user --proxy-user --auth", sign=":"),
    _Command("skopeo podman buildah", "--creds --src-creds --dest-creds", sign=":"),
    _Command("smbclient rpcclient", "-U --user", sign="%"),
    _Command("openssl", "-pass -passin -passout", sign="pass:"),
    _Command("mysql mysqldump mysqladmin mysqlimport mariadb mariadb-dump", "-p", joined=True),
    _Command("sshpass mongo mongosh mongodump mongorestore 7z 7za", "-p"),
    _Command("sqlcmd bcp zip unzip", "-P"),
    _Command("redis-cli valkey-cli", "-a"),
    _Command("ldapsearch ldapmodify ldapadd", "-w"),
    _Command("docker podman helm oras crane buildah nerdctl az", "-p", behind="login"),
    _Command("kaggle ngc", "-v", behind="set"),
    _Command("wandb vault", "", behind="login", place=1),
    _Command("mc", "", behind="set", place=4),
    _Command("aws npm yarn pnpm", "", behind="set", place=2),
    _Command("dvc", "", behind="modify", place=3),
    _Command("htpasswd", "", behind="-b", place=3),
    _Command("htpasswd", "", behind="-bc", place=3),
    _Command("htpasswd", "", behind="-cb", place=3),
)
_PROGRAMS = frozenset(program for command in _COMMANDS for program in command.programs.split())
_ARGUMENT = re.compile(r"""[^\s"',]+""")
_ENDS = (";", "|", "||", "&", "&&")
_ARGUMENTS = 60  # of one command that are looked at
_REFERENCE = re.compile(r"\$[({A-Za-z_]|-|<|\*\*\*")


def _of_commands(text: str, marked: str) -> Iterator[Found]:
    """Yield passwords among the arguments of programs, on one line or as the items of a list."""
    if not any(name in marked for name in _PROGRAMS):
        return
    program, words = "", list[re.Match[str]]()
    for match in _ARGUMENT.finditer(text):
        word = match.group()
        if (name := _program(word)) in _PROGRAMS:
            program, words = name, []
        elif word in _ENDS:
            program = ""
        elif program and word != "-" and len(words) < _ARGUMENTS:
            words.append(match)
            yield from _of_argument(program, words)
            if word.endswith(";"):
                program = ""


def _program(word: str) -> str:
    """Return the program that a word of a command line would start."""
    return word.rpartition("/")[2].rpartition("=")[2]


def _of_argument(program: str, words: list[re.Match[str]]) -> Iterator[Found]:
    """Yield the password that the last of these words is to a program, if it is one."""
    before = [match.group() for match in words[:-1]]
    for command in _COMMANDS:
        if program in command.programs.split() and command.behind in (*before, ""):
            find = _at_place if command.place else _after_option
            at = find(command, before, words[-1])
            value = words[-1].group()[at:].rstrip(";)") if at >= 0 else ""
            if len(value) > 2 and not _REFERENCE.match(value):
                start = words[-1].start() + at
                yield Found(start, start + len(value), COMMAND)


def _at_place(command: _Command, before: list[str], match: re.Match[str]) -> int:
    """Return 0 if a word is where a command has its password, else -1."""
    placed = [word for word in before[before.index(command.behind) + 1 :] if word[0] != "-"]
    by_name = command.programs.startswith(("aws", "dvc"))  # which is the word before
    harmless = by_name and not _secret_name("".join(placed[-1:]))
    return -1 if harmless or len(placed) != command.place - 1 or match.group()[0] == "-" else 0


def _after_option(command: _Command, before: list[str], match: re.Match[str]) -> int:
    """Return where in a word the password of an option begins, or -1 if it holds none."""
    word = match.group()
    at = 0 if _is_value(command, before, match) else -1
    for option in command.options.split():
        assigned = word.startswith(f"{option}=")
        if assigned or (len(option) == 2 and word.startswith(option) and len(word) > 2):
            at = len(option) + assigned
    if at < 0 or not command.sign:
        return at
    sign = word.find(command.sign, at)
    return -1 if sign < 0 else sign + len(command.sign)


def _is_value(command: _Command, before: list[str], match: re.Match[str]) -> bool:
    """Whether the word before is an option, with only a quote between where it has to be joined."""
    if not before or before[-1] not in command.options.split():
        return False
    between = match.string[: match.start()][-2:]
    return not command.joined or (between[-1:] in "\"'" and not between[0].isspace())


# --- randomness ----------------------------------------------------------------------------------

# How much likelier a letter follows another in names of programs than in random text, as powers of
# two, plus 6: 26 rows of 26, counted over the sources of torch and transformers.
_PAIRS = (
    "16760360604877260878642462 83438342751943731663713040 71528137507621940657710040 "
    "73369241820524630554621240 63775551402768454977353622 72327700900743930646701340 "
    "72329456700756541874610040 83229311900343730646613150 65765560002669870477150406 "
    "84339232834243742353743322 65239333813624552373548350 83359520802751730256652160 "
    "87428220701464870253640140 72778782714435741378461131 45784452425669560866745320 "
    "85338216602731760867721050 42443313514433122633928211 83559450704375840667543050 "
    "61628426805453772478635050 71529106800332760866523260 66676540502768360778000111 "
    "81249230930442641234110210 92248225903536712752222221 52728443702453381459322340 "
    "55439321502467781567513123 83449155611423530244351155 "
).replace(" ", "")
# The same of small letters, capitals and digits.
_CHANGES = {
    "aa": 1.0,
    "Aa": 1.0,
    "11": 1.0,
    "1a": -0.5,
    "aA": -1.5,
    "AA": -1.5,
    "a1": -1.5,
    "A1": -1.5,
}
_NAMELIKE = -0.45  # a letter: 1 in 70 random words of 32 letters is above, names of words are
_DOUBTFUL = -0.2  # behind a name of credentials
_SHORTEST = 32  # characters of a random word; shorter ones are names as often as not
_LONGEST = 512  # of what is no file


def _class(letter: str) -> str:
    if letter.islower():
        return "a"
    return "A" if letter.isupper() else "1" if letter.isdigit() else "-"


def _likeness(word: str) -> float:
    """Return how much likelier a word is as a name than at random, in bits per letter."""
    bits = 0.0
    for left, right in pairwise(word):
        change = _class(left) + _class(right)
        bits += _CHANGES.get(change, 0.0)
        if change in ("aa", "Aa"):
            bits += int(_PAIRS[(ord(left.lower()) - 97) * 26 + ord(right) - 97]) - 6
    return bits / max(1, len(word))


_HEX = re.compile(r"[0-9a-f-]+|[0-9A-F-]+")


def _mixed(word: str) -> bool:
    """Whether a word has letters of both cases, or none at all."""
    return not (word.islower() or word.isupper())


def _random(word: str) -> bool:
    """Whether a word is as random as a key. Digests and UUIDs, in hexadecimal, are not secret."""
    if not (_SHORTEST <= len(word) <= _LONGEST and word.isascii()) or _HEX.fullmatch(word):
        return False
    return _mixed(word) and _entropy(word) > 4.0 and _likeness(word) < _NAMELIKE


def _entropy(word: str) -> float:
    """Return the entropy of a word's own letters, in bits per letter."""
    counts = Counter(word).values()
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts)


_TOKEN = re.compile(r"[0-9A-Za-z._~+/=-]{16,200}")


def _is_token(value: str) -> bool:
    """Whether a value could be one that a machine made: with a name of credentials, it is."""
    if not _TOKEN.fullmatch(value) or value.isalpha() or value.isdigit():
        return False
    hexadecimal = _HEX.fullmatch(value) and len(value.replace("-", "")) >= 32
    lengthy = len(value) >= _SHORTEST and not value.isalpha()
    return bool(hexadecimal) or ((_mixed(value) or lengthy) and _likeness(value) < _DOUBTFUL)


# Words of base64, which may have slashes, and where they end.
_WORD = re.compile(r"(?<![0-9A-Za-z+/_-])[0-9A-Za-z+/_-]{16,}={0,2}")
# What only looks random: keys and certificates that are public, digests with their name, pictures.
_PUBLIC = re.compile(
    r"(?:ssh-(?:rsa|dss|ed25519)|ecdsa-sha2-nistp[0-9]{3}|sk-[a-z0-9-]{1,40}@openssh\.com)"
    r"\s+[0-9A-Za-z+/=]+"
    r"|AAAA[BCE][0-9A-Za-z]N[0-9A-Za-z+/=]+"
    r"|-----BEGIN (?:TRUSTED )?(?:CERTIFICATE(?: REQUEST)?|(?:RSA )?PUBLIC KEY)-----[^-]*"
    r"|(?<![0-9A-Za-z])(?:(?i:sha(?:1|224|256|384|512)|md5|blake2b|blake3)[-:=]|h1:)[0-9A-Za-z+/=_-]+"
    r"|(?<![0-9A-Za-z])[A-Z]{2,8}-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}(?![0-9A-Za-z])"
    r"|data:[\w.+-]{1,60}/[\w.+-]{1,60};base64,[0-9A-Za-z+/=]+"
    r"|(?<![0-9A-Za-z+/])(?:iVBORw0KGgo|/9j/4|R0lGOD|UklGR|PHN2Zy|AAABAA|LS0tLS1CRUdJTiBDRVJU|LS0tLS1CRUdJTiBQVUJM)[0-9A-Za-z+/=]+"
    # Files and folders of Google Drive, https://developers.google.com/workspace/drive, and IPFS.
    r"|(?<![0-9A-Za-z_-])(?:1[0-9A-Za-z_-]{32}|1[0-9A-Za-z_-]{43}|0B[0-9A-Za-z_-]{26})(?![0-9A-Za-z_-])"
    r"|(?<![0-9A-Za-z])Qm[1-9A-HJ-NP-Za-km-z]{44}(?![0-9A-Za-z])"
)


def _of_words(text: str) -> Iterator[Found]:
    """Yield random words, and base64 of credentials, outside of what is public."""
    words = [
        (*match.span(), spans)
        for match in _WORD.finditer(text)
        if (spans := tuple(_of_word(match.group(), match.start())))
    ]
    public = [match.span() for match in _PUBLIC.finditer(text)] if words else []
    at = 0
    for start, end, spans in words:
        while at < len(public) and public[at][1] <= start:
            at += 1
        if at == len(public) or public[at][0] >= end:
            yield from spans


def _of_word(word: str, start: int) -> Iterator[Found]:
    """Yield a word that is random or base64 of a credential, else its parts that are random."""
    if word.islower() or word.isupper() or _HEX.fullmatch(word):
        return
    text = _encoded(word)
    if text or _is_slashed(word.rstrip("=")):
        if not (text and _is_public(text)):
            yield Found(start, start + len(word), RANDOM)
        return
    for part in re.split(r"([/=]+)", word):
        if _random(part):
            yield Found(start, start + len(part), RANDOM)
        start += len(part)


def _is_slashed(word: str) -> bool:
    """Whether a word is random base64 with slashes, and not a path."""
    parts = word.split("/")
    if len(parts) == 1 or not parts[0] or not _random("".join(parts)):
        return False
    return all(len(part) < 5 or _likeness(part) < 0 for part in parts)


_USER_AND_PASSWORD = re.compile(r"[^\s:{]+:(?!//)\S+")
_LINES = str.maketrans("\n\r\t", "   ")


def _encoded(word: str) -> str:
    """Return the text that a word encodes in base64, or "" if it encodes none."""
    body = word.rstrip("=")
    altchars = b"-_" if {"-", "_"} & {*body} else None
    try:
        raw = base64.b64decode(body + "=" * (-len(body) % 4), altchars=altchars, validate=True)
        text = raw.decode("ascii")
    except ValueError:
        return ""
    return text if text.translate(_LINES).isprintable() else ""


def _is_public(text: str) -> bool:
    """Whether a text that was base64 is no secret: no credential, no user with a password, no key.

    Nothing names it here, so a text that is a single random word counts as a key.
    """
    text = text.strip()
    return not (_USER_AND_PASSWORD.fullmatch(text) or _is_token(text)) and redact(text) == text


# --- names ---------------------------------------------------------------------------------------

_NAME = re.compile(
    r"(?:^|[/_.-])(?:(?:PG|DB|MYSQL_|REDIS_)?PASSWORD|MYSQL_PWD|PASSWD|PASSPHRASE|PASSCODE|SECRET"
    r"|(?:IDENTITY|REGISTRY)?TOKEN|AUTHTOKEN|API[_-]?KEY|(?:(?:SRC|DEST)?(?:STORE|KEY))?PASS"
    r"|ACCESS[_-]?KEY|SECRET[_-]?KEY|ACCOUNT[_-]?KEY|PRIVATE[_-]?KEY|CREDENTIALS?|AUTH"
    r"|CONNECTION[_-]?STRING)(?:$|[_-](?:ID|KEY|VALUE|[0-9]{1,3})$|[0-9]{1,3}$)",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z])(?=[A-Z])")  # dbPassword is db-Password
_PASSWORD = re.compile("pass|secret|api.?key|private", re.IGNORECASE)  # which no class is
# Words of a name that make a credential of what a machine made, unless others show what it is.
_SECRET_WORDS = frozenset(
    "key apikey token secret pass password passwd pwd pat dsn sas cookie session signature bearer"
    " auth login credential credentials psk salt wandb kaggle twilio mailgun datadog".split()
)
_PUBLIC_WORDS = frozenset(
    "public pub cache partition sort primary foreign label row group id ids hash digest checksum"
    " sum etag version revision rev commit sha sha256 fingerprint name prefix path file dir url"
    " uri run model image".split()
)
# Values under such a name that are no secret: empty, a boolean, a number, a path, a reference.
_HARMLESS = re.compile(
    r"|true|false|none|null|\d{1,7}|/[^\s]*|\$\([A-Za-z_]\w*\)|\$\{[^}]*\}?|<[^>]*>|[a-z_]+|\*\*\*",
    re.IGNORECASE,
)


def named(name: str, value: str) -> bool:
    """Whether a name means that its value is a credential, and the value could be one."""
    if _secret_name(name):
        return not _HARMLESS.fullmatch(value) or _is_no_word(name, value)
    return _suggests_secret(name) and _is_token(value) and not value.startswith("/")


def _is_no_word(name: str, value: str) -> bool:
    """Whether a value of letters alone is a password, and not a word such as `required`."""
    if len(value) < 8 or not (value.isalpha() and value.isascii()):
        return False
    humps = _mixed(value) and not value.istitle()
    return (humps and _PASSWORD.search(name) is not None) or _likeness(value) < _DOUBTFUL


@lru_cache(maxsize=4096)
def _secret_name(name: str) -> bool:
    return bool(_NAME.search(name) or _NAME.search(_HUMP.sub("-", name)))


@lru_cache(maxsize=4096)
def _suggests_secret(name: str) -> bool:
    words = {*re.split(r"[^a-z0-9]+", _HUMP.sub("-", name).lower())}
    return bool(words & _SECRET_WORDS) and not words & _PUBLIC_WORDS


# Every name of a credential contains one of these.
_STEMS = tuple(
    {"pass", "pwd", "cred", "connection", *_SECRET_WORDS} - {"apikey", "password", "passwd"}
)


def _may_be_named(text: str) -> bool:
    small = text.lower()
    return any(stem in small for stem in _STEMS)


# A name before its value, but for the words of an ARN. The quotes of a value that nothing closes go
# on to the end.
_ASSIGNED = re.compile(
    r"""(?<![\w.-])(?<![0-9]:)(?P<name>[\w.-]++)["']?\s*+\]?\s*+(?P<sign>:=|=>|[:=])\s*+"""
)
_VALUE = re.compile(
    r"""(?s:"(?:[^"\\]|\\.)*+"?|'(?:[^']|'')*+'?)|[^\s,}\]"'{\[|>&*][^\s,}\]]*+""", re.VERBOSE
)
# An option and its value in a command line: --token x, or "--token", "x" in a list.
_OPTION = re.compile(
    r"""(?<![\w.-])--?(?P<name>[A-Za-z][\w.-]*+)(?:["']?\s*+,\s*+["']?|\s++["']?)
        (?P<value>[^\s"',\]\-$<>|&][^\s"',\]]*+)""",
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
    line = _unescaped(line)
    if any(given(match["name"], match["value"]) for match in _OPTION.finditer(line)):
        return True
    return any(
        # What a shell fills in is not there yet.
        sign == "=" and not value.group().startswith("$") and given(name.lstrip("-"), _bare(value))
        for name, sign, value in _assigned(line)
    )


def _assigned(text: str) -> Iterator[tuple[str, str, re.Match[str]]]:
    """Yield names that may be those of credentials, each with its sign and its value."""
    end = 0
    for match in _ASSIGNED.finditer(text):
        above, _, name = match["name"].rpartition(".")
        if name == "key":  # as in s3.secret.key
            name = f"{above.rpartition('.')[2]}-key"
        if match.start() >= end and (_secret_name(name.lstrip("-")) or _suggests_secret(name)):
            value = _VALUE.match(text, match.end())
            if value:
                end = value.end()
                yield name, match["sign"], value


def _bare(value: re.Match[str]) -> str:
    return value.group().strip(" \"'")


def _of_names(text: str) -> Iterator[Found]:
    """Yield values whose name means that they are credentials."""
    if not _may_be_named(text):
        return
    text = _unescaped(text)
    for name, _, value in _assigned(text):
        if named(name, _bare(value)):
            yield Found(*value.span(), "")
    for match in _OPTION.finditer(text):
        if given(match["name"], match["value"]):
            yield Found(*match.span("value"), "")


# --- texts ---------------------------------------------------------------------------------------

_ESCAPES = re.compile(
    r"(?<!\\)\\++(?:u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|x[0-9a-fA-F]{2}|[nrtbfv0/\"'])"
)
_NAMED_ESCAPES = {"n": "\n", "r": "\n", "t": "\t", "/": "/", '"': '"', "'": "'"}


def _unescaped(text: str) -> str:
    """Return a text of the same length in which each escape is replaced by what it stands for.

    In quotes of YAML and JSON, the token behind a line break would begin with the letter n.
    """
    return _ESCAPES.sub(_stands_for, text) if "\\" in text else text


def _stands_for(match: re.Match[str]) -> str:
    code = match.group().lstrip("\\")
    letter = chr(int(code[1:], 16) % 0x110000) if len(code) > 1 else _NAMED_ESCAPES.get(code, " ")
    return letter.ljust(len(match.group()))


@cache
def _compiled(form: _Form) -> re.Pattern[str]:
    begins = r"(?:(?<![0-9A-Za-z])|(?<=%[0-9A-Fa-f]{2}))"  # and behind the escape of a URL
    return re.compile(f"{begins}(?:{form.pattern})" if form.whole else form.pattern)


_HINTS = tuple((form, tuple(h.replace("+", " ") for h in form.hints.split())) for form in _FORMS)


def _of_forms(text: str, marked: str) -> Iterator[Found]:
    for form, hints in _HINTS:
        for hint in hints:
            if hint in marked:
                for match in _compiled(form).finditer(text):
                    yield Found(*match.span("v" if "v" in match.re.groupindex else 0), form.kind)
                break


def credentials(text: str) -> Iterator[Found]:
    """Yield all credentials that a text shows by form, command or randomness; they may overlap."""
    plain = _unescaped(text)
    if marked := "\n".join(_marked(plain.split("\n"))):
        yield from _searched(plain, marked)


def _searched(text: str, marked: str) -> Iterator[Found]:
    """Yield the credentials of a text, whose marked lines decide which searches are made."""
    yield from _of_forms(text, marked)
    yield from _of_commands(text, marked)
    yield from _of_words(text)


_REPEATED = 500  # characters of a line that is worth remembering
_MOST = 1 << 16
_dull: set[str] = set()


def _marked(lines: list[str]) -> list[str]:
    """Return the lines that may hold a credential, or in which one of several begins or ends.

    What is rendered for many jobs has the same lines again and again, of which nearly all are dull,
    and the others are so mostly.
    """
    fresh = [line for line in lines if line not in _dull]
    if not fresh:
        return fresh
    together = "\n".join(fresh)
    hinted = [(hint, form) for hint, form in _BY_HINT if hint in together]
    # Mostly none is marked, which one search in all of them shows: no form spans two lines.
    dull = _is_dull(together, hinted)
    marked = [] if dull else [line for line in fresh if not _is_dull(line, hinted)]
    if len(_dull) > _MOST:
        _dull.clear()
    _dull.update(line for line in set(fresh).difference(marked) if len(line) <= _REPEATED)
    return marked


_BY_HINT = tuple((hint, form) for form, hints in _HINTS for hint in hints)


def _is_dull(line: str, hinted: Iterable[tuple[str, _Form]]) -> bool:
    for hint, form in hinted:
        if hint in line and (form.lines or _compiled(form).search(line)):
            return False
    if any(map(_PROGRAMS.__contains__, map(_program, _ARGUMENT.findall(line)))):
        return False
    return not any(next(_of_word(word, 0), None) for word in _WORD.findall(line))


def suspicious(text: str) -> bool:
    """Whether a text may hold a credential or the name of one. Never false where it does."""
    return _may_be_named(text) or next(credentials(text), None) is not None


@lru_cache(maxsize=4096)
def kind(value: str) -> str:
    """Return the kind of the first credential in a text, or "" if there is none."""
    credential = next(credentials(value), None)
    return credential.kind if credential else ""


def redact(text: str, hidden: str = HIDDEN) -> str:
    """Return the text with everything that looks like a credential hidden, for people and logs."""
    return hide(text, [*credentials(text), *_of_names(text)], hidden)


def redact_names(text: str) -> str:
    """Return the text with the values hidden whose names mean that they are credentials."""
    return hide(text, _of_names(text))


def hide(text: str, spans: Iterable[Found], hidden: str = HIDDEN) -> str:
    """Return the text with `hidden` in the place of each span."""
    parts, at = list[str](), 0
    for start, end, _ in sorted(spans):
        if start >= at:
            parts += [text[at:start], hidden]
        at = max(at, end)
    return "".join((*parts, text[at:]))
