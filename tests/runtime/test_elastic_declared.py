"""Workers whose programs declare different trainings: they would lose records, and no sum shows it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import StepLR
from workers import workers

from trainwright_runtime import elastic
from trainwright_runtime.coordination.timeouts import Timeouts
from trainwright_runtime.elastic import audit
from trainwright_runtime.elastic.declared import differences
from trainwright_runtime.elastic.errors import DeclaredOtherwise
from trainwright_runtime.elastic.members import Callbacks
from trainwright_runtime.elastic.replica import Address, Replica
from trainwright_runtime.failures import exit_codes

TRAINING = sys.modules["trainwright_runtime.elastic.training"]  # whose name its function has


def _arguments(size: int) -> dict[str, Any]:
    model = torch.nn.Linear(size, 1)
    return {
        "model": model,
        "optimizer": SGD(model.parameters()),
        "datasets": {"train": [*range(24)], "validation": [*range(6)]},
        "batch_size": 8,
        "epochs": 2,
    }


@pytest.fixture
def declared(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Mapping[str, str]]:
    """What a training with these arguments declares to the others."""

    def declare(size: int = 3, **changes: Any) -> Mapping[str, str]:
        found: dict[str, Mapping[str, str]] = {}
        real = TRAINING.membership

        def noted(*arguments: Any, **options: Any) -> Any:
            found.update(declared=options["declared"])
            return real(*arguments, **options)

        with monkeypatch.context() as patch:
            patch.setattr(TRAINING, "membership", noted)
            with elastic.training(**{**_arguments(size), **changes}):
                pass
        return found["declared"]

    return declare


def _shards(*names: str) -> elastic.Shards:
    return elastic.Shards(names=names, open=lambda _name, _skip: iter(()))


OTHERS: dict[str, tuple[str, dict[str, Any]]] = {
    "the batch": ("batch_size", {"batch_size": 16}),
    "the epochs": ("epochs", {"epochs": 3}),
    "what resizes": ("resize", {"resize": "rate", "replicas": 2}),
    "the seed": ("dataset train", {"seed": 1}),
    "the order": ("dataset train", {"shuffle": False}),
    "the length of a dataset": (
        "dataset validation",
        {"datasets": {"train": [*range(24)], "validation": [*range(5)]}},
    ),
    "another dataset": ("dataset validation", {"datasets": {"train": [*range(24)]}}),
    "shards": ("dataset train", {"datasets": {"train": _shards("a.tar")}}),
    "local steps": ("synchronize", {"synchronize": elastic.LocalSGD(every=4)}),
    "what is added": ("totals", {"totals": ("loss",)}),
    "the clipping": ("max_grad_norm", {"max_grad_norm": 1.0}),
    "the model": ("model", {"size": 4}),
    "the scaler": ("scaler", {"scaler": torch.amp.GradScaler("cpu")}),
    "a state": ("counter", {"states": {"counter": {"n": 0}}}),
}


@pytest.mark.parametrize("case", OTHERS)
def test_what_has_to_be_the_same_is_declared(
    declared: Callable[..., Mapping[str, str]], case: str
) -> None:
    name, changes = OTHERS[case]
    found = {name for name, _, _ in differences(declared(), declared(**changes))}
    assert name in found
    assert found <= {name, "dataset train", "dataset validation"}


def test_rules_are_declared_by_their_classes(declared: Callable[..., Mapping[str, str]]) -> None:
    model = torch.nn.Linear(3, 1)
    optimizer = Adam(model.parameters())
    other = declared(model=model, optimizer=optimizer, scheduler=StepLR(optimizer, 1))
    assert [*differences(declared(), other)] == [
        ("optimizer", "SGD", "Adam"),
        ("scheduler", "not declared", "StepLR"),
    ]


def test_what_each_worker_may_choose_is_not_declared(
    declared: Callable[..., Mapping[str, str]],
) -> None:
    assert declared() == declared(micro_batch=2, on_step=print)


def test_what_is_declared_is_short(declared: Callable[..., Mapping[str, str]]) -> None:
    many = _shards(*(f"{number}.tar" for number in range(9999)))
    assert all(len(value) < 200 for value in declared(datasets=many).values())


def _replica(name: str, port: int, **declared: str) -> Replica:
    address = Address(
        coordinator=f"127.0.0.1:{port}", name=name, min_replicas=1, backend="gloo",
        timeouts=Timeouts(quorum=3), declared=declared,
    )  # fmt: skip
    return Replica(address, Callbacks(dump=dict, load=lambda _: None))


@pytest.mark.parametrize(
    "other",
    [{"batch_size": "16"}, {"batch_size": "8", "processes of a replica": "2"}, {}],
    ids=["another value", "one more", "nothing, as an earlier version"],
)
def test_a_newcomer_that_declares_otherwise_is_refused_and_the_others_go_on(
    other: dict[str, str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"TRAINWRIGHT_QUORUM_TIMEOUT": "3"}
    with ThreadPoolExecutor() as threads, workers(tmp_path, "", environ=environ) as group:
        first = _replica("a", group.port, batch_size="8")
        newcomer = _replica("b", group.port, **other)
        first.join()
        assert first.commit()

        def refused() -> str:
            with pytest.raises(DeclaredOtherwise) as refusal:
                newcomer.join()
            newcomer.leave()  # as the process ends
            newcomer.close()
            return str(refusal.value)

        joining = threads.submit(refused)
        while not joining.done():
            assert len(first.join().names) == 1
            assert first.commit()
        for name, theirs, own in differences({"batch_size": "8"}, other):
            assert f"{name} is {theirs} on a and {own} on b" in joining.result()
        first.leave()
        first.close()
    assert [record for record in caplog.records if "refusing b" in record.getMessage()]


@pytest.mark.slow
def test_no_record_is_lost_to_a_worker_with_another_seed(tmp_path: Path) -> None:
    with workers(tmp_path, "w0", "3", "0.05") as group:
        group.wait_for_commit()
        group.arguments = ("3", "0.05", json.dumps({"seed": 1}))
        group.start("w1")
        group.processes["w1"].wait(120)
        group.hurry()
        assert group.wait() == {
            "w0": 0,
            "w1": exit_codes.FAILED,
        }  # by itself, without the entrypoint
        assert "seed 0, shuffle true on w0 and records 1437, seed 1" in group.logs()
        assert audit.main([str(group.audit), "--epochs=3"]) == 0


WORLD = """
import os, torch
from trainwright_runtime import elastic
model = torch.nn.Linear(2, 1)
batch = 8 + int(os.environ["RANK"])
with elastic.training(model, torch.optim.SGD(model.parameters()), [*range(8)], batch_size=batch):
    pass
"""


@pytest.mark.slow
def test_ranks_of_a_fixed_world_are_compared_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(WORLD)
    done = subprocess.run(
        [sys.executable, "-m", "trainwright_runtime", "--nproc-per-node=2", "--", "train.py"],
        cwd=tmp_path, env={**os.environ, "TRAINWRIGHT_BACKEND": "gloo"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == exit_codes.USAGE, done.stderr
    assert "batch_size is 8 on rank 0 and 9 on rank 1" in done.stderr
