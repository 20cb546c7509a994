"""Public training jobs, imported into an environment that allows everything: nothing is lost unsaid.

`../shared/workloads` are single jobs that people run, `../shared/wild` whole repositories of YAML.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from trainwright.datatypes.pointer import scalars
from trainwright.documents.yamlio import Document
from trainwright.files.tree import Folder
from trainwright.importing import ImportInput, equivalence, text
from trainwright.importing.batch import ImportBatch, ImportOptions, run
from trainwright.importing.convert import Imported
from trainwright.importing.equivalence import NormalForm
from trainwright.importing.trial import ImportContext
from trainwright.kinds.reading import ImportingError, Loss, SourceObject
from trainwright.manifests import reading

pytestmark = pytest.mark.slow

SHARED = Path(__file__).resolve().parents[4] / "shared"
ENVIRONMENT = """\
apiVersion: trainwright.io/v1alpha1
kind: Environment
namespace: lab
kubernetes: {version: "1.34"}
targets:
  pytorchjob: {version: "1.9"}
  trainingjob: {version: "0.3"}
  trainjob: {version: "2.3"}
  jobset: {}
  job: {}
  compose: {}
podSecurity: privileged
allow: [hostNetwork, hostIPC, hostPID, privileged, serviceAccountToken, podPatch]
queueing: kueue
queues:
"""


def _files(folder: str) -> list[str]:
    found = (SHARED / folder).rglob("*.y*ml")
    return sorted(path.relative_to(SHARED / folder).as_posix() for path in found)


QUEUE = re.compile(r"kueue\.x-k8s\.io/queue-name[\"']?: *[\"']?([a-z0-9-]+)")


@cache
def _queues() -> tuple[str, ...]:
    texts = [(SHARED / "workloads" / name).read_text(encoding="utf-8") for name in _files("workloads")]  # fmt: skip
    texts += [(SHARED / "wild" / name).read_text(encoding="utf-8") for name in _files("wild")]
    return tuple(sorted({name for content in texts for name in QUEUE.findall(content)}))


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one environment that has every queue that a job waits in."""
    folder = tmp_path_factory.mktemp("repository")
    path = folder / "environments/open/environment.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(ENVIRONMENT + "".join(f"  {name}: {{}}\n" for name in _queues()))
    return folder


@cache
def imported(root: Path, path: Path) -> tuple[ImportInput, ImportBatch]:
    """The import of a file: several tests read the same."""
    found = ImportInput()
    found.files((str(path),))
    try:
        return found, run(
            root, found, ImportOptions(environment="open", write=False, new_runs=True)
        )
    except ImportingError as error:  # there is nothing to import
        return found, ImportBatch((), (str(error),))


# What no spec is made of, and why: each is refused, and its roles are named.
ROLES = {
    "17-kf-05-multistep": "dataset-initializer (1 pod",
    "24-js-dependson": "launcher (1 pod",
    "25-js-coordinator": "driver (1 pod",
    "27-js-vct": "initializer (1 pod",
    "28-js-dra": "3 replicas of one role",
    "29-js-inplace-sidecar": "2 replicas of one role",
    "39-dlrover-nanogpt": "ElasticJob/torch-nanogpt",
    "40-odh-mpi-sft": "launcher, node",
    "50-gke-hotswap": "2 slices of TPUs (multislice)",
}
# What a manifest does not show is asked for.
ASKED = {
    "13-kf-01-multinode": "--image",
    "45-kf-megatron-1": "--image",
    "46-kf-kai-0": "--image",
}
# Neither YAML nor a workload.
NOTHING = {"44-aks-dranet-0", "45-kf-megatron-0"}
# What is started by another operator, and so cannot run as it is.
CANNOT_RUN = {"42-aws-llama3-hpto": "hyperpodrun"}
# What is lost, beyond what is cosmetic.
BEHAVIOUR = {
    "11-aws-hyperpod-taskgov": "not on pods",  # of Kueue, of which the object has the same
    "16-kf-04-volcano": "gang",  # Kueue starts all pods together here
    "51-volcano-pytorch-0": "workingDir",  # of the workers alone
    "53-gke-a3mega-llama70b": "tolerations",  # of its own, which Kueue's flavors have
}
# Nor do restarts without a limit and an autoscaler come through, of any PyTorchJob that has them.
ALWAYS = (
    "restarts have a limit in a spec",
    "an autoscaler would write what git holds",
    "the target sets how often torchrun starts processes",
)


@pytest.mark.parametrize("name", _files("workloads") or ["every file"])
def test_a_job_comes_through_or_is_refused_by_name(
    name: str, shared: Callable[[str], Path], root: Path
) -> None:
    case = name.removesuffix(".yaml")
    found, done = imported(root, shared(f"workloads/{name}"))
    message = "\n".join((*found.problems, *done.problems))
    if case in NOTHING:
        assert done.imported == ()
        assert found.findings or "no training workload" in message
        return
    expected = ROLES.get(case, "") or ASKED.get(case, "")
    if expected:
        assert done.imported == ()
        assert expected in message
        return
    (one,) = done.imported
    assert message == ""
    left = [item for item in one.left if item.severity is not Loss.COSMETIC]
    left = [item for item in left if not item.why.startswith(ALWAYS)]
    broken = [item for item in left if item.severity is Loss.CANNOT_RUN]
    assert bool(done.broken) == (case in CANNOT_RUN)
    if broken:
        assert CANNOT_RUN[case] in "".join(map(str, broken))
        return
    assert not left or BEHAVIOUR[case] in "".join(map(str, left))
    if not left:
        assert differing(one, root) == set()


# What a rendered run has otherwise by design: hardened containers, no token unasked, ranks that are
# known beforehand, an unbuffered Python, limits for restarts and accelerators, and more time to stop
# where no user chose it.
BY_DESIGN = re.compile(
    r"/pods/(\d+|\*)/("
    r"(init/\d+/|sidecars/[^/]+/)?security/|token$|program/unbuffered$"
    r"|program/options/max-restarts$|processes/|restart/|labels/|annotations/"
    r"|grace_period$|resources/limits/nvidia\.com~1gpu$"
    r")"
)


def differing(one: Imported, root: Path) -> set[str]:
    """Where pods differ: containers, variables, volumes, resources, placement, counts, order."""
    runtimes = tuple(m for m in one.source.manifests() if m.kind.endswith("Runtime"))
    after = ImportContext(Folder(root), "open", runtimes).run(one.spec)
    assert isinstance(after, NormalForm)
    differing = equivalence.differences(one.source.run(), after)
    paths = {d.path for d in differing if d.path.startswith(("/pods/", "/nodes", "/elastic"))}
    return {path for path in paths if not BY_DESIGN.match(path)}


def test_a_gang_comes_through_where_the_environment_has_one(
    tmp_path: Path, shared: Callable[[str], Path]
) -> None:
    """What Kueue does not do, an environment that queues by Volcano does."""
    path = tmp_path / "environments/open/environment.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(ENVIRONMENT.partition("queueing")[0] + "queueing: volcano\n")
    done = imported(tmp_path, shared("workloads/16-kf-04-volcano.yaml"))[1]
    (one,) = done.imported
    assert one.spec["gang"] is True
    assert {left.severity for left in one.left} <= {Loss.COSMETIC}


def test_specs_are_short(shared: Callable[[str], Path], root: Path) -> None:
    """The median of lines, blank ones and comments aside."""
    shared("workloads")
    shares = []
    for name in _files("workloads"):
        path = SHARED / "workloads" / name
        for one in imported(root, path)[1].imported:
            shares.append(lines(text.spec(one)) / lines(path.read_text(encoding="utf-8")))
    assert statistics.median(shares) <= 0.45


def lines(content: str) -> int:
    found = (line.strip() for line in content.splitlines())
    return sum(1 for line in found if line and not line.startswith("#"))


@pytest.mark.parametrize("folder", ["workloads", "wild"])
def test_every_leaf_is_carried_or_named(
    folder: str, shared: Callable[[str], Path], root: Path
) -> None:
    """Each value of each document is in a run, a default, left with a reason, beside, or refused."""
    shared(folder)
    for name in _files(folder):
        path = SHARED / folder / name
        found, done = imported(root, path)
        assert list(_unaccounted(found, done, path)) == [], name


def _unaccounted(found: ImportInput, done: ImportBatch, path: Path) -> Iterator[str]:
    parts = [part for one in done.imported for part in one.source.parts]
    named = {left.field for one in done.imported for left in one.left}
    for one in done.imported:
        accounts = {(a.part, a.pointer): a.fate for a in one.accounts}
        for number, part in enumerate(one.source.parts):
            for pointer, _ in scalars(part.body):
                fate = accounts[number, pointer]
                if fate == "left" and not _is_named(part, pointer, named):
                    yield f"{part.place(pointer)}: {pointer}"
    message = [*found.problems, *done.problems, *(str(left) for left in found.beside)]
    message += [str(finding.place) for finding in found.findings]
    charts = {f"helm template {folder} " for folder in path.parents}
    if any(chart in line for chart in charts for line in message):
        return  # Helm reads it, and not a cluster
    for document in _documents(path):
        for item in reading.objects(document.data):
            place = str(document.place(item.prefix))
            inside = [part for part in parts if _is_in(part, document, item.prefix)]
            refused = any(place.rpartition(":")[0].rpartition(":")[0] in line for line in message)
            if not inside and not refused and item.body is not None:
                yield place


def _documents(path: Path) -> Iterator[Document]:
    for source in reading.gather((str(path),)):
        for chunk in reading.split(source):
            for document in reading.documents(chunk):
                if isinstance(document, Document):
                    yield document


def _is_in(part: SourceObject, document: Document, prefix: str) -> bool:
    return part.place("").file == document.place(prefix).file


def _is_named(part: SourceObject, pointer: str, named: set[str]) -> bool:
    if pointer == "/metadata/namespace":
        return True
    above = pointer
    while above:
        if part.called(above) in named:
            return True
        above = above.rpartition("/")[0]
    return False
