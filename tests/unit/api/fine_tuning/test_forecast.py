"""What a fine-tune would need, before it is created."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update

from services.api.fine_tuning.forecast import forecast
from services.api.fine_tuning.service import create_fine_tuning_job
from services.api.settings import ApiSettings
from services.contracts.training.fine_tuning import CreateFineTuningJob, FineTuningForecast
from services.core.db.engine import Database
from services.core.db.tables import FileRow, JobRow, ModelRow


@pytest.fixture
def settings(database: Database, tmp_path: Path) -> ApiSettings:
    with database.write() as session:
        session.add(ModelRow(id="distant", kind="full", hub_id="owner/name", created_at=0.0))
        for name, size in (("file-small", 1000), ("file-large", 4000)):
            row = FileRow(id=name, filename="a.jsonl", purpose="fine-tune", bytes=size)
            row.sha256, row.created_at = "0" * 64, 0.0
            session.add(row)
    return ApiSettings(home=tmp_path)


def request(file: str, epochs: float | None = None, method: str = "supervised") -> Any:
    chosen = {} if epochs is None else {"hyperparameters": {"n_epochs": epochs}}
    return CreateFineTuningJob.model_validate(
        {"model": "distant", "training_file": file, "method": {"type": method, method: chosen}}
    )


def test_the_time_is_in_proportion_to_that_of_an_earlier_job(
    database: Database, settings: ApiSettings
) -> None:
    def asked(body: CreateFineTuningJob) -> FineTuningForecast:
        with database.read() as session:
            return forecast(session, body, settings)

    assert asked(request("file-large")).seconds is None
    with database.write() as session:
        job = create_fine_tuning_job(session, request("file-small", 2), settings)
        done = {"status": "succeeded", "result": {"train_seconds": 10.0}}
        session.execute(update(JobRow).where(JobRow.id == job.id).values(**done))
        waiting = create_fine_tuning_job(session, request("file-small"), settings)
        session.execute(update(JobRow).where(JobRow.id == waiting.id).values(status="queued"))

    found = asked(request("file-large", 3))
    assert (found.seconds, found.based_on, found.queued_jobs) == (60.0, job.id, 1)
    assert asked(request("file-large", 3, "kto")).seconds is None


def test_a_request_that_would_be_refused_says_why(
    database: Database, settings: ApiSettings
) -> None:
    with database.read() as session:
        found = forecast(session, request("file-absent"), settings)

    assert "file-absent" in (found.problem or "")
    assert found.seconds is None


def test_the_settings_of_a_recipe_are_shown_before_the_job_is_created(
    database: Database, settings: ApiSettings
) -> None:
    online: dict[str, Any] = {"rewards": [{"name": "a", "reward": {"type": "exact"}}]}
    online |= {"hyperparameters": {"recipe": "gspo", "steps": 5}}
    for file in ("file-small", "file-absent"):
        body = CreateFineTuningJob.model_validate(
            {
                "model": "distant",
                "training_file": file,
                "method": {"type": "reinforcement", "reinforcement": online},
            }
        )
        with database.read() as session:
            shown = forecast(session, body, settings).settings

        assert shown["rewards"][0]["name"] == "a"
        assert (shown["hyperparameters"]["steps"], shown["hyperparameters"]["mini_batches"]) == (
            5,
            4,
        )
        assert shown["hyperparameters"]["loss"]["clip_high"] == 4e-4
