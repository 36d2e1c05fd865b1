from typing import Any

import pytest

from services.contracts.jobs import Event, Job, JobError, JobReference, JobStatus, Progress
from services.contracts.retrieval.indexes import IndexingJob
from temper.cli.jobs.event_text import event_line
from temper.cli.jobs.job_view import job_fields, job_row
from tests.support.evaluation.evaluation_view import evaluation


def event(**fields: Any) -> Event:
    return Event.model_validate(
        {
            "id": "e",
            "created_at": 0,
            "level": "info",
            "type": "message",
            "message": "said",
            **fields,
        }
    )


def job(**fields: Any) -> Job:
    return Job.model_validate(
        {"id": "j", "created_at": 0, "status": "running", "kind": "evaluation", **fields}
    )


def plain(row: tuple[Any, ...]) -> str:
    return " | ".join(str(cell) for cell in row)


def test_metrics_are_abbreviated() -> None:
    data = {"step": 7, "grad_norm": 2, "learning_rate": 0.001, "loss": 1.23456, "epoch": None}

    line = event_line(event(type="metrics", data=data)).plain

    assert line.endswith("Step 7  loss 1.235  lr 0.001  grad_norm 2")


def test_messages_are_shown_verbatim() -> None:
    assert event_line(event(data={"phase": "x"})).plain.endswith("  said")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"progress": Progress(step=5, total_steps=20, percent=25, eta_seconds=65)}, "5/20 (25 %"),
        ({"status": JobStatus.QUEUED, "queue_reason": "waiting for 2 GPUs"}, "waiting for 2 GPUs"),
        (
            {
                "queue_reason": "waiting for 1 GPU",
                "waits_for": [
                    JobReference(id="ftjob-9", name="sums", kind="fine_tuning", eta_seconds=65)
                ],
            },
            "waiting for 1 GPU; held by sums (ftjob-9, 1m05s left)",
        ),
        ({"cancel_requested_at": 1}, "running (cancelling)"),
        ({"pause_requested_at": 1}, "running (pausing)"),
        ({"phase": "loading_model"}, "loading_model"),
        (
            {
                "download": {
                    "bytes": 5 * 10**8,
                    "total_bytes": 2 * 10**9,
                    "bytes_per_second": 2.5e7,
                    "eta_seconds": 60.0,
                }
            },
            "500 MB of 2 GB, 25 MB/s, 1m00s left",
        ),
        ({"started_at": 10, "finished_at": 85, "status": "succeeded"}, "1m15s"),
        ({"started_at": 10, "run_seconds": 65.0, "status": "paused"}, "1m05s"),
        ({"status": "failed", "error": JobError(code="c", message="no memory")}, "no memory"),
    ],
)
def test_a_job_row_shows_its_phase_or_queue_reason(fields: Any, said: str) -> None:
    assert said in plain(job_row(job(**fields)))


def test_the_clock_of_a_paused_campaign_does_not_run() -> None:
    assert job_fields(job(kind="campaign", started_at=10, status="paused"))["took"] is None


def test_a_job_is_shown_with_the_run_time_that_the_list_has() -> None:
    """The routes of its kind do not tell pauses from work."""
    listed = job(started_at=10, run_seconds=65.0, status="paused")

    assert job_fields(job(started_at=10, status="paused"), listed)["took"] == "1m05s"


def test_a_failed_job_is_shown_with_its_error_and_code() -> None:
    error = JobError(code="c", message="no memory", hint="Use less.")

    shown = job_fields(job(status="failed", error=error))

    assert (shown["error"], shown["hint"]) == ("no memory (c)", "Use less.")


def test_a_built_index_shows_size_and_speed() -> None:
    metrics = {
        "documents": 12_000,
        "bytes_on_disk": 3_400_000,
        "seconds": 2.0,
        "documents_per_second": 6000.0,
    }
    shown = job_fields(
        IndexingJob.model_validate(
            {
                **{"id": "j", "created_at": 0, "status": "succeeded"},
                **{"index": "wiki", "file": "file-1", "mode": "bm25", "language": None},
                **{"encoder": None, "dense": "auto", "version": "v2", "metrics": metrics},
            }
        )
    )

    assert (shown["index"], shown["version"], shown["mode"]) == ("wiki", "v2", "bm25")
    assert (shown["documents"], shown["documents/s"]) == ("12,000", "6,000")
    assert shown["size"] == "3.4 MB"


@pytest.mark.parametrize(
    ("reuse", "field", "said"),
    [
        ({"cached_from": "eval-0"}, "answers reused", "eval-0"),
        ({"not_cached": "a fresh run was asked for"}, "not reused", "a fresh run was asked for"),
    ],
)
def test_an_evaluation_shows_whether_answers_were_reused(
    reuse: dict[str, str], field: str, said: str
) -> None:
    assert job_fields(evaluation("eval-1", "m", "f", 0.5, **reuse))[field] == said


def test_a_job_row_begins_with_its_name_and_shows_its_main_number() -> None:
    measured = {"name": "accuracy", "value": 0.5, "ci95": (0.4, 0.6)}
    other = {"id": "k", "name": "first", "kind": "fine_tuning"}
    row = job_row(job(name="mine", main_number=measured, waits_for=[other]))

    assert str(row[0]) == "mine"
    assert "accuracy 0.5 (0.4 to 0.6)" in plain(row)
    assert plain(row).endswith("held by first (k)")
    row = job_row(job(main_number={"name": "reward", "value": 1, "nothing_learned": True}))
    assert "reward 1, nothing learned" in plain(row)
    row = job_row(job(main_number={"name": "loss", "value": 3, "not_finite": True}))
    assert "loss not finite" in plain(row)
