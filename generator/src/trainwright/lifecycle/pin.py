"""`pin`: an image by its content instead of by a tag that may move."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from trainwright.errors import TrainwrightError
from trainwright.lifecycle.subject import Step, Subject
from trainwright.pointer import Pointer
from trainwright.specs import edit as editing
from trainwright.specs import image_lock, yamlio

# Repository and tag to a digest. Raises ImageError when nobody says.
Resolve = Callable[[str, str], str]

_HEAD = """\
# What image tags stood for when they were looked up. `trainwright pin --record` adds lines here,
# `trainwright pin --from-lock` reads them.
apiVersion: trainwright.io/v1alpha1
kind: ImageLock
images:
"""
_GIVEN = re.compile(
    r"(?:(?P<repository>[^@]+?)(?::(?P<tag>[^:@/]+))?@)?(?P<digest>sha256:[0-9a-f]{64})"
)


@dataclass(frozen=True, slots=True)
class Given:
    """An image that somebody names: `[repository[:tag]@]sha256:…`."""

    repository: str
    tag: str
    digest: str


def given(text: str) -> Given:
    """Read what somebody names on the command line."""
    match = _GIVEN.fullmatch(text)
    if match is None:
        raise TrainwrightError(
            f'"{text}" is not a digest; write [repository[:tag]@]sha256:<64 digits>'
        )
    found = match.groupdict(default="")
    return Given(found["repository"], found["tag"], found["digest"])


def pin(subject: Subject, resolve: Resolve, *, update: bool, record: bool) -> Step:
    """Look up what the job's tag stands for; a digest that is there stays unless `update`."""
    repository, tag, digest = (subject.value(f"/image/{key}") for key in _KEYS)
    if digest and not update:
        return Step(said=f"is pinned already: {digest}")
    if not tag:
        return Step(said="has no tag that could be looked up; give --digest", refused=True)
    found = resolve(repository, tag)
    if found == digest:
        return Step(said=f"is pinned already: {tag} is still {digest}")
    raw = editing.put(subject.file.path, subject.raw, "/image/digest", found)
    files = {subject.file.path: raw}
    if record:
        files[image_lock.LOCK] = _recorded(subject, f"{repository}:{tag}", found)
    return Step(said=f"pinned: {repository}:{tag} is {found}", files=files)


_KEYS = ("repository", "tag", "digest")


def pin_given(subject: Subject, image: Given) -> Step:
    """Run an image that somebody names, where the job's own is of that repository."""
    repository = subject.value("/image/repository")
    if image.repository not in ("", repository):
        return Step(said=f"runs {repository}, not {image.repository}")
    raw = subject.raw
    for key, value in (("tag", image.tag), ("digest", image.digest)):
        if value and subject.value(f"/image/{key}") != value:
            raw = editing.put(subject.file.path, raw, f"/image/{key}", value)
    if raw == subject.raw:
        return Step(said=f"is pinned already: {image.digest}")
    return Step(said=f"pinned: {repository} is {image.digest}", files={subject.file.path: raw})


def _recorded(subject: Subject, named: str, digest: str) -> bytes:
    if not subject.tree.kind(image_lock.LOCK):
        return f"{_HEAD}  {yamlio.inline(named)}: {yamlio.inline(digest)}\n".encode()
    pointer = Pointer.of("images", named)
    return editing.put(image_lock.LOCK, subject.tree.read(image_lock.LOCK), pointer, digest)
