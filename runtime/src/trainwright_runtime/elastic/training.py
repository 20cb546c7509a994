"""The training context: plain PyTorch inside the loop, everything that can die outside of it."""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal, NoReturn

import torch
from torch.amp.grad_scaler import GradScaler
from torch.distributed.device_mesh import DeviceMesh
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, IterableDataset, default_collate

from trainwright_runtime.checkpoint import STOPPED, Checkpoints, RngState, StopSignal
from trainwright_runtime.checkpoint.objects import ObjectPath, store_of
from trainwright_runtime.coordination import ending
from trainwright_runtime.coordination.ending import Life, Stage
from trainwright_runtime.elastic.audit import AuditLog
from trainwright_runtime.elastic.comparison import EVERY, REPLACE_SLOW, Comparison, Policy
from trainwright_runtime.elastic.cursor import Sampler, cursors
from trainwright_runtime.elastic.declared import declared
from trainwright_runtime.elastic.errors import StoppedWaiting, TrainingOver
from trainwright_runtime.elastic.gradients import Averages, Gradients
from trainwright_runtime.elastic.learner import Learner, named, own_states
from trainwright_runtime.elastic.leases import Leases, Shards
from trainwright_runtime.elastic.loading import LoaderOptions, MapDataset
from trainwright_runtime.elastic.local import DiLoCo, LocalSGD, Synchronizer
from trainwright_runtime.elastic.losses import Losses, NonFinite
from trainwright_runtime.elastic.members import Callbacks, Members, State
from trainwright_runtime.elastic.membership import (
    membership,
    processes_of_replica,
    worker_name,
)
from trainwright_runtime.elastic.progress import Progress
from trainwright_runtime.elastic.shards import mesh_of, prepare, refuse
from trainwright_runtime.elastic.source import NOTHING, Batching, Collate, Piece, Share, Source
from trainwright_runtime.failures import exit_codes
from trainwright_runtime.failures.errors import EnvironmentMistake
from trainwright_runtime.metrics import Metrics

log = logging.getLogger(__name__)

Dataset = MapDataset | Shards


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """The size of a step and its learning rate, and how both follow the world size."""

    epochs: int
    batch: int
    replicas: int | None
    """The world size that `batch` is meant for; None if it is the same for every one."""

    def records(self, world: int) -> int:
        """Return the size of the global batch."""
        return self.batch if self.replicas is None else max(1, self.batch * world // self.replicas)

    def rate(self, world: int) -> float:
        """Return the factor that the learning rate is multiplied by."""
        return 1.0 if self.replicas is None else world / self.replicas


@dataclass(slots=True)
class _LocalSteps:
    """What this worker did since the last synchronisation."""

    share: Share = NOTHING
    began: float = field(default_factory=time.perf_counter)
    waited: float = 0.0
    """Seconds spent waiting for records."""
    not_finite: int = 0
    """Steps whose loss was not finite."""


@contextmanager
def training(  # noqa: PLR0913 - the whole of what there is to choose
    model: torch.nn.Module,
    optimizer: Optimizer | Sequence[Optimizer] | Mapping[str, Optimizer],
    datasets: Dataset | Mapping[str, Dataset],
    *,
    batch_size: int,
    epochs: int = 1,
    micro_batch: int | None = None,
    resize: Literal["batch", "rate"] = "batch",
    replicas: int = 1,
    scheduler: LRScheduler | Sequence[LRScheduler] | Mapping[str, LRScheduler] | None = None,
    scaler: GradScaler | None = None,
    max_grad_norm: float | None = None,
    states: Mapping[str, Any] | None = None,
    on_step: Callable[[], object] | None = None,
    totals: Sequence[str] = (),
    seed: int = 0,
    shuffle: bool = True,
    sampler: Sampler | None = None,
    collate: Collate = default_collate,
    num_workers: int = 0,
    loader: LoaderOptions | None = None,
    synchronize: LocalSGD | DiLoCo | None = None,
    non_finite: NonFinite = "warn",
) -> Iterator[Training]:
    """Train `model` with the workers that there are, each record of each epoch exactly once.

    `datasets` is one map-style dataset or several by name, in the order in which an epoch goes
    through them; the first is trained on, the others are only read. `batch_size` is the global
    batch: it stays the same as workers come and go, and a worker reads its part of it in pieces of
    at most `micro_batch` records. With `resize="rate"` the batch follows the world instead:
    `batch_size` is meant for `replicas` workers, and the learning rate grows and shrinks with it
    (https://arxiv.org/abs/1706.02677). `totals` names sums that `add` collects over all workers.

    `optimizer` and `scheduler` are one, several, or several by name. Each is stepped once per
    committed training step, but for a ReduceLROnPlateau, which the program steps at the end of an
    epoch. `states` are objects of the program's own, or dicts, that newcomers get and checkpoints
    hold; `on_step` is called after each update, which is where they may change.

    `num_workers` processes of torch's DataLoader read ahead, else a thread does; `loader` holds
    further arguments of it. `sampler` gives the order of the first dataset; it must depend on the
    generators of torch, Python or NumPy and on `set_epoch` alone.

    With `synchronize` workers take `every` local steps, each of its part of a global
    batch, and only then synchronise parameters: for slow links. A synchronisation is what is
    committed, and what `run.step` counts; `scheduler` is stepped per local step, `on_step` called
    after a synchronisation.

    A loss that is NaN or infinite is logged. With `non_finite="skip"` no worker takes the update of
    a step in which one of them has such a loss, and its records count as trained; with "stop"
    training ends before it, exit code 1. A `scaler` leaves out steps whose gradients overflow
    in any case.

    Without a coordinator in the environment it trains alone, or in the fixed world that RANK and
    WORLD_SIZE describe. Checkpoints, metrics and the audit log follow TRAINWRIGHT_* variables.
    """
    _require_unwrapped(model)
    mesh = mesh_of(model, processes_of_replica(os.environ))
    optimizers, schedulers = named("optimizer", optimizer), named("scheduler", scheduler)
    taken = {**optimizers, **schedulers, **({} if scaler is None else {"scaler": scaler})}
    if isinstance(synchronize, DiLoCo):
        taken["outer"] = synchronize
    learner = Learner(
        model=model,
        optimizers=optimizers,
        schedulers=schedulers,
        scaler=scaler,
        states=own_states(states or {}, taken),
        max_grad_norm=max_grad_norm,
        on_step=on_step,
    )
    steps = Steps(epochs=epochs, batch=batch_size, replicas=replicas if resize == "rate" else None)
    given = datasets if isinstance(datasets, Mapping) else {"train": datasets}
    mapped = {name: data for name, data in given.items() if not isinstance(data, Shards)}
    for name, data in mapped.items():
        require_positions(name, data)
    batching = Batching(collate=collate, micro_batch=micro_batch or batch_size)
    first = next(iter(given))
    local_steps = synchronize.every if synchronize else 0
    if mesh is not None:
        sharded = any(isinstance(data, Shards) for data in given.values())
        refuse(
            {"elastic.Shards": sharded, "scaler=": bool(scaler), "synchronize=": bool(synchronize)}
        )
        prepare(model, mesh.size())
    with ExitStack() as resources:
        # The loader's processes start before this one opens connections that they would inherit.
        sources: dict[str, Source] = {
            **cursors(
                mapped,
                batching,
                seed=seed,
                shuffle=shuffle,
                samplers={} if sampler is None else {first: sampler},
                epochs=epochs,
                num_workers=num_workers,
                loader=loader,
                local_steps={first: local_steps},
            ),
            **{
                name: Leases(
                    data,
                    batching,
                    seed=seed,
                    shuffle=shuffle,
                    local_steps=local_steps if name == first else 0,
                )
                for name, data in given.items()
                if isinstance(data, Shards)
            },
        }
        for source in sources.values():
            resources.callback(source.close)
        progress = Progress({name: sources[name] for name in given}, totals)
        losses, comparison = Losses(non_finite), _comparison(synchronize)
        yield Training(learner, progress, steps, resources, losses, comparison, synchronize, mesh)


def _comparison(synchronize: LocalSGD | DiLoCo | None) -> Comparison:
    """Return the comparison of workers. Raise EnvironmentMistake if they are meant to differ."""
    policy = Policy.of(os.environ)
    if policy.every and synchronize is not None:
        expected = "0 with synchronize=, by which workers hold parameters of their own"
        raise EnvironmentMistake(EVERY, str(policy.every), expected)
    return Comparison(policy)


def _require_unwrapped(model: torch.nn.Module) -> None:
    """Raise TypeError for a model that wraps another."""
    if isinstance(model, DistributedDataParallel):
        raise TypeError(
            "the model is wrapped in DistributedDataParallel, which is made for one world: pass "
            "the model itself, whose gradients elastic.training() sums over all workers present"
        )


def require_positions(name: str, dataset: object) -> None:
    """Raise TypeError if the dataset has no records that can be read by their number."""
    if isinstance(dataset, DataLoader):
        raise TypeError(
            f"dataset {name!r} is a DataLoader: pass its dataset, and batch_size, num_workers, "
            "collate= and sampler= to elastic.training(), which splits each batch over the workers"
        )
    if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
        raise TypeError(
            f"dataset {name!r} is a {type(dataset).__name__}, which can only be iterated over: "
            "where it is cannot be committed with a step. Pass elastic.Shards(names=[...], "
            "open=lambda name, skip: ...), which gives the samples of one file or stream from "
            "record `skip` on; elastic.Shards.of(dataset) does it for a datasets.IterableDataset"
        )
    if not hasattr(dataset, "__len__"):
        raise TypeError(f"dataset {name!r} is a {type(dataset).__name__} without a length")


class Training:
    """A training under way. Made by `training`."""

    def __init__(
        self,
        learner: Learner,
        progress: Progress,
        steps: Steps,
        resources: ExitStack,
        losses: Losses,
        comparison: Comparison,
        synchronize: LocalSGD | DiLoCo | None = None,
        mesh: DeviceMesh | None = None,
    ) -> None:
        self._learner, self._progress, self._steps = learner, progress, steps
        self._losses, self._comparison = losses, comparison
        self._before: list[torch.Tensor] = []  # averages, where a step may be left out
        self._trained = next(iter(progress.sources))
        self._epoch = -1  # that the program is in; the training may be further
        self._weight = 0.0
        self._counts = True  # the piece that the program has, and what it adds
        self._sums = dict.fromkeys(progress.totals(self._trained), 0.0)
        self._members: Members | None = None
        self._last: Members | None = None
        self._uncommitted = 0.0  # since when, by the performance counter; 0 after a commit
        self._leads: bool | None = None  # once every epoch is committed
        self._life = Life(stage=Stage.ENTERED)
        ending.note(self._life)
        self._group = membership(
            os.environ,
            Callbacks(
                dump=self._dump,
                load=self._load,
                learn=None if synchronize else self._apply_update_of_others,
                stopping=lambda: self._stop.noted,
                position=lambda: progress.position,
                outdated=self._outdated,
                recorded=self._recorded,
            ),
            declared=declared(learner, progress.sources, self._arguments(synchronize)),
            mesh=mesh,
        )
        resources.callback(self._group.leave)
        self._leave_if_recorded()
        self._local = _LocalSteps()
        self._synchronizer: Synchronizer | None = None
        if synchronize is not None:
            self._synchronizer = Synchronizer(learner.model, synchronize, self._group.reduce)
        # With local steps gradients stay with their worker.
        summed = learner.model.parameters() if synchronize is None else ()
        self._gradients = Gradients(summed, self._group.reduce)
        self._averages = Averages(learner.model, self._group.sum)
        self._metrics = resources.enter_context(Metrics.from_environment())
        self._stop = resources.enter_context(StopSignal())
        resources.callback(self._report_saved)  # once the last one is on the disk
        self._checkpoints = resources.enter_context(
            Checkpoints.from_environment(collective=self._group.fixed_world or mesh is not None)
        )
        self._newest = self._newest_saved()
        step = self._checkpoints.load(self._parts())
        if step is not None:
            log.info("going on from the checkpoint of step %d", step)
        self._group.resume(progress.generation)
        self._audit = AuditLog(_path_variable("TRAINWRIGHT_AUDIT_DIR"), worker_name(os.environ))
        resources.callback(self._audit.close)

    def _arguments(self, synchronize: LocalSGD | DiLoCo | None) -> dict[str, object]:
        """Return the arguments of `training` that have to be the same in all workers, by name."""
        steps, local = self._steps, synchronize
        return {
            "epochs": steps.epochs,
            "batch_size": steps.batch,
            "resize": "batch" if steps.replicas is None else f"rate of {steps.replicas} replicas",
            "synchronize": local and f"{type(local).__name__} every {local.every}",
            "totals": [*self._progress.totals(self._trained)],
            "non_finite": self._losses.policy,
            EVERY: self._comparison.policy.every,
            REPLACE_SLOW: self._comparison.policy.replaced,
        }

    @property
    def step(self) -> int:
        """Committed steps so far."""
        return self._progress.step

    @property
    def rank(self) -> int:
        """The rank of this worker in its last step; it changes with the world.

        After the last epoch exactly one worker has rank 0, even if others come back late.
        """
        if self._leads is None:
            return (self._last or self._join()).rank
        return 0 if self._group.leads else max(self._last.rank if self._last else 1, 1)

    @property
    def world_size(self) -> int:
        """The world size of the last step; this replica's own if it started after the last step."""
        if self._leads is None or self._group.fixed_world:
            return (self._last or self._join()).world
        return self._last.world if self._last else self._group.processes

    def epochs(self) -> Iterator[int]:
        """Yield the epochs that are left. A worker that joins late begins with the current one.

        An epoch ends with the body of the loop: after a restart from a checkpoint taken before that
        end, what follows the last batch runs once more. Other datasets that the body left unread
        are skipped; if it left the one that is trained on, the same epoch goes on with it.
        """
        progress = self._progress
        while True:
            progress.ended = progress.ended or self._has_left_epoch()
            if self._is_over and self._agree_on_leader():
                return
            self._join()
            if self._is_over:
                continue
            if progress.ended:
                progress.begin(progress.epoch + 1)
            self._epoch = progress.epoch
            yield self._epoch

    def finish(self) -> None:
        """Let this epoch be the last, as when the model has learned enough.

        To be called where the epoch ends, by all workers: decide by what is the same in all of
        them, such as `totals`.
        """
        if self._has_left_epoch():
            self._progress.finished = True

    def batches(self, dataset: str | None = None) -> Iterator[Any]:
        """Yield this worker's pieces of the rest of a dataset (default: the first) in this epoch.

        The step that a piece belongs to is committed when the next one is requested.
        """
        name = dataset or self._trained
        self._require_turn(name)
        while self._is_at(name):
            members = self._join()
            if self._is_at(name):  # still: joining may have brought the state of the others
                if self._synchronizer is not None and name == self._trained:
                    yield from self._take_local_steps(self._synchronizer, members)
                else:
                    yield from self._take_step(name, members)
        self._require_epoch()

    def backward(self, loss: torch.Tensor) -> None:
        """Add the gradients of `loss`, a mean over the records of the current piece."""
        self._losses.note(loss)
        weighted, scaler = loss * self._weight, self._learner.scaler
        torch.autograd.backward(weighted if scaler is None else scaler.scale(weighted))

    def add(self, **sums: float) -> None:
        """Add to the totals; they count when the step is committed."""
        for name, value in sums.items():
            if name not in self._sums:
                raise KeyError(f"{name} is not among the totals that training() was given")
            if self._counts:
                self._sums[name] += float(value)

    def totals(self, dataset: str | None = None) -> dict[str, float]:
        """Return the sums over all workers of what this epoch's committed steps added."""
        return self._progress.totals(dataset or self._trained)

    def _take_step(self, name: str, members: Members) -> Iterator[Any]:
        """Yield the pieces of one step of a dataset, and commit it."""
        requested = time.perf_counter()
        source, batch = self._progress.sources[name], self._steps.records(members.world)
        share, pieces = source.take(members, batch)
        began = time.perf_counter()
        self._audit.share(self.step, members, share)
        yield from self._yield_pieces(pieces, batch)
        if not self._commit_step(name, members, share, began):
            self._uncommitted = requested
            return
        if name == self._trained:
            self._metrics.step(
                step=self.step,
                samples=len(share),
                seconds=time.perf_counter() - began,
                data_wait=began - requested,
                world_size=members.world,
            )
        self._save(members)

    def _yield_pieces(self, pieces: list[Piece], batch: int) -> Iterator[Any]:
        """Hand out the pieces of a share."""
        self._gradients.clear()
        self._begin_losses()
        self._sums = dict.fromkeys(self._sums, 0.0)
        left = True
        try:
            for number, (records, piece) in enumerate(pieces, start=1):
                if number == len(pieces):
                    self._gradients.send_when_ready()
                # FSDP takes the mean over the processes of a replica.
                self._weight = records / batch * self._group.processes
                yield from [piece] if records else self._without_weight(piece)
            left = False
        finally:
            if left:  # by break, return or an exception
                self._group.abandon()
            self._members = None

    def _begin_losses(self) -> None:
        self._losses.begin()
        self._before = self._averages.copies() if self._losses.skips else []

    def _without_weight(self, piece: Any) -> Iterator[Any]:
        """Yield a piece that has records only in other processes of this replica."""
        with self._averages.kept():
            self._counts = False
            try:
                yield piece
            finally:
                self._counts = True

    def _take_local_steps(self, synchronizer: Synchronizer, members: Members) -> Iterator[Any]:
        """Commit what was done since the last synchronisation, then take local steps.

        Each join is for a synchronisation, even the first, when nothing has been done yet: a worker
        that comes or is lost in between changes only the next one.
        """
        committed = self._synchronise(synchronizer, members)
        self._members = None
        if committed is None:
            return
        self._group.updated()
        self._save(members, due=committed)
        self._forget_local_steps()
        if not self._is_at(self._trained):
            return
        synchronizer.begin()
        batch, rate = self._steps.records(members.world), self._steps.rate(members.world)
        requested = time.perf_counter()
        for share, pieces in self._progress.sources[self._trained].take_local(members, batch):
            self._local.waited += time.perf_counter() - requested
            self._group.local_step()
            yield from self._yield_local_pieces(synchronizer, pieces)
            if pieces:
                self._step_locally(rate)
            self._local.share = share
            if self._stop.noted:
                return  # what is done is committed as soon as the others are there
            requested = time.perf_counter()

    def _step_locally(self, rate: float) -> None:
        finite = self._losses.finite
        self._local.not_finite += not finite
        if finite or not self._losses.skips:
            self._learner.step(rate)
        else:
            self._averages.restore(self._before)

    def _yield_local_pieces(self, synchronizer: Synchronizer, pieces: list[Piece]) -> Iterator[Any]:
        """Hand out the pieces of a local step."""
        self._learner.clear()
        self._begin_losses()
        total = sum(records for records, _ in pieces)
        left = True
        try:
            for records, piece in pieces:
                self._weight = records / total
                yield piece
            left = False
        finally:
            if left:  # by break, return or an exception
                synchronizer.roll_back()
                self._forget_local_steps()

    def _synchronise(self, synchronizer: Synchronizer, members: Members) -> bool | None:
        """Commit the local steps of all; return whether there were any, or None if that failed.

        A failure changes nothing in what this worker has done, which counts in the next one.
        """
        source, share = self._progress.sources[self._trained], self._local.share
        awaits = self._group.awaits(source.absent(members))
        not_finite = bool(self._local.not_finite)
        reports, sums, (records, awaited, unusable) = self._sum(
            [
                source.report(members, share),
                [*self._sums.values()],
                [len(share), awaits, not_finite],
            ]
        )
        if any(reports):
            self._audit.share(self.step, members, share)
        if awaited and not any(reports):  # who reads would be behind them, and its records in vain
            with self._waiting():
                self._group.postpone()
            return None
        if records:
            synchronizer.exchange(len(share) / records)
            self._averages.exchange(len(share))
        if not self._group.commit():
            return None
        self._progress.quorum = members.quorum
        if not any(reports):
            return False
        self._losses.judge(self.step + 1, int(unusable))
        line = self._advance_progress(members, self._trained, reports, sums)
        if records:
            self._averages.adopt(line["records"])
            synchronizer.update()
            self._learner.after_step()
        self._audit.commit(line)
        self._metrics.step(
            step=self.step,
            samples=len(share),
            seconds=time.perf_counter() - self._local.began,
            data_wait=self._local.waited,
            world_size=members.world,
        )
        return True

    def _forget_local_steps(self) -> None:
        self._local = _LocalSteps()
        self._sums = dict.fromkeys(self._sums, 0.0)

    def _commit_step(self, name: str, members: Members, share: Share, began: float) -> bool:
        """Commit a step with its update, position and sums; return False if it does not count."""
        source, trained = self._progress.sources[name], name == self._trained
        sample = self._sample(members, began)
        # All reduce the same in the same order, those without records too.
        if trained:
            self._gradients.finish()
            self._averages.exchange(len(share))
        numbers: list[Sequence[float]] = [source.report(members, share), [*self._sums.values()]]
        numbers += [[not self._settled], sample]
        numbers += [self._gradients.used(), [not self._losses.finite]] if trained else []
        reports, sums, (unsettled,), sampled, *learned = self._sum(numbers)
        if not self._group.commit():
            return False
        takes = trained and self._losses.judge(self.step + 1, int(learned[1][0]))
        line = self._advance_progress(members, name, reports, sums)
        used = learned[0] if takes and line["records"] else []
        self._group.pass_on(
            lambda: self._update_for_followers(members.world, line["records"], used)
        )
        if used:
            self._apply_update(members.world, line["records"], used)
        elif trained and not takes:
            self._averages.restore(self._before)
        self._audit.commit(line)
        self._group.updated()
        leaving = self._judge(members, sampled)
        if not leaving and not unsettled and self._progress.dataset == name:
            self._group.settle()
        return True

    def _sample(self, members: Members, began: float) -> list[float]:
        """Return this member's numbers to compare after this step; empty if no comparison is due.
        They are taken before any member waits for others."""
        if not self._comparison.due(self.step, members):
            return []
        if torch.accelerator.is_available():
            torch.accelerator.synchronize()
        seconds = time.perf_counter() - began
        return self._comparison.sample(members, self._learner.model.parameters(), seconds)

    def _judge(self, members: Members, sampled: Sequence[float]) -> Sequence[str]:
        """Return the members that leave after this step, or raise what ends this worker."""
        if not sampled:
            return []
        verdict = self._comparison.judge(self.step, members, sampled)
        for worker in verdict.slow if members.rank == 0 else ():
            self._metrics.event("slow", worker=worker)
        return verdict.leaving

    @property
    def _settled(self) -> bool:
        """Whether the members of this step take the next one at once, as far as this worker knows.

        A checkpoint, and what the program does at the end of a dataset, may take a member longer
        than the others wait in a step. A worker that is to stop leaves after this step.
        """
        saves = self._checkpoints.saves_at(self.step + 1)
        return self._group.settled and not saves and not self._stop.noted

    def _apply_update(self, world: int, records: int, used: Sequence[float]) -> None:
        """Take the update of a committed step."""
        self._gradients.divide(records / self._steps.records(world))
        self._gradients.forget_unused(used)
        self._averages.adopt(records)
        self._learner.update(self._steps.rate(world))

    def _update_for_followers(self, world: int, records: int, used: Sequence[float]) -> State:
        """Return what followers need to take this step; no gradients if it made no update."""
        return {
            "progress": self._progress.state_dict(),
            "step": [world, records, list(used)],
            "sums": [self._gradients.flats(), self._averages.flat] if used else [],
        }

    def _apply_update_of_others(self, update: State) -> None:
        """Apply the update of a step that others took."""
        self._progress.load_state_dict(update["progress"])
        if update["sums"]:
            (world, records, used), (gradients, averages) = update["step"], update["sums"]
            self._gradients.put(gradients)
            self._averages.put(averages)
            last, self._last = self._last, Members(quorum=0, rank=world, names=("",) * world)
            try:
                self._apply_update(world, records, used)
            finally:
                self._last = last  # it was for the program's own `on_step`, which is no rank here

    def _advance_progress(
        self, members: Members, name: str, reports: Sequence[float], sums: Sequence[float]
    ) -> dict[str, Any]:
        """Move the position and the sums past a committed step.

        Return its line for the audit log.
        """
        batch = self._steps.records(members.world)
        self._progress.generation = self._group.lineage
        line = self._progress.commit(members, batch, name, [int(n) for n in reports], sums)
        if self._life.stage is Stage.ENTERED:
            self._life = Life(stage=Stage.COMMITTED, step=line["step"])
            ending.note(self._life)
        return line

    def _sum(self, lists: Sequence[Sequence[float]]) -> list[list[float]]:
        """Return each list summed over the members, as float64: exact for counts up to 2**53."""
        numbers = list(chain.from_iterable(lists))
        if not numbers:
            return [[] for _ in lists]
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self._learner.device)
        self._group.sum(tensor)
        summed = iter(tensor.tolist())
        return [list(islice(summed, len(part))) for part in lists]

    def _save(self, members: Members, *, due: bool = True) -> None:
        """Save when it is due; on SIGTERM save, and exit with a code that requests a retry.

        In an elastic world all hold the same state: the first replica of the quorum saves it, and a
        replica that is to stop goes alone. The last to go is the first of its quorum, so that
        nothing is lost.
        """
        stopping = self._stop.agreed()
        if stopping and not self._group.fixed_world:
            self._group.leave()  # the others do not wait while this one saves
        one_of_them = self._group.fixed_world or members.replica == 0
        if one_of_them and (stopping or (due and self._checkpoints.due(self.step))):
            self._save_now(wait=stopping)
        if stopping:
            self._exit_stopped()

    def _agree_on_leader(self) -> bool:
        """After the last epoch, agree on which worker runs what follows as rank 0.

        That worker saves first: if it is lost, another one goes on from the checkpoint. Return
        False if it turns out that training went on without this worker.
        """
        if self._leads is None:
            with self._waiting():
                self._leads = self._group.complete()
            self._members = None
        if self._leads is None:
            return False
        leads = self._leads and self._group.local_rank == 0
        self._life = Life(stage=Stage.COMPLETE, step=self._life.step, leads=leads)
        if self._leads:
            recovers = self._checkpoints.every and not self._group.fixed_world
            if recovers and self._newest_saved() != self.step:
                self._save_now(wait=True)
            self._group.lead()
        ending.note(self._life)
        ending.when_ended_well(self._record_end)
        return True

    def _record_end(self) -> None:
        """Record that training is over, now that the program ended well, unless another leads."""
        if not self._leads:
            return
        over, step = self._group.finish(), self._life.step
        if self._group.local_rank:  # another process notes it for this replica
            return
        if over:
            self._audit.end(self._progress.lineage, self.step, self._progress.epoch + 1)
        if self._group.fixed_world:
            return
        if over:
            if folder := _checkpoint_folder():
                ending.record(folder, self._steps.epochs, self.step)
            ending.note(Life(stage=Stage.OVER, step=step, leads=True))
        else:  # who went on without this worker needs it, as one that starts again
            log.warning("another worker runs the end of training: this one's does not count")
            ending.note(Life(stage=Stage.COMMITTED if over is None else Stage.COMPLETE, step=step))

    def _leave_if_recorded(self) -> None:
        """Exit with 0 if training is recorded as over: no worker may be left to learn it from."""
        if not self._group.fixed_world and self._group.once(self._recorded):
            folder = _checkpoint_folder()
            self._exit_over(f"as {folder} records: delete finished.json there to train again")

    def _recorded(self) -> bool:
        """Whether the checkpoint folder records that training is over."""
        folder = _checkpoint_folder()
        return folder is not None and ending.recorded_epochs(folder) >= self._steps.epochs

    def _outdated(self) -> bool:
        """Whether training went on, or ended, since this worker read its checkpoint."""
        return self._recorded() or (self._checkpoints.latest() or 0) > self._newest

    def _exit_over(self, why: str) -> NoReturn:
        log.info("training of %d epochs is over, %s", self._steps.epochs, why)
        ending.note(Life(stage=Stage.OVER))
        sys.exit(0)

    def _save_now(self, *, wait: bool) -> None:
        if not self._group.confirm(last=wait):
            return  # others went on without this worker: its state is not the one to go on from
        self._audit.flush()
        with self._metrics.stall():
            self._checkpoints.save(self.step, self._parts(), wait=wait)
        self._report_saved()

    def _newest_saved(self) -> int:
        """Return the step of the newest checkpoint, or 0 if there is none."""
        return self._group.once(self._checkpoints.latest) or 0

    def _report_saved(self) -> None:
        for saved in self._checkpoints.saved():
            self._metrics.saved(step=saved.step, seconds=saved.seconds, size=saved.size)

    def _exit_stopped(self) -> NoReturn:
        log.info("stopped by SIGTERM after step %d", self.step)
        sys.exit(STOPPED)

    def _join(self) -> Members:
        """Return the members of the next step, agreed on once per step.

        State may come from the others here, and then this worker is elsewhere in the program than
        it was: `epochs` and `batches` look where the training is before they go on.
        """
        if self._members is None:
            before, began = self._last, self._uncommitted or time.perf_counter()
            with self._waiting():
                self._members = self._last = self._group.join()
            if before is None:  # the order of a refused worker is another one
                sources = self._progress.sources
                self._audit.start({name: s.describe() for name, s in sources.items()})
            lost = {*before.names} - {*self._members.names} if before else set()
            if self._uncommitted or lost:
                self._metrics.event("recovered", recovery=round(time.perf_counter() - began, 6))
            self._uncommitted = 0.0
        return self._members

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """Wait for others in the block; exit if training is over or this worker is to stop."""
        try:
            yield
        except TrainingOver:
            self._exit_over("and another worker has run its end")
        except StoppedWaiting:
            # Workers are stopped some seconds apart: those that left first made this one wait,
            # and did not save, since only the first of a quorum does.
            if self._last is not None and self.step > self._newest_saved():
                self._save_now(wait=True)
            self._exit_stopped()

    @property
    def _is_over(self) -> bool:
        progress = self._progress
        return progress.ended and (progress.finished or progress.epoch + 1 >= self._steps.epochs)

    def _has_left_epoch(self) -> bool:
        """Whether the program came to the end of the epoch that training is in."""
        finished = self._progress.sources[self._trained].finished
        return finished and self._progress.epoch == self._epoch

    def _require_epoch(self) -> None:
        """Exit if the others have finished the epoch that the program is in.

        The rest of the loop's body would run with their model and report an epoch that it knows in
        part. Started again, this worker begins with the epoch that they are in.
        """
        if self._progress.epoch != self._epoch:
            log.warning(
                "epoch %d was finished by the others while this worker was away, they are in epoch "
                "%d: starting again to join them", self._epoch, self._progress.epoch,
            )  # fmt: skip
            sys.exit(exit_codes.OVERTAKEN)

    def _is_at(self, name: str) -> bool:
        """Whether training is in this dataset, in the epoch that the program is in."""
        return (self._progress.epoch, self._progress.dataset) == (self._epoch, name)

    def _require_turn(self, name: str) -> None:
        """Raise an error if it is not the turn of this dataset in the epoch."""
        order = list(self._progress.sources)
        if name not in order:
            raise KeyError(f"no dataset {name}; there are {', '.join(order)}")
        self._require_epoch()
        turn = self._progress.dataset
        if turn is not None and order.index(turn) < order.index(name):
            raise RuntimeError(
                f"batches({name!r}) before {turn!r} is read: an epoch goes through the datasets "
                f"in the order {', '.join(order)}"
            )

    def _parts(self) -> dict[str, Any]:
        parts = {**self._learner.parts(), "progress": self._progress}
        if self._synchronizer is not None:
            parts |= self._synchronizer.parts()
        # A newcomer to an elastic world must not draw the same random numbers as another worker.
        return {**parts, "rng": RngState()} if self._group.fixed_world else parts

    def _dump(self) -> State:
        return {name: part.state_dict() for name, part in self._parts().items()}

    def _load(self, state: MutableMapping[str, Any]) -> None:
        """Take over the state of others, emptying `state`; local steps of this worker are lost."""
        for name, part in self._parts().items():
            if name not in state:
                continue  # left out, since it is the same here
            if isinstance(part, Optimizer):
                part.state.clear()  # else it would take memory beside what replaces it
            part.load_state_dict(state.pop(name))
        if dropped := len(self._local.share):
            log.warning(
                "local steps with %d records are dropped, others train these again: they "
                "synchronised without this worker. It may be later than they are by two thirds of "
                "TRAINWRIGHT_QUORUM_TIMEOUT: raise that on all workers, or lower every=", dropped,
            )  # fmt: skip
        self._forget_local_steps()
        log.info("took over the training at step %d", self.step)


def _checkpoint_folder() -> Path | ObjectPath | None:
    location = os.environ.get("TRAINWRIGHT_CHECKPOINT_DIR")
    return store_of(location).path if location else None


def _path_variable(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None
