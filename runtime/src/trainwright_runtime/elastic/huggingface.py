"""What a Hugging Face Trainer trains, in elastic training's loop.

trainer = Trainer(...)
huggingface.train(trainer, batch_size=256)  # instead of trainer.train()
trainer.save_model()  # in one worker, wherever there are several

The Trainer's own loop has one rank from its first step to its last, and its steps cannot be taken
again. Its model, data, `training_step`, optimizer, schedule and evaluation need neither.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from accelerate.utils import find_batch_size
from transformers import PrinterCallback, ProgressCallback, Trainer, TrainingArguments
from transformers.trainer_callback import DefaultFlowCallback

from trainwright_runtime.elastic.training import Training, require_positions, training
from trainwright_runtime.failures.errors import UsageError

# What is followed here, by the Trainer's own methods that are called here, or changes no training.
_FOLLOWED = frozenset(
    """
    output_dir num_train_epochs per_device_train_batch_size max_grad_norm seed data_seed
    learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps warmup_ratio weight_decay
    optim optim_args optim_target_modules adam_beta1 adam_beta2 adam_epsilon
    label_smoothing_factor label_names bf16 fp16 tf32 use_cpu use_cache remove_unused_columns
    dataloader_num_workers dataloader_pin_memory average_tokens_across_devices
    logging_dir logging_strategy logging_steps logging_first_step logging_nan_inf_filter
    log_level log_level_replica log_on_each_node disable_tqdm report_to run_name project
    eval_strategy eval_delay per_device_eval_batch_size prediction_loss_only eval_do_concat_batches
    eval_accumulation_steps eval_use_gather_object include_for_metrics batch_eval_metrics
    save_strategy save_steps save_total_limit save_safetensors save_only_model
    push_to_hub hub_token hub_private_repo hub_model_id hub_revision hub_always_push hub_strategy
    activation_checkpointing activation_checkpointing_kwargs
    gradient_checkpointing gradient_checkpointing_kwargs
    ddp_backend ddp_timeout ddp_find_unused_parameters ddp_bucket_cap_mb ddp_broadcast_buffers
    skip_memory_metrics do_train do_eval do_predict accelerator_config local_rank
    """.split()
)
_OWN_CALLBACKS = (DefaultFlowCallback, PrinterCallback, ProgressCallback)


def train(trainer: Trainer, *, batch_size: int) -> Training:
    """Train as `trainer.train()` does, with workers that come and go.

    `batch_size` is that of all workers together; each forwards `per_device_train_batch_size` at
    once. Checkpoints are those of elastic training. What its loop does not follow is refused.
    """
    _require_followed(trainer)
    args, loader = trainer.args, trainer.get_train_dataloader()
    require_positions("train", loader.dataset)
    steps = -(-len(loader.dataset) // batch_size)
    epochs = int(args.num_train_epochs)
    # As for evaluation, which else does it in the middle: the forward pass in mixed precision.
    trainer.accelerator.prepare_model(trainer.model, evaluation_mode=True)
    trainer.create_optimizer_and_scheduler(steps * epochs)
    logs = _Logs(trainer, steps, epochs)
    _checkpoint_activations(trainer)
    with training(
        trainer.model,
        trainer.optimizer,
        loader.dataset,
        batch_size=batch_size,
        micro_batch=args.per_device_train_batch_size,
        epochs=epochs,
        scheduler=trainer.lr_scheduler,
        scaler=trainer.accelerator.scaler,
        max_grad_norm=args.max_grad_norm or None,
        seed=args.seed if args.data_seed is None else args.data_seed,
        collate=loader.collate_fn,
        num_workers=args.dataloader_num_workers,
        totals=("loss", "records"),
        states={"logged": logs.logged},
        on_step=lambda: logs.after_step(run),
    ) as run:
        # What `training_step` calls, of the Trainer or of a subclass.
        trainer.accelerator.backward = lambda loss, **_: run.backward(loss)
        trainer.current_gradient_accumulation_steps = 1
        for _ in run.epochs():
            for batch in run.batches():
                _learn(trainer, run, batch)
            logs.after_epoch(run)
        logs.be(run.rank)
    return run


def _checkpoint_activations(trainer: Trainer) -> None:
    """Enable activation checkpointing if requested, by this release's name for it."""
    for name in ("activation_checkpointing", "gradient_checkpointing"):
        if getattr(trainer.args, name, False):
            enable = getattr(trainer.model, f"{name}_enable")
            enable(getattr(trainer.args, f"{name}_kwargs"))
            return


def _learn(trainer: Trainer, run: Training, batch: Any) -> None:
    records = find_batch_size(batch)  # before the loss takes the labels out
    loss = trainer.training_step(trainer.model, batch)
    run.add(loss=loss.item() * records, records=records)


class _Logs:
    """The Trainer's state and its log, as its own loop keeps them."""

    def __init__(self, trainer: Trainer, steps: int, epochs: int) -> None:
        self._trainer, self._steps = trainer, steps
        self._flow = DefaultFlowCallback()
        self.logged = {"loss": 0.0, "records": 0.0}
        """What was logged of this epoch's totals, the same in all workers."""
        trainer.state.max_steps, trainer.state.num_train_epochs = steps * epochs, epochs
        trainer.state.compute_steps(trainer.args, steps * epochs)
        trainer.pop_callback(ProgressCallback)  # a bar is of a worker that stays the first
        trainer.pop_callback(PrinterCallback)
        trainer.add_callback(PrinterCallback)

    def be(self, rank: int) -> None:
        """Let the Trainer know this worker's rank: the first one prints and saves."""
        trainer = self._trainer
        for state in (trainer.args.distributed_state, trainer.accelerator.state):
            state.process_index = rank
        trainer.state.is_world_process_zero = trainer.state.is_local_process_zero = rank == 0

    def after_step(self, run: Training) -> None:
        trainer, state = self._trainer, self._trainer.state
        self.be(run.rank)
        state.global_step, state.epoch = run.step, run.step / self._steps
        self._flow.on_step_end(trainer.args, state, trainer.control)
        self._log(run)

    def after_epoch(self, run: Training) -> None:
        """Log and evaluate at the end of an epoch if the Trainer's arguments request it."""
        trainer = self._trainer
        self.be(run.rank)
        self._flow.on_epoch_end(trainer.args, trainer.state, trainer.control)
        self._log(run)
        for name, total in run.totals().items():  # which begin anew
            self.logged[name] -= total
        if trainer.control.should_evaluate:
            trainer.evaluate()

    def _log(self, run: Training) -> None:
        """Log the mean loss of all workers since the last line, if one is due."""
        trainer, totals = self._trainer, run.totals()
        records = totals["records"] - self.logged["records"]
        if trainer.control.should_log and records:
            loss = (totals["loss"] - self.logged["loss"]) / records
            rate = trainer.lr_scheduler.get_last_lr()[0]
            trainer.log({"loss": loss, "learning_rate": rate})
            self.logged.update(totals)
        trainer.control.should_log = False


def _require_followed(trainer: Trainer) -> None:
    """Raise UsageError for arguments and parts that would be ignored without a word."""
    if refused := [*_arguments(trainer.args), *_parts(trainer)]:
        raise UsageError(
            "elastic training does not follow all of this Trainer: "
            f"{'; '.join(refused)}; or leave live recovery, and train with --recovery=restart"
        )


def _arguments(args: TrainingArguments) -> Iterator[str]:
    """Yield each argument that elastic training does not follow, and what to do instead."""
    for field in fields(TrainingArguments):
        value = getattr(args, field.name)
        if field.name not in _FOLLOWED and value and value != field.default:
            yield f"{field.name}={value!r} (leave it out, or do it to the model before)"
    if args.num_train_epochs != int(args.num_train_epochs):
        yield f"num_train_epochs={args.num_train_epochs!r} (whole epochs)"
    if args.save_strategy != "no":
        yield 'save_strategy (set it to "no": TRAINWRIGHT_CHECKPOINT_EVERY saves all that resumes)'
    if args.eval_strategy not in ("no", "epoch"):
        yield f'eval_strategy="{args.eval_strategy.value}" ("no" or "epoch")'
    if args.n_gpu > 1:
        yield f"{args.n_gpu} GPUs in one process (set CUDA_VISIBLE_DEVICES to its LOCAL_RANK first)"
    if any(word in str(args.optim) for word in ("lomo", "layerwise")):
        yield f"optim={args.optim!s} (it takes updates in backward, of one worker's records)"


def _parts(trainer: Trainer) -> Iterator[str]:
    for name in ("get_train_dataloader", "_get_train_sampler"):
        if getattr(type(trainer), name) is not getattr(Trainer, name):
            yield f"{name} of {type(trainer).__name__} (the order is elastic training's)"
    for callback in trainer.callback_handler.callbacks:
        if not isinstance(callback, _OWN_CALLBACKS):
            yield f"{type(callback).__name__} (a callback has one rank; report_to='none' has none)"
