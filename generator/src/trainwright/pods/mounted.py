"""The files that a container has of ConfigMaps, and which of them its command names."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from posixpath import join

from trainwright.datatypes.model import Data
from trainwright.datatypes.tolerant import mapping, mappings, text


def mounted(
    container: Mapping[str, Data],
    volumes: Sequence[Mapping[str, Data]],
    configs: Mapping[str, Mapping[str, Data]],
) -> dict[str, str]:
    """The texts that ConfigMaps give a container, by path."""
    if not configs:
        return {}
    sources = {text(volume.get("name")): mapping(volume.get("configMap")) for volume in volumes}
    return {
        path: content
        for mount in mappings(container.get("volumeMounts"))
        for path, content in _files(mount, sources.get(text(mount.get("name")), {}), configs)
    }


def _files(
    mount: Mapping[str, Data],
    source: Mapping[str, Data],
    configs: Mapping[str, Mapping[str, Data]],
) -> Iterator[tuple[str, str]]:
    data = configs.get(text(source.get("name")), {})
    items = mappings(source.get("items")) or [{"key": key, "path": key} for key in data]
    folder, inside = text(mount.get("mountPath")), text(mount.get("subPath"))
    for item in items:
        path, content = text(item.get("path")), data.get(text(item.get("key")))
        if isinstance(content, str) and path and inside in ("", path):
            yield folder if inside else join(folder, path), content


def named_in(line: str, files: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The files whose paths a command has as words of their own."""
    for path, content in files.items():
        if re.search(rf"(?<![\w./-]){re.escape(path)}(?![\w/-]|\.\w)", line):
            yield path, content


_SHEBANG = re.compile(r"#!.*\b(?:ba|da|z)?sh\b")


def is_script(path: str, content: str) -> bool:
    """Whether a file is a script of a shell."""
    return path.endswith((".sh", ".bash")) or _SHEBANG.match(content) is not None
