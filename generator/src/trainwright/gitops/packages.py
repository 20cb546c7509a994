"""A chart's folder as an archive of the same bytes anywhere, pushed to registries and pulled."""

from __future__ import annotations

import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from trainwright.datatypes.data import Data
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.finding import Finding, Related
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.job import file_digest
from trainwright.datatypes.listing import listed
from trainwright.datatypes.pointer import Pointer
from trainwright.documents.yamlio import Document, parse
from trainwright.files import filetree, git
from trainwright.findings import diagnostics as dx
from trainwright.helm import sdk

if TYPE_CHECKING:
    from helm_python import RegistryClient

CHART_FILE = "Chart.yaml"
OCI = "oci://"
# Helm keeps the dates of files, and writes that of the archive into what it pushes. The date is
# the earliest that every archive format knows: https://reproducible-builds.org/docs/timestamps/
_DATE = 315_532_800  # 1980-01-01T00:00:00Z, in seconds
_SHOWN = 5  # files that a finding names


class ChartError(TrainwrightError):
    """A chart cannot be packaged, pushed, pulled or verified; the message is mostly Helm's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Archive:
    """A packaged chart. `digest` is the SHA-256 of its bytes, as "sha256:…"."""

    path: Path
    name: str
    version: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A PGP key to sign with, by a part of its user id, and the file of secret keys it is in."""

    user: str
    keyring: Path
    passphrase_file: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushed:
    """A chart in a registry. `digest` is its manifest's: it never refers to any other bytes."""

    reference: str  # oci://host/path/name:version
    digest: str
    fresh: bool  # whether it was not there before


def package(folder: Path, destination: Path, key: Key | None = None) -> Archive:
    """Package a chart's folder as Helm does, but independently of the time and the machine.

    The same folder gives the same bytes with the same version of Helm. With a key, the provenance
    file is written beside the archive.
    """
    if not (folder / CHART_FILE).is_file():
        raise ChartError(f"{folder} is not a chart: it has no {CHART_FILE}")
    _refuse_links(folder)
    with _helm_errors(), filetree.writing(destination), _copy(folder) as copy:
        destination.mkdir(parents=True, exist_ok=True)
        archive = Path(sdk.load().package(copy, destination=destination))
        os.utime(archive, (_DATE, _DATE))
        if key:
            sdk.load().sign(
                archive, key=key.user, keyring=key.keyring, passphrase_file=key.passphrase_file
            )
    return read(archive)


def read(archive: Path) -> Archive:
    """Return an archive's digest, and its name and version from its own Chart.yaml."""
    data = _bytes(archive)
    try:
        with sdk.load().Chart.load_archive(data) as chart:
            name, version = chart.name, chart.version
    except sdk.load().HelmError as error:
        raise ChartError(f"{archive} is not a packaged chart: {_line(error)}") from error
    return Archive(path=archive, name=name, version=version, digest=file_digest(data))


def push(archive: Path, remote: str, *, plain_http: bool) -> Pushed:
    """Push an archive, and the provenance file beside it, below `remote` (oci://host/path).

    A version that is already there is left alone. Raise ChartError if it has other contents.
    """
    if not remote.startswith(OCI):
        raise ChartError(f'"{remote}" is not an OCI registry: write {OCI}<host>/<path>')
    chart = read(archive)
    # A registry's tags have no "+": Helm writes "_" instead.
    tag = chart.version.replace("+", "_")
    reference = f"{remote.rstrip('/')}/{chart.name}:{tag}"
    with _helm_errors(), sdk.load().RegistryClient(plain_http=plain_http) as client:
        present = _there(client, reference)
        if present:
            _refuse_other(chart, reference, plain_http)
        else:
            client.push(archive, remote.rstrip("/"), plain_http=plain_http)
        digest = present or client.resolve(reference)["digest"]
    return Pushed(reference=reference, digest=digest, fresh=not present)


def _there(client: RegistryClient, reference: str) -> str:
    """Return the manifest digest of a reference in the registry; empty if there is none."""
    try:
        digest: str = client.resolve(reference)["digest"]
    except sdk.load().HelmRegistryError as error:
        if "not found" in str(error):
            return ""
        raise
    return digest


def _refuse_other(chart: Archive, reference: str, plain_http: bool) -> None:
    with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
        pushed = pull(reference, Path(folder), plain_http=plain_http)
    if pushed.digest != chart.digest:
        raise ChartError(
            f"{reference} is there already, with other content ({pushed.digest}); "
            f"raise the version in {CHART_FILE}: {chart.version} must stay what it is"
        )


def pull(reference: str, destination: Path, *, plain_http: bool) -> Archive:
    """Download oci://host/path/name:version, and its provenance file if there is one."""
    base, _, tag = reference.rpartition(":")
    version = tag.replace("_", "+")
    with _helm_errors():
        sdk.load().pull(base, destination=destination, version=version, plain_http=plain_http)
    (archive,) = destination.glob("*.tgz")
    return read(archive)


def verify(archive: Path, keyring: Path) -> tuple[str, ...]:
    """Return who signed an archive, by the keys in a keyring. Raise ChartError if it is invalid."""
    with _helm_errors():
        signers: list[str] = sdk.load().verify(archive, keyring)["signed_by"]
    return tuple(signers)


def same(archive: Path, folder: Path) -> bool:
    """Whether an archive is what packaging the folder here gives, byte for byte."""
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        return package(folder, Path(scratch)).digest == read(archive).digest


# --- versions --------------------------------------------------------------------------------


def bump(folder: Path, against: str | None) -> tuple[Finding, ...]:
    """Return a finding if the chart, but not its version, changed since a commit or release.

    Without `against` it is compared with the newest tag, and with the one before when the newest
    is on this very commit. Outside of git, and before the first tag, there is nothing to compare.
    """
    try:
        repository, inside = git.find(folder)
    except git.GitError:
        if against:
            raise
        return ()
    revisions = (against,) if against else tuple(_releases(repository))
    for revision in revisions:
        tree = repository.tree(repository.commit(revision), inside)
        differing = _differing(folder, tree) if tree.kind(CHART_FILE) == "file" else ()
        if differing:
            return (_unbumped(_chart_file(folder, inside), revision, differing),)
    return ()


def _unbumped(chart: Document, revision: str, differing: tuple[str, ...]) -> Finding:
    return dx.CHART_VERSION.at(
        chart.place("/version"),
        "chart version not ok: it needs a bump",
        note=f"{chart.data['version']} is the version at {revision} too, with other content",
        subject=chart.data["name"],
        path=Pointer("/version"),
        related=(Related("differs", listed(differing, _SHOWN)),),
    )


def _releases(repository: git.Repository) -> Iterator[str]:
    tags = set()
    for start in ("HEAD", "HEAD^"):
        try:
            tags.add(repository.line("describe", "--tags", "--abbrev=0", start))
        except git.GitError:  # no tag, or no commit
            continue
    yield from sorted(tags)


def _chart_file(folder: Path, inside: str) -> Document:
    document = parse(f"{inside}/{CHART_FILE}".lstrip("/"), _bytes(folder / CHART_FILE))
    if not isinstance(document, Document):
        raise ChartError(f"{document[0].place}: {document[0].message}")
    return document


def _differing(folder: Path, tree: git.Commit) -> tuple[str, ...]:
    """Return the packaged files that differ from a commit's; none if the versions differ, too."""
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        old_folder, packed = Path(scratch, "old"), Path(scratch, "packed")
        _check_out(tree, "", old_folder)
        new = package(folder, packed / "new")
        old = package(old_folder, packed / "old")
        if old.version != new.version:
            return ()
        before, after = _contents(old.path), _contents(new.path)
    return tuple(sorted(p for p in {*before, *after} if before.get(p) != after.get(p)))


def _check_out(tree: git.Commit, folder: str, destination: Path) -> None:
    destination.mkdir(parents=True)
    for entry in tree.entries(folder):
        path = f"{folder}/{entry.name}".lstrip("/")
        if entry.kind == "folder":
            _check_out(tree, path, destination / entry.name)
        elif entry.kind == "file":
            (destination / entry.name).write_bytes(tree.read(path))


def _contents(archive: Path) -> Mapping[str, Data]:
    """Return the SHA-256 of each file in an archive, by its path in the chart's folder."""
    with tarfile.open(archive) as opened:
        return {
            member.name.partition("/")[2]: file_digest(file.read())
            for member in opened
            if (file := opened.extractfile(member))
        }


# --- files -----------------------------------------------------------------------------------


@contextmanager
def _copy(folder: Path) -> Iterator[Path]:
    """Yield a copy of the folder's files, all with the same date."""
    with tempfile.TemporaryDirectory(prefix="trainwright-") as scratch:
        copy = Path(scratch, "chart")
        shutil.copytree(folder, copy)
        for path in copy.rglob("*"):
            os.utime(path, (_DATE, _DATE))
        yield copy


def _refuse_links(folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            name = path.relative_to(folder)
            raise ChartError(
                f"{name} in {folder} is a symbolic link: Helm would pack what it names"
            )


def _bytes(path: Path) -> bytes:
    """Return the content of a file. Raise ChartError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ChartError(f"cannot read {path}: {error.strerror}") from error


@contextmanager
def _helm_errors() -> Iterator[None]:
    """Raise Helm's errors as ChartError, with Helm's own message on one line."""
    try:
        yield
    except sdk.load().HelmError as error:
        raise ChartError(_line(error)) from error


def _line(error: Exception) -> str:
    return " ".join(str(error).split())
