"""Running: all data, a fine-tuning job, and the measurement of its model."""

from services.campaigns.benchmark import KnownItems, Parts
from services.campaigns.gateway import GatewayRefused
from services.campaigns.measurement import measure
from services.campaigns.records import Attempt, Code, Failed
from services.campaigns.run import CampaignRun
from services.campaigns.script import Rows, read_rows, run_script
from services.campaigns.signals import StepFailed
from services.campaigns.training import create_training, trained_model, upload_rows
from services.contracts.campaigns import Failure


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
    file = upload_rows(run, "train", rows.rows)
    limit = run.request.time_limits.training
    job_id = create_training(run, "train", file, code.hyperparameters, limit)
    return trained_model(run.finished_job(job_id))
