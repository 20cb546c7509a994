"""Shells for people at a terminal, which train nothing without input."""

from __future__ import annotations

from collections.abc import Iterator

from trainwright.importing.source import Source
from trainwright.kinds.reading import Loss, NotImported
from trainwright.objects.pods.launching import SHELLS

_OPTIONS = frozenset({"-l", "-i", "-li", "-il", "--login", "-x", "-e"})  # none names a command


def interactive(source: Source) -> Iterator[NotImported]:
    """Yield the loss of what people would type: `docker run -it IMAGE bash` starts no training."""
    words = source.pod().argv
    if words and SHELLS.fullmatch(words[0]) and _OPTIONS.issuperset(words[1:]):
        why = "a shell without input ends at once: write what is typed there in its place"
        yield NotImported("command", source.place, " ".join(words), why, Loss.CANNOT_RUN)
