"""Jobs submitted from a published run file."""

from pathlib import Path
from typing import Any

from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import ReinforcementHyperparameters
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission

REWARDED = "{type: reinforcement, reinforcement: {rewards: [{name: r, reward: {type: retool}}]}}"


def submitted(folder: Path, run: str, **job: Any) -> Submission:
    """A job of a file that names one with the contents ``run``; ``job`` has its other keys."""
    (folder / "run.yaml").write_text(run)
    (folder / "rows.jsonl").write_text("{}")
    lines = {"kind": "fine_tuning", "model": "m", "training_file": "rows.jsonl", **job}
    text = "published: run.yaml\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())
    (folder / "job.yaml").write_text(text)
    return read_job_file(folder / "job.yaml", folder)


def method(submission: Submission) -> Any:
    """The settings of a submission's method."""
    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    assert request.method is not None
    return request.method.online


def reinforcement(folder: Path, run: str, **job: Any) -> ReinforcementHyperparameters:
    """The hyperparameters of a submission that trains by reinforcement."""
    hyperparameters = method(submitted(folder, run, **job)).hyperparameters
    assert isinstance(hyperparameters, ReinforcementHyperparameters)
    return hyperparameters
