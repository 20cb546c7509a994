"""The list of manifests, merged by git after any two changes of different jobs."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from trainwright.runs import kustomization
from trainwright.runs.record import RunFiles, Unrecorded
from trainwright.setup.init import repository as new
from trainwright.specs.tree import NOTHING

FILE = "environments/prod/rendered/kustomization.yaml"
ATTRIBUTES = (new.FILES / ".gitattributes").read_text(encoding="utf-8")
_ENVIRONMENT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_NAME": "Ada" for who in ("AUTHOR", "COMMITTER")},
    **{f"GIT_{who}_EMAIL": "ada@example.com" for who in ("AUTHOR", "COMMITTER")},
}

Targets = Mapping[str, str]  # the target of each job that has manifests, by its name


def written(jobs: Targets, present: str = "") -> str:
    runs = {
        job: Unrecorded(job, target, RunFiles(NOTHING, job, files, intact=True))
        for job, target in jobs.items()
        for files in [{"values.yaml": "", f"{target}.yaml": ""}]
    }
    return kustomization.written("prod", runs, present)


def entries(text: str) -> list[str]:
    found = yaml.safe_load(text)["resources"]
    assert isinstance(found, list)
    return found


def manifests(jobs: Targets) -> list[str]:
    return [f"{job}/{target}.yaml" for job, target in jobs.items()]


class Repository:
    """Three commits of the list, two of which are merged by git."""

    def __init__(self, root: Path):
        self.root = root
        self._git("init", "-q")
        (root / FILE).parent.mkdir(parents=True)
        (root / ".gitattributes").write_text(ATTRIBUTES, encoding="utf-8")
        self._git("add", ".gitattributes")

    def _git(self, *arguments: str) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.root, env=_ENVIRONMENT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.strip()

    def _commit(self, text: str, *parents: str) -> str:
        (self.root / FILE).write_text(text, encoding="utf-8")
        self._git("add", "-A")
        tree = self._git("write-tree")
        return self._git("commit-tree", tree, *(f"-p{parent}" for parent in parents), "-m", "-")

    def merged(self, base: str, ours: str, theirs: str) -> str:
        first = self._commit(base)
        other = self._commit(theirs, first)
        self._git("update-ref", "HEAD", self._commit(ours, first))
        self._git("merge", "-q", "--no-edit", other)
        return (self.root / FILE).read_text(encoding="utf-8")


Change = Callable[[Targets], Targets]


def adds(*names: str) -> Change:
    return lambda jobs: {**jobs, **dict.fromkeys(names, "pytorchjob")}


def goes(name: str) -> Change:
    """Retired, cancelled or deleted."""
    return lambda jobs: {job: target for job, target in jobs.items() if job != name}


def renames(old: str, new: str) -> Change:
    return lambda jobs: goes(old)(adds(new)(jobs))


def moves(name: str) -> Change:
    return lambda jobs: {**jobs, name: "trainjob"}


# Each side touches jobs of its own; all are neighbours of those of the other.
OURS: dict[str, Change] = {
    "adds in front": adds("bb"),
    "adds behind": adds("d"),
    "adds on both sides": adds("bb", "d"),
    "retires": goes("c"),
    "renames": renames("c", "cc"),
    "changes the target": moves("c"),
    "retires and adds": lambda jobs: goes("c")(adds("bb", "d")(jobs)),
}
THEIRS: dict[str, Change] = {
    "adds in front": adds("b"),
    "adds behind": adds("dd"),
    "adds on both sides": adds("b", "dd"),
    "adds several": adds("b", "ba", "ca", "da", "dd"),
    "retires the one in front": goes("a"),
    "retires the one behind": goes("e"),
    "renames the one behind": renames("e", "da"),
    "changes the target of the one behind": moves("e"),
}
BASES: dict[str, tuple[str, ...]] = {
    "three": ("a", "c", "e"),
    "c alone": ("c",),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("turned", [False, True], ids=["", "the other way round"])
def test_two_changes_of_different_jobs_merge(tmp_path: Path, base: str, turned: bool) -> None:
    repository = Repository(tmp_path)
    jobs = dict.fromkeys(BASES[base], "pytorchjob")
    text = written(jobs)
    for one, other in itertools.product(OURS.items(), THEIRS.items()):
        if base == "c alone" and not other[0].startswith("adds"):
            continue
        (first, ours), (second, theirs) = (other, one) if turned else (one, other)
        sides = [written(change(jobs), text) for change in (ours, theirs)]
        after = repository.merged(text, *sides)
        expected = theirs(ours(jobs))
        assert sorted(entries(after)) == sorted(manifests(expected)), (first, second)
        assert written(expected, after) == after, (first, second)  # `render --check` passes


def test_what_went_before_the_branches_began_keeps_them_apart(tmp_path: Path) -> None:
    """Conflicts on both sides of a job that has no manifest are two."""
    text = written(dict.fromkeys("ac", "pytorchjob"), written(dict.fromkeys("abc", "pytorchjob")))
    jobs = dict.fromkeys("ac", "pytorchjob")
    ours, theirs = adds("aa", "bx")(jobs), adds("ab", "by")(jobs)
    after = Repository(tmp_path).merged(text, written(ours, text), written(theirs, text))
    both = {**ours, **theirs}
    assert sorted(entries(after)) == sorted(manifests(both))
    assert written(both, after) == after


_NAMES = st.sampled_from(["a", "b", "bb", "c", "e", "z"])
_JOBS = st.dictionaries(_NAMES, st.sampled_from(["pytorchjob", "jobset", "compose"]))


@given(st.lists(_JOBS, min_size=1, max_size=6))
def test_a_list_is_right_whatever_was_in_it_before(states: list[dict[str, str]]) -> None:
    text = ""
    for jobs in states:
        before = list(_comments(text))
        text = written(jobs, text)
        kept = {job: target for job, target in jobs.items() if target != "compose"}
        assert sorted(entries(text)) == sorted(manifests(kept))
        assert written(jobs, text) == text
        now = list(_comments(text))
        assert [line for line in now if line in before] == before  # none went, none was moved


def _comments(text: str) -> Iterator[str]:
    return (line for line in text.splitlines()[2:] if line.startswith("#"))


def test_new_jobs_are_in_order() -> None:
    text = written(dict.fromkeys("ca", "pytorchjob"))
    text = written(dict.fromkeys("cab", "pytorchjob"), text)
    assert entries(text) == ["a/pytorchjob.yaml", "b/pytorchjob.yaml", "c/pytorchjob.yaml"]


def test_lines_of_somebody_are_not_kept() -> None:
    jobs = {"a": "pytorchjob"}
    text = written(jobs)
    for edited in (
        text.replace("resources", "namespace: other\nresources"),
        text.replace("a/", "b/"),
        f"{text}# more\n",
        f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n",
    ):
        assert written(jobs, edited) == text


def test_line_ends_of_windows_are_not_an_edit() -> None:
    text = written({"a": "pytorchjob"})
    assert written({"a": "pytorchjob"}, text.replace("\n", "\r\n")) == text
