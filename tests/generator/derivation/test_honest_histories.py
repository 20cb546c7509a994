"""What people do in the course of their work is never taken for a forgery.

Random histories by git itself: edits of jobs and of what they share, verbs, merges, picked commits,
reverts, squashes and rebases, by two versions of the tool. Whoever checks has none of the caches of
who rendered.
"""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest
from hypothesis import settings

from git_repository import ENVIRONMENT, commit, git, init
from repository import JOB, Repository
from trainwright import __version__
from trainwright.helm import own_chart
from trainwright.runs import begin

STEPS = 8
SEQUENCES = max(30, settings.default.max_examples // 2)  # 500 each night
SHARDS = 4
JOBS = ("a", "b", "c")
VERSIONS = (__version__, "99.0.0")  # which render the same; one of them checks
LEDGER = "environments/prod/ledger.yaml"
ATTRIBUTES = """\
* text=auto eol=lf
environments/*/rendered/kustomization.yaml merge=union
environments/*/ledger.yaml merge=union
"""


def git_may_fail(root: Path, *arguments: str) -> bool:
    command = ["git", "-C", str(root), *arguments]
    env = {**os.environ, **ENVIRONMENT, "GIT_EDITOR": "true"}
    return subprocess.run(command, env=env, capture_output=True, check=False).returncode == 0


@dataclass
class History:
    """A repository with a branch of work, where by chance one thing happens after the other."""

    repository: Repository
    chance: Random
    done: Counter[str] = field(default_factory=Counter)
    log: list[str] = field(default_factory=list)

    @property
    def root(self) -> Path:
        return self.repository.root

    def begin(self) -> None:
        init(self.root)
        (self.root / ".gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
        self.repository.environment("prod")
        for name in JOBS:
            self.repository.job(f"prod/{name}")
        self.render()
        commit(self.root, "Begin")
        git(self.root, "checkout", "--quiet", "-b", "work")

    def render(self) -> None:
        done = self.repository.run("render")
        assert done.exit_code == 0, (self.log, done.output)

    def spec(self, job: str) -> Path:
        return self.root / f"environments/prod/jobs/{job}.yaml"

    def job(self) -> str:
        names = sorted(path.stem for path in (self.root / "environments/prod/jobs").iterdir())
        return self.chance.choice(names)

    # --- edits ---------------------------------------------------------------------------------

    def edit(self) -> None:
        path = self.spec(self.job())
        lines = path.read_text(encoding="utf-8").splitlines()
        value = self.chance.randint(1, 4)
        lines = [f"nodes: {value}" if line.startswith("nodes:") else line for line in lines]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.finish()

    def comment(self) -> None:
        path = self.spec(self.job())
        text = path.read_text(encoding="utf-8")
        path.write_text(f"{text}# {self.chance.random()}\n", encoding="utf-8")
        self.finish()

    def share(self) -> None:
        value = self.chance.randint(10, 90)
        text = (
            "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
            f"defaults: {{gracePeriod: {value}s}}\n"
        )
        self.repository.write("defaults.yaml", text)
        self.finish()

    def add(self) -> None:
        name = f"n{self.chance.randint(0, 99)}"
        self.spec(name).write_text(JOB.replace("NAME", name), encoding="utf-8")
        self.finish()

    def remove(self) -> None:
        names = sorted((self.root / "environments/prod/jobs").iterdir())
        if len(names) > 2:
            self.chance.choice(names).unlink()
        self.finish()

    def verb(self) -> None:
        verb = self.chance.choice(("suspend", "resume", "cancel", "rerun", "set", "retire"))
        more = {"set": ["--max-duration", "+1h"], "retire": ["--outcome", "succeeded"]}.get(
            verb, []
        )
        self.repository.run(verb, f"prod/{self.job()}", *more)
        self.finish()

    def finish(self) -> None:
        """Render, sometimes in a commit of its own, or not before more is edited."""
        if self.chance.random() < 0.2:
            commit(self.root, "Specs alone")
        self.render()
        commit(self.root, "An edit")

    # --- history -------------------------------------------------------------------------------

    def main_moves(self) -> None:
        git(self.root, "checkout", "--quiet", "main")
        self.chance.choice((self.edit, self.add, self.share, self.verb))()
        git(self.root, "checkout", "--quiet", "work")

    def merge_main(self) -> None:
        self.join("merge", "--no-ff", "--no-edit", "main")

    def pick(self) -> None:
        """A commit of another branch, which goes away then."""
        git(self.root, "checkout", "--quiet", "-b", "other", "main")
        self.chance.choice((self.edit, self.add, self.verb))()
        git(self.root, "checkout", "--quiet", "work")
        self.join("cherry-pick", "--allow-empty", "--keep-redundant-commits", "other")
        git(self.root, "branch", "--quiet", "-D", "other")

    def revert(self) -> None:
        own = git(self.root, "rev-list", "--no-merges", "main..HEAD").split()
        if own:
            self.join("revert", "--no-edit", self.chance.choice(own))

    def rebase(self) -> None:
        if not git_may_fail(self.root, "rebase", "--quiet", "main"):
            git(self.root, "rebase", "--abort")
        self.render()
        commit(self.root, "Rendered after a rebase")

    def squash(self) -> None:
        base = git(self.root, "merge-base", "main", "HEAD").strip()
        git(self.root, "reset", "--quiet", "--soft", base)
        self.render()
        self._forget(base)
        self.render()
        commit(self.root, "Squashed")

    def _forget(self, base: str) -> None:
        """Take out of the ledger what began and ended in commits that are gone: none of it ran."""
        ledger = self.root / LEDGER
        if not ledger.exists():
            return
        records = "environments/prod/rendered/*/run.lock"
        known = "".join(path.read_text(encoding="utf-8") for path in self.root.glob(records))
        for path in git(self.root, "ls-tree", "-r", "--name-only", base).splitlines():
            if path.endswith("/run.lock") or path == LEDGER:
                known += git(self.root, "show", f"{base}:{path}")
        lines = ledger.read_text(encoding="utf-8").splitlines(keepends=True)
        entries = (line for line in lines if line.startswith("  ") and "{" in line)
        lost = {line for line in entries if line.partition(":")[0].strip() not in known}
        left = [line for line in lines if line not in lost]
        if any(line.startswith("  ") for line in left):
            ledger.write_text("".join(left), encoding="utf-8")
        elif lost:
            ledger.unlink()

    def land(self) -> None:
        git(self.root, "checkout", "--quiet", "main")
        self.join("merge", "--no-ff", "--no-edit", "work")
        git(self.root, "checkout", "--quiet", "-B", "work")

    def join(self, *command: str) -> None:
        """Combine commits, each conflict resolved to a side in the specs, and rendered again."""
        if not git_may_fail(self.root, *command):
            side = self.chance.choice(("--ours", "--theirs"))
            for path in git(self.root, "diff", "--name-only", "--diff-filter=U").splitlines():
                if not git_may_fail(self.root, "checkout", side, "--", path):
                    git_may_fail(self.root, "rm", "--quiet", "--force", "--", path)
        self.render()
        commit(self.root, "Joined")

    def step(self) -> None:
        edits = (self.edit, self.edit, self.comment, self.share, self.add, self.remove, self.verb)
        joins = (self.main_moves, self.merge_main, self.pick, self.revert, self.rebase, self.squash)
        act: Callable[[], None] = self.chance.choice((*edits, *edits, *joins, *joins, self.land))
        self.log.append(act.__name__)
        act()
        self.done[act.__name__] += 1


def _play(seed: int, root: Path, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    history = History(Repository(root / f"repository-{seed}"), Random(seed))
    history.begin()
    for number in range(STEPS):
        with monkeypatch.context() as author:
            version = history.chance.choice(VERSIONS)
            author.setattr(begin, "__version__", version)
            author.setattr(own_chart, "version", lambda version=version: version)
            history.step()
        with monkeypatch.context() as other:
            other.setenv("XDG_CACHE_HOME", str(root / f"cache-{seed}-{number}"))
            done = history.repository.run("render", "--check", "--against", "main")
            assert done.exit_code == 0, (seed, history.log, done.output)
            checked = history.repository.run("check", "--against", "main")
            assert "TW057" not in checked.output, (seed, history.log, checked.output)
    return history.done


def test_a_few_histories_are_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(2):
        _play(seed, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("shard", range(SHARDS))
def test_honest_histories_are_believed(
    shard: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: Counter[str] = Counter()
    for seed in range(shard, SEQUENCES, SHARDS):
        done += _play(seed, tmp_path, monkeypatch)
    assert len(done) >= 12
