"""Every outcome of a plan has a cause, with the file and the line of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import git_repository
from git_repository import git
from repository import Copied, Repository

POOLS = """\
pools:
  p: {nodeSelector: {a: b}}
"""
IMAGE = "registry.example.com/beside:1"
BASE = "apiVersion: trainwright.io/v1alpha1\nkind: JobSpec\nname: llm\n"


def beside(*names: str) -> str:
    return "initContainers:\n" + "".join(f"  {name}: {{image: {IMAGE}}}\n" for name in names)


@pytest.fixture
def repository(tmp_path: Path, copied: Copied) -> Repository:
    """prod/a extends a base and adds to it, prod/b has all of its own; both are rendered."""
    return copied(_begin, tmp_path)


def _begin(folder: Path) -> None:
    made = Repository(git_repository.init(folder))
    made.environment("prod", POOLS)
    made.write("base/jobs/llm.yaml", f"{BASE}flags: {{epochs: 3}}\n{beside('x', 'y')}")
    made.job("prod/a", f"extends: base/llm\npool: p\n{beside('z')}")
    made.job("prod/b", beside("x", "y"))
    committed(made)


def committed(repository: Repository) -> None:
    assert repository.run("render").exit_code == 0
    git_repository.commit(repository.root)


def edit(repository: Repository, path: str, old: str, new: str) -> None:
    full = repository.root / "environments" / path
    text = full.read_text(encoding="utf-8")
    assert old in text
    full.write_text(text.replace(old, new), encoding="utf-8")


def causes(repository: Repository, against: str = "HEAD") -> dict[str, tuple[str, list[str]]]:
    """By job what happens, and the places with the paths of why; each is a line that is there."""
    done = repository.run("plan", "--against", against, "-o", "json")
    data: dict[str, Any] = json.loads(done.stdout)["plan"]
    found = {}
    for change in data["changes"]:
        assert change["causes"], change
        for cause in change["causes"]:
            full = repository.root / cause["place"]["file"]
            lines = full.read_text(encoding="utf-8").splitlines() if full.exists() else None
            assert lines is None or 1 <= cause["place"]["line"] <= max(1, len(lines))
        said = [
            f"{one['place']['file'].removeprefix('environments/')}:{one['place']['line']} "
            f"{one['path']}"
            for one in change["causes"]
        ]
        found[change["job"]] = change["action"], said
    text = repository.run("plan", "--against", against).output
    markdown = repository.run("plan", "--against", against, "-o", "markdown").output
    for _, places in found.values():
        for place in places:
            assert place.partition(" ")[0] in text
            assert place.partition(" ")[0] in markdown
    return found


def test_another_order_of_containers_in_a_base(repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", beside("x", "y"), beside("y", "x"))
    place = "base/jobs/llm.yaml:5 initContainers"
    assert causes(repository) == {"prod/a": ("outdated", [place])}
    listed = repository.run("list", "jobs").output
    assert "initContainers (environments/base/jobs/llm.yaml:5:1)" in listed


def test_another_order_of_containers_of_its_own(repository: Repository) -> None:
    edit(repository, "prod/jobs/b.yaml", beside("x", "y"), beside("y", "x"))
    place = "prod/jobs/b.yaml:10 initContainers"
    assert causes(repository) == {"prod/b": ("new run", [place])}


def test_one_container_more_is_no_other_order(repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", beside("x", "y"), beside("w", "x", "y"))
    assert causes(repository) == {
        "prod/a": ("outdated", ["base/jobs/llm.yaml:6 initContainers.w.image"])
    }


@pytest.mark.parametrize("behind", [False, True], ids=["up to date", "behind"])
def test_a_pool_under_another_name(repository: Repository, behind: bool) -> None:
    if behind:
        edit(repository, "prod/environment.yaml", "{a: b}", "{a: c}")
        committed(repository)
    edit(repository, "prod/environment.yaml", "  p: {", "  q: {")
    edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: q")
    found = causes(repository)
    assert found.keys() == ({"prod/a"} if behind else set())
    if behind:
        assert "prod/jobs/a.yaml:11 pool" in found["prod/a"][1]


def test_a_line_of_its_own_that_waits_is_its_own_row(repository: Repository) -> None:
    """No shared file outdates it, although the same merge edits one that it reads."""
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed(repository)
    edit(repository, "prod/environment.yaml", "  p: {", "  q: {")
    edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: q")
    assert causes(repository) == {"prod/a": ("outdated", ["prod/jobs/a.yaml:11 pool"])}
    text = repository.run("plan", "--against", "HEAD").stdout
    assert "\nprod/a  outdated: " in text
    assert "outdates" not in text


def test_a_value_of_its_own_that_the_base_has_had_for_a_while(repository: Repository) -> None:
    """The effective value is what it was; what the run began with is another one."""
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed(repository)
    edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: p\nflags: {epochs: 5}")
    assert causes(repository) == {"prod/a": ("new run", ["prod/jobs/a.yaml:12 flags.epochs"])}


@pytest.mark.parametrize("rerun", [False, True], ids=["edit", "rerun"])
def test_a_run_takes_what_earlier_edits_of_a_base_left_for_it(
    repository: Repository, rerun: bool
) -> None:
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed(repository)
    waited = "base/jobs/llm.yaml:4 flags.epochs"
    if rerun:
        assert repository.run("rerun", "prod/a").exit_code == 0
        assert causes(repository) == {"prod/a": ("new run", ["prod/jobs/a.yaml:14 run", waited])}
    else:
        edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: p\nflags: {lr: 1}")
        own = "prod/jobs/a.yaml:12 flags.lr"
        assert causes(repository) == {"prod/a": ("new run", [own, waited])}


def test_the_edit_of_a_merge_is_named_before_what_waited(repository: Repository) -> None:
    """And what waited is marked as such, since a reviewer looks for it in the merge."""
    flags = "{epochs: 3, batch: 1, lr: 1}"
    edit(repository, "base/jobs/llm.yaml", "{epochs: 3}", flags)
    repository.job("prod/a", f"extends: base/llm\npool: p\nrun: 2\n{beside('z')}")
    committed(repository)
    edit(repository, "base/jobs/llm.yaml", flags, "{epochs: 5, batch: 2, lr: 3}")
    committed(repository)
    edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: p\nflags: {lr: 3}")
    own, base = "prod/jobs/a.yaml:12 flags.lr", "base/jobs/llm.yaml:4 flags."
    assert causes(repository) == {"prod/a": ("new run", [own, f"{base}epochs", f"{base}batch"])}
    text = repository.run("plan", "--against", "HEAD").stdout
    assert "  flags.lr: 1 → 3  (" in text
    assert "  flags.epochs: 3 → 5, changed earlier  (" in text


@pytest.mark.parametrize("shared", ["hold", "start"])
def test_a_line_of_its_own_decides_before_what_is_shared(
    shared: str, repository: Repository
) -> None:
    """Both are in one merge: the run begins with both, and not because of what is shared."""
    edit(repository, "prod/environment.yaml", "namespace:", f"sharedChanges: {shared}\nnamespace:")
    repository.job("prod/c", "extends: base/llm\n")
    committed(repository)
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    edit(repository, "prod/jobs/a.yaml", "nodes: 2", "nodes: 3")
    found = causes(repository)
    own, base = "prod/jobs/a.yaml:8 nodes", "base/jobs/llm.yaml:4 flags.epochs"
    assert found["prod/a"] == ("new run", [own, base])
    text = repository.run("plan", "--against", "HEAD").stdout
    begins = "is read by 2 jobs of this plan, and begins 1 new run\n"
    reach = "outdates 1 run: " if shared == "hold" else begins
    assert f"\nenvironments/base/jobs/llm.yaml {reach}" in text


@pytest.mark.parametrize("edited", ["tag", "digest"])
def test_another_tag_beside_a_digest_has_the_same_content(
    edited: str, repository: Repository
) -> None:
    """Of what a base changes, and a job takes with its next run."""
    was, now = (f"digest: 'sha256:{digit * 64}'" for digit in "12")
    image = f"image: {{repository: registry.example.com/a, tag: v1, {was}}}\n"
    edit(repository, "base/jobs/llm.yaml", "flags:", f"{image}flags:")
    repository.job("prod/c", "extends: base/llm\n")
    path = repository.root / "environments/prod/jobs/c.yaml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("image:")))
    committed(repository)
    edit(repository, "base/jobs/llm.yaml", "tag: v1", "tag: v2")
    if edited == "digest":
        edit(repository, "base/jobs/llm.yaml", was, now)
    text = repository.run("plan", "--against", "HEAD").stdout
    same = "; the next image of prod/c has the same content: the digest decides, not the tag\n"
    are = "is" if edited == "tag" else "are"
    assert f"prod/c {are} outdated until the next run" in text
    assert (same in text) is (edited == "tag")


def test_a_value_that_is_the_bases_again(repository: Repository) -> None:
    """The base is not edited, of which the run is behind from now on."""
    edit(repository, "prod/jobs/a.yaml", "pool: p", "pool: p\nflags: {epochs: 3}")
    committed(repository)
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed(repository)
    edit(repository, "prod/jobs/a.yaml", "flags: {epochs: 3}\n", "")
    found = causes(repository)
    assert found["prod/a"][1] == ["base/jobs/llm.yaml:4 flags.epochs"]


def test_shared_changes_that_start_runs(repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", "epochs: 3", "epochs: 5")
    committed(repository)
    edit(repository, "prod/environment.yaml", "namespace:", "sharedChanges: start\nnamespace:")
    waited = "base/jobs/llm.yaml:4 flags.epochs"
    reasons = ["prod/environment.yaml:3 sharedChanges", waited]
    assert causes(repository) == {"prod/a": ("new run", reasons)}


def _retire(repository: Repository) -> None:
    assert repository.run("retire", "prod/b").exit_code == 0


def _forget(repository: Repository) -> None:
    _retire(repository)
    committed(repository)
    (repository.root / "environments/prod/ledger.yaml").unlink()


def _forget_and_consent(repository: Repository) -> None:
    _forget(repository)
    assert repository.run("render", "--new-runs").exit_code == 0


@pytest.mark.parametrize("unrendered", ["capacity: 16", "pricePerGpuHour: 3", "description: d"])
def test_what_no_manifest_has_of_a_pool_begins_no_run(
    unrendered: str, repository: Repository
) -> None:
    """Nor does the file with it: it is in the same merge as a line of the job's own."""
    pools = "pools: {p: {resource: nvidia.com/gpu, gpusPerNode: 8}}\n"
    repository.environment("prod", pools)
    committed(repository)
    repository.environment("prod", pools.replace("8}", f"8, {unrendered}}}"))
    edit(repository, "prod/jobs/a.yaml", "nodes: 2", "nodes: 3")
    assert causes(repository) == {"prod/a": ("new run", ["prod/jobs/a.yaml:8 nodes"])}
    text = repository.run("plan", "--against", "HEAD").stdout
    assert "\nenvironments/prod/environment.yaml " not in text


LEDGER: dict[str, tuple[Callable[[Repository], None], str]] = {
    "a run in the ledger": (_retire, "retires"),
    "a lost ledger": (_forget, "broken"),
    "a lost ledger, with consent": (_forget_and_consent, "starts"),
}


@pytest.mark.parametrize("what", LEDGER)
def test_a_line_of_the_ledger(repository: Repository, what: str) -> None:
    change, action = LEDGER[what]
    change(repository)
    found, places = causes(repository)["prod/b"]
    assert found == action
    assert len(places) == 1
    assert places[0].startswith("prod/ledger.yaml:6 runs.b-")
    refused = repository.run("render").exit_code == 1
    assert refused == (action == "broken")


@pytest.mark.parametrize("new", ["nodez: 3", "flags: ["])
def test_errors_of_a_base_are_no_errors_of_a_spec(new: str, repository: Repository) -> None:
    edit(repository, "base/jobs/llm.yaml", "flags: {epochs: 3}", new)
    action, places = causes(repository)["prod/a"]
    assert action == "broken"
    assert places[0].startswith("base/jobs/llm.yaml:")
    text = repository.run("plan", "--against", "HEAD").stdout
    broken = "broken: environments/base/jobs/llm.yaml has errors;\n  nothing is rendered, and"
    assert broken in text


CONFLICT = "<<<<<<< ours\nnodes: 3\n=======\nnodes: 4\n>>>>>>> theirs"


@pytest.mark.parametrize("new", [CONFLICT, "nodes: [", "nodes: {{ .Values.nodes }}", "nodez: 2"])
def test_errors_of_a_spec_are_its_own(new: str, repository: Repository) -> None:
    """A job that extends it has none: neither is said of their environment."""
    repository.job("prod/c", "extends: prod/b\n")
    committed(repository)
    edit(repository, "prod/jobs/b.yaml", "nodes: 2", new)
    text = repository.run("plan", "--against", "HEAD").stdout
    assert "prod/b  broken: it has 1 error;\n  nothing is rendered, and b-" in text
    assert "prod/c  broken: environments/prod/jobs/b.yaml has errors;\n" in text
    assert "its environment has errors" not in text
    assert text.count("error[TW0") == 1


def test_files_of_another_run_that_were_put_back(repository: Repository) -> None:
    edit(repository, "prod/jobs/b.yaml", "nodes: 2", "nodes: 3")
    committed(repository)
    git(repository.root, "checkout", "-q", "HEAD~1", "--", "environments/prod/rendered/b")
    edit(repository, "prod/jobs/b.yaml", "nodes: 3", "nodes: 2")
    assert causes(repository)["prod/b"][1] == ["prod/jobs/b.yaml:8 nodes"]


def test_a_job_that_comes_and_one_that_goes(repository: Repository) -> None:
    repository.job("prod/c")
    edit(repository, "prod/jobs/c.yaml", "train.py", "evaluate.py")
    (repository.root / "environments/prod/jobs/b.yaml").unlink()
    assert {job: places for job, (_, places) in causes(repository).items()} == {
        "prod/b": ["prod/jobs/b.yaml:1 "],
        "prod/c": ["prod/jobs/c.yaml:1 "],
    }


DAMAGE: dict[str, Callable[[str], str]] = {
    "the markers of a conflict": lambda text: f"<<<<<<< ours\n{text}",
    "an edit": lambda text: text.replace('"run": 1', '"run": 2'),
    "nothing": lambda _text: "",
}


@pytest.mark.parametrize("how", DAMAGE)
@pytest.mark.parametrize("where", ["at hand", "in a commit", "beside a whole one in a commit"])
def test_a_damaged_record_is_judged_as_render_judges_it(
    repository: Repository, how: str, where: str
) -> None:
    path = repository.root / "environments/prod/rendered/b/run.lock"
    text = path.read_text(encoding="utf-8")
    if where == "at hand":  # and in no commit, the one before being from before it was rendered
        git(repository.root, "rm", "-rq", "--cached", "environments/prod/rendered/b")
        git(repository.root, "commit", "-q", "--amend", "-m", "Specs")
    path.write_text(DAMAGE[how](text), encoding="utf-8")
    against = "HEAD"
    if where == "in a commit":
        git_repository.commit(repository.root)
        against = "HEAD~1"
    found = causes(repository, against)
    rendered = repository.run("render", "prod/b")
    if where == "beside a whole one in a commit":
        assert found == {}
        assert rendered.exit_code == 0
        assert path.read_text(encoding="utf-8") == text
    else:
        assert found == {"prod/b": ("broken", ["prod/rendered/b/run.lock:1 "])}
        assert rendered.exit_code == 1
        for output in (rendered.output, repository.run("plan", "--against", against).output):
            assert "error[TW054]" in output
