"""A plan that is kept up to date is the one that a fresh command finds in the same files."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import git_repository
from git_repository import git
from repository import ENVIRONMENT, JOB, Repository
from trainwright.datatypes.errors import TrainwrightError
from trainwright.datatypes.layout import JobFile
from trainwright.files.git import Repository as Clone
from trainwright.plan import actions
from trainwright.plan.earlier import Earlier
from trainwright.plan.merge import PlanOptions
from trainwright.plan.model import Action
from trainwright.plan.session import PlanSession
from trainwright.plan.training import Training
from trainwright.reports.style import Style, written
from trainwright.runs import meaning
from trainwright.runs import record as records

OPTIONS = PlanOptions(against="main", head=None, today="2026-06-01")
STYLE = Style(against="main", command="trainwright plan --against main")

JOB_LINES = (
    "extends: base/shared\n", "extends: base/between\n", "extends: base/shraed\n", "extends: dev/small\n", "retries: 3\n", "retries: 4\n",
    "pool: h100\n", "pool: gone\n", "nodes: 70\n", "state: cancelled\n", "state: suspended\n", "queue: team\n", "labels: {team: vision}\n",
    "waivers: {TW717: {reason: known, until: 2026-12-31}}\n", "flags: {lr: 0.1}\n", "run: 2\n", "nodse: 2\n", "maxDuration: 4h\n",
    "files: {/etc/conf: {from: environments/dev/conf}}\n", "files: {/etc/conf: {from: conf}}\n", "files: {/etc/a: {from: conf/deep/a.json}}\n",
    "files: {/etc/a: {from: conf/deep/aa.json}}\n", "elastic: {minNodes: 1, maxNodes: 4}\n",
)  # fmt: skip
ENVIRONMENT_LINES = (
    "pools: {h100: {resource: nvidia.com/gpu, gpusPerNode: 8, capacity: 8, pricePerGpuHour: 2.5}}\n", "budget: {gpuHours: 100}\n",
    "pools: {h100: {resource: nvidia.com/gpu, defaults: {retries: 3, labels: {team: vision}, resources: {gpu: 2}}}}\n",
    "defaults: {retries: 3}\n", "defaults: {retries: 4, files: {/etc/conf: {from: conf}}}\n", "severities: {TW717: error}\n",
    "waivers: [{job: '*', rule: TW717, reason: known, until: 2026-12-31}]\n", "queues: {team: {quota: 8}}\nqueueing: kueue\n",
    "namespce: x\n", "sharedChanges: apply\n",
)  # fmt: skip
SHARED_LINES = (
    "defaults: {retries: 3}\n", "defaults: {retries: 4}\n", "defaults: []\n", "defaults: {labels: {team: vision}, maxDuration: 2h}\n",
)  # fmt: skip
BROKEN = (
    "pool:h100\n",
    "labels: {a: \n",
    "\t- x\n",
    "extends: [\n",
    "\x00",
    "retries: 3\nretries: 4\n",
)
OWN_OBJECT = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: training}\ndata: {a: b}\n"
LEDGER = "apiVersion: trainwright.io/v1alpha1\nkind: Ledger\nruns: {"
TEXTS = {
    "environments/dev/objects/own.yaml": (OWN_OBJECT, OWN_OBJECT.replace("b}", "c}"), "kind: [\n"),
    "environments/dev/conf/a.json": ("{}", '{"a": 1}'),
    "conf/deep/a.json": ("{}", '{"a": 1}'),
    "conf/b.json": ("{}", '{"b": 1}'),
    ".gitignore": ("", "*.json\n", "conf/\n", "b.json\n", "rendered/\n"),
    "conf/.gitignore": ("", "deep\n", "b.json\n"),
}
# What git ignores by besides, most of it outside of the root, where a watch reports nothing.
ELSEWHERE = {
    "clone/.gitignore": ("", "*.json\n", "conf/\n", "rendered/\n"),
    "clone/team/.gitignore": ("", "a.json\n", "one/conf/deep\n"),
    "clone/.git/info/exclude": ("", "b.json\n", "*.json\n"),
    "home/.config/git/ignore": ("", "deep\n", "a.json\n", "rendered/\n"),
    "home/.gitconfig": ("", "[core]\nexcludesFile = ~/one\n", "[include]\npath = included\n"),
    "home/included": ("", "[core]\nexcludesFile = ~/two ; as ~/one\n"),
    "home/one": ("", "conf/\n", "*.json\n"),
    "home/two": ("", "a.json\n", "b.json # no\nb.json\n"),
}
JOBS = ("dev/small", "dev/large", "prod/small", "copied/small", "base/shared", "base/between")
ENVIRONMENTS = ("dev", "prod")


class Person:
    """Somebody who edits a clone, and how the watch of a command reports it."""

    def __init__(self, top: Path, chance: random.Random, inside: str = ""):
        self.chance = chance
        self.top = git_repository.init(top)
        self.root = top / inside
        self.repository = Repository(self.root)
        for path in self._paths():
            self._write(path)
        for path in JOBS:
            self._put(
                f"environments/{path.replace('/', '/jobs/')}.yaml",
                JOB.replace("NAME", path.partition("/")[2]),
            )
        for name in ENVIRONMENTS:
            self._put(f"environments/{name}/environment.yaml", ENVIRONMENT)
        self.repository.run("render")
        git_repository.commit(self.root, "Begin")
        git(self.root, "checkout", "--quiet", "-b", "change")

    def _paths(self) -> tuple[str, ...]:
        jobs = (f"environments/{path.replace('/', '/jobs/')}.yaml" for path in JOBS)
        own = (f"environments/{name}/environment.yaml" for name in ENVIRONMENTS)
        ledgers = (f"environments/{name}/ledger.yaml" for name in ENVIRONMENTS)
        return (*jobs, *own, *ledgers, "environments/defaults.yaml", *TEXTS)

    def _put(self, path: str, text: str) -> None:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text, encoding="utf-8")

    def _write(self, path: str) -> None:
        self._put(path, self._text(path))

    def _text(self, path: str) -> str:
        """What a person may write into a file."""
        if path in TEXTS:
            return self.chance.choice(TEXTS[path])
        if path.endswith("ledger.yaml"):
            return f"{LEDGER}{self._finished(path)}}}\n"
        if path.endswith("environment.yaml"):
            text, lines = ENVIRONMENT, ENVIRONMENT_LINES
        elif path.endswith("defaults.yaml"):
            text, lines = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n", SHARED_LINES
        else:
            text, lines = JOB.replace("NAME", Path(path).stem), JOB_LINES
        text += "".join(self.chance.sample(lines, self.chance.randrange(3)))
        return text + (self.chance.choice(BROKEN) if not self.chance.randrange(6) else "")

    def _finished(self, path: str) -> str:
        """An entry for the run of a job of the same environment, if it has one."""
        records = sorted((self.root / path).parent.glob("rendered/*/run.lock"))
        if not records or self.chance.randrange(3) == 0:
            return ""
        chosen = self.chance.choice(records)
        record, job = records.parse(chosen.read_bytes()), chosen.parent.name
        own = meaning.digest(record.job, record.run) if record else "0" * 64
        found = record.object if record else f"{job}-12345678"
        return f"{found}: {{job: {job}, own: '{own}', outcome: succeeded, finished: 2026-01-01}}"

    # --- what is done, and which files and folders a watch reports ---------------------------------

    def act(self) -> set[str]:
        actions: tuple[Callable[[], set[str]], ...] = (
            self.write, self.write, self.write, self.write, self.restore, self.remove, self.render,
            self.spoil, self.copy, self.move, self.commit, self.add, self.merge_elsewhere,
            self.ignore_elsewhere, self.ignore_elsewhere, self.forget,
        )  # fmt: skip
        return self.chance.choice(actions)()

    def write(self) -> set[str]:
        path = self.chance.choice(self._paths())
        self._write(path)
        return {path}

    def restore(self) -> set[str]:
        path = self.chance.choice(git(self.root, "ls-tree", "-r", "--name-only", "main").split())
        git(self.root, "checkout", "--quiet", "main", "--", path)
        return {path}

    def remove(self) -> set[str]:
        path = self.chance.choice(self._paths())
        (self.root / path).unlink(missing_ok=True)
        return {path}

    def render(self) -> set[str]:
        before = self.repository.tree()
        self.repository.run("render")
        after = self.repository.tree()
        return {f"environments/{p}" for p in {*before, *after} if before.get(p) != after.get(p)}

    def spoil(self) -> set[str]:
        """Edit or remove what is rendered, or a record."""
        files = sorted(self.root.glob("environments/*/rendered/*/*"))
        if not files:
            return set()
        file = self.chance.choice(files)
        file.unlink() if self.chance.randrange(2) else file.write_text("<<<<<<< HEAD\n")
        return {file.relative_to(self.root).as_posix()}

    def copy(self) -> set[str]:
        """A copy of an environment with its runs: each file is reported, or the folder alone."""
        if not (self.root / "environments/dev").exists():
            return set()
        copied = self.root / "environments/copied"
        shutil.rmtree(copied, ignore_errors=True)
        shutil.copytree(self.root / "environments/dev", copied)
        return {"environments/copied"}

    def move(self) -> set[str]:
        """A folder is renamed: of what is in it nothing is reported."""
        names = (
            "environments/copied",
            "environments/dev",
            "conf",
            "conf/deep",
            "environments/dev/jobs",
        )
        one, other = self.chance.sample(names, 2)
        if not (self.root / one).exists() or other.startswith(one) or one.startswith(other):
            return set()
        shutil.rmtree(self.root / other, ignore_errors=True)
        (self.root / other).unlink(missing_ok=True)
        (self.root / other).parent.mkdir(parents=True, exist_ok=True)
        (self.root / one).rename(self.root / other)
        return {one, other, "environments/dev"} if other.count("/") > 1 else {one, other}

    def commit(self) -> set[str]:
        git(self.root, "add", "--all")
        git(self.root, "commit", "--quiet", "--allow-empty", "-m", "Go on")
        return set()

    def add(self) -> set[str]:
        """What git ignored is in its index from now on."""
        files = [path for path in self._paths() if (self.root / path).is_file()]
        for path in self.chance.sample(files, min(1, len(files))):
            git(self.root, "add", "--force", "--", path)
        return set()

    def forget(self) -> set[str]:
        """A file is no longer in the index of git, and still there."""
        for path in self.chance.sample(self._paths(), 2):
            git(self.root, "rm", "--cached", "--quiet", "--force", "--ignore-unmatch", "--", path)
        return set()

    def merge_elsewhere(self) -> set[str]:
        """The other branch moves: to what is committed here."""
        if not self.chance.randrange(3):
            git(self.root, "branch", "--force", "main", "HEAD")
        return set()

    def ignore_elsewhere(self) -> set[str]:
        """What git ignores by changes, mostly where nothing is reported."""
        path = self.chance.choice(sorted(ELSEWHERE))
        file = self.top.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self.chance.choice(ELSEWHERE[path]))
        if ".git" in file.parts or not file.is_relative_to(self.root):
            return set()
        return {file.relative_to(self.root).as_posix()}


@contextmanager
def at_home(home: Path) -> Iterator[None]:
    """As a user whose configuration of git is in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(home))
        for name in ("XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL"):
            patch.delenv(name, raising=False)
        yield


def answer(session: PlanSession, edits: set[str]) -> tuple[object, ...]:
    """All that a command would show, and whether it would end with an error."""
    try:
        found = session.plan(edits)
    except TrainwrightError as error:
        return (str(error),)
    return (
        *(written("plan", name, found, STYLE) for name in ("text", "json", "html")),
        found.blocked,
    )


def compare(folder: Path, seed: int, acts: int, patterns: tuple[str, ...] = ()) -> None:
    chance = random.Random(seed)
    with at_home(folder / "home"):
        person = Person(folder / "clone", chance, chance.choice(("", "team/one")))
        kept = PlanSession(person.root, patterns, OPTIONS)
        answer(kept, set())
        for _ in range(acts):
            edits: set[str] = set()
            for _ in range(person.chance.randrange(1, 4)):
                edits |= person.act()
            fresh = PlanSession(person.root, patterns, OPTIONS)
            assert answer(kept, edits) == answer(fresh, set())


@given(seed=st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 30)
def test_random_edits_never_leave_a_stale_plan(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    compare(tmp_path_factory.mktemp("clone"), seed, acts=6)


@pytest.mark.slow
@given(seed=st.integers(0, 2**32))
@settings(max_examples=settings.default.max_examples // 10)
def test_many_random_edits_never_leave_a_stale_plan(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    compare(tmp_path_factory.mktemp("clone"), seed, acts=12, patterns=("dev", "*/small"))


def test_a_save_of_one_job_works_out_its_change_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Thousands of jobs may change in a merge: what happens to the others stays as it was."""
    person = Person(tmp_path / "clone", random.Random(0))
    person.repository.environment("prod", "queueing: kueue\nqueues: {team: {quota: 8}}\n")
    for name in ("one", "two", "three"):
        person.repository.job(f"prod/{name}", "queue: team\n")
    git_repository.commit(person.root)
    planned: list[str] = []
    decide = actions.decide

    def noting(was: Training | None, now: Training | None) -> tuple[Action, str]:
        planned.append(now.run.object.rpartition("-")[0] if now else "")
        return decide(was, now)

    monkeypatch.setattr(actions, "decide", noting)
    kept = PlanSession(person.root, ("prod",), OPTIONS)
    kept.plan()
    assert {"one", "two", "three"} <= {*planned}
    planned.clear()
    person.repository.job("prod/two", "queue: team\nretries: 5\n")
    found = kept.plan({"environments/prod/jobs/two.yaml"})
    assert planned == ["two"]
    assert found == PlanSession(person.root, ("prod",), OPTIONS).plan()


def test_a_replaced_environment_is_read_again(tmp_path: Path) -> None:
    """Of a folder that was renamed a watch reports nothing but the folder."""
    person = Person(tmp_path / "clone", random.Random(0))
    kept = PlanSession(person.root, (), OPTIONS)
    answer(kept, set())
    dev, away = (person.root / "environments" / name for name in ("dev", "copied"))
    shutil.rmtree(away)
    dev.rename(away)
    answer(kept, {"environments/dev", "environments/copied"})
    shutil.copytree(away, dev)
    (dev / "ledger.yaml").write_text(f"{LEDGER}}}\nnonsense: 1\n")
    (dev / "objects" / "own.yaml").write_text(OWN_OBJECT.replace("settings", "others"))
    found = answer(kept, {"environments/dev"})
    assert found == answer(PlanSession(person.root, (), OPTIONS), set())
    assert "nonsense" in str(found)


def test_a_plan_that_cannot_be_made_is_made_when_it_can(tmp_path: Path) -> None:
    """Edits that were reported while there was nothing to plan count afterwards, too."""
    person = Person(tmp_path / "clone", random.Random(0))
    kept = PlanSession(person.root, ("prod/small",), OPTIONS)
    answer(kept, set())
    spec = person.root / "environments/prod/jobs/small.yaml"
    git(person.root, "branch", "--force", "main", "HEAD")
    text = spec.read_text()
    spec.unlink()
    git_repository.commit(person.root, "Without it")
    git(person.root, "branch", "--force", "main", "HEAD")
    (refused,) = answer(kept, {"environments/prod/jobs/small.yaml"})
    assert "nothing matches" in str(refused)
    spec.write_text(f"{text}retries: 7\n")
    found = answer(kept, {"environments/prod/jobs/small.yaml"})
    assert found == answer(PlanSession(person.root, ("prod/small",), OPTIONS), set())


def test_a_branch_moves_of_which_the_name_has_an_invisible_character(tmp_path: Path) -> None:
    person = Person(tmp_path / "clone", random.Random(0))
    git(person.root, "branch", "on\u200bto", "HEAD")
    options = replace(OPTIONS, against="on\u200bto")
    (person.root / "environments/prod/jobs/small.yaml").unlink()
    git_repository.commit(person.root, "Without it")
    kept = PlanSession(person.root, (), options)
    before = answer(kept, set())
    git(person.root, "branch", "--force", "on\u200bto", "HEAD")
    after = answer(kept, set())
    assert after == answer(PlanSession(person.root, (), options), set())
    assert after != before


def test_what_is_no_longer_ignored_is_planned(tmp_path: Path) -> None:
    """A folder of which git ignores another file has other files, whatever was edited."""
    person = Person(tmp_path / "clone", random.Random(0))
    person.repository.job("dev/small", "files: {/etc/conf: {from: conf}}\n")
    (person.root / ".gitignore").write_text("new.json\n")
    git_repository.commit(person.root)
    kept = PlanSession(person.root, (), OPTIONS)
    answer(kept, set())
    (person.root / "conf/new.json").write_text("{}")
    before = answer(kept, {"conf/new.json"})
    (person.root / ".gitignore").write_text("")
    after = answer(kept, {".gitignore"})
    assert after == answer(PlanSession(person.root, (), OPTIONS), set())
    assert "conf/new.json" in str(after[1])
    assert "conf/new.json" not in str(before[1])


@pytest.mark.parametrize(
    "path",
    [
        *("clone/.gitignore", "clone/team/.gitignore", "clone/.git/info/exclude"),
        *("home/.config/git/ignore", "xdg/git/ignore", "home/.gitconfig", "home/included"),
        *("excluded", "clone/relative"),
    ],
)
def test_what_git_ignores_by_elsewhere_is_noticed(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a file that is outside of the root no edit is reported."""
    ignoring, setting = "new.json\n", f"[core]\nexcludesFile = {tmp_path}/named\n"
    first = {
        "named": ignoring,
        "home/.gitconfig": "[include]\npath = included\n" if path.endswith("included") else "",
    }
    with at_home(tmp_path / "home"):
        if path.startswith("xdg"):
            monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
        person = Person(tmp_path / "clone", random.Random(0), "team/one")
        for name, text in first.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        if path in ("excluded", "clone/relative"):
            named = path.removeprefix("clone/") if "/" in path else tmp_path / path
            git(person.root, "config", "core.excludesFile", str(named))
        person.repository.job("dev/small", "files: {/etc/conf: {from: conf}}\n")
        (person.root / ".gitignore").write_text("")
        git_repository.commit(person.root)
        kept = PlanSession(person.root, (), OPTIONS)
        (person.root / "conf/new.json").write_text("{}")
        assert "conf/new.json" in str(answer(kept, set())[1])
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        is_config = file.name in (".gitconfig", "included")
        file.write_text(setting if is_config else ignoring)
        after = answer(kept, set())
        assert after == answer(PlanSession(person.root, (), OPTIONS), set())
        assert "conf/new.json" not in str(after[1])


def test_a_file_is_ignored_that_the_base_has(tmp_path: Path) -> None:
    """Which files differ stays the same where one is neither in the index nor ignored at first."""
    person = Person(tmp_path / "clone", random.Random(0))
    person.repository.job("dev/small", "files: {/etc/conf: {from: conf}}\n")
    (person.root / ".gitignore").write_text("")
    (person.root / "conf/new.json").write_text("{}")
    git_repository.commit(person.root)
    git(person.root, "branch", "--force", "main", "HEAD")
    git(person.root, "rm", "--cached", "--quiet", "conf/new.json")
    kept = PlanSession(person.root, (), OPTIONS)
    before = answer(kept, set())
    (person.root / ".git/info/exclude").write_text("new.json\n")
    after = answer(kept, set())
    assert after == answer(PlanSession(person.root, (), OPTIONS), set())
    assert after != before


def test_a_run_comes_back_to_the_job_that_had_it(tmp_path: Path) -> None:
    """Objects of the same name, recorded of a job of the same name in another environment, are
    not those of this one.
    """
    root = git_repository.init(tmp_path / "clone")
    files = JobFile("dev", "llm"), JobFile("prod", "llm")
    for file, name in zip(files, ("llm-11111111", "llm-22222222"), strict=True):
        record = root / records.path(file)
        record.parent.mkdir(parents=True)
        record.write_text(f'{{\n  "object": "{name}",\n')
    found = Earlier(Clone(root), git_repository.committed(root), "").objects(files)
    assert found == {files[0]: {"llm-11111111"}, files[1]: {"llm-22222222"}}
