"""The files that a container has of ConfigMaps, and which of them its command names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from posixpath import join

from trainwright.datatypes.data import Data, mapping, mappings, text


def mounted(
    container: Mapping[str, Data],
    volumes: Iterable[Mapping[str, Data]],
    configs: Mapping[str, Mapping[str, Data]],
) -> dict[str, str]:
    """Return the texts that ConfigMaps give a container, by path."""
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
    """Yield the path and text of each file of a ConfigMap that a mount shows."""
    data = configs.get(text(source.get("name")), {})
    folder, sub_path = text(mount.get("mountPath")), text(mount.get("subPath"))
    for item, inside in shown(source, data, sub_path):
        content = data[text(item.get("key"))]
        if isinstance(content, str) and (inside or sub_path):
            yield join(folder, inside) if inside else folder, content


def shown(
    source: Mapping[str, Data], data: Mapping[str, Data], sub_path: str
) -> Iterator[tuple[Mapping[str, Data], str]]:
    """Yield the items of a ConfigMap that a mount has, each with its path below that of the mount.

    The path is "" if the mount is of this file alone.
    """
    for item in mappings(source.get("items")) or [{"key": key, "path": key} for key in data]:
        path = text(item.get("path"))
        if text(item.get("key")) in data and sub_path in ("", path):
            yield item, "" if sub_path else path


def named_in(line: str, files: Mapping[str, str], folder: str) -> Iterator[tuple[str, str]]:
    """Yield path and content of each file that a command names, by its whole path or by that from
    the folder in which the command starts.
    """
    if not files:
        return
    below = "" if CHANGES_FOLDER.search(line) else f"{folder.rstrip('/')}/"
    for path, content in files.items():
        names = {path, path.removeprefix(below)} if folder and below else {path}
        if any(_names(line, name) for name in names):
            yield path, content


CHANGES_FOLDER = re.compile(r"(?:^|[\s;&|(])(?:cd|pushd)\s")


def _names(line: str, name: str) -> bool:
    """Whether a path occurs in a command as a whole, with or without `./` in front."""
    pattern = rf"(?<![\w./-])(?:\./)?{re.escape(name)}(?![\w/-]|\.\w)"
    return name in line and re.search(pattern, line) is not None


_SHEBANG = re.compile(r"#!.*\b(?:ba|da|k|z)?sh\b")


def is_script(path: str, content: str) -> bool:
    """Whether a file is a script of a shell."""
    return path.endswith((".sh", ".bash")) or _SHEBANG.match(content) is not None
