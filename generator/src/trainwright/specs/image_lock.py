"""Digests of image tags: asked of the registry, or read from the lock file."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.job import file_digest
from trainwright.datatypes.layout import ENVIRONMENTS
from trainwright.documents.validation import schema
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Tree
from trainwright.specs.load import Reader
from trainwright.specs.merge import Layer, stack
from trainwright.specs.violations import violations

if TYPE_CHECKING:
    from oras.provider import Registry

LOCK = f"{ENVIRONMENTS}/images.lock.yaml"
_TIMEOUT = 30  # seconds for one answer
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
# Indexes first, so that the digest is that of all platforms.
_MANIFESTS = ", ".join(
    (
        "application/vnd.oci.image.index.v1+json",
        "application/vnd.docker.distribution.manifest.list.v2+json",
        "application/vnd.oci.image.manifest.v1+json",
        "application/vnd.docker.distribution.manifest.v2+json",
    )
)


class ImageError(TrainwrightError):
    """The digest of a tag is unknown."""


def locked(tree: Tree) -> Mapping[str, str]:
    """Digests by `repository:tag` as they were recorded; empty when there is no lock."""
    if not tree.kind(LOCK):
        return {}
    document = Reader(tree).document(LOCK)
    if isinstance(document, Document):
        spec = stack((Layer("lock", document),))
        findings = violations(schema.image_lock(), spec, LOCK)
        if not findings:
            return dict(spec.data.get("images", {}))
    else:
        findings = document
    raise ImageError(f"{findings[0].place}: {findings[0].message}")


def ask(repository: str, tag: str, *, plain_http: bool) -> str:
    """The digest that a registry has for a tag, with the credentials of Docker's configuration.

    https://github.com/opencontainers/distribution-spec/blob/main/spec.md#checking-if-content-exists-in-the-registry
    """
    try:
        from oras.container import Container
        from oras.provider import Registry
    except ImportError as error:
        message = "asking a registry needs oras: pip install 'trainwright[registry]'"
        raise ImageError(f"{message}; --digest and --from-lock do without") from error
    import requests

    logging.getLogger("oras.logger").disabled = True  # errors below say it once
    registry = Registry(insecure=plain_http)
    _be_patient(registry.session)
    named = f"{repository}:{tag}"
    # Docker's own rule for images without a registry: https://docs.docker.com/reference/cli/docker/image/pull/
    container = Container(f"library/{named}" if "/" not in repository else named)
    url = f"{registry.prefix}://{container.manifest_url()}"
    try:
        registry.auth.load_configs(container, _docker_configs())
        answer = _request(registry, "HEAD", url)
        if answer.ok and not answer.headers.get("Docker-Content-Digest"):
            answer = _request(registry, "GET", url)
    except ValueError as error:
        raise ImageError(f"{named}: the registry wants other credentials: {error}") from error
    except requests.ConnectionError as error:
        raise ImageError(
            f"{named}: cannot reach {container.registry}; use --digest or --from-lock"
        ) from error
    except (requests.RequestException, OSError) as error:
        raise ImageError(f"{named}: {error}") from error
    return _digest(named, answer)


def _request(registry: Registry, method: str, url: str) -> Any:
    """A registry's answer. `do_request` of oras waits two minutes for a password that is wrong.

    Raises ValueError when the registry does not take the credentials.
    """
    headers = {"Accept": _MANIFESTS}
    answer = registry.session.request(method, url, headers=headers)
    if answer.status_code in (401, 403):
        headers, changed = registry.auth.authenticate_request(answer, headers)
        if not changed:
            raise ValueError("it gives no token for them")
        answer = registry.session.request(method, url, headers=headers)
    return answer


def _docker_configs() -> list[str]:
    """Docker's configuration where it is not in the home directory, which oras reads itself."""
    path = Path(os.environ.get("DOCKER_CONFIG") or "/nowhere") / "config.json"
    return [str(path)] if path.is_file() else []


def _digest(named: str, answer: Any) -> str:
    """Return the digest that a registry answers with. Raise ImageError if there is none."""
    if answer.status_code == 404:
        raise ImageError(f"{named} is not in its registry")
    if not answer.ok:
        raise ImageError(f"{named}: the registry answers {answer.status_code} {answer.reason}")
    digest = str(answer.headers.get("Docker-Content-Digest", ""))
    if answer.content:
        computed = file_digest(answer.content)
        if digest not in ("", computed):
            raise ImageError(f"{named}: the registry says {digest}, but sends {computed}")
        digest = computed
    if not _DIGEST.fullmatch(digest):
        raise ImageError(f'{named}: the registry names no SHA-256 digest, but "{digest}"')
    return digest


def _be_patient(session: Any) -> None:
    """Give a session a timeout and a few retries; requests has neither by default."""
    from requests.adapters import HTTPAdapter
    from urllib3.util.retry import Retry

    class Patient(HTTPAdapter):
        def send(self, *arguments: Any, **options: Any) -> Any:
            return super().send(*arguments, **{**options, "timeout": _TIMEOUT})

    again = Retry(
        total=3, backoff_factor=0.5, status_forcelist=(429, 502, 503, 504), raise_on_status=False
    )
    for prefix in ("http://", "https://"):
        session.mount(prefix, Patient(max_retries=again))
