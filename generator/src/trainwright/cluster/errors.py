"""What can go wrong with a cluster: errors of one line that names the remedy.

ClusterError
├── Unknown          404: no such object
│   └── NoKind       nor does the API server know its kind
├── Expired          410: the version is older than what the API server remembers
├── Unreachable      no answer, or one that broke off: long-running callers try again
├── Waiting          400: the container whose log is requested has not started
├── NoLog            5xx: the kubelet that has the log does not answer
└── Refused          the API server does not accept an object
"""

from __future__ import annotations

import json
import re

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.findings.credentials import redact

LOG = "pods/log"


class ClusterError(TrainwrightError):
    """The cluster cannot be reached, or does not answer."""


class Unknown(ClusterError):
    """The API server knows no such object."""


class NoKind(Unknown):
    """The API server knows no such kind."""


class Expired(ClusterError):
    """The API server no longer has the requested version: it is too old."""


class Unreachable(ClusterError):
    """There is no connection, or no longer."""


class Waiting(ClusterError):
    """A container has not started, and has no log."""


class NoLog(ClusterError):
    """The log of a pod is unavailable: its node is gone or its kubelet does not answer."""


@dataclass(slots=True)
class Refused(ClusterError):
    """The API server does not accept an object: its message, and the fields that it names."""

    message: str
    fields: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A request to the API server; with `about_object`, a refusal is about the object, not us.

    `role` is the one that allows all that the verb does.
    """

    verb: str
    resource: str
    namespace: str = ""
    about_object: bool = False
    role: str = "read"

    def __str__(self) -> str:
        where = f" in namespace {self.namespace}" if self.namespace else ""
        return f"{self.verb} {self.resource}{where}"


def failed(answer: Answer, status: int, body: object, where: str) -> ClusterError:
    """Return the ClusterError for an answer other than 200."""
    text = _status(body)
    message = redact(" ".join(str(text.get("message") or "").split()))
    if status == 401:
        return ClusterError(f"{where} does not accept the credentials: sign in again (401)")
    if status == 403 and _by_rbac(message):
        return ClusterError(
            f"not allowed to {answer}: {message}; "
            f"`trainwright status --print-rbac {answer.role}` prints the role that allows it"
        )
    if status == 404 and text.get("kind") != "Status":  # "404 page not found"
        return NoKind(
            f"{where} knows no {answer.resource}: what makes it is not installed, "
            "or this is another cluster than the environment's"
        )
    if answer.about_object and 400 <= status < 500 and status != 429:
        causes = (text.get("details") or {}).get("causes") or ()
        return Refused(message, tuple(c["field"] for c in causes if c.get("field")))
    if answer.resource == LOG and (log_error := _of_a_log(status, message)):
        return log_error
    error_types = {404: Unknown, 410: Expired}
    words = f"{where} answers {status} when asked to {answer}: {message}"
    return error_types.get(status, ClusterError)(words)


def _of_a_log(status: int, message: str) -> ClusterError | None:
    """Return why an existing pod's log cannot be read now, or None if the status does not say."""
    if status == 400:
        return Waiting(message)
    if message.startswith('nodes "'):  # nodes "a" not found
        return NoLog(f"the log cannot be read, since the node of the pod is gone: {message}")
    return NoLog(f"the log cannot be read: {message}") if status >= 500 else None


# pods "a" is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "y"
_RBAC = re.compile(r"User \"[^\"]*\" cannot [a-z]+ resource ")


def _by_rbac(message: str) -> bool:
    """Whether the request was refused, and not the object by a policy or a webhook."""
    return bool(_RBAC.search(message)) and "admission webhook" not in message


def _status(body: object) -> dict[str, Data]:
    """Return the Status object of an answer, or anything else as its message."""
    text = body.decode(errors="replace") if isinstance(body, bytes) else str(body)
    try:
        data = json.loads(text)
    except ValueError:
        data = None
    return data if isinstance(data, dict) else {"message": text[:300]}


def unreachable(where: str, reason: object) -> Unreachable:
    """Return the error for no answer, with the innermost message of a chain of exceptions."""
    text = str(reason)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return Unreachable(f"{where} has a certificate that is not trusted here: {_last(text)}")
    return Unreachable(f"cannot reach {where}: {_last(text)}")


_SOURCE = re.compile(r" \(_ssl\.c:\d+\).*")


def _last(text: str) -> str:
    """Return the last part of a chained error message, such as `Connection refused`."""
    return _SOURCE.sub("", text.rpartition("] ")[2] or text).rstrip(")'")
