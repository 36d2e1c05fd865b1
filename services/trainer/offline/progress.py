"""Reports a training run's progress from the trainer's callbacks."""

import math
import time
from dataclasses import dataclass
from typing import Any

import torch.distributed
from transformers import TrainerCallback, TrainerState, TrainingArguments

from services.trainer.errors import Diverged
from services.trainer.offline.job_dir import (
    Context,
    checkpoint_dir,
    keep_only_models,
    mark_complete,
)

_METRICS = ("loss", "eval_loss", "eval_accuracy", "learning_rate", "grad_norm", "epoch")
_PROGRESS_SECONDS = 1.0


@dataclass
class Outcome:
    """The trainer's final state; zeros if it never started."""

    global_step: int = 0
    max_steps: int = 0
    train_loss: float | None = None
    trained_tokens: int = 0
    train_seconds: float = 0.0


class ProgressCallback(TrainerCallback):  # type: ignore[misc]
    """Marks checkpoints as complete, reports progress and keeps the outcome."""

    def __init__(self, context: Context) -> None:
        self.outcome = Outcome()
        self._context = context
        self._began = self._last_log = self._last_progress = 0.0
        self._first_step = self._logged_step = self._logged_tokens = 0

    def on_train_begin(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self._began = self._last_log = time.monotonic()
        self._first_step = self._logged_step = state.global_step
        self._logged_tokens = state.num_input_tokens_seen
        self._context.enter("training")
        self._progress(state)

    def on_step_end(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        if time.monotonic() - self._last_progress >= _PROGRESS_SECONDS:
            self._progress(state)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        _control: Any,
        logs: dict[str, float],
        **_: Any,
    ) -> None:
        if "train_loss" in logs:
            self.outcome.train_loss = logs["train_loss"]
            return
        values = {name: logs[name] for name in _METRICS if name in logs}
        if not values:
            return
        if "loss" in values:
            values |= self._throughput(args, state)
        elif state.global_step == self._logged_step:
            self._last_log = time.monotonic()  # do not count evaluation as training time
        if state.is_world_process_zero:
            self._context.reporter.metrics(state.global_step, **values)
        self._progress(state)
        if not math.isfinite(values.get("loss", 0.0)):
            raise Diverged(
                f"the loss is {values['loss']} at step {state.global_step}; "
                "a lower learning rate or a longer warmup may help"
            )

    def on_save(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # every process has written its part
        if not state.is_world_process_zero:
            return
        path = checkpoint_dir(self._context.output_dir, state.global_step)
        mark_complete(path, state.global_step)
        keep_only_models(self._context.output_dir, path)
        self._context.reporter.checkpoint(state.global_step, self._context.relative(path))

    def on_train_end(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self.outcome.global_step = state.global_step
        self.outcome.max_steps = state.max_steps
        self.outcome.trained_tokens = state.num_input_tokens_seen
        self.outcome.train_seconds = time.monotonic() - self._began
        self._progress(state)
        self._context.enter("saving")

    def _throughput(self, args: TrainingArguments, state: TrainerState) -> dict[str, float]:
        now = time.monotonic()
        seconds = max(now - self._last_log, 1e-9)
        rows = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        steps = state.global_step - self._logged_step
        tokens = state.num_input_tokens_seen - self._logged_tokens
        self._last_log, self._logged_step = now, state.global_step
        self._logged_tokens = state.num_input_tokens_seen
        return {
            "tokens_per_second": tokens / seconds,
            "samples_per_second": steps * rows / seconds,
        }

    def _progress(self, state: TrainerState) -> None:
        self._last_progress = time.monotonic()
        if not state.is_world_process_zero:
            return
        done = state.global_step - self._first_step
        left = state.max_steps - state.global_step
        eta = (self._last_progress - self._began) / done * left if done else None
        self._context.reporter.progress(state.global_step, state.max_steps, eta)
