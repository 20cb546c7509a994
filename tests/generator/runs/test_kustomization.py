"""The list of manifests, merged by git after any two changes of different jobs."""

from __future__ import annotations

import itertools
import os
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from trainwright.runs import kustomization
from trainwright.runs.record import Record
from trainwright.setup.init import repository as new

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


def runs_of(jobs: Targets) -> kustomization.Runs:
    """The run of a job without a target has ended, and only its record is there."""
    return {
        job: Record(
            object=job,
            target=target or "pytorchjob",
            state="active" if target else "cancelled",
            trainwright="",
            chart="",
            source="",
            job={},
            inherited={},
            environment={},
            files=files,
        )
        for job, target in jobs.items()
        for files in [{"values.yaml": "", f"{target}.yaml": ""} if target else {}]
    }


def written(jobs: Targets) -> str:
    return kustomization.written("prod", runs_of(jobs))


def is_right(jobs: Targets, present: str) -> bool:
    return kustomization.is_right("prod", runs_of(jobs), present)


def entries(text: str) -> list[str]:
    found = yaml.safe_load(text)["resources"]
    assert isinstance(found, list)
    return found


def manifests(jobs: Targets) -> list[str]:
    return [f"{job}/{target}.yaml" for job, target in jobs.items() if target]


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


def ends(name: str) -> Change:
    """Retired or cancelled: its record stays."""
    return lambda jobs: {**jobs, name: ""}


def moves(name: str) -> Change:
    return lambda jobs: {**jobs, name: "trainjob"}


# Each side touches jobs of its own; all are neighbours of those of the other.
OURS: dict[str, Change] = {
    "adds in front": adds("bb"),
    "adds behind": adds("d"),
    "adds on both sides": adds("bb", "d"),
    "retires": ends("c"),
    "changes the target": moves("c"),
    "retires and adds": lambda jobs: ends("c")(adds("bb", "d")(jobs)),
}
THEIRS: dict[str, Change] = {
    "adds in front": adds("b"),
    "adds behind": adds("dd"),
    "adds on both sides": adds("b", "dd"),
    "adds several": adds("b", "ba", "ca", "da", "dd"),
    "retires the one in front": ends("a"),
    "retires the one behind": ends("e"),
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
        sides = [written(change(jobs)) for change in (ours, theirs)]
        after = repository.merged(text, *sides)
        expected = theirs(ours(jobs))
        assert sorted(entries(after)) == sorted(manifests(expected)), (first, second)
        assert is_right(expected, after), (first, second)  # `render --check` passes


def test_it_says_what_the_records_say() -> None:
    text = written({"c": "jobset", "a": "pytorchjob", "b": "", "d": "compose"})
    assert entries(text) == ["a/pytorchjob.yaml", "c/jobset.yaml"]
    assert [line for line in text.splitlines()[2:] if line.startswith("#")] == ["# a", "# b", "# c"]


def test_nothing_to_apply_is_an_empty_list() -> None:
    assert entries(written({})) == entries(written({"a": ""})) == []


def test_no_other_list_is_right() -> None:
    jobs = {"a": "pytorchjob", "b": "pytorchjob"}
    text = written(jobs)
    assert is_right(jobs, text)
    for edited in (
        text.replace("resources", "namespace: other\nresources"),
        text.replace("a/", "b/"),
        f"{text}# more\n",
        f"<<<<<<< ours\n{text}=======\n{text}>>>>>>> theirs\n",
    ):
        assert not is_right(jobs, edited)
