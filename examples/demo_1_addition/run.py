"""A fine-tune from data to results on this machine, on a task small enough for two CPU cores.

Creates a tiny base model with random weights, teaches it two-digit addition through the gateway's
REST API, and evaluates it on held-out sums before and after. Results of earlier runs are reused.
"""

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from examples.demo_1_addition.data import write_data
from examples.demo_common.printer import Printer, duration
from examples.demo_common.setup import local_stack, make_model
from examples.demo_common.steps import Demo
from temper.types import (
    CreateEvaluation,
    CreateFineTuningJob,
    Evaluation,
    EvaluationMetrics,
    File,
    FilePurpose,
    FineTuningJob,
    Method,
    NumericGrader,
    Sampling,
    SupervisedHyperparameters,
    SupervisedMethod,
    TrainingType,
)

BASE = "tiny-base"
BEFORE_AT_MOST = 0.05
AFTER_ABOVE = 0.9


@dataclass(frozen=True)
class Outcome:
    """A fine-tune, and the evaluations of its base and its result on the held-out rows."""

    tuning: FineTuningJob
    before: Evaluation
    after: Evaluation

    @property
    def metrics(self) -> list[EvaluationMetrics]:
        """Metrics before and after."""
        return [each.metrics for each in (self.before, self.after) if each.metrics is not None]

    @property
    def has_learned(self) -> bool:
        """Whether the base model fails at the task and the tuned model masters it."""
        before, after = self.metrics
        return before.accuracy < BEFORE_AT_MOST and after.accuracy > AFTER_ABOVE


def run(home: Path, out: Printer) -> bool:
    """Run all steps; return whether the model learned the task."""
    out.line("(a) a tiny base model, its data and the local stack")
    model = make_model(home, BASE, "demo_1_addition/model.py", [], out)
    data = home / "demo"
    write_data(data)
    with local_stack(home, out) as client:
        outcome = teach(Demo(client, out, home), model, data)
    _show(outcome, client.base_url, out)
    return outcome.has_learned


def teach(demo: Demo, model_folder: Path, data: Path) -> Outcome:
    """Fine-tune, and evaluate before and after."""
    demo.out.line("(b) base model and data")
    base = demo.register(model_folder)
    training = demo.upload(data / "train.jsonl", FilePurpose.FINE_TUNE)
    held_out = demo.upload(data / "heldout.jsonl", FilePurpose.EVALS)
    demo.out.line("(c) supervised fine-tune, with the base model's evaluation queued behind it")
    tuning_id = demo.submit(training_request(base, training), training)
    before_id = demo.submit(evaluation_request(base, held_out), held_out)
    demo.finish(tuning_id)
    tuning = demo.client.fine_tuning.get(tuning_id)
    demo.out.line("(d) evaluations before and after, served by vLLM")
    tuned = tuning.fine_tuned_model or ""
    after_id = demo.submit(evaluation_request(tuned, held_out), held_out)
    return Outcome(tuning, demo.evaluated(before_id), demo.evaluated(after_id))


def training_request(base: str, file: File) -> CreateFineTuningJob:
    """Full fine-tuning from random weights: a high, decaying learning rate and a few epochs."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=3,
        batch_size=32,
        learning_rate=4e-3,
        warmup_ratio=0.05,
        training_type=TrainingType.FULL,
        max_seq_length=128,
    )
    return CreateFineTuningJob(
        model=base,
        training_file=file.id,
        suffix="addition",
        seed=1,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def evaluation_request(model: str, file: File) -> CreateEvaluation:
    """Greedy answers, correct when their last number is the sum."""
    return CreateEvaluation(
        model=model, file=file.id, grader=NumericGrader(), sampling=Sampling(max_tokens=48)
    )


def table_of(outcome: Outcome) -> Table:
    """Accuracy before and after, and the training's cost."""
    table = Table("", "before", "after")
    both = outcome.metrics
    table.add_row("accuracy", *(f"{m.accuracy:.1%}" for m in both))
    table.add_row("95 % interval", *(f"{m.ci95[0]:.1%} to {m.ci95[1]:.1%}" for m in both))
    table.add_row("held-out sums", *(str(m.samples) for m in both))
    table.add_row("generated tokens/s", *(f"{m.tokens_per_second:,.0f}" for m in both))
    seconds = outcome.tuning.train_seconds or 0.0
    speed = (outcome.tuning.trained_tokens or 0) / seconds if seconds else 0.0
    table.add_row("train time", "", duration(seconds))
    table.add_row("trained tokens/s", "", f"{speed:,.0f}")
    return table


def next_commands(outcome: Outcome, url: str) -> str:
    """Commands that show the results again, for a stack at ``url``."""
    command = Path(sys.executable).with_name("temper")
    here = Path.cwd()
    temper = command.relative_to(here) if command.is_relative_to(here) else command
    tuning = outcome.tuning
    return f"""
  {temper} ps
  {temper} show {tuning.id}
  {temper} logs {tuning.id}
  {temper} models show {tuning.fine_tuned_model}
  curl {url}/v1/fine_tuning/jobs/{tuning.id}/checkpoints
  curl '{url}/v1/evaluations/{outcome.after.id}/results?limit=5'
"""


def _show(outcome: Outcome, url: str, out: Printer) -> None:
    out.line("(e) results")
    out.table(table_of(outcome))
    if not outcome.has_learned:
        limits = f"less than {BEFORE_AT_MOST} before and more than {AFTER_ABOVE} after"
        out.note(f"unexpected accuracy; it should be {limits}", "red")
    out.line("\nWhere to look next (temper up restarts the stack, KEEP=1 keeps it running):")
    out.line(next_commands(outcome, url))
