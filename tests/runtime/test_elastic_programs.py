"""What programs bring along moves with the committed steps: averages, scalers, counters, schedules."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy, fully_shard
from torch.distributed.pipelining import PipelineStage
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, IterableDataset, RandomSampler, WeightedRandomSampler
from workers import workers

from trainwright_runtime import elastic
from trainwright_runtime.checkpoint import CheckpointError
from trainwright_runtime.elastic.gradients import Averages, Gradients
from trainwright_runtime.failures import exit_codes


class Numbers:
    """Each sample is its own number, in hundredths."""

    def __len__(self) -> int:
        return 20

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor([index / 100])


class Interrupted(Exception):
    pass


class Program:
    """A training with everything that a program may bring; its body can be interrupted."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.body, self.head = torch.nn.Linear(1, 3), torch.nn.Linear(3, 1)
        self.model = torch.nn.Sequential(self.body, torch.nn.Tanh(), self.head)
        self.ema = AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(0.5))
        self.counters = {"steps": 0, "best": 1e9}
        self.scaler = torch.amp.GradScaler("cpu", init_scale=16.0, growth_interval=3)
        self.optimizers = {
            "body": torch.optim.AdamW(self.body.parameters(), lr=0.05),
            "head": torch.optim.SGD(self.head.parameters(), lr=0.5, momentum=0.9),
        }
        self.schedulers = {
            "steps": torch.optim.lr_scheduler.StepLR(self.optimizers["body"], 2),
            "plateau": torch.optim.lr_scheduler.ReduceLROnPlateau(
                self.optimizers["head"], patience=0, threshold=1e3
            ),
        }
        self.lines: list[tuple[int, float]] = []

    def train(self, interrupt: Callable[[elastic.Training], bool], **options: Any) -> None:
        with elastic.training(
            self.model,
            self.optimizers,
            Numbers(),
            batch_size=8,
            epochs=4,
            scheduler=self.schedulers,
            scaler=self.scaler,
            states={"ema": self.ema, "counters": self.counters},
            on_step=self.after_step,
            totals=("loss",),
            **options,
        ) as run:
            for epoch in run.epochs():
                for batch in run.batches():
                    loss = (self.model(batch) - 1).square().mean()
                    run.backward(loss)
                    run.add(loss=loss.item() * len(batch))
                    if interrupt(run):
                        raise Interrupted
                if interrupt(run):
                    raise Interrupted
                self.schedulers["plateau"].step(run.totals()["loss"])
                self.counters["best"] = min(self.counters["best"], run.totals()["loss"])
                self.lines.append((epoch, run.totals()["loss"]))

    def after_step(self) -> None:
        self.ema.update_parameters(self.model)
        self.counters["steps"] += 1

    def state(self) -> dict[str, Any]:
        return _plain(
            {
                "model": self.model.state_dict(),
                "ema": self.ema.state_dict(),
                "scaler": self.scaler.state_dict(),
                "counters": self.counters,
                **{name: part.state_dict() for name, part in self.optimizers.items()},
                **{f"{name}-s": part.state_dict() for name, part in self.schedulers.items()},
            }
        )


def _plain(state: Any) -> Any:
    """With numbers for tensors, which can be compared."""
    match state:
        case torch.Tensor():
            return state.tolist()
        case dict():
            return {key: _plain(value) for key, value in state.items()}
        case list() | tuple():
            return [_plain(value) for value in state]
    return state


@pytest.fixture
def checkpoints(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRAINWRIGHT_CHECKPOINT_DIR", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("TRAINWRIGHT_CHECKPOINT_EVERY", "1")
    return tmp_path / "checkpoints"


def test_all_that_a_program_brings_is_where_it_was_when_it_goes_on(
    checkpoints: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRAINWRIGHT_CHECKPOINT_DIR")
    calm = Program()
    calm.train(lambda run: False)
    assert calm.counters["steps"] == 12
    assert calm.scaler.get_scale() == 16.0 * 2**4
    assert calm.optimizers["head"].param_groups[0]["lr"] < 0.5
    monkeypatch.setenv("TRAINWRIGHT_CHECKPOINT_DIR", str(checkpoints))
    lines = {}
    stops = [1, 3, 3, 6, 8, 9, 11, 12]  # steps; 3, 6, 9 and 12 are the last of their epochs
    for stop in stops:
        program = Program()
        with pytest.raises(Interrupted):
            program.train(lambda run, stop=stop: run.step >= stop)
        lines |= dict(program.lines)
    program = Program()
    program.train(lambda run: False)
    lines |= dict(program.lines)
    assert lines == dict(calm.lines)  # the end of no epoch is lost, nor told otherwise
    assert program.state() == calm.state()


def test_a_program_that_was_done_is_not_run_again(checkpoints: Path) -> None:
    def train() -> list[int]:
        model = torch.nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        ends = []
        with elastic.training(model, optimizer, Numbers(), batch_size=20, epochs=2) as run:
            for epoch in run.epochs():
                for batch in run.batches():
                    run.backward(model(batch).mean())
                ends.append(epoch)
        return ends

    assert train() == [0, 1]
    assert train() == [1]  # the last checkpoint is older than the end of this epoch


def test_a_dataset_that_is_read_now_and_then_holds_up_nothing() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    read = []
    data = {"train": Numbers(), "validation": Numbers()}
    with elastic.training(model, optimizer, data, batch_size=20, epochs=5, totals=("n",)) as run:
        for epoch in run.epochs():
            for batch in run.batches():
                run.backward(model(batch).mean())
            if epoch % 2:
                for batch in run.batches("validation"):
                    run.add(n=len(batch))
                read.append((epoch, run.totals("validation")["n"]))
    assert read == [(1, 20), (3, 20)]


def test_a_scaler_leaves_out_a_step_that_overflows_and_its_schedule() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    before = copy.deepcopy(model.state_dict())
    with elastic.training(
        model, optimizer, Numbers(), batch_size=20, scheduler=scheduler, scaler=scaler
    ) as run:
        for _ in run.epochs():
            for batch in run.batches():
                run.backward(model(batch).mean() * float("inf"))
    assert run.step == 1  # its records count: they were read
    torch.testing.assert_close(model.state_dict(), before)
    assert scaler.get_scale() == 2.0
    assert optimizer.param_groups[0]["lr"] == 0.1


def test_what_no_worker_used_is_left_as_it_is() -> None:
    """As in one process: with zeros for gradients, weight decay and momentum would go on."""
    used, unused = torch.nn.Linear(1, 1), torch.nn.Linear(1, 1)
    model = torch.nn.ModuleList([used, unused])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    before = unused.weight.item()
    with elastic.training(model, optimizer, Numbers(), batch_size=8) as run:
        for _ in run.epochs():
            for batch in run.batches():
                run.backward(used(batch).mean())
    assert unused.weight.item() == before
    assert len(optimizer.state) == 2


def test_what_a_piece_without_weight_does_to_running_averages_goes_also_with_a_break() -> None:
    buffer = torch.zeros(2)
    model = torch.nn.Module()
    model.register_buffer("average", buffer)
    averages = Averages(model, lambda total: None)

    def pieces() -> Iterator[None]:
        with averages.kept():
            yield

    for _ in pieces():
        buffer.add_(1)
        break
    assert buffer.tolist() == [0, 0]


class _Twice:
    """The sum over two replicas that have the same."""

    def __init__(self, tensor: torch.Tensor) -> None:
        tensor.mul_(2)

    def wait(self) -> None: ...


def test_what_gives_a_model_other_memory_takes_nothing_out_of_the_sums() -> None:
    """As accelerate does before it evaluates: on processors `.to("cpu:0")` copies all tensors."""
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.BatchNorm1d(1))
    gradients, averages = Gradients(model.parameters(), _Twice), Averages(model, lambda _: None)
    for moves in (False, True):
        if moves:
            model.to(torch.device("cpu", 0))
        gradients.clear()
        gradients.send_when_ready()
        model(torch.ones(4, 1)).sum().backward()
        gradients.finish()
        assert model[1].bias.grad.item() == 8
        averages.exchange(4)
        assert averages.flat.tolist() == [4 * model[1].running_mean, 4 * model[1].running_var]


def test_names_of_states_are_their_own() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for name in ("model", "optimizer", "progress", "rng"):
        with pytest.raises(ValueError, match="taken by the training's own state"):
            _open(model, optimizer, states={name: {}})
    with pytest.raises(TypeError, match=r"states\['steps'\] is a int: expected an object with"):
        _open(model, optimizer, states={"steps": 3})


def test_a_model_that_is_sharded_or_wrapped_is_refused_with_what_to_do(tmp_path: Path) -> None:
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        for wrap, words in (
            (fully_shard, "the model is sharded .* --recovery=restart"),
            (_hsdp, "the model is sharded .* --recovery=restart, HSDP too"),
            (_fsdp1, "the model is sharded .* --recovery=restart"),
            (_tensor_parallel, "the model is sharded .*parallelize_module.* --recovery=restart"),
            (DistributedDataParallel, "wrapped in DistributedDataParallel, .* the model itself"),
        ):
            model = wrap(torch.nn.Linear(1, 1))
            with pytest.raises(TypeError, match=words):
                _open(model, torch.optim.SGD(model.parameters(), lr=0.1))
    finally:
        dist.destroy_process_group()


def test_a_node_as_a_replica_takes_what_its_processes_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRAINWRIGHT_REPLICA_PROCESSES", "1")
    dist.init_process_group("gloo", f"file://{tmp_path / 'meeting'}", rank=0, world_size=1)
    try:
        for wrap, words in (
            (lambda model: model, r"fully_shard\(model\), the root too, or leave the option out"),
            (_only_a_layer, "the root too"),
            (_fsdp1, "FullyShardedDataParallel, .* no live recovery: .* --recovery=restart"),
            (_hsdp, "weight is .*Replicate.* for any other mesh, .* --recovery=restart"),
            (_tensor_parallel, "parallelize_module.* no live recovery: .* --recovery=restart"),
            (
                _sharded_tensor_parallel,
                r"weight is .*DeviceMesh\(\(dp=1, tp=1\).* for any other mesh",
            ),
            (_pipeline_stage, "pipeline stages.* no live recovery: .* --recovery=restart"),
            (_with_a_whole_parameter, "scale is a whole tensor"),
            (_off_its_mesh, "weight is on the device meta, its mesh on cpu, .* CPUOffloadPolicy"),
        ):
            model = wrap(torch.nn.Linear(1, 1))
            with pytest.raises(TypeError, match=words):
                _open(model, torch.optim.SGD(model.parameters(), lr=0.1))
        model = fully_shard(torch.nn.Linear(1, 1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        shards = elastic.Shards(names=["a"], open=lambda name, skip: [])
        for name, options in (
            ("scaler=", {"scaler": torch.amp.GradScaler("cpu")}),
            ("synchronize=", {"synchronize": elastic.LocalSGD(every=2)}),
            ("elastic.Shards", {"data": shards}),
        ):
            with pytest.raises(TypeError, match=f"{name}: not with a model that is sharded"):
                _open(model, optimizer, **options)
    finally:
        dist.destroy_process_group()


def _pipeline_stage(model: torch.nn.Module) -> torch.nn.Module:
    return PipelineStage(model, 0, 1, torch.device("cpu")).submod


def _only_a_layer(model: torch.nn.Module) -> torch.nn.Module:
    return torch.nn.Sequential(fully_shard(model))


def _off_its_mesh(model: torch.nn.Module) -> torch.nn.Module:
    """As with CPUOffloadPolicy, whose mesh is of a GPU."""
    return fully_shard(model.to("meta"))


def _with_a_whole_parameter(model: torch.nn.Module) -> torch.nn.Module:
    scale = torch.nn.Parameter(torch.ones(1))
    model.register_parameter("scale", scale)
    return fully_shard(model, ignored_params={scale})


def _fsdp1(model: torch.nn.Module) -> torch.nn.Module:
    cpu = torch.device("cpu")
    return FullyShardedDataParallel(
        model, device_id=cpu, sharding_strategy=ShardingStrategy.NO_SHARD
    )


def _hsdp(model: torch.nn.Module) -> torch.nn.Module:
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("replicate", "shard"))
    return fully_shard(model, mesh=mesh)


def _tensor_parallel(model: torch.nn.Module) -> torch.nn.Module:
    return parallelize_module(model, init_device_mesh("cpu", (1,)), ColwiseParallel())


def _sharded_tensor_parallel(model: torch.nn.Module) -> torch.nn.Module:
    """As torchtitan, in tests/runtime/programs/mesh.py."""
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "tp"))
    return fully_shard(parallelize_module(model, mesh["tp"], ColwiseParallel()), mesh=mesh["dp"])


def _open(model: Any, optimizer: Any, data: Any = None, **options: Any) -> None:
    with elastic.training(model, optimizer, data or Numbers(), batch_size=4, **options):
        pass


# Datasets and orders


class Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter([torch.zeros(1)])


def test_what_can_only_be_iterated_over_is_refused_with_what_to_do() -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(TypeError, match=r"dataset 'train' is a Stream.* elastic\.Shards\("):
        _open(model, optimizer, Stream())
    with pytest.raises(TypeError, match=r"dataset 'train' is a generator.* elastic\.Shards\("):
        _open(model, optimizer, (n for n in range(3)))
    with pytest.raises(TypeError, match=r"dataset 'train' is a DataLoader: pass its dataset"):
        _open(model, optimizer, DataLoader(Numbers()))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"a Stream does not describe its shards"):
        elastic.Shards.of(Stream())


@pytest.mark.slow
def test_a_stream_of_the_datasets_library_is_read_by_its_shards(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")

    def rows(shards: list[int]) -> Iterator[dict[str, int]]:
        for shard in shards:
            for row in range(shard + 1):
                yield {"row": 10 * shard + row}

    stream = datasets.IterableDataset.from_generator(rows, gen_kwargs={"shards": [0, 1, 2, 3]})
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    read = []
    with elastic.training(model, optimizer, elastic.Shards.of(stream), batch_size=3) as run:
        for _ in run.epochs():
            for batch in run.batches():
                read += batch["row"].tolist()
                run.backward(model(batch["row"][:, None].float()).mean())
    assert sorted(read) == [0, 10, 11, 20, 21, 22, 30, 31, 32, 33]


def _orders(make: Callable[[], Any], folder: Path | None = None) -> list[list[float]]:
    """The records of each of two epochs, with random numbers drawn in between."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    read = []
    with elastic.training(
        model, optimizer, Numbers(), batch_size=8, epochs=2, sampler=make()
    ) as run:
        for _ in run.epochs():
            torch.rand(3)
            epoch = [batch.flatten() for batch in run.batches()]
            read.append([round(100 * n) for n in torch.cat(epoch).tolist()])
    return read


@pytest.mark.parametrize(
    "make",
    [
        lambda: RandomSampler(Numbers()),
        lambda: RandomSampler(Numbers(), generator=torch.Generator()),
        lambda: WeightedRandomSampler([1.0] * 10 + [0.0] * 10, 12),
    ],
)
def test_a_sampler_gives_each_worker_the_same_order(make: Callable[[], Any]) -> None:
    first, second = _orders(make)
    assert first != second
    assert len(first) == len(make())
    drawn = torch.random.get_rng_state()
    torch.rand(7)
    assert _orders(make) == [first, second]
    torch.random.set_rng_state(drawn)


class Fickle:
    """Gives another order each time, whatever the seed."""

    calls = itertools.count()

    def __len__(self) -> int:
        return 20

    def __iter__(self) -> Iterator[int]:
        start = next(self.calls)
        return iter([(start + n) % 20 for n in range(20)])


def test_an_order_that_is_not_the_same_again_is_not_gone_on_with(checkpoints: Path) -> None:
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        with elastic.training(
            model, optimizer, Numbers(), batch_size=8, epochs=2, sampler=Fickle()
        ) as run:
            for _ in run.epochs():
                for batch in run.batches():
                    run.backward(model(batch).mean())

    train()
    with pytest.raises(CheckpointError, match="with another order of records"):
        train()


# Several workers


AVERAGES = """
import json, sys, time
from pathlib import Path
import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from trainwright_runtime import elastic

torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Linear(1, 1)
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
counters = {"steps": 0}
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
    optimizer, patience=2, threshold=0.5, factor=0.9
)
data = torch.arange(200.0).reshape(200, 1) / 200

def after_step():
    ema.update_parameters(model)
    counters["steps"] += 1

with elastic.training(
    model, optimizer, data, batch_size=20, epochs=int(sys.argv[1]), scheduler=scheduler,
    states={"ema": ema, "counters": counters}, on_step=after_step, totals=("loss",),
) as run:
    for epoch in run.epochs():
        for batch in run.batches():
            loss = (model(batch) - 2 * batch).square().mean()
            run.backward(loss)
            run.add(loss=loss.item() * len(batch))
            if not Path("hurry").exists():
                time.sleep(0.05)
        scheduler.step(run.totals()["loss"])
        print("epoch", epoch, run.rank, round(run.totals()["loss"], 3), flush=True)
    print(json.dumps({
        "step": run.step, "steps": counters["steps"], "rate": optimizer.param_groups[0]["lr"],
        "ema": ema.module.weight.item(), "weight": model.weight.item(),
    }), flush=True)
"""


@pytest.mark.long
@pytest.mark.slow
def test_a_newcomer_has_the_averages_and_counters_of_the_others(tmp_path: Path) -> None:
    script = tmp_path / "averages.py"
    script.write_text(AVERAGES)
    with workers(tmp_path, "w0 w1", "80", script=script) as group:
        last = group.wait_for_commit(5, workers=2)
        group.processes["w1"].kill()
        group.processes["w1"].wait()
        group.start("w1")
        group.wait_for_commit(last + 10, workers=2)
        group.hurry()
        assert set(group.wait().values()) == {0}, group.logs()
        reports = group.reports()
    assert len(reports) == 2
    assert reports[0] == reports[1]
    assert reports[0]["step"] == reports[0]["steps"] == 800
    assert reports[0]["rate"] < 0.02
    calm = tmp_path / "calm"
    calm.mkdir()
    with workers(calm, "w0", "80", script=script) as alone:
        alone.hurry()
        assert alone.wait() == {"w0": 0}, alone.logs()
        assert alone.reports()[0] == pytest.approx(reports[0], rel=1e-4)


def test_who_was_away_for_the_end_of_an_epoch_reports_nothing_of_it() -> None:
    ends: list[int] = []
    with pytest.raises(SystemExit) as left:
        _train_and_be_overtaken(ends)
    assert left.value.code == exit_codes.OVERTAKEN >= exit_codes.RETRY
    assert not ends


def _train_and_be_overtaken(ends: list[int]) -> None:
    """The state of others who are two epochs ahead arrives with a join, as after a pause."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with elastic.training(model, optimizer, Numbers(), batch_size=8, epochs=9) as run:
        join = run._group.join

        def join_after_a_pause() -> Any:
            if run.step == 2:
                theirs = copy.deepcopy(run._dump())
                theirs["progress"] |= {"epoch": 2, "step": 7}
                theirs["progress"]["sources"]["train"] |= {"epoch": 2, "position": 8}
                run._load(theirs)
            return join()

        run._group.join = join_after_a_pause  # type: ignore[method-assign]
        for epoch in run.epochs():
            for batch in run.batches():
                run.backward(model(batch).mean())
            ends.append(epoch)
