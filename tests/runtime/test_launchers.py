"""Who launched this container: real environments, refusals, and the numbers that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import yaml

from trainwright_runtime.failures.errors import EnvironmentMistake, RuntimeFailure
from trainwright_runtime.launch.launchers import LAUNCHERS, recognise
from trainwright_runtime.launch.layout import Layout, Machine, resolve
from trainwright_runtime.launch.options import Nodes, parse

ROOT = Path(__file__).parents[2]
FIVE = {
    "RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500",
}  # fmt: skip
MASTER = {
    "RANK": "1", "WORLD_SIZE": "6", "MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456",
    "PET_NNODES": "3", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "1",
}  # fmt: skip
ELASTIC = {
    "PET_RDZV_ENDPOINT": "job-worker-0:23456", "PET_RDZV_BACKEND": "c10d", "PET_NNODES": "1:3",
    "PET_NPROC_PER_NODE": "1", "PET_MAX_RESTARTS": "7", "HOSTNAME": "job-worker-0",
}  # fmt: skip
TRAINER = {
    "PET_NNODES": "2", "PET_NODE_RANK": "1", "PET_NPROC_PER_NODE": "auto",
    "PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29500", "JOB_COMPLETION_INDEX": "1",
}  # fmt: skip
INDEXED = {
    "JOB_COMPLETION_INDEX": "2", "TRAINWRIGHT_NNODES": "4", "TRAINWRIGHT_MASTER_ADDR": "job-0.job",
}  # fmt: skip
PLAIN = {"RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "10.0.0.7", "MASTER_PORT": "29500"}


def _machine(gpus: int = 0, cores: int = 8) -> Machine:
    return Machine(gpus=lambda: gpus, has_gpu_driver=lambda: gpus > 0, cores=lambda: cores)


def _settle(environ: Mapping[str, str], line: str = "", gpus: int = 0) -> Layout:
    return resolve(recognise(environ), parse([*line.split(), "--", "t.py"], {}), _machine(gpus))


def _without(environ: Mapping[str, str], name: str) -> dict[str, str]:
    return {key: value for key, value in environ.items() if key != name}


# --- pods that a real operator made --------------------------------------------------------------

# (launcher, world size, ranks) per pod, or the message of the refusal.
WITH_MASTER = "PyTorchJob with a Master"
WITH_ELASTIC = "PyTorchJob with elasticPolicy"
OBSERVED: dict[str, dict[str, tuple[str, int, list[int]] | str]] = {
    "elastic-with-master": dict.fromkeys(
        ("master-0", "worker-0", "worker-1"),
        "PET_RDZV_ENDPOINT is 'elastic-with-master-worker-0:23456', expected nothing but "
        "MASTER_ADDR=elastic-with-master-master-0",
    ),
    "elastic-worker-only": {
        "worker-0": (WITH_ELASTIC, 3, [0]),
        "worker-1": (WITH_ELASTIC, 3, [0]),
    },
    "master-only": {"master-0": (WITH_MASTER, 1, [0])},
    "nproc-gpu-word": {
        "master-0": (WITH_MASTER, 2, [0]),
        "worker-0": (WITH_MASTER, 2, [1]),
    },
    "nproc-two-three-pods": {
        "master-0": (WITH_MASTER, 6, [0, 1]),
        "worker-0": (WITH_MASTER, 6, [2, 3]),
        "worker-1": (WITH_MASTER, 6, [4, 5]),
    },
    "one-master-one-worker": {
        "master-0": (WITH_MASTER, 2, [0]),
        "worker-0": (WITH_MASTER, 2, [1]),
    },
    "user-env-collides": {
        "master-0": (WITH_MASTER, 2, [0]),
        "worker-0": (WITH_MASTER, 2, [1]),
    },
    "workers-without-elastic": dict.fromkeys(
        ("worker-0", "worker-1"),
        "MASTER_ADDR is not set, expected the name of node 0 of 2: a PyTorchJob without a "
        "Master needs elasticPolicy",
    ),
}


def test_every_observed_job_is_a_case(shared: Callable[[str], Path]) -> None:
    observed = shared("observed/pytorchjob").glob("*.yaml")
    assert {path.stem for path in observed} == set(OBSERVED)


@pytest.mark.parametrize("case", OBSERVED)
def test_pods_of_a_real_operator(case: str, shared: Callable[[str], Path]) -> None:
    path = shared(f"observed/pytorchjob/{case}.yaml")
    documents = yaml.load_all(path.read_bytes(), Loader=yaml.CSafeLoader)
    seen = {}
    for pod in (document for document in documents if document["kind"] == "Pod"):
        name = pod["metadata"]["name"]
        # A later entry of the list wins, as it does for the kubelet.
        environ = {entry["name"]: entry["value"] for entry in pod["spec"]["containers"][0]["env"]}
        try:
            layout = _settle(environ | {"HOSTNAME": name})
        except EnvironmentMistake as refused:
            seen[name.removeprefix(f"{case}-")] = str(refused).partition(": a Master with")[0]
        else:
            launcher = layout.placement.launcher
            seen[name.removeprefix(f"{case}-")] = (launcher, layout.world_size, [*layout.ranks()])
    assert seen == OBSERVED[case]


def test_the_first_worker_of_an_elastic_job_hosts_the_rendezvous() -> None:
    assert recognise(ELASTIC).hosts
    assert not recognise(ELASTIC | {"HOSTNAME": "job-worker-1"}).hosts
    assert not recognise(ELASTIC | {"HOSTNAME": "job-worker-01"}).hosts
    qualified = {"PET_RDZV_ENDPOINT": "job-worker-0.team.svc.cluster.local:23456"}
    assert recognise(ELASTIC | qualified).hosts
    addresses = {"PET_RDZV_ENDPOINT": "10.0.0.1:23456", "HOSTNAME": "10.0.0.2"}
    assert not recognise(ELASTIC | addresses).hosts


def test_what_an_elastic_job_asks_of_the_agent_is_kept() -> None:
    placement = recognise(ELASTIC | {"PET_RDZV_CONF": "last_call_timeout=1, read_timeout=30"})
    assert placement.max_restarts == 7
    assert placement.rendezvous == {"last_call_timeout": "1", "read_timeout": "30"}
    assert (placement.elastic, placement.nodes) == (True, Nodes(low=1, high=3))


# --- every launcher ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("environ", "line", "says"),
    [
        (FIVE | {"TORCHELASTIC_RUN_ID": "x"}, "", "torchrun: rank 3 of 4, master a:29500, gloo"),
        (FIVE | {"LATTICE_RUN_ID": "x"}, "", "Lattice agent: rank 3 of 4, master a:29500, gloo"),
        (FIVE, "", "another launcher of processes: rank 3 of 4, master a:29500, gloo"),
        (
            ELASTIC,
            "--nproc-per-node=1",
            "PyTorchJob with elasticPolicy: 1:3 nodes of 1 process, meeting at "
            "job-worker-0:23456 (this node), gloo",
        ),
        (
            MASTER,
            "--nproc-per-node=2",
            "PyTorchJob with a Master: node 1 of 3, ranks 2-3 of 6, master job-master-0:23456, gloo",
        ),
        (
            TRAINER,
            "--nproc-per-node=4",
            "Trainer v2: node 1 of 2, ranks 4-7 of 8, master job-node-0-0.job:29500, gloo",
        ),
        (
            INDEXED,
            "",
            "JobSet or Indexed Job: node 2 of 4, rank 2 of 4, master job-0.job:29500, gloo",
        ),
        (
            PLAIN,
            "--nproc-per-node=2",
            "variables of each node: node 1 of 2, ranks 2-3 of 4, master 10.0.0.7:29500, gloo",
        ),
        (
            {},
            "--nproc-per-node=2",
            "no launcher: node 0 of 1, ranks 0-1 of 2, master 127.0.0.1:a free port, gloo",
        ),
        (
            {"JOB_COMPLETION_INDEX": "0", "TRAINWRIGHT_NNODES": "1"},
            "",
            "JobSet or Indexed Job: node 0 of 1, rank 0 of 1, master 127.0.0.1:a free port, gloo",
        ),
        (
            {"PET_NNODES": "1", "PET_NPROC_PER_NODE": "2"},
            "",
            "Trainer v2: node 0 of 1, ranks 0-1 of 2, master 127.0.0.1:a free port, gloo",
        ),
        (
            PLAIN | {"MASTER_ADDR": "fd00::7"},
            "",
            "variables of each node: node 1 of 4, rank 1 of 4, master fd00::7:29500, gloo",
        ),
    ],
)
def test_one_line_says_what_was_found(environ: dict[str, str], line: str, says: str) -> None:
    assert str(_settle(environ, line)) == says


@pytest.mark.parametrize(
    ("environ", "line", "says"),
    [
        (
            MASTER | {"MASTER_ADDR": "job-master-0:23456"},
            "",
            "MASTER_ADDR is 'job-master-0:23456', expected a name without a port: "
            "the port goes into MASTER_PORT",
        ),
        (
            MASTER | {"WORLD_SIZE": "3"},
            "",
            "WORLD_SIZE is '3', expected 6: PET_NNODES=3 with PET_NPROC_PER_NODE=2",
        ),
        (MASTER | {"RANK": "3"}, "", "RANK is '3', expected a number from 0 to 2"),
        (MASTER | {"RANK": "-1"}, "", "RANK is '-1', expected a number from 0 to 2"),
        (MASTER | {"RANK": "one"}, "", "RANK is 'one', expected a number from 0 to 2"),
        (MASTER | {"RANK": "\u0661"}, "", "RANK is '\u0661', expected a number from 0 to 2"),
        (
            MASTER | {"MASTER_PORT": "0"},
            "",
            "MASTER_PORT is '0', expected a number from 1 to 65535",
        ),
        (MASTER | {"PET_NNODES": "1:3"}, "", "PET_NNODES is '1:3', expected one number"),
        (MASTER | {"PET_NNODES": "0"}, "", "PET_NNODES is '0', expected a number of nodes"),
        (
            MASTER | {"PET_NPROC_PER_NODE": "many"},
            "",
            "PET_NPROC_PER_NODE is 'many', expected a number from 1 up",
        ),
        (
            MASTER,
            "--nproc-per-node=4",
            "PET_NPROC_PER_NODE is '2', expected 4, as --nproc-per-node sets",
        ),
        (MASTER, "--nnodes=2", "--nnodes=2, but PyTorchJob with a Master sets 3"),
        (MASTER, "--nnodes=1:3", "only --recovery=live goes on with fewer"),
        (ELASTIC, "--nnodes=2:3", "--nnodes=2:3, but PyTorchJob with elasticPolicy sets 1:3"),
        (ELASTIC | {"PET_RDZV_BACKEND": "etcd"}, "", "PET_RDZV_BACKEND is 'etcd', expected c10d"),
        (
            ELASTIC | {"PET_RDZV_ENDPOINT": "job-worker-0"},
            "",
            "PET_RDZV_ENDPOINT is 'job-worker-0', expected host:port",
        ),
        (ELASTIC | {"PET_RDZV_CONF": "x"}, "", "PET_RDZV_CONF is 'x', expected key=value"),
        (
            TRAINER | {"PET_NODE_RANK": "2"},
            "",
            "PET_NODE_RANK is '2', expected a number from 0 to 1",
        ),
        (
            INDEXED | {"JOB_COMPLETION_INDEX": "4"},
            "",
            "JOB_COMPLETION_INDEX is '4', expected a number",
        ),
        (
            PLAIN | {"WORLD_SIZE": "2", "RANK": "1"},
            "--nproc-per-node=8",
            "WORLD_SIZE is '2', expected a multiple of the 8 processes of each node",
        ),
        (
            PLAIN | {"RANK": "2"},
            "--nproc-per-node=2",
            "RANK is '2', expected the rank of the node, 0 to 1: without LOCAL_RANK it counts nodes",
        ),
        ({}, "--nnodes=3", "MASTER_ADDR is not set, expected the name of node 0: --nnodes=3"),
        ({}, "--nproc-per-node=gpu", "--nproc-per-node=gpu, but no GPU is visible"),
        ({}, "--backend=nccl", "--backend=nccl, but no GPU is visible"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(
    environ: dict[str, str], line: str, says: str
) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        _settle(environ, line)
    assert str(caught.value).startswith(says) or says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("environ", "name"),
    [
        *((FIVE | {"TORCHELASTIC_RUN_ID": "x"}, name) for name in FIVE),
        *((FIVE | {"LATTICE_RDZV_ID": "x"}, name) for name in FIVE),
        *((MASTER, name) for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")),
        (ELASTIC, "PET_NNODES"),
        *((TRAINER, name) for name in ("PET_NODE_RANK", "PET_MASTER_PORT")),
        *((INDEXED, name) for name in ("TRAINWRIGHT_NNODES", "TRAINWRIGHT_MASTER_ADDR")),
        *((PLAIN, name) for name in PLAIN),
    ],
)
def test_a_missing_variable_is_named(environ: dict[str, str], name: str) -> None:
    with pytest.raises(RuntimeFailure, match=f"^{name} is not set, expected "):
        _settle(_without(environ, name))
    with pytest.raises(RuntimeFailure, match=f"^{name} is '', expected "):
        _settle(environ | {name: ""})


# --- devices -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "gpus", "expected"),
    [
        ("", 0, (1, "gloo", 8)),
        ("", 4, (4, "nccl", 2)),
        ("--nproc-per-node=gpu --backend=gloo", 2, (2, "gloo", 4)),
        ("--nproc-per-node=cpu", 0, (8, "gloo", 1)),
        ("--nproc-per-node=3", 0, (3, "gloo", 2)),
        ("--nproc-per-node=16", 0, (16, "gloo", 1)),
    ],
)
def test_processes_backend_and_threads_follow_the_devices(
    line: str, gpus: int, expected: tuple[int, str, int]
) -> None:
    layout = _settle({}, line, gpus)
    assert (layout.nproc, layout.backend, layout.threads) == expected


def test_explicit_numbers_need_no_look_at_the_gpus() -> None:
    def never() -> int:
        raise AssertionError("asking torch for GPUs costs a second")

    machine = Machine(gpus=never, has_gpu_driver=lambda: True, cores=lambda: 8)
    options = parse(["--backend=nccl", "--nproc-per-node=8", "--", "t.py"], {})
    assert resolve(recognise({}), options, machine).nproc == 8


def test_live_recovery_goes_on_with_fewer_nodes_than_the_launcher_has() -> None:
    assert _settle(MASTER, "--nnodes=1:3 --recovery=live").nodes == Nodes(low=1, high=3)


# --- documentation -------------------------------------------------------------------------------


def launcher_rows() -> list[str]:
    """The rows of the table of launchers in docs/runtime.md."""
    return [f"| {launcher.name} | {launcher.sets} |" for launcher in LAUNCHERS]


def test_the_documentation_has_the_launchers() -> None:
    assert "\n".join(launcher_rows()) in (ROOT / "docs/runtime.md").read_text()
