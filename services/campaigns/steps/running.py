"""Running: the full data, a fine-tuning job per seed, and the measurement of their models."""

from dataclasses import dataclass

from services.campaigns.data.benchmark import KnownItems, Parts
from services.campaigns.data.lengths import lengths_of_rows, rows_made
from services.campaigns.data.rows import read_rows
from services.campaigns.gateway import GatewayRefused
from services.campaigns.run.records import Attempt, Code, Failed
from services.campaigns.run.results import trained_model
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.campaigns.scripts.script import run_script
from services.campaigns.steps.measurement import seed_key
from services.campaigns.steps.seeds import FixedModel, measure_seeds
from services.campaigns.steps.training import create_training, upload_rows
from services.contracts.base import JsonObject
from services.contracts.campaigns.loops import Failure
from services.jobs.campaign_records import TRAINING


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
