"""The result file of a fine-tuning job as OpenAI gives it: a CSV of metrics by step.

Only the standard library is imported here, because the training runtime imports this module.
"""

import csv
import json
from collections.abc import Mapping
from pathlib import Path

from services.core.process.reporter import METRICS

STEP_METRICS = "step_metrics.csv"

COLUMNS: Mapping[str, tuple[str, ...]] = {
    "train_loss": ("loss",),
    "train_accuracy": ("accuracy", "rewards/accuracies"),
    "valid_loss": ("eval_loss",),
    "valid_mean_token_accuracy": ("eval_accuracy",),
}
"""The columns after ``step``; each holds the first of its metrics that a step has."""

_EVALUATION = "eval_"
_FAMILY = "/"


def write_step_metrics(job_dir: Path) -> None:
    """Write a job's metrics as CSV: OpenAI's columns, then one for each other metric of an
    evaluation. For a repeated step the last value counts; a cell without a value is empty."""
    steps: dict[int, dict[str, float]] = {}
    path = job_dir / METRICS
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            metrics = json.loads(line)
            step = int(metrics["step"])
        except (ValueError, TypeError, KeyError):
            continue  # a line torn by a kill
        steps.setdefault(step, {}).update(_cells(metrics))
    partial = job_dir / f"{STEP_METRICS}.partial"
    with partial.open("w", newline="", encoding="utf-8") as file:
        others = {name for cells in steps.values() for name in cells} - COLUMNS.keys()
        table = csv.DictWriter(file, ["step", *COLUMNS, *sorted(others)])
        table.writeheader()
        table.writerows({"step": step, **steps[step]} for step in sorted(steps) if steps[step])
    partial.replace(job_dir / STEP_METRICS)


def _cells(metrics: Mapping[str, float | None]) -> dict[str, float]:
    shown = {name for names in COLUMNS.values() for name in names}
    cells = {
        f"valid_{name.removeprefix(_EVALUATION)}": value
        for name, value in metrics.items()
        if value is not None
        and name.startswith(_EVALUATION)
        and name not in shown
        and _FAMILY not in name
    }
    for column, names in COLUMNS.items():
        values = [metrics[name] for name in names if metrics.get(name) is not None]
        if values and values[0] is not None:
            cells[column] = values[0]
    return cells
