"""Running: all data, a fine-tuning job, and the measurement of its model."""

from services.campaigns.benchmark import KnownItems, Parts, write_rows
from services.campaigns.effects import Effect
from services.campaigns.gateway import GatewayRefused
from services.campaigns.measurement import measure
from services.campaigns.records import Attempt, Code, Failed
from services.campaigns.run import CampaignRun
from services.campaigns.script import Rows, read_rows, run_script
from services.campaigns.signals import StepFailed
from services.contracts.campaigns import Failure
from services.contracts.failures import FailureCode
from services.contracts.files import FilePurpose
from services.contracts.jobs import JobError, JobStatus

_KINDS = {
    FailureCode.OUT_OF_MEMORY: Failure.OUT_OF_MEMORY,
    FailureCode.INSUFFICIENT_MEMORY: Failure.OUT_OF_MEMORY,
    FailureCode.BAD_DATA: Failure.DATA,
    FailureCode.INVALID_TRAINING_FILE: Failure.DATA,
    FailureCode.DIVERGED: Failure.CONFIG,
}


def run_experiment(run: CampaignRun, code: Code, parts: Parts, items: KnownItems) -> Attempt:
    """Make all data, train on them and measure the model; a failure is part of the output."""
    rows = Rows([], 0)
    try:
        rows = read_rows(run_script(run, "full", code.script, debug=False), items)
        rows = rows.first(run.request.training_rows)
        # Nothing is left when all rows held items of the final part. The LLM must not learn that,
        # so the model of no training is measured.
        model = _train(run, code, rows) if rows.rows else run.request.base_model
        measured = measure(run, model, parts)
    except GatewayRefused as refused:
        failed = Failed(failure=Failure.CONFIG, message=refused.message)
    except StepFailed as step_failed:
        failed = Failed(failure=step_failed.failure, message=step_failed.message)
    else:
        return _attempt(rows).model_copy(update={"measurement": measured})
    return _attempt(rows).model_copy(update={"failed": failed})


def _attempt(rows: Rows) -> Attempt:
    return Attempt(rows=len(rows.rows), contaminated=rows.contaminated, tokens=rows.tokens())


def _train(run: CampaignRun, code: Code, rows: Rows) -> str:
    """Train from the base model; return the name of the trained model."""
    path = run.folder / "train.jsonl"

    async def upload() -> Effect:
        write_rows(path, [row.model_dump() for row in rows.rows])
        key = run.idempotency_key("upload.train")
        return Effect({"id": await run.gateway.upload(path, path.name, FilePurpose.FINE_TUNE, key)})

    file = run.once("upload.train", upload).response["id"]
    method = {"type": "supervised", "supervised": {"hyperparameters": code.hyperparameters}}
    body = {"model": run.request.base_model, "training_file": file, "method": method, "seed": 0}
    limit = run.request.time_limits.training
    job_id = run.create_job("train", "/v1/fine_tuning/jobs", body, limit)
    job = run.finished_job(job_id)
    if job.status is not JobStatus.SUCCEEDED or job.result is None:
        raise _failed(job_id, job.error)
    return str(job.result["fine_tuned_model"])


def _failed(job_id: str, error: JobError | None) -> StepFailed:
    """By the job's own cause."""
    if error is None:
        return StepFailed(Failure.ENVIRONMENT, f"job {job_id} was cancelled")
    kinds: dict[str, Failure] = {code.value: kind for code, kind in _KINDS.items()}
    kind = kinds.get(error.code, Failure.ENVIRONMENT)
    return StepFailed(kind, f"job {job_id} failed: {error.message}")
