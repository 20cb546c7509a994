"""Log records as lines: readable text, or a JSON object each, with the label of who logs."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from collections.abc import Mapping
from datetime import UTC, datetime

ROOT = "trainwright_runtime"

Label = Mapping[str, int | str]  # who speaks: {"rank": 3}, {"replica": "node-0"}, {"node": 0}


def configure(log_format: str, label: Label) -> None:
    """Send this package's log to stderr, as text or JSON; a script's own logging is left alone."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json(label) if log_format == "json" else _Text())
    logger = logging.getLogger(ROOT)
    logger.handlers = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def label_of(environ: Mapping[str, str]) -> Label:
    """Return the label of a training process, from the environment that the entrypoint gave it."""
    if replica := environ.get("TRAINWRIGHT_REPLICA"):
        return {"replica": replica}
    rank = environ.get("RANK", "")
    return {"rank": int(rank)} if rank.isdecimal() else {}


def now() -> str:
    """Return the current time as text: UTC, milliseconds, RFC 3339."""
    return _time(datetime.now(UTC))


def at(seconds: float) -> str:
    """Return a time in Unix seconds as text, like `now`."""
    return _time(datetime.fromtimestamp(seconds, UTC))


def _time(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03}Z"


class _Text(logging.Formatter):
    """A time, a level and the message; the entrypoint puts a process's rank before each line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = _time(datetime.fromtimestamp(record.created, UTC))
        line = f"{moment} {record.levelname} {record.getMessage()}"
        return f"{line}\n{_traceback(record)}" if record.exc_info else line


class _Json(logging.Formatter):
    def __init__(self, label: Label) -> None:
        super().__init__()
        self._label = label

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, object] = {
            "time": _time(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            **self._label,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["traceback"] = _traceback(record)
        return json.dumps(fields, ensure_ascii=False)


def _traceback(record: logging.LogRecord) -> str:
    assert record.exc_info
    return "".join(traceback.format_exception(*record.exc_info)).rstrip("\n")
