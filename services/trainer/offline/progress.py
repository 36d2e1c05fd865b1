"""Reports a training run's progress from the trainer's callbacks."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch.distributed
from transformers import (
    EarlyStoppingCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from services.trainer.errors import Diverged
from services.trainer.offline.job_dir import (
    Context,
    Paused,
    Timing,
    checkpoint_dir,
    complete_checkpoints,
    keep_only_models,
    mark_complete,
    remove_oldest,
    timing_of,
)

_METRICS = (
    *("loss", "learning_rate", "grad_norm", "epoch"),
    *("accuracy", "real_token_share", "kl", "sft_loss", "odds_ratio_loss"),
)
_FAMILIES = ("rewards", "logps", "logits", "count")
"""Of preference stages: ``rewards/chosen`` and so on."""
_EVALUATION = "eval_"
_SPEED = ("_runtime", "_per_second", "_preparation_time")
"""Suffixes of the trainer's evaluation timings."""
_PROGRESS_SECONDS = 1.0


@dataclass
class TrainerOutcome:
    """The trainer's final state; zeros if it never started."""

    global_step: int = 0
    max_steps: int = 0
    train_loss: float | None = None
    trained_tokens: int = 0
    train_seconds: float = 0.0
    timed_steps: int = 0
    """The steps that ``train_seconds`` covers."""
    stopped_early: bool = False


class ProgressCallback(TrainerCallback):  # type: ignore[misc]  # transformers is untyped here
    """Marks checkpoints as complete, reports progress and records the outcome. On a pause request
    it makes the trainer write a checkpoint after the current step, and raises `Paused` once that is
    complete. ``publish`` makes the model of a checkpoint loadable by others, and returns its
    folder. Of more than ``limit`` checkpoints those with the fewest steps are deleted, but neither
    the newest nor the best.
    """

    def __init__(
        self,
        context: Context,
        publish: Callable[[Path], Path] = lambda path: path,
        limit: int | None = None,
    ) -> None:
        self.outcome = TrainerOutcome()
        self._context = context
        self._publish = publish
        self._limit = limit
        self._began = self._last_log = self._last_progress = 0.0
        self._first_step = self._logged_step = self._logged_tokens = 0
        self._earlier = Timing()
        self._pausing = False

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, _control: Any, **_: Any
    ) -> None:
        if self._pause_requested(args):
            raise Paused
        self._began = self._last_log = time.monotonic()
        self._first_step = self._logged_step = state.global_step
        self._logged_tokens = state.num_input_tokens_seen
        if state.global_step:
            self._earlier = timing_of(checkpoint_dir(self._context.output_dir, state.global_step))
        self._context.enter("training")
        self._progress(state)

    def on_step_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._save_for_pause(args, state, control)
        if time.monotonic() - self._last_progress >= _PROGRESS_SECONDS:
            self._progress(state)

    def on_substep_end(
        self, _args: TrainingArguments, _state: TrainerState, _control: Any, **_: Any
    ) -> None:
        self._context.reporter.tick()

    def on_prediction_step(
        self, _args: TrainingArguments, _state: TrainerState, _control: Any, **_: Any
    ) -> None:
        self._context.reporter.tick()

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
        values = {name: logs[name] for name in logs if _is_metric(name)}
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

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        self._save_for_pause(args, state, control)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, _control: Any, **_: Any
    ) -> None:
        if torch.distributed.is_initialized():
            torch.distributed.barrier()  # every process has written its part
        if state.is_world_process_zero:
            output = self._context.output_dir
            path = checkpoint_dir(output, state.global_step)
            model = self._publish(path)
            mark_complete(path, state.global_step, self._timing(state))
            # Only now that this one can be resumed from, earlier ones are dispensable.
            keep_only_models(output, path, *_loaded_whole(args, state))
            if self._limit is not None:
                best = state.best_model_checkpoint
                remove_oldest(output, self._limit, path, *([Path(best)] if best else []))
            self._context.reporter.checkpoint(
                state.global_step, self._context.relative(model), list(complete_checkpoints(output))
            )
        if self._pausing:
            raise Paused

    def on_train_end(self, _args: Any, state: TrainerState, _control: Any, **_: Any) -> None:
        self.outcome.global_step = state.global_step
        self.outcome.max_steps = state.max_steps
        self.outcome.trained_tokens = state.num_input_tokens_seen
        self.outcome.train_seconds, self.outcome.timed_steps = self._timing(state)
        self._progress(state)
        self._context.enter("saving")

    def _timing(self, state: TrainerState) -> Timing:
        """That of all attempts until now."""
        seconds = self._earlier.seconds + time.monotonic() - self._began
        return Timing(seconds, self._earlier.steps + state.global_step - self._first_step)

    def _save_for_pause(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl
    ) -> None:
        """Make the trainer save now, if a pause is requested and steps remain."""
        if state.global_step < state.max_steps and self._pause_requested(args):
            self._pausing = control.should_save = True
            control.should_log = True  # the mean loss since the last log is not in a checkpoint

    def _pause_requested(self, args: TrainingArguments) -> bool:
        """Whether a pause is requested, as rank 0 sees it, so that all stop at the same step."""
        asked = self._context.pause_requested
        if not torch.distributed.is_initialized():
            return asked
        word = torch.tensor([asked], dtype=torch.uint8, device=args.device)
        torch.distributed.broadcast(word, src=0)
        return bool(word.item())

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


class Patience(EarlyStoppingCallback):  # type: ignore[misc]  # transformers is untyped here
    """Early stopping after ``evaluations`` consecutive evaluations without a better metric; the
    count survives a resume. ``stopped`` says whether it happened."""

    def __init__(self, evaluations: int, context: Context) -> None:
        super().__init__(early_stopping_patience=evaluations)
        self.stopped = False
        self._context = context

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        super().on_train_begin(args, state, control, **kwargs)
        kept = state.stateful_callbacks.get(type(self).__name__)
        if isinstance(kept, dict):
            self.early_stopping_patience_counter = kept["attributes"][
                "early_stopping_patience_counter"
            ]

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        metrics: dict[str, float],
        **kwargs: Any,
    ) -> None:
        super().on_evaluate(args, state, control, metrics, **kwargs)
        if control.should_training_stop and not self.stopped:
            self.stopped = True
            if state.is_world_process_zero and state.global_step < state.max_steps:
                self._context.reporter.message(
                    f"stopped early at step {state.global_step}: {args.metric_for_best_model} has "
                    f"not improved in {self.early_stopping_patience} evaluations",
                    step=state.global_step,
                )


def _loaded_whole(args: TrainingArguments, state: TrainerState) -> list[Path]:
    """The best checkpoint so far, if the trainer will load it from its sharded state."""
    sharded = bool(args.deepspeed or args.fsdp)
    best = state.best_model_checkpoint if sharded and args.load_best_model_at_end else None
    return [Path(best)] if best is not None else []


def _is_metric(name: str) -> bool:
    if name.startswith(_EVALUATION):
        return not name.endswith(_SPEED)
    family, slash, _ = name.partition("/")
    return name in _METRICS or (bool(slash) and family in _FAMILIES)
