"""Copies in the memory of the nodes: a lost node costs no step, and nothing is read from storage."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
sys.path.insert(0, str(Path(__file__).parent))

import checkpoint_programs as programs  # noqa: E402
from checkpoint_programs import together  # noqa: E402
from containers import TIMEOUT, Entrypoint, finish  # noqa: E402

from trainwright_runtime.launch.machine import free_port  # noqa: E402

STEPS = 13  # of the whole training; copies at even steps, checkpoints at 5 and 10
STOPPED_AT = 9


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> list[float]:
    """The losses of a training that nothing disturbs; the same in any number of ranks."""
    folder = tmp_path_factory.mktemp("calm")
    return together(1, folder, programs.train_with_copies, folder, "plain", STEPS)[0][1]


def _stopped(root: Path, kind: str = "ddp", world: int = 3, lost: int = 1) -> None:
    """A training whose processes have all ended, the first of them by a kill."""
    codes = programs.killed(world, root, programs.train_with_copies, root, kind, STOPPED_AT, lost)
    assert codes[lost] == -9
    assert 0 not in codes


def _lose(root: Path, *nodes: int) -> None:
    for node in nodes:
        shutil.rmtree(root / f"memory-{node}")


def _empty_storage(root: Path) -> None:
    (root / "storage").rename(root / "away")


def _goes_on(root: Path, calm: list[float], *, kind: str = "ddp", world: int = 3) -> int:
    """The step from which training goes on, on all ranks, to the losses of a calm one."""
    ends = together(world, root, programs.train_with_copies, root, kind, STEPS)
    steps = {first for first, _ in ends}
    assert len(steps) == 1, "ranks went on from different steps"
    step = steps.pop()
    for _, losses in ends:
        assert losses == pytest.approx(calm[step:], rel=1e-6)
    return step


@pytest.mark.parametrize("kind", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_a_lost_node_needs_no_storage_to_go_on(
    kind: str, calm: list[float], tmp_path: Path
) -> None:
    _stopped(tmp_path, kind)
    _lose(tmp_path, 1)
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm, kind=kind) == 8
    assert (tmp_path / "storage/latest").read_text().strip().endswith("12")  # the last that was due


@pytest.mark.slow
def test_where_processes_start_again_each_node_has_its_own(
    calm: list[float], tmp_path: Path
) -> None:
    _stopped(tmp_path)
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm) == 8


def test_two_lost_neighbours_need_the_storage(calm: list[float], tmp_path: Path) -> None:
    _stopped(tmp_path)
    _lose(tmp_path, 1, 2)
    assert _goes_on(tmp_path, calm) == 5


@pytest.mark.slow
def test_two_lost_nodes_that_are_not_neighbours_do_not(calm: list[float], tmp_path: Path) -> None:
    _stopped(tmp_path, world=4)
    _lose(tmp_path, 1, 3)
    assert _goes_on(tmp_path, calm, world=4) == 8


@pytest.mark.slow
def test_another_number_of_nodes_goes_on_from_the_copies(calm: list[float], tmp_path: Path) -> None:
    _stopped(tmp_path)
    _lose(tmp_path, 2)
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm, world=2) == 8


def _corrupt(root: Path, step: int, *nodes: int) -> None:
    """Flip a bit of the files of rank 0 in some nodes' memory."""
    for node in nodes:
        (folder,) = (root / f"memory-{node}").glob(f"step-{step:010}.*")
        for path in folder.glob("__0_*.distcp"):
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)


@pytest.mark.parametrize(
    ("nodes", "step"),
    [
        pytest.param((0,), 8, marks=pytest.mark.slow),
        pytest.param((1,), 8, marks=pytest.mark.slow),
        ((0, 1), 6),
    ],
)
def test_a_damaged_copy_is_passed_over(
    nodes: tuple[int, ...], step: int, calm: list[float], tmp_path: Path
) -> None:
    _stopped(tmp_path)
    _corrupt(tmp_path, 8, *nodes)
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm) == step


@pytest.mark.slow
def test_a_list_of_digests_that_is_damaged_on_one_node_is_outvoted(
    calm: list[float], tmp_path: Path
) -> None:
    _stopped(tmp_path)
    (sums,) = (tmp_path / "memory-0").glob("step-0000000008.*/XXH128SUMS")
    sums.write_bytes(sums.read_bytes().translate(bytes.maketrans(b"0123", b"3210")))
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm) == 8


@pytest.mark.slow
def test_an_interrupted_copy_is_invisible(calm: list[float], tmp_path: Path) -> None:
    codes = programs.killed(3, tmp_path, programs.train_until_copying, tmp_path, "ddp", 8, 1)
    assert codes[1] == -9
    assert list(tmp_path.glob("memory-*/.step-0000000008.*"))
    _empty_storage(tmp_path)
    assert _goes_on(tmp_path, calm) == 6
    assert not list(tmp_path.glob("memory-*/*"))  # nothing is left once the run has ended well


def test_a_newer_checkpoint_comes_before_the_copies(calm: list[float], tmp_path: Path) -> None:
    codes = programs.killed(3, tmp_path, programs.train_with_copies, tmp_path, "ddp", 5, 1)
    assert codes[1] == -9
    assert list(tmp_path.glob("memory-0/step-0000000004.*"))
    assert _goes_on(tmp_path, calm) == 5


def test_memory_that_is_full_on_one_node_costs_the_copy_alone(tmp_path: Path) -> None:
    shown = together(3, tmp_path, programs.copy_where_one_rank_may_not_write, tmp_path)
    assert shown == [[[2], [2], [2, 6]]] * 3
    assert (tmp_path / "storage/latest").read_text().strip().endswith("6")  # at its end


@pytest.mark.slow
def test_storage_that_cannot_be_read_is_not_needed(tmp_path: Path) -> None:
    _stopped(tmp_path)
    assert together(3, tmp_path, programs.load_copies, tmp_path, "x" * 300) == [8] * 3
    # And a process that only loads removes nothing.
    assert together(3, tmp_path, programs.load_copies, tmp_path, "storage") == [8] * 3


@pytest.mark.parametrize("damaged", [0, 1])
def test_of_two_lists_of_digests_the_one_that_fits_is_taken(damaged: int, tmp_path: Path) -> None:
    assert programs.killed(2, tmp_path, programs.save_until, tmp_path, 2) == [7] * 2
    (sums,) = (tmp_path / f"memory-{damaged}").glob("step-0000000002.*/XXH128SUMS")
    sums.write_bytes(sums.read_bytes().translate(bytes.maketrans(b"0123", b"3210")))
    assert [end[0] for end in together(2, tmp_path, programs.go_on_to, tmp_path, 2)] == [2] * 2


def test_a_list_of_digests_that_is_cut_short_does_not_count(tmp_path: Path) -> None:
    assert programs.killed(2, tmp_path, programs.save_until, tmp_path, 4) == [7] * 2
    for sums in tmp_path.glob("memory-*/step-0000000004.*/XXH128SUMS"):
        lines = sums.read_text().splitlines(keepends=True)
        sums.write_text("".join(line for line in lines if "__0_0" not in line))
    assert [end[0] for end in together(2, tmp_path, programs.go_on_to, tmp_path, 2)] == [2] * 2


def test_no_node_sends_unless_all_have_room(tmp_path: Path) -> None:
    ends = together(2, tmp_path, programs.collect_where_one_rank_has_no_room, tmp_path)
    assert ends == ["OSError"] * 2


# --- what ends a run -----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_no_part_of_a_state_is_stored_once_the_group_is_gone(kind: str, tmp_path: Path) -> None:
    ends = together(2, tmp_path, programs.close_without_group, tmp_path, kind, 2)
    for end in ends:
        assert "the state of step 2 is in memory only" in end
        assert "call close() before destroy_process_group()" in end
    assert not list(tmp_path.glob("storage/*"))
    assert len(list(tmp_path.glob("memory-*/step-0000000002.*"))) == 2


def test_what_is_stored_already_needs_no_group(tmp_path: Path) -> None:
    ends = together(2, tmp_path, programs.close_without_group, tmp_path, "fsdp", 0)
    assert ends == [""] * 2
    assert [path.name for path in tmp_path.glob("storage/step-*")] == ["step-0000000003"]


def test_a_run_that_ends_before_the_next_save_stores_what_it_went_on_from(tmp_path: Path) -> None:
    assert programs.killed(2, tmp_path, programs.save_until, tmp_path, 8) == [7] * 2
    shutil.rmtree(tmp_path / "storage")
    _lose(tmp_path, 1)
    ends = together(2, tmp_path, programs.go_on_to, tmp_path, 9)
    assert ends == [[8, ["step-0000000008"], []]] * 2
    assert together(2, tmp_path, programs.load_uniform, tmp_path / "storage") == [8] * 2


# --- which of the two ----------------------------------------------------------------------------

STORED, COPIED = ["step-0000000005"], ["step-0000000002", "step-0000000004"]


def test_the_ranks_agree_where_one_of_them_asks_what_is_due(tmp_path: Path) -> None:
    ends = together(2, tmp_path, programs.save_where_rank_0_asks, tmp_path)
    assert ends == [[STORED, COPIED]] * 2


def test_waiting_makes_a_copy_where_only_a_copy_is_due(tmp_path: Path) -> None:
    assert together(2, tmp_path, programs.save_and_wait, tmp_path) == [[[], COPIED]] * 2


@pytest.mark.parametrize("order", ["due first", "stop first"])
@pytest.mark.parametrize("signalled", [0, 1])
def test_a_stop_reaches_the_storage(order: str, signalled: int, tmp_path: Path) -> None:
    ends = together(2, tmp_path, programs.stop_at_a_copy, tmp_path, order, signalled)
    assert ends == [[["step-0000000002"], []]] * 2


def test_copies_come_before_older_checkpoints_than_a_damaged_one(tmp_path: Path) -> None:
    assert programs.killed(2, tmp_path, programs.save_until, tmp_path, 5) == [7] * 2
    for path in tmp_path.glob("storage/step-0000000005/*.distcp"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    ends = together(2, tmp_path, programs.go_on_to, tmp_path, 4)
    assert [end[0] for end in ends] == [4] * 2


# --- with the entrypoint -----------------------------------------------------------------------

TRAIN = """
import os, pathlib, signal
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from trainwright_runtime.checkpoint import Checkpoints
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(6, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
state = {"model": model, "optimizer": optimizer}
lost = pathlib.Path("lost")
with Checkpoints.from_environment() as checkpoints:
    first = checkpoints.load(state) or 0
    print("from", first)
    for step in range(first + 1, 13):
        optimizer.zero_grad()
        model(torch.ones(4, 6)).square().mean().backward()
        optimizer.step()
        if checkpoints.due(step):
            checkpoints.save(step, state)
        if step == 9 and not lost.exists():
            checkpoints.wait()
            dist.barrier()
            if dist.get_rank() == 1:
                lost.touch()
                os.kill(os.getppid(), signal.SIGKILL)  # the whole node
                signal.pause()  # no other step meanwhile
print("done")
"""


@pytest.mark.slow
def test_a_node_that_is_made_anew_goes_on_from_its_neighbour(entrypoint: Entrypoint) -> None:
    script = entrypoint.script("train.py", TRAIN)
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": "3"}

    def node(rank: int) -> subprocess.Popen[str]:
        return entrypoint.start(
            "--recovery=restart", "--grace-period=10", "--", script,
            env={
                **job,
                "RANK": str(rank),
                "TRAINWRIGHT_CHECKPOINT_DIR": "storage",
                "TRAINWRIGHT_CHECKPOINT_EVERY": "5",
                "TRAINWRIGHT_PEER_COPIES_DIR": f"memory-{rank}",
                "TRAINWRIGHT_PEER_COPIES_EVERY": "2",
            },
        )  # fmt: skip

    nodes = [node(rank) for rank in range(3)]
    assert nodes[1].wait(TIMEOUT) == -9
    shutil.rmtree(entrypoint.folder / "memory-1")
    _empty_storage(entrypoint.folder)
    ends = [finish(one) for one in (nodes[0], node(1), nodes[2])]
    for rank, end in enumerate(ends):
        assert end.returncode == 0, end.stderr
        assert end.stdout.splitlines()[-2:] == [f"[rank {rank}] from 8", f"[rank {rank}] done"]
    assert "loading the copies of step 8" in ends[0].stderr
