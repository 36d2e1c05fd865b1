"""Configuration and results of an evaluation as fields for display."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from temper.cli.evaluations.outcomes import cut_off_text, macro_text, main_text
from temper.cli.units import number

if TYPE_CHECKING:
    from services.contracts.evaluation.evaluations import BenchmarkOutcome, Evaluation
    from services.contracts.evaluation.results import (
        EvaluationMetrics,
        ItemEstimate,
        ToolUseMetrics,
    )
    from services.contracts.failures import InfrastructureCause


def evaluation_fields(job: Evaluation) -> dict[str, str | None]:
    """Return an evaluation's own fields for display."""
    model = job.model if isinstance(job.model, str) else job.model.model
    reuse = {"answers reused": job.cached_from, "not reused": job.not_cached}
    if job.benchmarks is not None:
        mean = macro_text(job.macro_average) if job.macro_average else None
        return {"model": model, **_accuracies(job.benchmarks), "mean": mean, **reuse}
    return {
        "model": model,
        "file": job.file,
        "split": job.split,
        "grader": job.grader.type if job.grader else None,
        "main metric": _main_text(job.outcomes()[0]),
        **(_metrics_fields(job.metrics) if job.metrics else {}),
        **reuse,
    }


def _metrics_fields(metrics: EvaluationMetrics) -> dict[str, str | None]:
    from services.metrics.evaluation_report import in_training_files

    low, high = metrics.ci95
    return {
        "accuracy": f"{metrics.accuracy:.4f} (95 % interval {low:.4f} to {high:.4f})",
        "majority": _estimate(metrics.majority) if metrics.majority else None,
        **{f"pass@{k}": _estimate(each) for k, each in (metrics.pass_at_k or {}).items()},
        "samples": f"{metrics.samples} ({metrics.correct} correct, {metrics.errors} without a "
        f"grade, {metrics.unparsable} unparsable)",
        "cut off": cut_off_text(metrics) or None,
        "left out": left_out_text(metrics.left_out, metrics.left_out_causes or {}),
        "tool calls": _tool_calls(metrics.tool_use) if metrics.tool_use else None,
        "in training files": in_training_files(metrics),
        "tokens/s": number(metrics.tokens_per_second),
    }


def left_out_text(number: int, causes: Mapping[InfrastructureCause, int]) -> str | None:
    """What the infrastructure lost, by cause."""
    if not number:
        return None
    by_cause = ", ".join(f"{cause.value} {count:,}" for cause, count in sorted(causes.items()))
    return f"{number:,} ({by_cause})"


def _tool_calls(found: ToolUseMetrics) -> str:
    endings = ", ".join(f"{name} {count}" for name, count in sorted(found.endings.items()))
    return (
        f"{found.calls} ({found.failed_calls} failed, {found.malformed_calls} unreadable); "
        f"conversations: {endings}"
    )


def _accuracies(benchmarks: list[BenchmarkOutcome]) -> dict[str, str | None]:
    """Return the main metric and the file of each benchmark."""
    fields: dict[str, str | None] = {}
    for each in benchmarks:
        split = f", {each.split} part" if each.split else ""
        accuracy = _metrics_fields(each.metrics)["accuracy"] if each.metrics else "no result"
        accuracy = _main_text(each) or accuracy
        fields[f"benchmark {each.name}"] = f"{accuracy} on {each.file}{split}"
    return fields


def _main_text(outcome: BenchmarkOutcome) -> str | None:
    """Return the main metric, or None if it is the accuracy."""
    from services.metrics.main_metric import ACCURACY, main_metric

    main = main_metric(outcome)
    return main_text(main) if main is not None and main.name != ACCURACY else None


def _estimate(found: ItemEstimate) -> str:
    low, high = found.ci95
    return f"{found.mean:.4f} (95 % interval {low:.4f} to {high:.4f})"
