"""Fine-tuning jobs of a campaign: their rows, and their creation."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from services.campaigns.data.benchmark import write_rows
from services.campaigns.data.rows import Row
from services.campaigns.data.starting_model import starting_model
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.effects import Effect
from services.campaigns.run.results import failure_of
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import Failure
from services.contracts.data.files import FilePurpose
from services.contracts.training.offline import SupervisedHyperparameters


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
