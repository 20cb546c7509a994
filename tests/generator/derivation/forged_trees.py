"""Trees as somebody may write them who can open a pull request, over one that was rendered."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from git_repository import commit, git, init
from repository import Repository
from trainwright.datatypes.layout import JobFile
from trainwright.files.filetree import digest_of
from trainwright.files.tree import MAX_BYTES, Folder
from trainwright.runs import decide, meaning
from trainwright.runs import record as records
from trainwright.runs.workspace import Workspace

RENDERED = "environments/prod/rendered"
OBJECT = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: team, namespace: training}
data: {owner: ml}
"""
DEFAULTS = "apiVersion: trainwright.io/v1alpha1\nkind: Defaults\n"
BINDING = """\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: everything}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: default, namespace: training}]
"""

Forge = Callable[[Path], object]


def base(folder: Path) -> None:
    """Two runs that the base has, one that has finished, and one that a pull request brings."""
    made = Repository(folder)
    init(folder)
    made.environment("prod")
    made.write("prod/objects/team.yaml", OBJECT)
    for name in ("prod/llm", "prod/mnist", "prod/done"):
        made.job(name)
    assert made.run("render").exit_code == 0
    commit(folder, "Begin")
    assert made.run("retire", "prod/done", "--outcome", "succeeded").exit_code == 0
    commit(folder, "Retire")
    git(folder, "checkout", "--quiet", "-b", "pull-request")
    made.job("prod/new")
    assert made.run("render").exit_code == 0
    commit(folder, "A harmless job")


# --- how a tree is forged ------------------------------------------------------------------------


def sealed(root: Path, about: str = "new", /, **fields: object) -> None:
    """The record of a job, sealed again over the files as they are, with other values in it."""
    folder = root / RENDERED / about
    record = records.parse((folder / "run.lock").read_bytes())
    assert record is not None
    names = sorted(p.name for p in folder.iterdir() if p.is_file() and p.name != "run.lock")
    sums = {name: digest_of((folder / name).read_bytes()) for name in names}
    record = replace(record, **{"files": sums, **fields})  # type: ignore[arg-type]
    source = f"environments/prod/jobs/{about}.yaml"
    (folder / "run.lock").write_text(records.text(source, record), encoding="utf-8")


def replaced(old: str, new: str, file: str = "pytorchjob.yaml", job: str = "new") -> Forge:
    """A text of a rendered file replaced, and its record sealed over it."""

    def forge(root: Path) -> None:
        path = root / RENDERED / job / file
        text = path.read_text(encoding="utf-8")
        assert old in text, text
        path.write_text(text.replace(old, new), encoding="utf-8")
        sealed(root, job)

    return forge


def in_pods(text: str, job: str = "new") -> Forge:
    """Lines added to each pod's spec."""
    indented = "".join(f"          {line}\n" for line in text.splitlines())
    return replaced("        spec:\n", f"        spec:\n{indented}", job=job)


def added(path: str, text: str | bytes, *, seal: bool = False) -> Forge:
    """A file in the rendered folder that nothing renders."""

    def forge(root: Path) -> None:
        full = root / RENDERED / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(text if isinstance(text, bytes) else text.encode())
        if seal:
            sealed(root, path.partition("/")[0])

    return forge


def appended(path: str, text: str) -> Forge:
    def forge(root: Path) -> None:
        full = root / RENDERED / path
        full.write_text(full.read_text(encoding="utf-8") + text, encoding="utf-8")

    return forge


def edited(path: str, old: str, new: str) -> Forge:
    """A text of any file replaced, and nothing sealed."""

    def forge(root: Path) -> None:
        full = root / path
        text = full.read_text(encoding="utf-8")
        assert old in text, text
        full.write_text(text.replace(old, new), encoding="utf-8")

    return forge


def removed(path: str) -> Forge:
    def forge(root: Path) -> None:
        full = root / RENDERED / path
        shutil.rmtree(full) if full.is_dir() else full.unlink()

    return forge


def emptied(path: str) -> Forge:
    return lambda root: (root / RENDERED / path).write_bytes(b"")


def moved(old: str, new: str) -> Forge:
    def forge(root: Path) -> None:
        (root / RENDERED / new).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(root / RENDERED / old, root / RENDERED / new)

    return forge


def linked(path: str, to: str) -> Forge:
    def forge(root: Path) -> None:
        full = root / RENDERED / path
        if full.is_dir():
            shutil.rmtree(full)
        full.unlink(missing_ok=True)
        full.symlink_to(to)

    return forge


def record_with(about: str = "new", /, **fields: object) -> Forge:
    return lambda root: sealed(root, about, **fields)


def _record(root: Path, job: str) -> records.Record:
    found = records.parse((root / RENDERED / job / "run.lock").read_bytes())
    assert found is not None
    return found


def another_image_in_the_record(root: Path) -> None:
    """Files, values and record agree with each other, and with no source."""
    for file in ("pytorchjob.yaml", "values.yaml"):
        replaced("registry.example.com/ml/train", "registry.example.org/x", file)(root)
    job = {
        **_record(root, "new").job,
        "image": {"repository": "registry.example.org/x", "tag": "1"},
    }
    sealed(root, job=job)


def inherited_image(root: Path) -> None:
    record = _record(root, "new")
    image = {"image": {"repository": "registry.example.org/x", "tag": "1.0"}}
    job = {key: value for key, value in record.job.items() if key != "image"}
    replaced("registry.example.com/ml/train", "registry.example.org/x")(root)
    sealed(root, job=job, inherited={**record.inherited, **image})


def renamed_run(root: Path) -> None:
    name = _record(root, "new").object
    for file in ("pytorchjob.yaml", "values.yaml"):
        replaced(name, "new-00000000", file)(root)
    objects = tuple(it.replace(name, "new-00000000") for it in _record(root, "new").objects)
    sealed(root, object="new-00000000", objects=objects)


def begun_again(root: Path) -> None:
    """A run of the base, named as if its job had been edited."""
    name = _record(root, "llm").object
    for file in ("pytorchjob.yaml", "values.yaml"):
        replaced(name, "llm-00000000", file, "llm")(root)
    objects = tuple(it.replace(name, "llm-00000000") for it in _record(root, "llm").objects)
    sealed(root, "llm", object="llm-00000000", objects=objects, replaces=name)


def cancelled(root: Path) -> None:
    for name in ("pytorchjob.yaml", "values.yaml"):
        (root / RENDERED / "llm" / name).unlink()
    sealed(root, "llm", state="cancelled", files={}, objects=())
    kustomization = root / RENDERED / "kustomization.yaml"
    text = kustomization.read_text(encoding="utf-8")
    kustomization.write_text(text.replace("llm/pytorchjob.yaml,\n", ""), encoding="utf-8")


def record_of_another_job(root: Path) -> None:
    shutil.copy(root / RENDERED / "llm/run.lock", root / RENDERED / "new/run.lock")


def folder_of_another_job(root: Path) -> None:
    shutil.rmtree(root / RENDERED / "new")
    shutil.copytree(root / RENDERED / "llm", root / RENDERED / "new")


def folder_without_a_job(root: Path) -> None:
    shutil.copytree(root / RENDERED / "new", root / RENDERED / "ghost")
    kustomization = root / RENDERED / "kustomization.yaml"
    text = kustomization.read_text(encoding="utf-8")
    more = "# ghost\nghost/pytorchjob.yaml,\n\n]"
    kustomization.write_text(text.replace("]", more), encoding="utf-8")


def retired_with_another_text(root: Path) -> None:
    """A run that goes on, and with it what its job's file may have later."""
    own = meaning.digest({**_record(root, "llm").job, "nodes": 3}, 1)
    path = root / "environments/prod/ledger.yaml"
    entry = f'{{job: llm, run: 1, own: "{own}", outcome: succeeded}}'
    name = _record(root, "llm").object
    path.write_text(f"{path.read_text(encoding='utf-8')}  {name}: {entry}\n", encoding="utf-8")


def retired_in_the_ledger(root: Path) -> None:
    """A run that goes on, by what of its job's file ran and by a name that it never had."""
    own = meaning.digest(_record(root, "llm").job, 1)
    path = root / "environments/prod/ledger.yaml"
    entry = f'{{job: llm, run: 1, own: "{own}", outcome: succeeded}}'
    text = path.read_text(encoding="utf-8")
    path.write_text(f"{text}  llm-00000000: {entry}\n", encoding="utf-8")


def with_crlf(path: str) -> Forge:
    def forge(root: Path) -> None:
        full = root / RENDERED / path
        full.write_bytes(full.read_bytes().replace(b"\n", b"\r\n"))

    return forge


def submodule(path: str) -> Forge:
    """The entry of another repository, which no checkout fills by itself, and an engine may."""

    def forge(root: Path) -> None:
        if (root / RENDERED / path).exists():
            git(root, "rm", "-r", "--quiet", "--cached", f"{RENDERED}/{path}")
            removed(path)(root)
        (root / RENDERED / path).mkdir()
        commit_there = git(root, "rev-parse", "HEAD")
        entry = f"160000,{commit_there},{RENDERED}/{path}"
        git(root, "update-index", "--add", "--cacheinfo", entry)

    return forge


def larger_than_anything(path: str) -> Forge:
    """More than is read of one file, which takes next to no room in a repository."""

    def forge(root: Path) -> None:
        with (root / RENDERED / path).open("r+b") as file:
            file.truncate(MAX_BYTES + 1)

    return forge


def conflict(path: str) -> Forge:
    def forge(root: Path) -> None:
        full = root / RENDERED / path
        text = full.read_text(encoding="utf-8")
        text = f"<<<<<<< HEAD\n{text}=======\n{text}>>>>>>> theirs\n"
        full.write_text(text, encoding="utf-8")

    return forge


def stale_source(root: Path) -> None:
    """The job's file asks for another image, and its record pretends that it always did."""
    path = root / "environments/prod/jobs/llm.yaml"
    path.write_text(path.read_text(encoding="utf-8").replace('"1.0"', '"2.0"'), encoding="utf-8")
    sealed(root, "llm", source=digest_of(path.read_bytes()))


def environment_without_a_file(root: Path) -> None:
    shutil.copytree(root / RENDERED, root / "environments/ghost/rendered")


# --- what an earlier commit of the branch had ----------------------------------------------------


def rendered(root: Path, message: str) -> None:
    done = Repository(root).run("render")
    assert done.exit_code == 0, done.output
    commit(root, message)


def allowed_for_a_while(root: Path) -> None:
    """A run of the node's own, by defaults and an environment that the next commit takes back."""
    made, environment = Repository(root), root / "environments/prod/environment.yaml"
    before = environment.read_text(encoding="utf-8")
    made.write("defaults.yaml", f"{DEFAULTS}defaults: {{hostPID: true}}\n")
    environment.write_text(f"{before}allow: [hostPID]\npodSecurity: privileged\n", encoding="utf-8")
    made.job("prod/short")
    rendered(root, "Allow it")
    (root / "environments/defaults.yaml").unlink()
    environment.write_text(before, encoding="utf-8")


def another_namespace_for_a_while(root: Path) -> None:
    made, environment = Repository(root), root / "environments/prod/environment.yaml"
    before = environment.read_text(encoding="utf-8")
    source = root / "environments/prod/objects/team.yaml"
    source.write_text(OBJECT.replace("training", "other"), encoding="utf-8")
    environment.write_text(before.replace("training", "other"), encoding="utf-8")
    made.job("prod/short")
    rendered(root, "Elsewhere")
    git(root, "checkout", "--quiet", "main", "--", f"{RENDERED}/_objects", str(source))
    environment.write_text(before, encoding="utf-8")


def object_for_a_while(text: str) -> Forge:
    """An object of one's own as an earlier commit had it; nothing where it had none."""

    def forge(root: Path) -> None:
        source = root / "environments/prod/objects/team.yaml"
        source.unlink()
        if text:
            source.write_text(text, encoding="utf-8")
        rendered(root, "Another object")
        source.write_text(OBJECT, encoding="utf-8")

    return forge


def object_left_behind(root: Path) -> None:
    source = root / "environments/prod/objects/more.yaml"
    source.write_text(OBJECT.replace("name: team", "name: more"), encoding="utf-8")
    rendered(root, "One more object")
    source.unlink()


def adopted(root: Path, job: str, name: str) -> Path:
    """An object that a job has adopted, of the shape of another run."""
    text = (root / RENDERED / "llm/pytorchjob.yaml").read_text(encoding="utf-8")
    text = text.replace(_record(root, "llm").object, name).replace("train:1.0", "train:9.9")
    return Repository(root).write(f"prod/adopted/{job}.yaml", text)


def adopted_for_a_while(root: Path) -> None:
    Repository(root).job("prod/short")
    path = adopted(root, "short", "stranger")
    rendered(root, "Adopt it")
    path.write_text(path.read_text(encoding="utf-8").replace("9.9", "1.0"), encoding="utf-8")


def adopted_and_taken_away(root: Path) -> None:
    Repository(root).job("prod/short")
    path = adopted(root, "short", "stranger")
    rendered(root, "Adopt it")
    path.unlink()


def retired_as_adopted(root: Path) -> None:
    """A run that goes on, ended by the name of an object that its job never had."""
    adopted(root, "llm", "llm-00000000")
    retired_in_the_ledger(root)


def retired_as_adopted_and_rendered(root: Path) -> None:
    retired_as_adopted(root)
    rendered(root, "It has finished")


def instead_of_anything(root: Path) -> None:
    """A name of a run that follows from one that its job cannot have replaced."""
    workspace = Workspace(Folder(root))
    sources = workspace.resolve(JobFile("prod", "new")).sources
    assert sources is not None
    old, name = _record(root, "new").object, decide.begun_name(sources, "anything")
    for file in ("pytorchjob.yaml", "values.yaml"):
        replaced(old, name, file)(root)
    objects = tuple(it.replace(old, name) for it in _record(root, "new").objects)
    sealed(root, object=name, objects=objects, replaces="anything")


def list_sorted(root: Path) -> None:
    path = root / LIST
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(sorted(lines)), encoding="utf-8")


# Where only people can say what was meant.
BY_HAND = {
    "record emptied",
    "conflict in a record",
    "facts of the environment",  # a record that cannot be read
    "chart of any version",  # as well
    "chart of an open version",
    "submodule",  # an entry of git's index, which rendering does not touch
    "submodule in a job's folder",
    "submodule for a manifest",
    "submodule for a folder",
    "record larger than anything",
    "record of the base larger than anything",
    "run of no environment",
    "link for a folder",
    "second list",
    "hidden file",
    "ledger: a run that goes on",
    "ledger: another text of the job",
    "ledger: another outcome",
    "ledger: name of an adopted object",
    "ledger: name of an adopted object, rendered",
}
IMAGE = "registry.example.com/ml/train:1.0"
ENTRY = "kind: PyTorchJob"
LIST = f"{RENDERED}/kustomization.yaml"
FORGED: Mapping[str, Forge] = {
    # what runs
    "image": replaced(IMAGE, "registry.example.org/x:1.0"),
    "image of a run of the base": replaced(IMAGE, "registry.example.org/x:1.0", job="llm"),
    "digest of the image": replaced(IMAGE, f"{IMAGE}@sha256:{'0' * 64}"),
    "command": replaced("train.py", "steal.py"),
    "command of a run of the base": replaced("train.py", "steal.py", job="llm"),
    "environment": replaced(
        "ports:\n", "env: [{name: LD_PRELOAD, value: /x}]\n              ports:\n"
    ),
    "hostPID": in_pods("hostPID: true"),
    "hostNetwork": in_pods("hostNetwork: true"),
    "service account": in_pods("serviceAccountName: admin"),
    "init container": in_pods("initContainers: [{name: x, image: registry.example.org/x}]"),
    "volume of the node": in_pods("volumes: [{name: x, hostPath: {path: /}}]"),
    "volume of a secret": in_pods("volumes: [{name: x, secret: {secretName: admin}}]"),
    "node name": in_pods("nodeName: control-plane"),
    "pod of a run of the base": in_pods("hostPID: true", job="llm"),
    "resources": replaced('"memory": "1Gi"', '"memory": "1000Gi"'),
    "replicas": replaced("replicas: 1", "replicas: 1000"),
    "annotation": replaced("  annotations:\n", "  annotations:\n    a.example.com/b: c\n"),
    "label": replaced("  labels:\n", "  labels:\n    a.example.com/b: c\n"),
    "name of the object": renamed_run,
    "namespace": replaced("metadata:\n", "metadata:\n  namespace: kube-system\n"),
    "other kind": replaced(ENTRY, "kind: TFJob"),
    "other version": replaced("kubeflow.org/v1\n", "kubeflow.org/v2\n"),
    "comment in a manifest": replaced(ENTRY, f"{ENTRY} # harmless"),
    "end of lines": with_crlf("new/pytorchjob.yaml"),
    "end of lines in the base's": with_crlf("llm/run.lock"),
    # what else is applied
    "second document": appended("new/pytorchjob.yaml", f"---\n{BINDING}"),
    "second document of the base's": appended("llm/pytorchjob.yaml", f"---\n{BINDING}"),
    "second file": added("new/binding.yaml", BINDING, seal=True),
    "second file of the base's": added("llm/binding.yaml", BINDING, seal=True),
    "second file of no record": added("new/binding.yaml", BINDING),
    "file at the top": added("binding.yaml", BINDING),
    "folder of no job": added("ghost/binding.yaml", BINDING),
    "run of no job": folder_without_a_job,
    "run of no environment": environment_without_a_file,
    "copied object": appended("_objects/team.yaml", f"---\n{BINDING}"),
    "object without a source": added("_objects/binding.yaml", BINDING),
    "object taken away": removed("_objects/team.yaml"),
    "file in another case": added("new/PyTorchJob.yaml", BINDING),
    "folder in another case": added("NEW/pytorchjob.yaml", BINDING),
    "file in a folder": added("new/more/binding.yaml", BINDING),
    "hidden file": added("new/.argocd-source.yaml", "kustomize: {images: [a=b]}\n"),
    # what is listed
    "line taken out": edited(LIST, "llm/pytorchjob.yaml,\n", ""),
    "line of the new run taken out": edited(LIST, "new/pytorchjob.yaml,\n", ""),
    "line added": edited(LIST, "]", "https://example.org/x.yaml,\n]"),
    "images replaced": appended("kustomization.yaml", "images: [{name: x, newName: y}]\n"),
    "patches": appended("kustomization.yaml", "patches: [{path: ../x.yaml}]\n"),
    "prefix of names": appended("kustomization.yaml", "namePrefix: x-\n"),
    "list in another order": list_sorted,
    "list on one line": edited(LIST, "# llm\n", "# llm\v"),
    "list with a separator of lines": edited(LIST, "# llm\n", "# llm\u2028"),
    "generator": appended("kustomization.yaml", "configMapGenerator: [{name: x}]\n"),
    "list taken away": removed("kustomization.yaml"),
    "second list": added("kustomization.yml", "resources: [new/pytorchjob.yaml]\n"),
    "list of another folder": added("new/kustomization.yaml", "resources: [pytorchjob.yaml]\n"),
    # what is recorded
    "record larger than anything": larger_than_anything("new/run.lock"),
    "record of the base larger than anything": larger_than_anything("llm/run.lock"),
    "state": record_with(state="suspended"),
    "state of a run of the base": cancelled,
    "another job in the record": record_with("llm", job={"nodes": 3}),
    "another job, image and values": another_image_in_the_record,
    "what is inherited": inherited_image,
    "facts of the environment": record_with(environment={"namespace": "x", "gitops": {}}),
    "digest of the job's file": stale_source,
    "version": record_with("llm", trainwright="9.9.9"),
    "chart of any version": record_with(chart=">=0.0.0-0"),
    "chart of an open version": record_with(chart="1.x"),
    "objects": record_with(objects=()),
    "run that nobody asked for": begun_again,
    "record of another job": record_of_another_job,
    "folder of another job": folder_of_another_job,
    "record emptied": emptied("llm/run.lock"),
    "manifest emptied": emptied("llm/pytorchjob.yaml"),
    "record taken away": removed("new/run.lock"),
    "record of the base taken away": removed("llm/run.lock"),
    "record in another layout": edited(f"{RENDERED}/new/run.lock", '  "kind"', '   "kind"'),
    "values": replaced("train.py", "steal.py", "values.yaml"),
    "values of a run of the base": replaced("train.py", "steal.py", "values.yaml", "llm"),
    "run instead of anything": instead_of_anything,
    # what an earlier commit of the branch had
    "run that was allowed for a while": allowed_for_a_while,
    "namespace of an earlier commit": another_namespace_for_a_while,
    "object of an earlier commit": object_for_a_while(OBJECT.replace("owner: ml", "owner: other")),
    "object that was taken away for a while": object_for_a_while(""),
    "object of no source any more": object_left_behind,
    "adopted object of an earlier commit": adopted_for_a_while,
    "adopted object that is gone": adopted_and_taken_away,
    "ledger: name of an adopted object": retired_as_adopted,
    "ledger: name of an adopted object, rendered": retired_as_adopted_and_rendered,
    "ledger: a run that goes on": retired_in_the_ledger,
    "ledger: another text of the job": retired_with_another_text,
    "ledger: another outcome": edited("environments/prod/ledger.yaml", "succeeded", "failed"),
    # what is gone, moved or torn
    "folder deleted": removed("llm"),
    "folder of the new run deleted": removed("new"),
    "everything deleted": removed(""),
    "folder moved": moved("llm", "other"),
    "manifest moved": moved("new/pytorchjob.yaml", "llm/new.yaml"),
    "manifest deleted": removed("llm/pytorchjob.yaml"),
    "conflict in a manifest": conflict("llm/pytorchjob.yaml"),
    "conflict in a record": conflict("llm/run.lock"),
    "conflict in the list": conflict("kustomization.yaml"),
    "manifest larger than anything": larger_than_anything("new/pytorchjob.yaml"),
    "submodule": submodule("more"),
    "submodule in a job's folder": submodule("new/more"),
    "submodule for a manifest": submodule("new/pytorchjob.yaml"),
    "submodule for a folder": submodule("llm"),
    "link for a manifest": linked("new/pytorchjob.yaml", "../llm/pytorchjob.yaml"),
    "link for a record": linked("new/run.lock", "../llm/run.lock"),
    "link for a folder": linked("new", "llm"),
    "link beside the manifests": linked("new/more.yaml", "../../environment.yaml"),
    "link for the list": linked("kustomization.yaml", "/dev/zero"),
}
