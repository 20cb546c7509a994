"""The progress of a training in the status of its TrainJob.

Kubeflow Trainer 2.3 with the feature gate `TrainJobStatus` puts the address of its status server,
a certificate and a token into every pod of a TrainJob, and writes to `status.trainerStatus` what is
posted there. https://www.kubeflow.org/docs/components/trainer/user-guides/trainjob-progress/
"""

from __future__ import annotations

import json
import logging
import math
import threading
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from trainwright_runtime.observe.journal import Event

URL = "KUBEFLOW_TRAINER_SERVER_URL"
CERTIFICATE = "KUBEFLOW_TRAINER_SERVER_CA_CERT"  # a file
TOKEN = "KUBEFLOW_TRAINER_SERVER_TOKEN"  # noqa: S105 - a file, whose content is replaced by and by
INTERVAL = 5.0  # seconds between two posts at least, as the guide requires of clients
_TIMEOUT = 5.0  # of one post, in seconds
_LAST = 2.0  # the end of a training waits so long for its last post

_log = logging.getLogger(__name__)


class TrainJobStatus:
    """Posts how far a training is, in a thread of its own: a sink of `Metrics`.

    A server that does not answer is one warning, and never stops or delays a step.
    """

    def __init__(
        self,
        post: Callable[[Mapping[str, Any]], None],
        *,
        interval: float = INTERVAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`post` sends one status and may raise OSError; `interval` is in seconds."""
        self.total = 0  # steps of the whole training; 0 where that is unknown
        self.values: dict[str, float] = {}  # of the model, by name, such as its loss
        self._post, self._interval, self._clock = post, interval, clock
        self._began: tuple[float, int] | None = None  # of this life: when, and after which step
        self._facts: dict[str, float] = {}
        self._step = 0
        self._failed = False
        self._changed = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="trainjob-status", daemon=True)
        self._thread.start()

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str], rank: int | None = None
    ) -> TrainJobStatus | None:
        """Return the status of this TrainJob, or None if it takes none or this is not rank 0.

        `rank` is that of this process; by default `RANK`, or that of its node where only nodes have
        one, as with plain `python`.
        """
        own = environ.get("RANK") or environ.get("PET_NODE_RANK") or "0"
        if rank is None and "RANK" not in environ and environ.get("TRAINWRIGHT_REPLICA"):
            return None  # a worker that gets its rank with each quorum
        url, certificate, token = (environ.get(name, "") for name in (URL, CERTIFICATE, TOKEN))
        if not (url and certificate and token) or (own if rank is None else str(rank)) != "0":
            return None
        if not url.startswith("https://"):
            _log.warning("no status of the TrainJob: %s=%s is not an https address", URL, url)
            return None
        return cls(lambda status: _post(url, Path(certificate), Path(token), status))

    def step(
        self, step: int, samples: int, seconds: float, data_wait: float, world_size: int
    ) -> None:
        if self._began is None:
            self._began = (self._clock() - seconds - data_wait, step - 1)
        self._step = step
        took = seconds + data_wait
        self._facts = {
            "step": step,
            "step_seconds": seconds,
            "samples_per_second": samples * world_size / took if took else 0.0,
            "world_size": world_size,
        }
        self._changed.set()

    def event(self, event: Event) -> None:
        """Do nothing: only steps measure how far a training is."""

    def close(self) -> None:
        self._closed.set()
        self._changed.set()
        self._thread.join(_LAST)

    def status(self) -> dict[str, Any]:
        """Return the body of a post, in the form of an `UpdateTrainJobStatusRequest`."""
        trainer_status: dict[str, Any] = {
            "metrics": [
                {"name": name, "value": f"{value:.6g}"}
                for name, value in {**self._facts, **self.values}.items()
                if math.isfinite(value)
            ],
            "lastUpdatedTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        if self.total:
            left = max(self.total - self._step, 0)
            trainer_status["progressPercentage"] = min(100 * self._step // self.total, 100)
            if (seconds := self._per_step()) is not None:
                trainer_status["estimatedRemainingSeconds"] = math.ceil(left * seconds)
        return {"trainerStatus": trainer_status}

    def _per_step(self) -> float | None:
        """Return the seconds per step in this life, pauses included; None before its first step."""
        if self._began is None or self._step <= self._began[1]:
            return None
        return (self._clock() - self._began[0]) / (self._step - self._began[1])

    def _run(self) -> None:
        """Post the status whenever it has changed, at most once per interval."""
        while not self._closed.is_set():
            self._changed.wait()
            self._changed.clear()
            if not self._closed.is_set():  # the last one follows
                self._send()
                self._closed.wait(self._interval)
        self._send()

    def _send(self) -> None:
        """Post the status now; log only the first of several failures."""
        if not self._facts:
            return
        try:
            self._post(self.status())
            self._failed = False
        except (OSError, ValueError) as error:
            if not self._failed:
                _log.warning("the status of the TrainJob could not be posted: %s", error)
            self._failed = True


def _post(url: str, certificate: Path, token: Path, status: Mapping[str, Any]) -> None:
    """Post a status. Raise OSError, or ValueError if the file holds no certificate."""
    # Imported here: else every training process would spend 24 ms on what few of them need.
    import http.client
    import ssl
    import urllib.request

    request = urllib.request.Request(  # noqa: S310 - https, as was checked
        url,
        data=json.dumps(status).encode(),
        headers={
            "Authorization": f"Bearer {token.read_text(encoding='utf-8').strip()}",
            "Content-Type": "application/json",
        },
        method="POST",
    )
    context = ssl.create_default_context(cafile=str(certificate))
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT, context=context):  # noqa: S310
            pass
    except http.client.HTTPException as error:  # what the server sends is not HTTP
        raise OSError(f"{type(error).__name__}: {error}") from error
