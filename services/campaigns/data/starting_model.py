"""The model that trainings start from: the base model, merged first if its adapter cannot be
trained on.

An adapter is trained further only if its shape stays the same. A training of all weights, or of
another rank, starts from the adapter merged into its base.
"""

from urllib.parse import quote

from sqlalchemy import or_, select
from sqlalchemy.orm import Session

from services.campaigns.run.effects import Effect
from services.campaigns.run.results import merged_model, merged_model_in
from services.campaigns.run.run import CampaignRun
from services.contracts.errors import NotFound
from services.contracts.jobs import JobKind, JobStatus
from services.contracts.models.registered import ModelKind
from services.contracts.training.adaptation import TrainingType
from services.contracts.training.offline import SupervisedHyperparameters
from services.core.db.tables import JobRow, ModelRow
from services.models.registry import get_model_row

_NO_RESULT = (JobStatus.FAILED.value, JobStatus.CANCELLED.value)
_SHAPE = frozenset(
    {
        *("additional_target", "lora_alpha", "lora_dropout", "lora_rank", "lora_target"),
        *("pissa_init", "use_dora", "use_rslora"),
    }
)
"""Arguments that continuing with an adapter would ignore."""


def starting_model(run: CampaignRun, settings: SupervisedHyperparameters) -> str:
    """The name of the model to train with these settings; raises `Waiting` while it is merged."""
    base = run.request.base_model
    goes_on = settings.training_type is TrainingType.LORA and not _SHAPE & set(
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
