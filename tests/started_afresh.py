"""What the suite gives its own processes, and all that they start, whatever it was started with.

`nohup make test &` ignores signals, a hardened account has a umask of its own, and a user's shell
has a locale, a time zone and variables that Python reads.
"""

from __future__ import annotations

import locale
import os
import re
import resource
import signal
import time
from contextlib import suppress

UMASK = 0o022
LOCALE = "C.UTF-8"
TIME_ZONE = "UTC"

# Of all that Python reads, these only say where its files are. `make` starts the suite with -E,
# which ignores the others; the processes that it starts do not have them.
_OF_PYTHON = r"PYTHON(?!(?:PATH|HOME|PLATLIBDIR|PYCACHEPREFIX|NOUSERSITE|USERBASE)$)\w+"
_OF_A_TERMINAL = r"LC_\w+|LANG|LANGUAGE|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR\w*|PAGER|LESS"
FOREIGN = re.compile(f"{_OF_PYTHON}|{_OF_A_TERMINAL}")
# Soft limits: at least this many, where the hard one allows it.
_LEAST = {resource.RLIMIT_NOFILE: 4096, resource.RLIMIT_STACK: 8 * 2**20}
_UNLIMITED = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NPROC,
)
_PYTHONS_OWN = {signal.SIGPIPE, signal.SIGXFSZ}  # ignored by it, and restored in its children


def begin() -> None:
    """Before anything is started, and in each worker of xdist."""
    _take_signals()
    _raise_limits()
    os.umask(UMASK)
    for name in [name for name in os.environ if FOREIGN.fullmatch(name)]:
        del os.environ[name]
    os.environ |= {"LC_ALL": LOCALE, "TZ": TIME_ZONE, "TERM": "xterm"}
    time.tzset()
    with suppress(locale.Error):  # of a system that calls it otherwise
        locale.setlocale(locale.LC_CTYPE, LOCALE)


def _take_signals() -> None:
    """Handle what is ignored or blocked: with a handler, a process that is started has none."""
    signal.pthread_sigmask(signal.SIG_SETMASK, set())
    for number in signal.valid_signals() - _PYTHONS_OWN:
        if signal.getsignal(number) is signal.SIG_IGN:
            handler = signal.default_int_handler if number == signal.SIGINT else _stay
            signal.signal(number, handler)


def _stay(_number: int, _frame: object) -> None:
    """Whoever started the suite wants it to survive this signal."""


def _raise_limits() -> None:
    for kind in (*_LEAST, *_UNLIMITED):
        soft, hard = resource.getrlimit(kind)
        wanted = _LEAST.get(kind, hard)
        if _less(soft, wanted):
            resource.setrlimit(kind, (hard if _less(hard, wanted) else wanted, hard))
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


def _less(limit: int, other: int) -> bool:
    if resource.RLIM_INFINITY in (limit, other):
        return limit != resource.RLIM_INFINITY
    return limit < other
