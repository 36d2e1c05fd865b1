"""Running: the full data, a fine-tuning job per seed, and the measurement of their models.

A training has its rows, the model that it starts from, and a trial before it.
"""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import quote

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from services.campaigns.data.benchmark import KnownItems, Parts, write_rows
from services.campaigns.data.rows import Row, Rows, lengths_of_rows, read_rows, rows_made
from services.campaigns.data.training_settings import trial_arguments
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import Attempt, Code, Failed
from services.campaigns.run.results import failure_of, merged_model, merged_model_in, trained_model
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.scripts.script import run_script
from services.campaigns.steps.measurement import FixedModel, measure_seeds
from services.campaigns.steps.part import seed_key
from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import Failure
from services.contracts.data.files import FilePurpose
from services.contracts.errors import NotFound
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.models.registered import ModelKind
from services.contracts.training.offline import SupervisedHyperparameters
from services.contracts.training.optimizer import TrainingType
from services.core.db.tables import JobRow, ModelRow
from services.jobs.campaign_records import TRAINING
from services.models.adapter_settings import ADAPTER_ARGUMENTS
from services.models.registry import get_model_row


def upload_rows(run: CampaignRun, name: str, rows: Sequence[Row]) -> str:
    """Upload the rows of the training ``name`` once; return the id of the file."""
    path = run.folder / f"{name}.jsonl"
    key = f"upload.{name}"

    async def upload() -> Effect:
        write_rows(path, [row.model_dump() for row in rows])
        file = await run.gateway.upload(
            path, path.name, FilePurpose.FINE_TUNE, run.idempotency_key(key)
        )
        return Effect({"id": file})

    with _refusals():
        return str(run.once(key, upload).response["id"])


def create_training(
    run: CampaignRun,
    name: str,
    file: str,
    hyperparameters: JsonObject,
    seconds: int | None = None,
    labels: Mapping[str, str] | None = None,
    seed: int = 0,
) -> str:
    """Create the training ``name`` once; return the id of its job.

    It starts from the base model; raises `Waiting` while that is merged, and `StepFailed` when the
    gateway rejects the job, e.g. for more memory than any GPU has.
    """
    method = {"type": "supervised", "supervised": {"hyperparameters": hyperparameters}}
    with _refusals():
        model = starting_model(run, SupervisedHyperparameters.model_validate(hyperparameters))
        body = {"model": model, "training_file": file, "method": method, "seed": seed}
        return run.create_job(name, "/v1/fine_tuning/jobs", body, seconds, labels)


@contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except GatewayRefused as refused:
        kind = failure_of(refused.code, Failure.CONFIG)
        raise StepFailed(kind, refused.message) from refused


_NO_RESULT = (JobStatus.FAILED.value, JobStatus.CANCELLED.value)


def starting_model(run: CampaignRun, settings: SupervisedHyperparameters) -> str:
    """The name of the model to train with these settings; raises `Waiting` while it is merged.

    An adapter is trained further only if its shape stays the same. A training of all weights, or of
    another rank, starts from the adapter merged into its base.
    """
    base = run.request.base_model
    goes_on = settings.training_type is TrainingType.LORA and not ADAPTER_ARGUMENTS & set(
        settings.llamafactory
    )
    return base if goes_on or not _is_adapter(run, base) else _merged(run, base)


def merge_path(model: str) -> str:
    """Path of the gateway's route that merges a model."""
    return f"/v1/models/{quote(model, safe='')}/merge"


def _is_adapter(run: CampaignRun, model: str) -> bool:
    with run.database.read() as session:
        try:
            return get_model_row(session, model).kind == ModelKind.ADAPTER
        except NotFound:  # the gateway will say so
            return False


def _merged(run: CampaignRun, base: str) -> str:
    """The merged model, made by one job for all loops."""

    async def merge() -> Effect:
        with run.database.read() as session:
            found = _merge_of(session, base, run.id)
        if found is not None:
            return Effect({"id": found})
        body = {
            "priority": run.request.priority,
            "metadata": {"campaign": run.id, "loop": str(run.loop)},
        }
        key = run.idempotency_key("merge")
        job_id = await run.gateway.create(merge_path(base), body, key)
        return Effect({"id": job_id}, job_id)

    return merged_model(run.finished_job(str(run.once("merge", merge).response["id"])))


def _merge_of(session: Session, base: str, campaign_id: str) -> str | None:
    """A job that has merged this adapter and whose model still exists, or a running one of this
    campaign. One of another campaign would be cancelled together with that campaign."""
    jobs = session.scalars(
        select(JobRow)
        .where(
            JobRow.kind == JobKind.MERGE.value,
            JobRow.request["model"].as_string() == base,
            JobRow.status.not_in(_NO_RESULT),
            or_(
                JobRow.status == JobStatus.SUCCEEDED.value,
                JobRow.labels["campaign"].as_string() == campaign_id,
            ),
            JobRow.created_at >= get_model_row(session, base).created_at,
        )
        .order_by(JobRow.finished_at.is_(None), JobRow.seq.desc())
    )
    models = select(ModelRow.id)
    for job in jobs:
        name = merged_model_in(job.result)
        if name is None or session.scalar(models.where(ModelRow.id == name)) is not None:
            return job.id
    return None


TRIAL_ROWS = 100
TRIAL_LABELS = {"purpose": "trial"}


def try_training(
    run: CampaignRun, attempt: int, settings: SupervisedHyperparameters, rows: Rows
) -> None:
    """Train a few steps; raises `StepFailed` with the cause of a job that does not succeed.

    It is an ordinary job with its own time limit. Its model and its rows are deleted afterwards.

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
        run, name, file, hyperparameters.model_dump(mode="json"), labels=TRIAL_LABELS
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
    return [rows[number] for number in sorted(by_length[:TRIAL_ROWS])]


def _length(row: Row) -> int:
    return len(row.instruction) + len(row.input) + len(row.output)


def _delete(run: CampaignRun, key: str, path: str) -> None:
    async def delete() -> Effect:
        # It is gone already after a kill, and stays if somebody has begun to use it.
        with contextlib.suppress(GatewayRefused):
            await run.gateway.delete(path, run.idempotency_key(key))
        return Effect({})

    run.once(key, delete)


def run_experiment(run: CampaignRun, code: Code, parts: Parts, items: KnownItems) -> Attempt:
    """Generate the full data, train and measure the model; a failure is part of the output."""
    attempt = Attempt()
    try:
        rows = read_rows(run_script(run, "full", code.script, debug=False), items)
        made = rows_made(run, "lengths.made", rows)
        rows = rows.first(run.request.training_rows)
        attempt = Attempt(
            rows=len(rows.rows),
            contaminated=rows.contaminated,
            tokens=lengths_of_rows(run, "lengths.used", rows.rows),
            made=made,
        )
        # Nothing is left when all rows held items of the final part. The LLM must not learn that,
        # so the model of no training is measured.
        models = (
            _Trained(run, code.hyperparameters, upload_rows(run, TRAINING, rows.rows))
            if rows.rows
            else FixedModel(run, run.request.base_model, parts)
        )
        measured = measure_seeds(run, parts, models)
    except GatewayRefused as refused:
        failed = Failed(failure=Failure.CONFIG, message=refused.message)
    except StepFailed as step_failed:
        failed = Failed(failure=step_failed.failure, message=step_failed.message)
    else:
        return attempt.model_copy(update={"measurement": measured})
    return attempt.model_copy(update={"failed": failed})


@dataclass(frozen=True)
class _Trained:
    """The models trained from the base model, by seed."""

    run: CampaignRun
    hyperparameters: JsonObject
    file: str

    @property
    def varies(self) -> bool:
        """Whether another seed yields different scores."""
        return True

    def begin(self, seed: int) -> str:
        """Create the job of a seed once; return its id."""
        limit = self.run.request.time_limits.training
        name = seed_key(TRAINING, seed)
        return create_training(self.run, name, self.file, self.hyperparameters, limit, seed=seed)

    def model(self, seed: int) -> str:
        """The name of the trained model."""
        return trained_model(self.run.finished_job(self.begin(seed)))
