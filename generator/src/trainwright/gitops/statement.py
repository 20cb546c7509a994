"""One in-toto statement for each rendered set: which files, of which commit, by which tool.

It is unsigned: the forge, or cosign, signs it. docs/proof.md has the fields.
https://github.com/in-toto/attestation/blob/main/spec/v1/statement.md
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from trainwright import __version__
from trainwright.datatypes.data import Data
from trainwright.datatypes.frozen import dataclass
from trainwright.datatypes.same import digest
from trainwright.helm import own_chart

# The statement's name beside published files. It does not end in .json, .yaml or .yml, since GitOps
# engines take such files for manifests.
STATEMENT = "statement.intoto"
PREDICATE_TYPE = "https://trainwright.io/attestations/rendered/v1"
_TYPE = "https://in-toto.io/Statement/v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderedSet:
    """The files of an environment by path, and what they were rendered from.

    `base` is the commit whose rendered files were taken over unchanged; empty if none were.
    """

    environment: str
    files: Mapping[str, bytes]
    commit: str
    url: str
    base: str = ""


def text(rendered: RenderedSet) -> str:
    """Return the whole statement as JSON."""
    data = {
        "_type": _TYPE,
        "subject": subjects(rendered),
        "predicateType": PREDICATE_TYPE,
        "predicate": predicate(rendered),
    }
    return _json(data)


def subjects(rendered: RenderedSet) -> list[Data]:
    """Return the files, by path from the top and digest."""
    return [
        {"name": name, "digest": {"sha256": digest(raw)}}
        for name, raw in sorted(rendered.files.items())
    ]


def predicate(rendered: RenderedSet) -> dict[str, Data]:
    """Return what is stated about the files: their source commit, and the tool and its chart."""
    base = {"base": _commit(rendered.base)} if rendered.base else {}
    where = {"uri": rendered.url} if rendered.url else {}
    return {
        "environment": rendered.environment,
        "source": {**where, **_commit(rendered.commit)},
        **base,
        "tool": {"name": "trainwright", "version": __version__},
        "chart": {
            "name": own_chart.name(),
            "version": own_chart.version(),
            "digest": {"dirHash": own_chart.dir_hash()},
        },
    }


def for_signing(rendered: RenderedSet) -> dict[str, str]:
    """Return the statement in the forms that tools take: whole, and as predicate and subjects."""
    name = rendered.environment
    sums = (f"{digest(raw)}  {path}\n" for path, raw in sorted(rendered.files.items()))
    return {
        f"{name}.intoto.json": text(rendered),
        f"{name}.predicate.json": _json(predicate(rendered)),
        f"{name}.sha256": "".join(sums),
    }


def _commit(commit: str) -> dict[str, Data]:
    return {"digest": {"gitCommit": commit}}


def _json(data: Data) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
