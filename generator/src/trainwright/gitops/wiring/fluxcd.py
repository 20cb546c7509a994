"""Flux objects of both modes: where files come from.

Facts: fluxcd/source-controller v1.9.1, kustomize-controller v1.9.4, helm-controller v1.6.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from trainwright.datatypes.data import Data
from trainwright.datatypes.environment import GitOps, Verify
from trainwright.datatypes.pointer import Pointer
from trainwright.gitops.wiring.argocd import MISSING_URL, signed_sources
from trainwright.gitops.wiring.wiring import InvalidSetting, Site
from trainwright.objects.departure import FLUX_NAMESPACE

NAMESPACE = FLUX_NAMESPACE
INTERVAL = "10m0s"  # between two looks at the cluster
_SOURCE_INTERVAL = "1m0s"  # between two looks at the repository, where no webhook tells of changes
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LITERAL = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\Z)", re.DOTALL)  # no operator is in it


def metadata(site: Site, namespace: str, name: str) -> dict[str, Data]:
    """Return name, namespace and labels of an object of Flux."""
    return {"name": name, "namespace": namespace, "labels": site.labels}


def repository(
    metadata: dict[str, Data],
    url: str,
    revision: str,
    folder: str,
    secret: str,
    verify: Verify | None,
) -> dict[str, Data]:
    """Return a GitRepository of one folder, or an OCIRepository if the URL starts with oci://."""
    if url.startswith("oci://"):
        return oci_repository(metadata, url, revision, secret, verify)
    signed = {"mode": "HEAD", "secretRef": {"name": verify.secret}} if verify else None
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "GitRepository",
        "metadata": metadata,
        "spec": {
            "interval": _SOURCE_INTERVAL,
            "url": url,
            "ref": _reference(revision),
            "sparseCheckout": [folder],
            **_login(secret),
            **({"verify": signed} if signed else {}),
        },
    }


def oci_repository(
    metadata: dict[str, Data], url: str, tag: str, secret: str, verify: Verify | None
) -> dict[str, Data]:
    """Return an OCIRepository of one tag."""
    return {
        "apiVersion": "source.toolkit.fluxcd.io/v1",
        "kind": "OCIRepository",
        "metadata": metadata,
        "spec": {
            "interval": _SOURCE_INTERVAL,
            "url": url,
            "ref": {"tag": tag},
            **_login(secret),
            **({"verify": _verification(verify)} if verify else {}),
        },
    }


def _verification(verify: Verify) -> dict[str, Data]:
    """Return the signature that an artifact has to have."""
    identities = [
        {"issuer": identity.issuer, "subject": identity.subject} for identity in verify.identities
    ]
    return {
        "provider": verify.provider or "cosign",
        **_login(verify.secret),
        **({"matchOIDCIdentity": identities} if identities else {}),
    }


def _login(secret: str) -> dict[str, Data]:
    return {"secretRef": {"name": secret}} if secret else {}


def _reference(revision: str) -> dict[str, str]:
    if revision.startswith("refs/"):
        return {"name": revision}
    return {"commit" if _COMMIT.fullmatch(revision) else "branch": revision}


def acting(site: Site) -> dict[str, str]:
    """Return the ServiceAccount whose rights Flux uses; empty if it uses its own."""
    account = site.gitops.service_account
    return {"serviceAccountName": account} if account else {}


def unfit(site: Site) -> Iterator[InvalidSetting]:
    """Yield settings that are missing, or that only Argo CD reads."""
    gitops = site.gitops
    if not gitops.repository.url:
        yield MISSING_URL
    only_argocd = {
        Pointer("/project"): gitops.project,
        Pointer("/destination"): gitops.destination.server or gitops.destination.name,
    }
    for path in (path for path, value in only_argocd.items() if value):
        yield InvalidSetting(
            path, f"Flux has nothing like {path.dotted}", "Remove it, or use engine: argocd."
        )
    yield from _unfit_signatures(gitops)
    if gitops.notifications:
        remedy = f"Remove it, and write an Alert for the Kustomization {site.name}."
        yield InvalidSetting(
            Pointer("/notifications"), "Flux has no subscriptions: it has Alerts", remedy
        )


def _unfit_signatures(gitops: GitOps) -> Iterator[InvalidSetting]:
    """Yield what Flux would not verify: it has keys in Secrets, and identities of artifacts."""
    artifacts = {
        "repository": gitops.repository.url.startswith("oci://"),
        "chart": gitops.chart.oci,
    }
    for at, verify in signed_sources(gitops):
        source = at.parts[0]
        for name in (name for name in ("keys", "mode") if getattr(verify, name)):
            path = at / name
            remedy = "Write verify.secret instead: a Secret with the public keys."
            yield InvalidSetting(path, f"Flux does not read {path.dotted}", remedy)
        keyless = (("provider", verify.provider), ("identities", verify.identities))
        for name in (name for name, value in keyless if value and not artifacts[source]):
            path = at / name
            remedy = "Remove it: commits are signed with keys, which verify.secret names."
            yield InvalidSetting(path, f"Flux reads {path.dotted} of OCI artifacts only", remedy)
        if verify.identities and verify.provider == "notation":
            remedy = "Remove it, or use cosign: notation has a trust policy in verify.secret."
            yield InvalidSetting(at / "identities", "notation knows no identities", remedy)
        if not verify.secret and not (artifacts[source] and verify.identities):
            remedy = "Write verify.secret" + (
                " or verify.identities." if artifacts[source] else ", a Secret with public keys."
            )
            yield InvalidSetting(at, "Flux is not told who may sign", remedy)
        if artifacts[source] and verify.provider != "notation":
            yield from _unfit_expressions(at, verify)


def _unfit_expressions(at: Pointer, verify: Verify) -> Iterator[InvalidSetting]:
    """Yield expressions that match nothing, or that are found in identities of strangers, whose
    ends these choose.

    https://docs.sigstore.dev/cosign/verifying/verify/#keyless-verification-using-openid-connect
    """
    for index, identity in enumerate(verify.identities):
        for name, expression, begins, ends in (
            ("issuer", identity.issuer, "^", "$"),
            ("subject", identity.subject, "^", ""),  # of which the end may be a branch
        ):
            path = at / "identities" / str(index) / name
            bare = _LITERAL.sub("", expression)
            if why := _unbalanced(expression):
                message = f"the {name} is not a valid regular expression, {why}: {expression}"
                remedy = r"Close what is open, or write \ before a character that is meant itself."
                yield InvalidSetting(path, message, remedy)
            elif not (bare.startswith(begins) and bare.endswith(ends)) or _alternates(bare):
                message = f"the {name} of others would match too: {expression}"
                written = f"Begin it with {begins}" + (f" and end it with {ends}" if ends else "")
                remedy = f"{written}, around a group (…) where it has alternatives."
                yield InvalidSetting(path, message, remedy)


# What Python and Go both refuse, of all that Python does: the two differ in escapes and flags.
_UNBALANCED = re.compile(r"unterminated character set|missing \), unterm|unbalanced parenthesis")


def _unbalanced(expression: str) -> str:
    """Return which bracket or parenthesis of an expression is not closed or opened, or ""."""
    if r"\Q" in expression:  # behind which Go reads characters as they are
        return ""
    try:
        re.compile(expression)
    except re.error as error:
        return f"{error.msg} at {error.pos}" if _UNBALANCED.match(error.msg) else ""
    return ""


def _alternates(bare: str) -> bool:
    """Whether an expression without literals has alternatives outside of any group."""
    depth = 0
    for character in bare:
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "|" and depth == 0:
            return True
    return False
