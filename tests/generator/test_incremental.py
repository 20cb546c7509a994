"""A check that is kept up to date finds what a cold one finds in the same files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from repository import ENVIRONMENT, JOB, Repository
from trainwright.datatypes.errors import SelectionError
from trainwright.files.tree import Edited, Folder
from trainwright.render import build
from trainwright.render.build import BuildOptions
from trainwright.render.incremental import IncrementalCheck
from trainwright.runs.workspace import Workspace

TODAY = "2026-06-01"

JOBS = (
    "dev/jobs/small.yaml",
    "dev/jobs/large.yaml",
    "prod/jobs/small.yaml",
    "base/jobs/shared.yaml",
)
ENVIRONMENTS = ("dev/environment.yaml", "prod/environment.yaml", "base/environment.yaml")
LINES = (
    "extends: base/shared\n", "extends: dev/small\n", "extends: other/none\n", "retries: 3\n", "retries: 4\n",
    "pool: h100\n", "pool: gone\n", "nodes: 70\n", "state: cancelled\n", "state: suspended\n", "queue: team\n",
    "labels: {team: vision}\n", "labels: {team: null}\n", "waivers: {TW717: {reason: known, until: 2026-12-31}}\n",
    "waivers: {TW999: {reason: known, until: 2020-12-31}}\n", "flags: {lr: 0.1}\n", "run: 2\n", "nodse: 2\n",
    "files: {/etc/a.json: {from: environments/dev/conf/a.json}}\n",
    "volumes: {data: {claim: data, mountPath: /data}}\n", "maxDuration: 4h\n",
    "volumes: {data: {create: {size: 1Gi}, mountPath: /data}}\n",
)  # fmt: skip
ENVIRONMENT_LINES = (
    "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 8}}\n",
    "pools: {h100: {resource: nvidia.com/gpu, defaults: {retries: 3, labels: {team: vision}}}}\n", "defaults: {retries: 3}\n",
    "defaults: {retries: 4, labels: {team: vision}}\n", "severities: {TW717: error}\n", "severities: {TW998: error}\n",
    "waivers: [{job: '*', rule: TW717, reason: known, until: 2026-12-31}]\n", "queues: [team]\n", "namespce: x\n",
)  # fmt: skip
DEFAULTS = (
    "defaults: {retries: 3}\n", "defaults: {retries: 4}\n", "# nothing\n\ndefaults: {retries: 3}\n", "defaults: []\n",
    "defaults: {labels: {team: vision}, maxDuration: 2h}\n",
)  # fmt: skip
BROKEN = (
    "pool:h100\n",
    "labels: {a: \n",
    "\t- x\n",
    "'",
    "extends: [\n",
    "\x00",
    "retries: 3\nretries: 4\n",
)
OBJECTS = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {a: b}\n", "kind: [\n", "",
    "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: small-data}\nspec: {accessMode: [x]}\n",
)  # fmt: skip
LEDGERS = (
    "apiVersion: trainwright.io/v1alpha1\nkind: Ledger\nruns: {}\n",
    "apiVersion: trainwright.io/v1alpha1\nkind: Ledger\n"
    f"runs: {{gone-12345678: {{job: gone, own: '{'0' * 64}', outcome: succeeded}}}}\n",
    "runs: 1\n",
)


OTHERS = {
    "dev/ledger.yaml": LEDGERS,
    "dev/objects/own.yaml": OBJECTS,
    "dev/conf/a.json": ("{}", '{"a": 1}'),
}


def _text(path: str, chance: random.Random) -> str:
    """What a user may write into a file."""
    own: tuple[str, ...]
    if path.endswith("environment.yaml"):
        text, own = ENVIRONMENT, ENVIRONMENT_LINES
    elif "/jobs/" in path:
        text, own = JOB.replace("NAME", Path(path).stem), LINES
    elif path in OTHERS:
        return chance.choice(OTHERS[path])
    else:
        return "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n" + chance.choice(DEFAULTS)
    text += "".join(chance.sample(own, chance.randrange(4)))
    if not chance.randrange(4):
        text += chance.choice(BROKEN)
    return "# moved\n" + text if chance.randrange(2) else text


class Editor:
    """Random edits, some saved and some not, of a repository that is checked as it changes."""

    def __init__(self, repository: Repository, chance: random.Random):
        self.repository, self.chance = repository, chance
        self.folder = Folder(repository.root)
        self.unsaved: dict[str, bytes] = {}
        self.check = IncrementalCheck(Workspace(self.tree))

    @property
    def tree(self) -> Edited:
        return Edited(self.folder, dict(self.unsaved))

    def step(self) -> None:
        do = self.chance.choice(
            (self.write, self.type, self.close, self.remove, self.render, self.some)
        )
        changed = do()
        self.check.edit(changed, self.tree)

    def _path(self) -> str:
        return self.chance.choice(
            (*JOBS, *JOBS, *ENVIRONMENTS[:2], "defaults.yaml", *OTHERS, *ENVIRONMENTS)
        )

    def write(self) -> set[str]:
        path = self._path()
        self.repository.write(path, _text(path, self.chance))
        return {f"environments/{path}"}

    def type(self) -> set[str]:
        path = f"environments/{self._path()}"
        self.unsaved[path] = _text(path.removeprefix("environments/"), self.chance).encode()
        return {path}

    def close(self) -> set[str]:
        closed = set(self.unsaved)
        self.unsaved.clear()
        return closed

    def remove(self) -> set[str]:
        path = self._path()
        (self.repository.root / "environments" / path).unlink(missing_ok=True)
        return {f"environments/{path}"}

    def render(self) -> set[str]:
        before = self.repository.tree()
        self.repository.run("render")
        for record in self.repository.root.glob("environments/*/rendered/*/run.lock"):
            if not self.chance.randrange(8):
                record.write_text("<<<<<<< HEAD\n")
            elif not self.chance.randrange(8):
                record.unlink()
        after = self.repository.tree()
        return {f"environments/{p}" for p in {*before, *after} if before.get(p) != after.get(p)}

    def some(self) -> set[str]:
        """Check a few jobs, and go on before the others are."""
        for file in self.chance.sample(sorted(self.check.stale), k=len(self.check.stale) // 2):
            self.check.check(file)
        self.check.refresh(TODAY)
        return set()

    def compare(self) -> None:
        while self.check.stale:
            self.check.check(next(iter(self.check.stale)))
        self.check.refresh(TODAY)
        options = BuildOptions(today=TODAY, use_cache=False)
        found = list(self.check.everything())
        if not self.check.workspace.survey.jobs and not found:  # a command has nothing to select
            with pytest.raises(SelectionError, match="no environment"):
                build.build(
                    self.repository.root, (), options, specs=self.tree, rendered=self.folder
                )
            return
        cold = build.build(self.repository.root, (), options, specs=self.tree, rendered=self.folder)
        assert found == list(cold.findings)


@given(seed=st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 6)
def test_random_edits_never_leave_a_stale_finding(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance = random.Random(seed)
    repository = Repository(tmp_path_factory.mktemp("repository"))
    for path in (*JOBS, *ENVIRONMENTS[:2]):
        repository.write(path, _text(path, chance))
    editor = Editor(repository, chance)
    for _ in range(12):
        for _ in range(chance.randrange(1, 4)):
            editor.step()
        editor.compare()


def test_files_of_a_run_without_a_record_are_an_unknown_run(tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    repository.environment("dev")
    repository.job("dev/small")
    assert repository.run("render").exit_code == 0
    editor = Editor(repository, random.Random(0))
    editor.compare()
    (tmp_path / "environments/dev/rendered/small/run.lock").unlink()
    editor.check.edit({"environments/dev/rendered/small/run.lock"}, editor.tree)
    editor.compare()
    assert list(editor.check.everything()) == []
    repository.job("dev/small", "podLabels: {another: run}\n")
    editor.check.edit({"environments/dev/jobs/small.yaml"}, editor.tree)
    editor.compare()
    assert [found.rule for found in editor.check.everything()] == ["TW054"]
