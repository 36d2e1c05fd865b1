"""How jobs and their events look to a person."""

from rich.text import Text

from services.contracts.evaluations import Evaluation, EvaluationMetrics
from services.contracts.fine_tuning import FineTuningJob
from services.contracts.indexes import IndexBuildMetrics, IndexingJob
from services.contracts.jobs import Event, Job, JobState, JobStatus, Progress
from services.contracts.jobs import JobKind as Kind
from services.contracts.rollouts import Rollout
from temper.cli.formats import age, clock, duration, figure, size
from temper.cli.rollout_view import rollout_fields

STATUS_STYLES = {
    JobStatus.RUNNING: "cyan",
    JobStatus.SUCCEEDED: "green",
    JobStatus.FAILED: "red",
    JobStatus.CANCELLED: "yellow",
}
LEVEL_STYLES = {"info": "", "warn": "yellow", "error": "red"}
SHORT_NAMES = {"learning_rate": "lr", "tokens_per_second": "tokens/s"}
FIRST_FIGURES = ("loss", "reward", "learning_rate", "lr", "tokens_per_second")

RESOURCES = {
    Kind.FINE_TUNING.value: "/v1/fine_tuning/jobs",
    Kind.EVALUATION.value: "/v1/evaluations",
    Kind.ROLLOUT.value: "/v1/rollouts",
    Kind.INDEXING.value: "/v1/indexing/jobs",
}


def status_text(job: JobState) -> Text:
    """Return a job's status; a cancellation that is under way shows."""
    under_way = job.cancel_requested_at is not None and not job.status.is_final
    return Text(
        f"{job.status.value}{' (cancelling)' if under_way else ''}",
        style=STATUS_STYLES.get(job.status, ""),
    )


def progress_text(progress: Progress | None) -> str:
    """Return how far a job is, and how long it may still take."""
    if progress is None:
        return ""
    left = "" if progress.eta_seconds is None else f", {duration(progress.eta_seconds)} left"
    return f"{progress.step}/{progress.total_steps} ({progress.percent:.0f} %{left})"


def why(job: JobState) -> str:
    """Return what a job waits for, does or failed of."""
    if job.error is not None:
        return job.error.message
    if job.status.is_final:
        return ""
    return job.queue_reason or job.phase or ""


def took(job: JobState) -> str:
    """Return how long a job has run, or ran."""
    if job.started_at is None or (job.status.is_final and job.finished_at is None):
        return ""
    if job.finished_at is None:
        return age(job.started_at).removesuffix(" ago")
    return duration(job.finished_at - job.started_at)


def job_row(job: Job) -> tuple[str | Text, ...]:
    """Return the cells of a job in a list."""
    step = progress_text(job.progress) if not job.status.is_final else ""
    return (job.id, job.kind, status_text(job), step, took(job), age(job.created_at), why(job))


JOB_COLUMNS = ("ID", "KIND", "STATUS", "PROGRESS", "TOOK", "CREATED", "WHY")


def job_fields(job: JobState) -> dict[str, str | None]:
    """Return what a person wants to know of one job, by name."""
    shared: dict[str, str | None] = {
        "id": job.id,
        "status": status_text(job).plain,
        "why": why(job) if job.error is None else None,
        "error": f"{job.error.message} ({job.error.code})" if job.error else None,
        "progress": progress_text(job.progress) or None,
        "created": age(job.created_at),
        "took": took(job) or None,
        "attempts": str(job.attempt) if job.attempt > 1 else None,
    }
    labels = " ".join(f"{key}={value}" for key, value in (job.metadata or {}).items())
    return {**shared, **_own_fields(job), "metadata": labels or None}


def _own_fields(job: JobState) -> dict[str, str | None]:
    match job:
        case FineTuningJob():
            tokens = job.trained_tokens
            return {
                "model": job.model,
                "training file": job.training_file,
                "validation file": job.validation_file,
                "seed": str(job.seed),
                "trained tokens": f"{tokens:,}" if tokens is not None else None,
                "tuned model": job.fine_tuned_model,
            }
        case Evaluation():
            model = job.model if isinstance(job.model, str) else job.model.model
            figures = _metrics_fields(job.metrics) if job.metrics else {}
            return {"model": model, "file": job.file, "grader": job.grader.type, **figures}
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
    return {}


def _build_fields(metrics: IndexBuildMetrics) -> dict[str, str | None]:
    return {
        "documents": f"{metrics.documents:,}",
        "documents/s": figure(metrics.documents_per_second),
        "size": size(metrics.bytes_on_disk),
    }


def _metrics_fields(metrics: EvaluationMetrics) -> dict[str, str | None]:
    low, high = metrics.ci95
    return {
        "accuracy": f"{metrics.accuracy:.4f} (95 % interval {low:.4f} to {high:.4f})",
        "samples": f"{metrics.samples} ({metrics.correct} right, {metrics.errors} without answer)",
        "tokens/s": figure(metrics.tokens_per_second),
    }


def event_line(event: Event) -> Text:
    """Return one event as a line of a log."""
    figures = figures_of(event) if event.type == "metrics" else ""
    step = (event.data or {}).get("step", "")
    said = f"Step {step}  {figures}" if figures else event.message
    return Text.assemble(
        (f"{clock(event.created_at)}  ", "dim"),
        (said, LEVEL_STYLES[event.level]),
    )


def figures_of(event: Event) -> str:
    """Return the figures of a metrics event in few words, the usual ones first."""
    figures = {
        name: value
        for name, value in (event.data or {}).items()
        if name != "step" and isinstance(value, int | float)
    }
    ordered = [name for name in FIRST_FIGURES if name in figures]
    ordered += [name for name in figures if name not in ordered]
    return "  ".join(
        f"{SHORT_NAMES.get(name, name)} {figure(figures[name])}" for name in ordered[:4]
    )
