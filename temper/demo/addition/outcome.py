"""What came of the demonstration, for a person."""

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from services.contracts.evaluations import Evaluation, EvaluationMetrics
from services.contracts.fine_tuning import FineTuningJob
from temper.cli.formats import duration

BEFORE_AT_MOST = 0.05
AFTER_ABOVE = 0.9


@dataclass(frozen=True)
class Outcome:
    """A fine-tune, and its base and its result on the held-out rows."""

    tuning: FineTuningJob
    before: Evaluation
    after: Evaluation

    @property
    def metrics(self) -> list[EvaluationMetrics]:
        """The figures before and after."""
        return [each.metrics for each in (self.before, self.after) if each.metrics is not None]

    @property
    def has_learned(self) -> bool:
        """Whether the task was new to the model, and is no longer."""
        before, after = self.metrics
        return before.accuracy < BEFORE_AT_MOST and after.accuracy > AFTER_ABOVE


def table_of(outcome: Outcome) -> Table:
    """Accuracy before and after, and what it took."""
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


def where_next(outcome: Outcome, url: str) -> str:
    """The lines to type next, for a stack at ``url``."""
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
