"""A comment on a pull request, posted once and updated from then on, through GitHub's REST API.

https://docs.github.com/en/rest/issues/comments
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import field
from http.client import HTTPException
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.visibility import visible
from trainwright.reports.comment import LIMIT

_TIMEOUT = 30  # seconds for one request
_PAGE = 100  # comments per page: the most that GitHub allows
_PAGES = 1000
_LARGEST = 2**26  # bytes of an answer: a page of the longest comments, each character escaped
_MARKER = re.compile(r"<!-- [^<>\n]+ -->")
_REMEDIES = {
    401: "is the token given, and still valid?",
    403: "the job needs `permissions: pull-requests: write`; runs for a fork never have it",
    404: "is the pull request one of this repository, and may the token see it?",
}


class CommentError(TrainwrightError):
    """The comment could not be posted; the message quotes GitHub's error."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """A repository of GitHub's, the address of its REST API, and a token for it."""

    api: str
    repository: str  # owner/name
    token: str = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A comment as it now is, and whether it was "created", "updated" or "unchanged"."""

    url: str
    outcome: str


def comment(access: Access, number: int, body: str, author: str) -> Comment:
    """Post a comment, or update the author's earlier one that starts with the same marker.

    The marker is the body's first line, an HTML comment. Comments by others are left alone, even
    with that marker: another account may have put it there. Raise CommentError.
    """
    marker = body.partition("\n")[0].strip()
    if not _MARKER.fullmatch(marker):
        raise CommentError("the text must start with a line <!-- … -->, by which it is found again")
    if len(body) > LIMIT:
        raise CommentError(f"the text has {len(body):,} characters, and GitHub takes {LIMIT:,}")
    _refuse_address(access.api)
    comments = f"{access.api}/repos/{access.repository}/issues"
    for earlier in _comments(access, f"{comments}/{number}/comments"):
        if earlier.first_line == marker and earlier.author == author:
            if earlier.body.replace("\r\n", "\n").strip() == body.strip():
                return Comment(url=earlier.url, outcome="unchanged")
            made = _call(access, "PATCH", f"{comments}/comments/{earlier.id}", {"body": body})
            return Comment(url=_posted(access, made).url, outcome="updated")
    made = _call(access, "POST", f"{comments}/{number}/comments", {"body": body})
    return Comment(url=_posted(access, made).url, outcome="created")


def _refuse_address(api: str) -> None:
    """Raise CommentError for an address that is not of the web: urllib would open files as well."""
    try:
        address = urlsplit(api)
        fine = address.scheme in ("http", "https") and address.hostname
    except ValueError:
        fine = False
    if not fine:
        raise CommentError(f'"{api}" is not the address of an API')


@dataclass(frozen=True, slots=True, kw_only=True)
class _Posted:
    """A comment that GitHub has; `author` is empty where the user is deleted."""

    id: int
    url: str
    body: str
    author: str

    @property
    def first_line(self) -> str:
        return self.body.partition("\n")[0].strip()


def _posted(access: Access, data: Data) -> _Posted:
    """Return a comment of an answer. Raise CommentError for what is none."""
    match data:
        case {"id": int(number), "html_url": str(url), "body": str() | None as body}:
            match data.get("user"):
                case {"login": str(login)}:
                    return _Posted(id=number, url=visible(url), body=body or "", author=login)
                case None:
                    return _Posted(id=number, url=visible(url), body=body or "", author="")
    raise _foreign(access)


def _comments(access: Access, url: str) -> Iterator[_Posted]:
    """Yield all comments, oldest first."""
    for page in range(1, _PAGES + 1):
        comments = _call(access, "GET", f"{url}?per_page={_PAGE}&page={page}")
        if not isinstance(comments, list):
            raise _foreign(access)
        yield from (_posted(access, each) for each in comments)
        if len(comments) < _PAGE:
            return
    raise CommentError(f"{url} has more than {_PAGES * _PAGE} comments")


def _call(access: Access, method: str, url: str, data: Mapping[str, str] | None = None) -> Data:
    request = Request(  # noqa: S310 - see _refuse_address
        url,
        data=None if data is None else json.dumps(data).encode(),
        method=method,
        headers={"Accept": "application/vnd.github+json", "X-GitHub-Api-Version": "2022-11-28"},
    )
    # Not sent along with a redirection, which may lead to another host.
    request.add_unredirected_header("Authorization", f"Bearer {access.token}")
    try:
        with urlopen(request, timeout=_TIMEOUT) as answer:  # noqa: S310
            text = answer.read(_LARGEST + 1)
    except HTTPError as error:
        with error:
            message = visible(_github_message(error))
        hint = f": {_REMEDIES[error.code]}" if error.code in _REMEDIES else ""
        raise CommentError(f"GitHub answers {error.code} {message}{hint}") from error
    except (HTTPException, OSError) as error:
        reason = getattr(error, "reason", error)
        raise CommentError(f"{access.api} cannot be reached: {reason}") from error
    if len(text) > _LARGEST:
        raise CommentError(f"the answer of {access.api} is larger than {_LARGEST:,} bytes")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _foreign(access) from error


def _foreign(access: Access) -> CommentError:
    return CommentError(f"{access.api} does not answer as the API of GitHub does")


def _github_message(error: HTTPError) -> str:
    """Return GitHub's own message, or the status line's if a proxy answers with a page."""
    try:
        return str(json.loads(error.read(_LARGEST))["message"])
    except (HTTPException, OSError, ValueError, RecursionError, LookupError, TypeError):
        return str(error.reason)
