"""References to images, as Kubernetes and Docker write them."""

from __future__ import annotations


def split(image: str) -> tuple[str, str, str]:
    """Return repository, tag and digest of an image reference, "" for those that it lacks."""
    name, _, digest = image.partition("@")
    path, colon, tag = name.rpartition(":")
    return (path, tag, digest) if colon and "/" not in tag else (name, "", digest)


def joined(repository: str, tag: str = "", digest: str = "") -> str:
    """Return an image reference from its parts."""
    return f"{repository}{tag and f':{tag}'}{digest and f'@{digest}'}"


def in_spec(image: str) -> dict[str, str]:
    """Return the parts of an image reference as a spec has them, without those that it lacks."""
    parts = zip(("repository", "tag", "digest"), split(image), strict=True)
    return {name: part for name, part in parts if part}
