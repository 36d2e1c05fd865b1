"""What the jobs of a campaign have resulted in: the one place that reads their results.

Models and causes are in the job's row, the answers of an evaluation in a file of its folder.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict

from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.contracts.campaigns.loops import Failure
from services.contracts.failures import FailureCode, LeftOut
from services.contracts.jobs import JobStatus
from services.datasets.append_log import read_records
from services.jobs.job import Job

_FAILURES: Mapping[str, Failure] = {
    FailureCode.OUT_OF_MEMORY.value: Failure.OUT_OF_MEMORY,
    FailureCode.INSUFFICIENT_MEMORY.value: Failure.OUT_OF_MEMORY,
    FailureCode.BAD_DATA.value: Failure.DATA,
    FailureCode.INVALID_TRAINING_FILE.value: Failure.DATA,
    FailureCode.DIVERGED.value: Failure.CONFIG,
}


class ResultRow(BaseModel):
    """One graded answer of an evaluation; ``left_out`` is set for one that the infrastructure lost,
    which counts nowhere."""

    model_config = ConfigDict(extra="ignore")

    index: int
    gold: list[str]
    answer: str | None
    score: float | None = None
    correct: bool | None
    left_out: LeftOut | None = None


def evaluation_rows(run: CampaignRun, job_id: str, *, with_reason: bool = True) -> list[ResultRow]:
    """The results of an evaluation. Its failure is shown to the LLM; for the final part without the
    reason, which may quote an item."""
    job = run.finished_job(job_id)
    if job.status is not JobStatus.SUCCEEDED:
        why = f": {job.error.message if job.error else job.status.value}" if with_reason else ""
        raise StepFailed(Failure.ENVIRONMENT, f"evaluation {job_id} did not succeed{why}")
    path = run.artifacts.job(job_id) / "results.jsonl"
    rows = [row for _, row in read_records(path, ResultRow)]
    by_correctness = run.request.compares_correctness
    rows = [
        row.model_copy(update={"score": _score(row, by_correctness=by_correctness)}) for row in rows
    ]
    return sorted(rows, key=lambda row: row.index)


def _score(row: ResultRow, *, by_correctness: bool) -> float | None:
    """What a comparison of evaluations takes of a row; one without a grade is not correct."""
    if by_correctness:
        return float(row.correct is True)
    if row.correct is None:
        return None
    return float(row.correct) if row.score is None else row.score


def trained_model(job: Job) -> str:
    """The name of the model that a training made; raises `StepFailed` with the job's own cause."""
    if job.status is JobStatus.SUCCEEDED and job.result is not None:
        return str(job.result["fine_tuned_model"])
    if job.error is None:
        raise StepFailed(Failure.ENVIRONMENT, f"job {job.id} was cancelled")
    failure = failure_of(job.error.code, Failure.ENVIRONMENT)
    raise StepFailed(failure, f"job {job.id} failed: {job.error.message}")


def merged_model(job: Job) -> str:
    """The name of the model that a merge made; raises `StepFailed` with the job's own cause."""
    if job.status is JobStatus.SUCCEEDED and (name := merged_model_in(job.result)) is not None:
        return name
    why = f"failed: {job.error.message}" if job.error else "was cancelled"
    raise StepFailed(Failure.ENVIRONMENT, f"job {job.id}, which merges the base model, {why}")


def merged_model_in(result: Mapping[str, Any] | None) -> str | None:
    """The model in the result of a merge; None before there is one."""
    name = (result or {}).get("merged_model")
    return None if name is None else str(name)


def failure_of(code: str | None, otherwise: Failure) -> Failure:
    """What the LLM is told that a job with this error code failed of."""
    return _FAILURES.get(code or "", otherwise)
