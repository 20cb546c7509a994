"""What a published commit records about its source commit, for people and for GitOps tools."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterator
from email.headerregistry import Address
from urllib.parse import urlsplit, urlunsplit

from trainwright.datatypes.data import Data
from trainwright.files.git import GitError, Repository
from trainwright.findings import credentials
from trainwright.gitops.publish.model import PublishError

# The file that Argo CD's hydrator writes at the top of a branch and in each path, and that GitOps
# Promoter reads.
METADATA = "hydrator.metadata"
_SOURCE = "Trainwright-Source-Commit"
_ENVIRONMENT = "Trainwright-Environment"
# Trailers about the source commit, and their names in `METADATA` where these differ.
_LED_TO = "Argocd-reference-commit-"
_FACTS = {**dict.fromkeys(("author", "date", "subject", "body", "sha")), "repourl": "repoUrl"}


class Source:
    """The commit that is rendered: its author, time and message."""

    def __init__(self, repository: Repository, commit: str):
        self.commit = commit
        form = "%an <%ae>%x00%aI%x00%s%x00%b"
        raw = repository.git("show", "--no-patch", f"--format={form}", commit)
        shown = credentials.redact(raw.decode(errors="replace"))
        author, date, subject, body = shown.split("\0")
        self._commit = {
            "author": author,
            "date": date,
            "subject": subject,
            "body": body.strip(),
        }
        self.url = url(repository)

    def metadata(self, environments: tuple[str, ...]) -> str:
        """Return hydrator.metadata for Argo CD.

        https://github.com/argoproj/argo-cd/blob/master/util/hydrator/hydrator.go
        """
        data: dict[str, Data] = {
            "repoURL": self.url,
            "drySha": self.commit,
            "commands": [f"trainwright render {' '.join(environments)}"],
            **self._commit,
            **_references(self._commit["body"]),
        }
        present = {key: value for key, value in data.items() if value}
        return json.dumps(present, indent=2, ensure_ascii=False) + "\n"

    def message(self, environments: tuple[str, ...]) -> str:
        """Return the commit message, with our trailers and those that Argo CD reads of a source.

        https://argo-cd.readthedocs.io/en/stable/user-guide/source-hydrator/#commit-tracing
        """
        facts = {"sha": self.commit, "repourl": self.url, **self._commit}
        facts["author"] = _address(facts["author"])
        if facts["body"]:
            facts["body"] = json.dumps(facts["body"], ensure_ascii=False)
        lines = [f"{_ENVIRONMENT}: {name}" for name in environments]
        lines += [f"{_SOURCE}: {self.commit}"]
        lines += [f"{_LED_TO}{key}: {facts[key]}" for key in sorted(facts) if facts[key]]
        head = f"Render {', '.join(environments)} of {self.commit[:12]}"
        return f"{head}\n\n{self._commit['subject']}\n\n" + "\n".join(lines) + "\n"


def _references(body: str) -> dict[str, Data]:
    """Return the commit that the trailers of a commit message refer to, and the message body
    without these trailers; empty if there are none.

    https://github.com/argoproj/argo-cd/blob/v3.5.1/util/git/client.go#L1071
    """
    facts: dict[str, Data] = {}
    others = []
    for line in body.splitlines():
        key, _, value = line.removeprefix(_LED_TO).partition(": ")
        if not line.startswith(_LED_TO) or key not in _FACTS:
            others.append(line)
            continue
        try:
            facts[_FACTS[key] or key] = json.loads(value) if key == "body" else value
        except ValueError:
            others.append(line)
    if not facts:
        return {}
    return {"body": "\n".join(others).strip(), "references": [{"commit": facts}]}


def _address(author: str) -> str:
    """Return a name and address with the quotes that RFC 5322 requires, as for names of bots."""
    name, _, address = author.rpartition(" <")
    user, at, domain = address.rstrip(">").rpartition("@")
    if not at:
        return author
    try:
        return str(Address(name, username=user, domain=domain))
    except (ValueError, IndexError):
        return author


def source_of(repository: Repository, tip: str, environment: str) -> str:
    """Return the source commit of a branch's newest rendering of an environment, or ""."""
    grep = ("--all-match", f"--grep=^{_SOURCE}: ", f"--grep=^{_ENVIRONMENT}: {environment}$")
    form = f"--format=%(trailers:key={_SOURCE},valueonly,separator=%x2C)"
    return repository.line("log", form, "--max-count=1", *grep, tip, "--")


def removals(repository: Repository, tip: str, paths: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield each path that was last removed by another author's commit, with that commit."""
    if not (tip and paths):
        return
    trailer = f"%(trailers:key={_SOURCE},valueonly,separator=%x2C)"
    how = (f"--format=%x00%H %x00{trailer}%x00", "--name-only", "--diff-filter=D", "--no-renames")
    raw = repository.git("log", *how, "-m", tip, "--", *sorted(paths))
    seen: set[str] = set()
    _, *parts = raw.decode(errors="replace").split("\0")
    for commit, source, names in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
        for path in {*names.split("\n")} & {*paths} - seen:
            if repository.has(f"{commit.strip()}^", path):  # and not in another parent of a merge
                seen.add(path)
                if not source:
                    yield path, commit.strip()


def is_newer(
    repository: Repository, remote: str, before: str, source: str, environment: str
) -> bool:
    """Whether the published files came from a commit, `before`, that is later than `source`.

    The remote has the specs of both. Raise PublishError if the two commits have diverged, so that
    neither is later.
    """
    if before in ("", source):
        return False
    if not repository.has(before):  # published elsewhere, and not fetched yet
        with contextlib.suppress(GitError):
            repository.fetch(remote, before)
    if repository.has(before):
        if repository.contains(source, before):
            return False
        if repository.contains(before, source):
            return True
    hint = "pull first"
    if repository.shallow:
        hint = "fetch all history (`git fetch --unshallow`, `fetch-depth: 0` in actions/checkout)"
    raise PublishError(
        f"{environment} was published from {before[:12]}, on which {source[:12]} does not build: "
        f"{hint}"
    )


def url(repository: Repository) -> str:
    """Return the URL of the specs' repository without credentials; empty if it has no origin."""
    try:
        parts = urlsplit(repository.line("remote", "get-url", "origin"))
    except (GitError, ValueError):
        return ""
    host = parts.netloc.rpartition("@")[2] if parts.scheme.startswith("http") else parts.netloc
    return urlunsplit(parts._replace(netloc=host))


def redacted(error: GitError) -> GitError:
    """Return git's error without credentials in URLs."""
    return GitError(credentials.redact(str(error)))
