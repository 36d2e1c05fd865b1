"""Wire representation of jobs."""

from dataclasses import replace
from typing import Any

import pytest

from services.api.batches.service import batch_view
from services.api.evaluations.service import evaluation_view
from services.api.fine_tuning.service import checkpoint_view, fine_tuning_view
from services.api.jobs.view import job_view
from services.contracts.jobs import JobError, JobStatus, RowProblem
from services.core.db.tables import CheckpointRow
from services.jobs.job import Job
from tests.support.evaluation.evaluation_view import metrics_of

JOB = Job(
    seq=1,
    id="ftjob-1",
    kind="fine_tuning",
    status=JobStatus.RUNNING,
    queue="training",
    validation_queue="training.validation",
    priority=3,
    gpus=None,
    request={"model": "base", "training_file": "file-1"},
    metadata=None,
    result=None,
    error=None,
    phase="training",
    step=None,
    total_steps=None,
    eta_seconds=None,
    queue_reason=None,
    memory_estimate=None,
    attempt=1,
    losses=0,
    progress=0,
    not_before=None,
    epoch=1,
    owner="host:1",
    lease_expires_at=None,
    cancel_requested_at=None,
    pause_requested_at=None,
    deadline_at=None,
    reports_offset=0,
    event_count=1,
    created_at=100.9,
    updated_at=100.9,
    started_at=101.5,
    finished_at=None,
)


@pytest.mark.parametrize(
    ("step", "total", "percent"), [(0, 3, 0.0), (1, 3, 33.33), (3, 3, 100.0), (5, 1000, 0.5)]
)
def test_progress_is_reported_in_steps_and_percent(step: int, total: int, percent: float) -> None:
    progress = job_view(replace(JOB, step=step, total_steps=total, eta_seconds=2.5)).progress

    assert progress is not None
    assert (progress.step, progress.total_steps) == (step, total)
    assert (progress.percent, progress.eta_seconds) == (percent, 2.5)


@pytest.mark.parametrize(("step", "total"), [(None, None), (None, 5), (3, None), (0, 0)])
def test_progress_needs_both_step_counts(step: int | None, total: int | None) -> None:
    assert job_view(replace(JOB, step=step, total_steps=total)).progress is None


def test_times_are_whole_seconds_and_internal_fields_are_hidden() -> None:
    shown = job_view(JOB).model_dump()

    assert (shown["created_at"], shown["started_at"], shown["finished_at"]) == (100, 101, None)
    assert (shown["kind"], shown["priority"], shown["status"]) == ("fine_tuning", 3, "running")
    assert not shown.keys() & {"owner", "epoch", "lease_expires_at", "queue", "seq", "request"}


def test_an_error_names_its_field() -> None:
    error = JobError(code="bad_data", message="row 3", param="training_file")

    assert job_view(replace(JOB, error=error)).error == error


def test_a_fine_tune_has_openai_hyperparameters_and_its_result() -> None:
    hyperparameters = {"n_epochs": 2, "learning_rate": 0.1}
    method = {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}}
    request = {**JOB.request, "method": method, "seed": 7}
    result = {"fine_tuned_model": "ft:base", "trained_tokens": 10, "train_seconds": 1.5}
    result |= {"training_rows": 900, "validation_rows": 100}

    shown = fine_tuning_view(replace(JOB, request=request, result=result))

    assert shown.hyperparameters == {
        "n_epochs": 2,
        "batch_size": "auto",
        "learning_rate_multiplier": "auto",
    }
    assert shown.method["supervised"]["hyperparameters"]["learning_rate"] == 0.1
    assert (shown.fine_tuned_model, shown.trained_tokens, shown.seed) == ("ft:base", 10, 7)
    assert (shown.training_rows, shown.validation_rows) == (900, 100)


def test_estimated_finish_needs_a_known_remaining_time() -> None:
    assert fine_tuning_view(JOB).estimated_finish is None
    estimated = fine_tuning_view(replace(JOB, eta_seconds=60.0)).estimated_finish
    assert estimated is not None
    assert estimated > JOB.created_at


def test_checkpoint_metrics_use_openai_names_only() -> None:
    metrics: dict[str, Any] = {
        "step": 4,
        "loss": 0.5,
        "eval_loss": 0.7,
        "note": "text",
        "gone": None,
    }
    row = CheckpointRow(
        id="ftckpt-1", job_id="ftjob-1", step=4, path="x", metrics=metrics, created_at=1.5
    )

    shown = checkpoint_view(row)

    assert shown.metrics == {"step": 4.0, "train_loss": 0.5, "valid_loss": 0.7}
    assert shown.fine_tuned_model_checkpoint == "ftjob-1:step-4"


def test_an_evaluation_includes_its_metrics_once_available() -> None:
    job = replace(JOB, id="eval-1", kind="evaluation", request={"model": "base", "file": "file-1"})
    metrics = {
        "samples": 2,
        "correct": 1,
        "errors": 0,
        "accuracy": 0.5,
        "stderr": 0.35,
        "ci95": [0.1, 0.9],
        "prompt_tokens": 10,
        "completion_tokens": 4,
        "generation_seconds": 1.0,
        "tokens_per_second": 4.0,
    }

    assert evaluation_view(job).metrics is None
    shown = evaluation_view(replace(job, result={"metrics": metrics})).metrics
    assert shown is not None
    assert shown.ci95 == (0.1, 0.9)


def test_an_evaluation_of_several_benchmarks_includes_their_mean() -> None:
    entries = [{"benchmark": name, "file": f"file-{name}"} for name in ("gsm8k", "math")]
    request = {"model": "base", "benchmarks": entries}
    job = replace(JOB, id="eval-1", kind="evaluation", request=request)
    result = {"benchmarks": {"gsm8k": metrics_of(0.5), "math": metrics_of(0.75)}}

    assert evaluation_view(job).macro_average is None
    shown = evaluation_view(replace(job, result=result)).macro_average
    assert shown is not None
    assert shown.metrics == {"gsm8k": "accuracy", "math": "accuracy"}
    assert shown.mean is not None
    assert shown.mean.mean == 0.625


BATCH = replace(
    JOB,
    id="batch-1",
    kind="batch",
    status=JobStatus.CANCELLED,
    request={
        "input_file_id": "file-1",
        "endpoint": "/v1/chat/completions",
        "completion_window": "24h",
    },
    finished_at=200.5,
)


def test_a_batch_that_ended_early_names_both_of_its_files() -> None:
    shown = batch_view(replace(BATCH, step=2, total_steps=5))

    assert (shown.status, shown.cancelled_at) == ("cancelled", 200)
    assert shown.output_file_id == "file-batch-1-output"
    assert shown.error_file_id == "file-batch-1-errors"
    assert (shown.request_counts.total, shown.request_counts.completed) == (5, 2)


def test_a_batch_whose_file_was_rejected_has_no_requests_and_no_files() -> None:
    rejected = replace(BATCH, status=JobStatus.FAILED, attempt=0, step=100, total_steps=100)

    shown = batch_view(replace(rejected, error=JobError(code="invalid", message="row 3")))

    assert (shown.status, shown.failed_at) == ("failed", 200)
    assert (shown.output_file_id, shown.error_file_id) == (None, None)
    assert shown.request_counts.total == 0
    assert shown.errors is not None
    assert shown.errors.data[0].message == "row 3"


def test_a_rejected_batch_names_its_first_bad_lines() -> None:
    problems = [RowProblem(row=3, message="url is missing"), RowProblem(row=8, message="no JSON")]
    error = JobError(code="invalid_batch_file", message="x: row 3: url", rows=problems)

    shown = batch_view(replace(BATCH, status=JobStatus.FAILED, error=error))

    assert shown.errors is not None
    assert [(error.line, error.message) for error in shown.errors.data] == [
        (3, "url is missing"),
        (8, "no JSON"),
    ]
