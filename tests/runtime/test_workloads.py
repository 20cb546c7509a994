"""The workloads run for real, in one process and in two, and go on where they were stopped."""

from __future__ import annotations

import gzip
import importlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from trainwright_runtime.observe.journal import Event, Steps, read
from workloads import cifar10, mnist
from workloads.classification import RemainingSampler
from workloads.datasets import DataError, load

ROOT = Path(__file__).parents[2]
FLAGS = ("--data=digits", "--lr=0.05", "--momentum=0.9", "--log-every=1")
LAUNCHED = ("-m", "trainwright_runtime", "--backend=gloo", "--nproc-per-node=2", "--", "-m")


def _environment(**more: str) -> dict[str, str]:
    # One thread a process: two processes with two threads each spin on two cores.
    return {
        **{k: v for k, v in os.environ.items() if not k.startswith("TRAINWRIGHT_")},
        "PYTHONPATH": os.pathsep.join([str(ROOT / "runtime"), os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "HF_HUB_OFFLINE": "1",
        **more,
    }


def _run(*command: str, **environ: str) -> str:
    """The standard output of a Python command that must end well."""
    done = subprocess.run(
        [sys.executable, *command],
        env=_environment(**environ),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _losses(output: str) -> dict[int, str]:
    return {int(step): loss for step, loss in re.findall(r"step (\d+): loss (\S+)", output)}


def _accuracy(output: str) -> float:
    return float(re.findall(r"accuracy ([\d.]+)", output)[-1])


# Images


@pytest.fixture(scope="session")
def undisturbed() -> str:
    return _run("-m", "workloads.mnist", *FLAGS, "--epochs=2")


@pytest.mark.slow
def test_mnist_learns_in_one_process(undisturbed: str) -> None:
    assert undisturbed.startswith("1438 samples, 1 processes on cpu\n")
    assert sorted(_losses(undisturbed)) == list(range(1, 2 * 23 + 1))
    assert _accuracy(undisturbed) > 0.85


TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "-m")


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [LAUNCHED, TORCHRUN], ids=["trainwright", "torchrun"])
def test_mnist_learns_in_two_processes(tmp_path: Path, launcher: tuple[str, ...]) -> None:
    out = _run(
        *launcher, "workloads.mnist", *FLAGS, "--batch-size=32", "--epochs=2",
        TRAINWRIGHT_METRICS_DIR=str(tmp_path),
    )  # fmt: skip
    assert "1438 samples, 2 processes on cpu" in out
    assert _accuracy(out) > 0.85
    assert len(re.findall(r"epoch \d", out)) == 2  # the first rank speaks for both
    for rank in range(2):
        records = list(read(tmp_path / f"rank-{rank}.jsonl"))
        lines = [r for r in records if isinstance(r, Steps)]
        assert {line.world_size for line in lines} == {2}
        assert sum(line.samples for line in lines) == 2 * 1438 // 2
        assert [r.name for r in records if isinstance(r, Event)] == ["start", "end"]


@pytest.mark.slow
def test_mnist_stopped_in_the_middle_of_an_epoch_trains_the_same_losses(
    tmp_path: Path, undisturbed: str
) -> None:
    environ = {"TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path / "c"), "TRAINWRIGHT_CHECKPOINT_EVERY": "10",
               "TRAINWRIGHT_METRICS_DIR": str(tmp_path)}  # fmt: skip
    command = ("-m", "workloads.mnist", *FLAGS, "--epochs=2")
    before = ""
    with subprocess.Popen(
        [sys.executable, *command], env=_environment(**environ), stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout is not None
        for line in first.stdout:
            before += line
            if line.startswith("step 14:"):
                first.send_signal(signal.SIGTERM)
    assert first.returncode == 143

    after = _run(*command, **environ)
    assert f"goes on after step {max(_losses(before))}\n" in after
    assert {**_losses(before), **_losses(after)} == _losses(undisturbed)
    assert not set(_losses(before)) & set(_losses(after))
    assert after.splitlines()[-1] == undisturbed.splitlines()[-1]
    events = [r for r in read(tmp_path / "rank-0.jsonl") if isinstance(r, Event)]
    assert [e.name for e in events if e.name != "checkpoint"] == ["start", "stop", "restart", "end"]


@pytest.mark.slow
def test_mnist_goes_on_in_another_world(tmp_path: Path) -> None:
    environ = {"TRAINWRIGHT_CHECKPOINT_DIR": str(tmp_path)}
    command = ("workloads.mnist", *FLAGS, "--batch-size=32")
    _run(*LAUNCHED, *command, "--epochs=1", **environ)
    out = _run("-m", *command, "--epochs=2", **environ)
    assert "goes on after step 23\n" in out
    assert min(_losses(out)) == 24
    assert _accuracy(out) > 0.85


@pytest.mark.slow
def test_cifar10_learns() -> None:
    out = _run(
        "-m", "workloads.cifar10", "--data=digits", "--lr=0.01", "--epochs=1", "--backend=gloo"
    )
    assert _accuracy(out) > 0.6


@pytest.mark.parametrize("ranks", [(2, 1), (1, 2), (3, 2), (2, 3)])
def test_an_epoch_goes_on_with_as_many_ranks_as_there_are(ranks: tuple[int, int]) -> None:
    before, after = ranks
    records = list(range(60))

    def sampler(rank: int, world_size: int) -> RemainingSampler:
        return RemainingSampler(records, num_replicas=world_size, rank=rank, seed=3)  # type: ignore[arg-type]

    first = [sampler(rank, before) for rank in range(before)]
    trained = []
    for one in first:
        trained += list(one)[:6]
        one.advance(3)
        one.advance(3)
    state = first[0].state_dict()
    assert state == {"step": 2, "epoch": 0, "trained": 6 * before}
    for rank in range(after):
        second = sampler(rank, after)
        second.load_state_dict(state)
        assert len(second) == len(list(second))
        trained += list(second)
    assert sorted(trained) == records


# Text


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.slow
def test_bert_learns_in_two_processes_goes_on_and_is_read_as_a_published_one(
    tmp_path: Path,
) -> None:
    pytest.importorskip("datasets")
    from workloads import tiny  # which imports transformers

    command = (
        *LAUNCHED, "workloads.bert_mrpc", "--tiny", f"--output={tmp_path}/bert", "--lr=1e-3", "--batch-size=8",
    )  # fmt: skip
    environ = {"TRAINWRIGHT_METRICS_DIR": str(tmp_path)}
    assert _accuracy(_run(*command, "--epochs=2", **environ)) > 0.9
    assert _accuracy(_run(*command, "--epochs=3", **environ)) > 0.9
    records = [r for r in read(tmp_path / "rank-1.jsonl") if r]
    steps = [s for r in records if isinstance(r, Steps) for s in range(r.first, r.step + 1)]
    per_epoch = len(steps) // 3
    assert steps == list(range(1, 3 * per_epoch + 1))  # the third epoch was not trained twice
    assert sum(isinstance(r, Event) and r.name == "checkpoint" for r in records) == 3
    pairs: list[dict[str, object]] = [
        {"sentence1": a, "sentence2": b, "label": c} for a, b, c in tiny.pairs()[:32]
    ]
    _hub_folder(tmp_path / "glue", "mrpc", pairs)
    assert "accuracy" in _published("bert_mrpc", tmp_path / "bert", tmp_path / "glue")


@pytest.mark.long
@pytest.mark.slow
def test_distilgpt2_learns_and_is_read_as_a_published_one(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    from workloads import tiny  # which imports transformers

    model = tmp_path / "model"
    out = _run(
        "-m", "workloads.distilgpt2", "--tiny", f"--output={model}", "--epochs=1", "--lr=1e-3"
    )
    (perplexity,) = re.findall(r"perplexity ([\d.]+)", out)
    assert float(perplexity) < 500  # 1,000 tokens; knowing nothing is a perplexity of 1,000
    assert (model / "model.safetensors").exists()
    texts: list[dict[str, object]] = [{"text": text} for text in ["", *tiny.paragraphs()[:64]]]
    _hub_folder(tmp_path / "wiki", "wikitext-2-raw-v1", texts)
    assert "perplexity" in _published("distilgpt2", model, tmp_path / "wiki")


def _published(module: str, model: Path, dataset: Path) -> str:
    """What a training of a model prints that is in a folder as on the Hub, with such a dataset."""
    home = dataset.with_name("home")
    out = _run(
        "-m", f"workloads.{module}", f"--model={model}", f"--dataset={dataset}",
        f"--output={model}-again", "--epochs=1", HF_HOME=str(home),
    )  # fmt: skip
    assert (home / "datasets").is_dir()
    return out


def _hub_folder(folder: Path, config: str, rows: Sequence[dict[str, object]]) -> None:
    """A dataset as the Hub lays it out."""
    (folder / config).mkdir(parents=True)
    files = [
        {"split": split, "path": f"{config}/{split}.jsonl"} for split in ("train", "validation")
    ]
    head = yaml.safe_dump({"configs": [{"config_name": config, "data_files": files}]})
    (folder / "README.md").write_text(f"---\n{head}---\n")
    for file in files:
        (folder / file["path"]).write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.slow
def test_what_cannot_be_downloaded_is_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workloads.bert_mrpc", f"--model={tmp_path}/none", f"--output={tmp_path}"],
        env=_environment(HF_HOME=str(tmp_path)), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(
        r"error: (cannot get .*--tiny|No module named .*pip install .*)\n", done.stderr
    )


# Files as they are published, written byte by byte


def _idx(*sizes: int, values: bytes) -> bytes:
    return (
        bytes([0, 0, 8, len(sizes)]) + b"".join(size.to_bytes(4, "big") for size in sizes) + values
    )


def _write_mnist(folder: Path, *, packed: bool = False) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for part, count in (("train", 5), ("t10k", 2)):
        images = _idx(count, 28, 28, values=bytes(i % 256 for i in range(count * 28 * 28)))
        labels = _idx(count, values=bytes(range(count)))
        for name, data in (
            (f"{part}-images-idx3-ubyte", images),
            (f"{part}-labels-idx1-ubyte", labels),
        ):
            if packed:
                (folder / f"{name}.gz").write_bytes(gzip.compress(data))
            else:
                (folder / name).write_bytes(data)


@pytest.mark.parametrize(("below", "packed"), [("", False), ("", True), ("MNIST/raw", False)])
def test_mnist_files(tmp_path: Path, below: str, packed: bool) -> None:
    _write_mnist(tmp_path / below, packed=packed)
    train, test = (load("mnist", str(tmp_path), train=part) for part in (True, False))
    assert (len(train), len(test)) == (5, 2)
    image, label = train[1]
    assert image.shape == (1, 28, 28)
    assert label == 1
    # Row 2, column 3 of the second image is byte 28 * 28 + 2 * 28 + 3 = 843, modulo 256 75.
    assert image[0, 2, 3].item() == pytest.approx((75 / 255 - 0.1307) / 0.3081)


def _write_cifar10(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(["test_batch", *(f"data_batch_{i}" for i in range(1, 6))]):
        planes = b"".join(bytes([plane]) * 1024 for plane in (10, 20, 30))
        (folder / f"{name}.bin").write_bytes(bytes([i]) + planes + bytes([9]) + planes)


@pytest.mark.parametrize("below", ["", "cifar-10-batches-bin"])
def test_cifar10_files(tmp_path: Path, below: str) -> None:
    _write_cifar10(tmp_path / below)
    train, test = (load("cifar10", str(tmp_path), train=part) for part in (True, False))
    assert (len(train), len(test)) == (10, 2)
    image, label = train[8]
    assert label == 5
    assert [plane.unique().item() for plane in image] == pytest.approx(
        [(v / 255 - 0.473) / 0.251 for v in (10, 20, 30)]
    )


def _break(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    (folder / name).write_bytes(change((folder / name).read_bytes()))


def _too_large_label(folder: Path) -> None:
    _break(folder, "train-labels-idx1-ubyte", lambda data: data[:-1] + b"\x0a")


BROKEN: dict[str, tuple[Callable[[Path], None], str]] = {
    "missing": (
        lambda folder: (folder / "t10k-labels-idx1-ubyte").unlink(),
        "{folder}: no t10k-labels-idx1-ubyte there or in MNIST/raw; put the published files there, or give "
        "--data=digits for the digits of scikit-learn",
    ),
    "half": (
        lambda folder: _break(folder, "train-images-idx3-ubyte", lambda data: data[:1000]),
        "{folder}/train-images-idx3-ubyte: 984 values after its header; expected 3920: is the file whole?",
    ),
    "empty": (
        lambda folder: _break(folder, "train-images-idx3-ubyte", lambda _: b""),
        "{folder}/train-images-idx3-ubyte: it does not begin like an IDX file of bytes",
    ),
    "another-type": (
        lambda folder: _break(folder, "train-images-idx3-ubyte", lambda data: b"\0\0\x0d" + data[3:]),
        "{folder}/train-images-idx3-ubyte: it does not begin like an IDX file of bytes",
    ),
    "another-shape": (
        lambda folder: _break(folder, "train-images-idx3-ubyte", lambda _: _idx(5, 2, 2, values=bytes(20))),
        "{folder}: images of shape (5, 2, 2) and 5 labels; expected as many images of 28 by 28 as labels",
    ),
    "label": (_too_large_label, "{folder}: label 10; expected 0 to 9"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_are_not_what_they_should_be(tmp_path: Path, case: str) -> None:
    spoil, message = BROKEN[case]
    _write_mnist(tmp_path)
    spoil(tmp_path)
    with pytest.raises(DataError) as caught:
        [load("mnist", str(tmp_path), train=part) for part in (True, False)]
    assert str(caught.value) == message.format(folder=tmp_path)


def test_half_a_compressed_file(tmp_path: Path) -> None:
    _write_mnist(tmp_path, packed=True)
    _break(tmp_path, "train-images-idx3-ubyte.gz", lambda data: data[: len(data) // 2])
    with pytest.raises(DataError, match=r"train-images-idx3-ubyte\.gz: cannot be read: "):
        load("mnist", str(tmp_path), train=True)


def test_half_a_record_of_cifar10(tmp_path: Path) -> None:
    _write_cifar10(tmp_path)
    _break(tmp_path, "data_batch_3.bin", lambda data: data[:-1])
    with pytest.raises(
        DataError, match=r"data_batch_3\.bin: 6145 bytes; expected records of 3073 bytes"
    ):
        load("cifar10", str(tmp_path), train=True)


def test_data_that_is_not_there_ends_a_workload_with_one_line(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "workloads.mnist", f"--data={tmp_path}"],
        env=_environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert re.fullmatch(rf"error: {tmp_path}: no train-images.*\n", done.stderr)


# What the shipped manifests ask for


def _containers(value: object) -> Iterator[dict[str, list[str]]]:
    """Every container of a manifest, however deep."""
    if isinstance(value, dict):
        if "command" in value and "image" in value:
            yield value
        for inner in value.values():
            yield from _containers(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _containers(inner)


def _shipped() -> set[tuple[str, ...]]:
    """The command lines of the rendered jobs of all environments."""
    lines = set()
    for path in ROOT.glob("environments/*/rendered/*/*.yaml"):
        if path.name != "values.yaml":
            for container in _containers(list(yaml.safe_load_all(path.read_text()))):
                lines.add((*container["command"], *container.get("args", ())))
    return lines


def test_shipped_jobs_name_workloads_and_flags_that_exist() -> None:
    modules = set()
    for line in _shipped():
        if "trainwright_runtime" in line:
            assert line[line.index("--") + 1] == "-m"
            name, *flags = line[line.index("--") + 2 :]
            importlib.import_module(name).parser().parse_args(flags)  # exits when one is wrong
            modules.add(name)
    assert modules == {"workloads.mnist", "workloads.elastic_mnist"}


def test_cifar10_takes_the_flags_of_the_shipped_script() -> None:
    lines = [line for line in _shipped() if line[-1].startswith("--lr=")]
    assert lines
    for line in lines:
        options = cifar10.parser().parse_args([arg for arg in line if arg.startswith("--")])
        assert options.lr == 0.002
        assert options.backend in ("nccl", "gloo")


@pytest.fixture(scope="session")
def fine_tunings() -> list[ModuleType]:
    """Importing transformers takes more than a second of a processor: not while tests are collected."""
    names = ("bert_mrpc", "distilgpt2")
    return [importlib.import_module(f"workloads.{name}") for name in names]


def test_results_go_where_the_shipped_jobs_say(fine_tunings: list[ModuleType]) -> None:
    message = "".join(path.read_text() for path in (ROOT / "environments/base/jobs").glob("*.yaml"))
    for module in fine_tunings:
        assert f"writes {module.parser().get_default('output')}" in message


def test_the_page_names_every_workload_and_flag(fine_tunings: list[ModuleType]) -> None:
    page = (ROOT / "runtime/workloads/README.md").read_text()
    for module in (mnist, cifar10, *fine_tunings):
        parser = module.parser()
        assert f"`{parser.prog.removeprefix('workloads.')}`" in page
        flags = [o for action in parser._actions for o in action.option_strings]
        assert not [flag for flag in flags if flag not in page and flag not in ("-h", "--help")]
