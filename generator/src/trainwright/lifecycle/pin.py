"""`pin`: an image by its content instead of by a tag that may move."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import CONTAINERS
from trainwright.datatypes.pointer import Pointer
from trainwright.documents import editing, yamlio
from trainwright.lifecycle.subject import Step, Subject
from trainwright.objects.pods.image_reference import split
from trainwright.specs import image_lock

# Repository and tag to a digest. Raises ImageError when it is unknown.
Resolve = Callable[[str, str], str]

_HEAD = """\
# The digests of image tags when they were looked up. `trainwright pin --record` adds lines here,
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
    """An image as it is given: `[repository[:tag]@]sha256:…`."""

    repository: str
    tag: str
    digest: str


def given(text: str) -> Given:
    """Parse an image given on the command line."""
    match = _GIVEN.fullmatch(text)
    if match is None:
        raise TrainwrightError(
            f'"{text}" is not a digest; write [repository[:tag]@]sha256:<64 digits>'
        )
    groups = match.groupdict(default="")
    return Given(groups["repository"], groups["tag"], groups["digest"])


@dataclass(frozen=True, slots=True)
class _Image:
    """An image of a job, whose digest goes into a field of its own or into the image's text.

    `at` is the container that has it, empty for the one that trains.
    """

    at: Pointer
    repository: str
    tag: str
    digest: str

    @property
    def named(self) -> str:
        return f"{self.repository}:{self.tag}"

    def written(self, digest: str) -> tuple[Pointer, str]:
        if self.at:
            return self.at / "image", f"{self.named}@{digest}"
        return Pointer("/image/digest"), digest


_KEYS = ("repository", "tag", "digest")


def _images(subject: Subject) -> Iterator[_Image]:
    """Yield all images of the job, the training container's first."""
    yield _Image(Pointer(), *(subject.value(f"/image/{key}") for key in _KEYS))
    for field in CONTAINERS:
        for name in subject.value(Pointer.of(field)) or {}:
            at = Pointer.of(field, name)
            yield _Image(at, *split(str(subject.value(at / "image"))))


def pin(subject: Subject, resolve: Resolve, *, update: bool, record: bool) -> Step:
    """Pin a job's images to the digests that their tags resolve to; existing digests stay unless
    `update`.
    """
    raw, files = subject.raw, dict[str, bytes]()
    kept, pinned = [], []
    for image in _images(subject):
        if image.digest and not update:
            kept.append(image.digest)
            continue
        if not image.tag:
            return Step(message=_untagged(image), refused=True)
        digest = resolve(image.repository, image.tag)
        if digest == image.digest:
            kept.append(f"{image.tag} is still {image.digest}")
            continue
        raw = editing.put(subject.file.path, raw, *image.written(digest))
        pinned.append(f"{image.named} is {digest}")
        if record:
            lock = files.get(image_lock.LOCK) or _lock(subject)
            files[image_lock.LOCK] = _recorded(lock, image.named, digest)
    if not pinned:
        return Step(message=f"is pinned already: {', '.join(kept)}")
    return Step(message=f"pinned: {', '.join(pinned)}", files={subject.file.path: raw, **files})


def pin_given(subject: Subject, image: Given) -> Step:
    """Run a given image, where the job's own is of that repository."""
    repository = subject.value("/image/repository")
    if image.repository not in ("", repository):
        return Step(message=f"runs {repository}, not {image.repository}")
    raw = subject.raw
    for key, value in (("tag", image.tag), ("digest", image.digest)):
        if value and subject.value(f"/image/{key}") != value:
            raw = editing.put(subject.file.path, raw, f"/image/{key}", value)
    if raw == subject.raw:
        return Step(message=f"is pinned already: {image.digest}")
    return Step(message=f"pinned: {repository} is {image.digest}", files={subject.file.path: raw})


def _untagged(image: _Image) -> str:
    missing = "no tag that could be looked up"
    if image.at:
        return f"has {missing} for {image.at.dotted}; write one there"
    return f"has {missing}; give --digest"


def _lock(subject: Subject) -> bytes:
    there = subject.tree.kind(image_lock.LOCK)
    return subject.tree.read(image_lock.LOCK) if there else b""


def _recorded(lock: bytes, named: str, digest: str) -> bytes:
    if not lock:
        return f"{_HEAD}  {yamlio.inline(named)}: {yamlio.inline(digest)}\n".encode()
    return editing.put(image_lock.LOCK, lock, Pointer.of("images", named), digest)
