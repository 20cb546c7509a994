"""The same on GPUs as on processors. Where there is no GPU, what takes one is skipped."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

torch = pytest.importorskip("torch")

from continuous_integration import TAKES_GPU  # noqa: E402
from trainwright_runtime.checkpoint import Checkpoints  # noqa: E402

ROOT = Path(__file__).parents[2]
GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason=TAKES_GPU)
DEVICES = ["cpu", pytest.param("cuda", marks=GPU)]
TABLES = [pytest.param("cpu", marks=pytest.mark.nightly), DEVICES[1]]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = spec_from_file_location("gpu", ROOT / "benchmarks/gpu.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "gpu", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("device", TABLES)
def test_the_benchmark_prints_its_table(device: str, gpu: ModuleType, tmp_path: Path) -> None:
    """Its exit code is 0 where losses with kills are those without."""
    epochs = gpu.SCALES[device].epochs
    command = [sys.executable, ROOT / "benchmarks/gpu.py", f"--device={device}", "--runs=1"]
    command += [f"--directory={tmp_path}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = dict(line.strip("| ").split(" | ")[:2] for line in done.stdout.splitlines()[2:])
    assert rows["backend"] in ("nccl", "gloo")
    if device == "cpu":
        assert "NCCL" in rows["nccl refuses"]
    for name in (
        "machine",
        "processes",
        "step of DDP, and elastic",
        "elastic step over DDP's, median of 2 rounds",
        "kill to the next committed step, median of 1",
        "synchronous save, over dcp.save",
        "stall of an asynchronous save, over dcp.save",
        f"losses of {epochs} epochs, 1 kill: largest relative difference",
    ):
        assert name in rows


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("wait", [False, True])
def test_a_checkpoint_has_the_state_as_it_was(device: str, wait: bool, tmp_path: Path) -> None:
    model = torch.nn.Linear(300, 300).to(device)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(2, 300, device=device)).sum().backward()
    optimizer.step()
    state = {"model": model, "optimizer": optimizer, "half": torch.ones(9, device=device).half()}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with Checkpoints(tmp_path) as checkpoints:
        checkpoints.save(1, state, wait=wait)
        with torch.no_grad():  # while it is written
            model.weight.zero_()
            model.bias.zero_()
        assert checkpoints.load(state) == 1
    for name, tensor in model.state_dict().items():
        assert tensor.device.type == device
        assert torch.equal(tensor, before[name])


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            "[rank1]: Traceback (most recent call last):\n"
            "[rank1]: torch.distributed.DistBackendError: NCCL error in: NCCLUtils.cpp:94\n"
            "[rank1]: ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n"
            "[rank1]: Last error:\n"
            "[rank1]: Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000\n"
            "[rank1]:[W1128 05:00:00.1 ProcessGroupNCCL.cpp:1553] Warning: destroy_process_group\n",
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
        ),
        ("RuntimeError: a|b\n\n", "RuntimeError: a/b"),
        ("", "no words"),
    ],
)
def test_what_a_backend_refuses_with(log: str, words: str, gpu: ModuleType) -> None:
    assert gpu.last_words(log) == words
