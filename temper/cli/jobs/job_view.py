"""Jobs and events as text for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rich.text import Text

from services.contracts.jobs import JobStatus
from temper.cli.evaluations.outcomes import macro_text, main_text
from temper.cli.units import age, clock, duration, number, size

if TYPE_CHECKING:
    from services.contracts.batches.batches import Batch
    from services.contracts.campaigns.campaigns import Campaign
    from services.contracts.evaluation.evaluations import BenchmarkOutcome, Evaluation
    from services.contracts.evaluation.results import (
        EvaluationMetrics,
        ItemEstimate,
        ToolUseMetrics,
    )
    from services.contracts.infrastructure import InfrastructureCause
    from services.contracts.jobs import Event, Job, JobState, MainNumber, Progress
    from services.contracts.models.exports import Export
    from services.contracts.models.merges import Merge
    from services.contracts.retrieval.indexes import IndexBuildMetrics
    from services.contracts.rollouts.rollouts import RewardSpread, Rollout, RolloutStatistics
    from services.contracts.serving import Serving
    from services.contracts.training.fine_tuning import MemoryEstimate

STATUS_STYLES = {
    JobStatus.RUNNING: "cyan",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "yellow",
}
LEVEL_STYLES = {"info": "", "warn": "yellow", "error": "red"}
SHORT_NAMES = {"learning_rate": "lr", "tokens_per_second": "tokens/s"}
FIRST_METRICS = ("loss", "reward", "learning_rate", "lr", "tokens_per_second")


def status_text(job: JobState) -> Text:
    """Return a job's status, marked while a cancellation or a pause is pending."""
    pending = ""
    if job.cancel_requested_at is not None and not job.status.is_final:
        pending = " (cancelling)"
    elif job.pause_requested_at is not None:
        pending = " (pausing)"
    return Text(f"{job.status.value}{pending}", style=STATUS_STYLES.get(job.status, ""))


def progress_text(progress: Progress | None) -> str:
    """Return a job's progress and estimated time left."""
    if progress is None:
        return ""
    left = "" if progress.eta_seconds is None else f", {duration(progress.eta_seconds)} left"
    return f"{progress.step}/{progress.total_steps} ({progress.percent:.0f} %{left})"


def reason(job: JobState) -> str:
    """Return why a job waits or failed, or its current phase."""
    if job.error is not None:
        return job.error.message
    if job.status.is_final:
        return ""
    return f"{job.queue_reason or job.phase or ''}"


def took(job: JobState) -> str:
    """Return a job's run time so far, or in total; without pauses where it is known."""
    from services.contracts.jobs import Job

    if isinstance(job, Job) and job.run_seconds is not None:
        return duration(job.run_seconds)
    if job.started_at is None or (job.status.is_final and job.finished_at is None):
        return ""
    if job.status is JobStatus.PAUSED:
        return ""  # its clock has stopped, nobody knows when
    if job.finished_at is None:
        return age(job.started_at).removesuffix(" ago")
    return duration(job.finished_at - job.started_at)


def job_row(job: Job) -> tuple[str | Text, ...]:
    """Return a job's table cells."""
    step = progress_text(job.progress) if not job.status.is_final else ""
    state = (job.kind, status_text(job), step, main_number_text(job.main_number))
    return (job.name, *state, took(job), age(job.created_at), job.id, waits_text(job))


JOB_COLUMNS = ("NAME", "KIND", "STATUS", "PROGRESS", "RESULT", "TOOK", "CREATED", "ID", "WHY")


def main_number_text(found: MainNumber | None) -> str:
    """Return a job's main number with its interval, if it has one."""
    if found is None:
        return ""
    ends = "" if found.ci95 is None else f" ({number(found.ci95[0])} to {number(found.ci95[1])})"
    return f"{found.name} {number(found.value)}{ends}"


def waits_text(job: Job) -> str:
    """Return why a job waits or failed, and for which jobs."""
    held = _held_by(job)
    return f"{reason(job)}; {held}" if held else reason(job)


def _held_by(job: Job) -> str:
    """The jobs that hold what a job waits for, and when they should end."""
    others = []
    for each in job.waits_for:
        left = f", {duration(each.eta_seconds)} left" if each.eta_seconds else ""
        others.append(f"{each.name} ({each.id}{left})")
    return f"held by {', '.join(others)}" if others else ""


def job_fields(job: JobState, listed: Job | None = None) -> dict[str, str | None]:
    """Return a job's fields for display; ``listed``, the same job as the list of all kinds has it,
    adds what only that knows."""
    known = listed or job
    shared: dict[str, str | None] = {
        "name": job.name or None,
        "id": job.id,
        "status": status_text(job).plain,
        "why": (waits_text(listed) if listed else reason(job)) if job.error is None else None,
        "error": f"{job.error.message} ({job.error.code})" if job.error else None,
        "hint": job.error.hint if job.error else None,
        "progress": progress_text(job.progress) or None,
        "created": age(job.created_at),
        "took": took(known) or None,
        "attempts": str(job.attempt) if job.attempt > 1 else None,
    }
    labels = " ".join(f"{key}={value}" for key, value in (job.metadata or {}).items())
    return {**shared, **_own_fields(job), "metadata": labels or None}


def _memory_text(estimate: MemoryEstimate | None) -> str | None:
    if estimate is None:
        return None
    card = "" if estimate.card_gb is None else f" of {estimate.card_gb:.1f} GB"
    return f"about {estimate.needed_gb:.1f} GB{card} per GPU"


def _files_text(files: list[str]) -> str | None:
    return ", ".join(files) or None


def _own_fields(job: JobState) -> dict[str, str | None]:
    from services.contracts.campaigns.campaigns import Campaign
    from services.contracts.evaluation.evaluations import Evaluation
    from services.contracts.models.exports import Export
    from services.contracts.models.merges import Merge
    from services.contracts.retrieval.indexes import IndexingJob
    from services.contracts.rollouts.rollouts import Rollout
    from services.contracts.serving import Serving
    from services.contracts.training.fine_tuning import FineTuningJob
    from temper.client.batch_job import BatchJob

    match job:
        case FineTuningJob():
            tokens = job.trained_tokens
            return {
                "model": job.model,
                "training file": _files_text(
                    [part.file for part in job.training_files or ()] or [job.training_file]
                ),
                "validation file": _files_text(
                    [f"{name} {file}" for name, file in (job.validation_files or {}).items()]
                    or [job.validation_file or ""]
                ),
                "seed": str(job.seed),
                "memory": _memory_text(job.memory_estimate),
                "trained tokens": f"{tokens:,}" if tokens is not None else None,
                "tuned model": job.fine_tuned_model,
            }
        case Evaluation():
            return _evaluation_fields(job)
        case Rollout():
            return rollout_fields(job)
        case IndexingJob():
            build = _build_fields(job.metrics) if job.metrics else {}
            return {
                "index": job.index,
                "file": job.file,
                "mode": job.mode.value,
                "encoder": job.encoder,
                "version": job.version,
                **build,
            }
        case Merge() | Export() | Serving() | Campaign():
            return _model_fields(job)
    return _batch_fields(job.batch) if isinstance(job, BatchJob) else _plain_fields(job)


def _plain_fields(job: JobState) -> dict[str, str | None]:
    """The texts and numbers of a job of a kind without a view of its own."""
    from services.contracts.jobs import Job

    own = ((name, value) for name, value in job if name not in {*Job.model_fields, "object"})
    return {
        name.replace("_", " "): str(value)
        for name, value in own
        if isinstance(value, str | int | float)
    }


def _batch_fields(batch: Batch) -> dict[str, str | None]:
    counts, usage = batch.request_counts, batch.usage
    return {
        "model": batch.model,
        "endpoint": batch.endpoint.value,
        "input file": batch.input_file_id,
        "requests": f"{counts.completed:,} of {counts.total:,} completed, {counts.failed:,} failed",
        "output file": batch.output_file_id,
        "error file": batch.error_file_id,
        "tokens": f"{usage.input_tokens:,} in, {usage.output_tokens:,} out" if usage else None,
    }


def _model_fields(job: Merge | Export | Serving | Campaign) -> dict[str, str | None]:
    from services.contracts.campaigns.campaigns import Campaign
    from services.contracts.models.merges import Merge
    from services.contracts.serving import Serving

    if isinstance(job, Campaign):
        return {
            "base model": job.base_model,
            "best model": job.result.best_model if job.result else None,
            "LLM tokens": f"{job.result.llm_tokens:,}" if job.result else None,
        }
    if isinstance(job, Merge):
        return {"model": job.model, "merged model": job.merged_model}
    if isinstance(job, Serving):
        return {
            "model": job.model,
            "kept warm": "yes" if job.keep_warm else None,
            "requests": f"{job.result.requests:,}" if job.result else None,
            "ended": job.result.reason if job.result else None,
        }
    return {
        "model": job.model,
        "destination": job.destination,
        "size": size(job.bytes) if job.bytes is not None else None,
        "commit": job.commit,
    }


def _build_fields(metrics: IndexBuildMetrics) -> dict[str, str | None]:
    return {
        "documents": f"{metrics.documents:,}",
        "documents/s": number(metrics.documents_per_second),
        "size": size(metrics.bytes_on_disk),
    }


def _evaluation_fields(job: Evaluation) -> dict[str, str | None]:
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
        "left out": _left_out(metrics.left_out, metrics.left_out_causes or {}),
        "tool calls": _tool_calls(metrics.tool_use) if metrics.tool_use else None,
        "in training files": in_training_files(metrics),
        "tokens/s": number(metrics.tokens_per_second),
    }


def _left_out(number: int, causes: Mapping[InfrastructureCause, int]) -> str | None:
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


def event_line(event: Event) -> Text:
    """Return an event as a log line."""
    metrics = metrics_text(event) if event.type == "metrics" else ""
    step = (event.data or {}).get("step", "")
    text = f"Step {step}  {metrics}" if metrics else event.message
    return Text.assemble(
        (f"{clock(event.created_at)}  ", "dim"),
        (text, LEVEL_STYLES[event.level]),
    )


def metrics_text(event: Event) -> str:
    """Return the first four metrics of an event, the usual ones first."""
    metrics = {
        name: value
        for name, value in (event.data or {}).items()
        if name != "step" and isinstance(value, int | float)
    }
    ordered = [name for name in FIRST_METRICS if name in metrics]
    ordered += [name for name in metrics if name not in ordered]
    return "  ".join(
        f"{SHORT_NAMES.get(name, name)} {number(metrics[name])}" for name in ordered[:4]
    )


def rollout_fields(job: Rollout) -> dict[str, str | None]:
    """Return a rollout job's own fields for display."""
    tools = ", ".join(tool.class_name.rpartition(".")[2] for tool in job.tools)
    rewards = ", ".join(f"{each.name} x {number(each.weight)}" for each in job.rewards)
    return {
        "model": job.model if isinstance(job.model, str) else job.model.model,
        "prompts": job.file or "inline",
        "samples": f"{job.samples_per_prompt} each",
        "tools": tools or None,
        "rewards": rewards or None,
        **(_statistics(job.statistics) if job.statistics else {}),
    }


def _statistics(found: RolloutStatistics) -> dict[str, str | None]:
    ends = ", ".join(f"{name} {count:,}" for name, count in _by_count(found.finish_reasons))
    components = {
        f"  {name}": _interval(each)
        for name, each in found.reward_components.items()
        if len(found.reward_components) > 1
    }
    tools = {
        f"  {name}": f"{each.calls:,} calls, {each.failed:,} failed"
        + (f", median {each.seconds.median:.2f} s" if each.seconds else "")
        for name, each in found.tools.items()
    }
    return {
        "trajectories": f"{found.trajectories:,} of {found.prompts:,} prompts",
        "ended": ends,
        "left out": _left_out(found.left_out, found.left_out_causes),
        "reward": _interval(found.reward) if found.reward else None,
        **components,
        "best per prompt": _interval(found.best_reward) if found.best_reward else None,
        "uniform reward": f"{found.uniform_prompts:,} prompts" if found.uniform_prompts else None,
        "without reward": f"{found.reward_errors:,}" if found.reward_errors else None,
        "calls": f"{found.calls:,} ({found.failed_calls:,} failed)" if found.calls else None,
        **tools,
        "malformed calls": f"{found.malformed_calls:,}" if found.malformed_calls else None,
        "tokens": f"median {found.response_tokens.median:,.0f}, "
        f"longest {found.response_tokens.max:,.0f}",
        "time": f"model {found.model_seconds.mean:.1f} s, tools {found.tool_seconds.mean:.1f} s "
        f"per trajectory; {duration(found.generation_seconds)} in total",
        "tokens/s": number(found.tokens_per_second),
    }


def _by_count(counts: dict[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda each: -each[1])


def _interval(spread: RewardSpread) -> str:
    low, high = spread.ci95
    return f"{spread.mean:.4f} (95 % interval {low:.4f} to {high:.4f})"
