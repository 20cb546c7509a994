"""Which jobs a merge touches is found out from the text of most specs: as parsing all would."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repository import ENVIRONMENT, JOB
from trainwright.datatypes.layout import DEFAULTS, JobFile, environment_path
from trainwright.files.tree import Edited, Folder
from trainwright.plan import affected
from trainwright.plan.revision import Revision
from trainwright.runs.decision import Step

_BASE = JOB.replace("NAME", "common").encode()
_OWN = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: a\n"

SPELLINGS = {
    "plain": "extends: base/common\n",
    "quoted": "extends: 'base/common'\n",
    "quoted twice": '"extends": "base/common"\n',
    "folded": "extends: >-\n  base/common\n",
    "on the next line": "extends:\n  base/common\n",
    "tagged": "extends: !!str base/common\n",
    "anchor": "labels: &a {x: base/common}\nextends: base/common\n",
    "alias": "description: &base base/common\nextends: *base\n",
    "escaped": 'extends: "base/comm\\x6fn"\n',
    "escaped slash": 'extends: "base\\/common"\n',
    "escaped line end": 'extends: "base/com\\\n  mon"\n',
    "escaped key": '"ext\\x65nds": base/common\n',
    "by another": "extends: base/between\n",
    "by one that escapes": "extends: base/escaping\n",
    "of a file that is gone": "extends: base/gone\n",
    "not at all": "",
}


def _side(files: dict[str, bytes], root: Path) -> Revision:
    return Revision(
        Edited(Folder(root), {f"environments/{path}": raw for path, raw in files.items()})
    )


def _files(own: bytes) -> dict[str, bytes]:
    between = _OWN.replace("name: a", "name: between") + "extends: base/common\n"
    escaping = _OWN.replace("name: a", "name: escaping") + 'extends: "base/c\\x6fmmon"\n'
    return {
        "prod/environment.yaml": ENVIRONMENT.encode(),
        "base/jobs/common.yaml": _BASE,
        "base/jobs/between.yaml": between.encode(),
        "base/jobs/escaping.yaml": escaping.encode(),
        "prod/jobs/a.yaml": own,
        "prod/jobs/b.yaml": JOB.replace("NAME", "b").encode(),
        "dev/environment.yaml": ENVIRONMENT.encode(),
        "dev/jobs/a.yaml": own,
    }


def _parsed(side: Revision, changed: frozenset[str]) -> frozenset[JobFile]:
    every = (file for jobs in side.survey.jobs.values() for file in jobs)
    return frozenset(f for f in every if not changed.isdisjoint(side.job(f).loaded.files))


_CHANGED = [
    DEFAULTS,
    environment_path("prod"),
    *(f"environments/base/jobs/{name}.yaml" for name in ("common", "between", "escaping", "gone")),
    *(f"environments/{job}.yaml" for job in ("prod/jobs/a", "prod/jobs/b", "dev/jobs/a")),
]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("spelling", SPELLINGS.values(), ids=SPELLINGS)
def test_a_base_is_found_however_it_is_written(
    spelling: str, encoding: str, tmp_path: Path
) -> None:
    files = _files((_OWN + spelling).encode(encoding))
    for path in _CHANGED:
        changed = frozenset({path})
        found = affected.jobs(_side(files, tmp_path), _side(files, tmp_path), changed)
        assert found == _parsed(_side(files, tmp_path), changed), path


SOURCES = {
    "plain": "from: environments/dev/my conf/in",
    "around": "from: environments/dev/my conf",
    "folded": "from: >-\n        environments/dev/my\n        conf/in",
    "on two lines": "from: environments/dev/my\n        conf/in",
    "escaped": 'from: "environments\\/dev/m\\x79 conf/in"',
    "escaped key": '"fr\\x6fm": environments/dev/my conf/in',
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.parametrize("of", ["prod/jobs/a.yaml", "prod/environment.yaml"])
def test_a_folder_beside_the_specs_is_found_however_it_is_written(
    source: str, of: str, tmp_path: Path
) -> None:
    files = _files(JOB.replace("NAME", "a").encode()) | {"dev/my conf/in/a.json": b"{}"}
    named = f"files:\n    /etc/s:\n      {source}\n"
    files[of] += (named if "jobs" in of else f"defaults:\n  {named}").encode()
    touched = {JobFile("prod", "a"), *([] if "jobs" in of else [JobFile("prod", "b")])}
    for changed in ("environments/dev/my conf/in/a.json", "environments/dev/my conf/in/new"):
        found = affected.jobs(_side(files, tmp_path), _side(files, tmp_path), frozenset({changed}))
        assert found == touched


@settings(max_examples=50)
@given(st.sets(st.sampled_from(_CHANGED)), st.sampled_from([*SPELLINGS.values()]), st.data())
def test_any_edits_touch_what_parsing_all_says(
    changed: set[str], spelling: str, data: st.DataObject
) -> None:
    files = _files((_OWN + spelling).encode())
    common = data.draw(st.sampled_from([*SPELLINGS.values()]))
    files["base/jobs/common.yaml"] = _BASE + common.encode()
    before, after = (_side(files, Path("/nonexistent")) for _ in range(2))
    found = affected.jobs(before, after, frozenset(changed))
    assert found == _parsed(_side(files, Path("/nonexistent")), frozenset(changed))


def test_few_specs_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = _files((_OWN + SPELLINGS["plain"]).encode())
    side = _side(files, tmp_path)
    read: list[str] = []
    parse = side.reader.document
    monkeypatch.setattr(side.reader, "document", lambda path: (read.append(path), parse(path))[1])
    affected.jobs(side, side, frozenset({"environments/prod/jobs/b.yaml"}))
    assert not any(path.endswith("/jobs/a.yaml") for path in read)


def test_the_job_of_a_run_is_the_one_that_its_specs_say() -> None:
    """Of every shipped run: what a plan sums up without parsing specs is what they say."""
    root = Path(__file__).parents[3]
    quick, slow = Revision(Folder(root)), Revision(Folder(root))
    for jobs in quick.survey.jobs.values():
        for file in jobs:
            resolved = slow.job(file)
            assert resolved.decision is not None
            wanted = slow.running(resolved) if resolved.decision.step is not Step.END else None
            found = quick.current_job(file)
            assert quick.asking(file).job == (found or wanted), file
            if found is not None:
                assert wanted is not None
                assert found == replace(wanted, waivers=()), file
            else:
                assert resolved.decision.step is not Step.KEEP or resolved.decision.held, file
