"""What a fine-tune would need, before it is created."""

from collections.abc import Callable
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


def request(
    file: str, epochs: float | None = None, method: str = "supervised", **arguments: Any
) -> Any:
    settings: dict[str, Any] = {} if epochs is None else {"n_epochs": epochs}
    settings |= {"llamafactory": arguments} if arguments else {}
    chosen = {"hyperparameters": settings} if settings else {}
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


Ask = Callable[..., FineTuningForecast]


@pytest.fixture
def asked(database: Database, settings: ApiSettings) -> Ask:
    """The forecast of a request beside one finished job, of a row with these columns."""

    def ask(body: Any, earlier: Any, result: dict[str, Any], attempt: int = 1) -> Any:
        with database.write() as session:
            job = create_fine_tuning_job(session, earlier, settings)
            done = {"status": "succeeded", "result": result, "attempt": attempt}
            session.execute(update(JobRow).where(JobRow.id == job.id).values(**done))
        with database.read() as session:
            return forecast(session, body, settings)

    return ask


@pytest.mark.parametrize(
    ("body", "earlier", "seconds"),
    [
        (request("file-small"), request("file-small", 1), 30.0),  # auto is three epochs
        (request("file-small", 3), request("file-small"), 10.0),
        (request("file-small", max_steps=5), request("file-small"), None),
        (request("file-small", max_steps=5), request("file-small", 9, max_steps=50), 1.0),
        (request("file-large", max_steps=5), request("file-small", max_steps=50), None),
        (request("file-small"), request("file-small", max_samples=1), None),
        (request("file-small", 2, max_samples=1), request("file-small", 1, max_samples=1), 20.0),
        (request("file-small", 2, max_samples=1), request("file-small", 1, max_samples=2), None),
        (request("file-small", max_steps=-1, val_size=0), request("file-small"), 10.0),
    ],
)
def test_the_time_follows_all_that_decides_how_much_is_trained(
    body: Any, earlier: Any, seconds: float | None, asked: Ask
) -> None:
    assert asked(body, earlier, {"train_seconds": 10.0}).seconds == seconds


@pytest.mark.parametrize(
    ("result", "attempt", "seconds"),
    [
        ({}, 1, 10.0),
        ({}, 2, None),  # of an earlier version, which timed the last attempt alone
        ({"timed_steps": 20, "planned_steps": 20}, 3, 10.0),
        ({"timed_steps": 5, "planned_steps": 20}, 1, 40.0),  # stopped early, or timed in part
        ({"timed_steps": 0, "planned_steps": 20}, 2, None),
    ],
)
def test_the_time_is_that_of_all_steps_of_the_earlier_job(
    result: dict[str, Any], attempt: int, seconds: float | None, asked: Ask
) -> None:
    job = request("file-small")
    assert asked(job, job, {"train_seconds": 10.0, **result}, attempt).seconds == seconds


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
