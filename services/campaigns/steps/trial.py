"""The trial: a training of a few steps on the debug rows, before any on the full data.

It is an ordinary job with its own time limit. Its model and its rows are deleted afterwards.
"""

import contextlib
from urllib.parse import quote

from services.campaigns.data.rows import Row, Rows
from services.campaigns.data.training_settings import trial_arguments
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.effects import Effect
from services.campaigns.run.results import trained_model
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.steps.training import create_training, upload_rows
from services.contracts.campaigns.loops import Failure
from services.contracts.jobs import JobStatus
from services.contracts.training.offline import SupervisedHyperparameters

MAX_ROWS = 100
LABELS = {"purpose": "trial"}


def try_training(
    run: CampaignRun, attempt: int, settings: SupervisedHyperparameters, rows: Rows
) -> None:
    """Train a few steps; raises `StepFailed` with the cause of a job that does not succeed.

    Without rows nothing is trained: all of them contained items of the final part, which the LLM
    must not learn.
    """
    if not rows.rows:
        return
    name = f"trial-{attempt}"
    seconds = run.request.time_limits.trial
    arguments = trial_arguments(settings.llamafactory)
    hyperparameters = settings.model_copy(update={"llamafactory": arguments})
    file = upload_rows(run, name, _longest(rows.rows))
    job_id = create_training(
        run, name, file, hyperparameters.model_dump(mode="json"), labels=LABELS
    )
    job = run.finished_job(job_id, run_seconds=seconds)
    if job.status is JobStatus.SUCCEEDED:
        _delete(run, f"{name}.model", f"/v1/models/{quote(trained_model(job), safe='')}")
    _delete(run, f"{name}.file", f"/v1/files/{file}")
    if job.status is JobStatus.CANCELLED and run.seconds_of(job) >= seconds:
        message = f"a training of a few steps on the debug rows took more than {seconds:g} s"
        raise StepFailed(Failure.CONFIG, message)
    try:
        trained_model(job)
    except StepFailed as failed:
        message = f"a training of a few steps on the debug rows: {failed.message}"
        raise StepFailed(failed.failure, message) from failed


def _longest(rows: list[Row]) -> list[Row]:
    """The rows that need the most memory, in their original order."""
    by_length = sorted(range(len(rows)), key=lambda number: -_length(rows[number]))
    return [rows[number] for number in sorted(by_length[:MAX_ROWS])]


def _length(row: Row) -> int:
    return len(row.instruction) + len(row.input) + len(row.output)


def _delete(run: CampaignRun, key: str, path: str) -> None:
    async def delete() -> Effect:
        # It is gone already after a kill, and stays if somebody has begun to use it.
        with contextlib.suppress(GatewayRefused):
            await run.gateway.delete(path, run.idempotency_key(key))
        return Effect({})

    run.once(key, delete)
