"""How fine-tuning jobs and checkpoints look on the wire."""

import time
from typing import Any

from services.api.jobs.view import state_fields
from services.contracts.fine_tuning import Checkpoint, CreateFineTuningJob, FineTuningJob
from services.core.db.tables import CheckpointRow
from services.core.jobs.job import Job
from services.core.models.checkpoints import checkpoint_name

_OPENAI_NAMES = ("n_epochs", "batch_size", "learning_rate_multiplier")
_OPENAI_METRICS = {"loss": "train_loss", "eval_loss": "valid_loss"}


def fine_tuning_view(job: Job) -> FineTuningJob:
    """A fine-tuning job as OpenAI shows it."""
    request = CreateFineTuningJob.model_validate(job.request)
    settings: dict[str, Any] = request.method.model_dump(mode="json") if request.method else {}
    method = {name: value for name, value in settings.items() if value is not None}
    hyperparameters = method.get("supervised", {}).get("hyperparameters", {})
    result = job.result or {}
    finish = int(time.time() + job.eta_seconds) if job.eta_seconds is not None else None
    return FineTuningJob(
        model=request.model,
        training_file=request.training_file,
        validation_file=request.validation_file,
        suffix=request.suffix,
        seed=request.seed or 0,
        method=method,
        hyperparameters={name: hyperparameters.get(name) for name in _OPENAI_NAMES},
        fine_tuned_model=result.get("fine_tuned_model"),
        trained_tokens=result.get("trained_tokens"),
        train_seconds=result.get("train_seconds"),
        estimated_finish=finish,
        **state_fields(job),
    )


def checkpoint_view(row: CheckpointRow) -> Checkpoint:
    """A checkpoint as OpenAI shows it."""
    return Checkpoint(
        id=row.id,
        created_at=int(row.created_at),
        fine_tuned_model_checkpoint=checkpoint_name(row.job_id, row.step),
        fine_tuning_job_id=row.job_id,
        metrics={
            _OPENAI_METRICS.get(name, name): float(value)
            for name, value in row.metrics.items()
            if isinstance(value, int | float)
        },
        step_number=row.step,
    )
