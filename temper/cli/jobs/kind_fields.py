"""What `temper show` prints of a job's kind alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from temper.cli.evaluations.fields import evaluation_fields
from temper.cli.jobs.rollout_fields import rollout_fields
from temper.cli.units import number, size

if TYPE_CHECKING:
    from services.contracts.batches.batches import Batch
    from services.contracts.campaigns.campaigns import Campaign
    from services.contracts.jobs import JobState
    from services.contracts.models.jobs import Export, Merge
    from services.contracts.retrieval.indexes import IndexBuildMetrics
    from services.contracts.serving import Serving
    from services.contracts.training.fine_tuning import MemoryEstimate


def own_fields(job: JobState) -> dict[str, str | None]:
    """Return the fields that only a job's kind has; None where one is empty."""
    from services.contracts.campaigns.campaigns import Campaign
    from services.contracts.evaluation.evaluations import Evaluation
    from services.contracts.models.jobs import Export, Merge
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
                "rows": _rows_text(job.training_rows, job.validation_rows),
                "trained tokens": f"{tokens:,}" if tokens is not None else None,
                "tuned model": job.fine_tuned_model,
            }
        case Evaluation():
            return evaluation_fields(job)
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


def _memory_text(estimate: MemoryEstimate | None) -> str | None:
    if estimate is None:
        return None
    card = "" if estimate.card_gb is None else f" of {estimate.card_gb:.1f} GB"
    return f"about {estimate.needed_gb:.1f} GB{card} per GPU"


def _rows_text(trained: int | None, validated: int | None) -> str | None:
    if trained is None:
        return None
    return f"{trained:,} trained" + (f", {validated:,} validated on" if validated else "")


def _files_text(files: list[str]) -> str | None:
    return ", ".join(files) or None


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
    from services.contracts.models.jobs import Merge
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
