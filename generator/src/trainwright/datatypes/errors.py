"""Exceptions for what cannot be done; wrong input raises none of them, but becomes a `Finding`.

TrainwrightError        exit 2: one line, no traceback
├── SourceError         a file or folder cannot be read
├── SelectionError      no environment or job matches the selection
├── EngineError         Helm could not be started, or the chart itself is broken
├── OutputError         rendered/ cannot be written
│   └── gitops.publish.model.PublishError   rendered files cannot be published
├── specs.editing.EditError             a file cannot be edited in these lines alone
├── specs.image_lock.ImageError         the digest of an image tag cannot be found out
├── cluster.errors.ClusterError         a cluster cannot be reached, or does not answer
├── objects.pods.pod.ManifestError      no operator makes pods of these manifests
└── rehearsal.RehearsalError            a rendered job cannot be run on this machine
"""

import errno

INTERRUPTED = 130  # the exit code after Ctrl-C: 128 + SIGINT, as shells have it
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def output_trouble(error: OSError) -> str:
    """The reason why the output cannot be written; empty where the error is of a file."""
    if error.filename is not None or error.errno not in _FULL:
        return ""
    return f"cannot write the output: {error.strerror}"


class TrainwrightError(Exception):
    """Something could not be done; the message is the one line the user sees."""


class SourceError(TrainwrightError):
    """A file or folder that must be read cannot be."""


class SelectionError(TrainwrightError):
    """No environment or job matches the selection."""


class EngineError(TrainwrightError):
    """The Helm engine is missing or failed for a reason that is not the job's."""


class OutputError(TrainwrightError):
    """The rendered tree cannot be written."""
