"""What lists show of jobs: their main number with a small curve."""

from typing import Any

import pytest
from sqlalchemy import delete, update

from services.api.jobs.overview import MOST_POINTS, job_views
from services.contracts.jobs import MainNumber
from services.core.db.engine import Database
from services.core.db.tables import EventRow, JobRow
from services.core.ids import new_id
from services.jobs.events import append_event
from services.jobs.job import NewJob
from services.jobs.store import create_job, get_job
from tests.support.evaluation.evaluation_view import metrics_of


def new(database: Database, kind: str, request: dict[str, Any]) -> str:
    job = NewJob(new_id("job"), kind, "queue", "queue.validation", request)
    with database.write() as session:
        return create_job(session, job).id


def report(database: Database, job_id: str, *reports: dict[str, Any]) -> None:
    with database.write() as session:
        for data in reports:
            append_event(session, job_id, "Step", type="metrics", data=data)


def number(database: Database, job_id: str) -> MainNumber | None:
    with database.read() as session:
        (view,) = job_views(session, [get_job(session, job_id)])
    return view.main_number


def test_a_training_shows_reward_before_loss_and_its_curve(database: Database) -> None:
    job = new(database, "fine_tuning", {"model": "m", "training_file": "file-1"})
    assert number(database, job) is None
    report(database, job, {"loss": 3.0}, {"loss": None}, {"learning_rate": 1.0}, {"loss": 2.5})
    shown = MainNumber(name="loss", value=2.5, direction="minimize", recent=[3.0, 2.5])
    assert number(database, job) == shown

    report(database, job, {"loss": 0.0, "reward": 0.5})
    assert number(database, job) == MainNumber(name="reward", value=0.5, recent=[0.5])


@pytest.mark.parametrize("steps", [1, MOST_POINTS + 5])
def test_a_loss_that_is_not_finite_any_more_is_told(database: Database, steps: int) -> None:
    job = new(database, "fine_tuning", {"model": "m", "training_file": "file-1"})
    report(database, job, *[{"loss": 3.5}, {"loss": 3.25}] * 5, *[{"loss": None}] * steps)
    report(database, job, {"eval_loss": 1.0})

    assert (found := number(database, job)) is not None
    assert (found.value, found.not_finite) == (3.25, True)
    report(database, job, {"loss": 3.0})
    assert (found := number(database, job)) is not None
    assert (found.value, found.not_finite) == (3.0, False)


def test_a_training_of_equal_rewards_learned_nothing(database: Database) -> None:
    job = new(database, "fine_tuning", {"model": "m", "training_file": "file-1"})
    equal = {"reward": 1.0, "advantage_std": 0.0, "grad_norm": 0.1}
    report(database, job, *[equal | {"advantage_std": 0.5}] * 11, *[equal] * 9)
    assert (found := number(database, job)) is not None
    assert not found.nothing_learned

    report(database, job, equal)
    assert (found := number(database, job)) is not None
    assert found.nothing_learned


def test_the_curve_of_a_long_training_spans_all_of_it(database: Database) -> None:
    job = new(database, "fine_tuning", {"model": "m", "training_file": "file-1"})
    report(database, job, *({"loss": float(step)} for step in range(1000)))

    found = number(database, job)
    assert found is not None
    assert found.value == found.recent[-1] == 999
    assert found.recent[0] < 50
    assert found.recent == sorted(found.recent)
    assert len(found.recent) == MOST_POINTS


def test_the_curve_spans_a_training_whose_older_metrics_were_thinned(database: Database) -> None:
    job = new(database, "fine_tuning", {"model": "m", "training_file": "file-1"})
    report(database, job, *({"loss": float(step)} for step in range(1000)))
    with database.write() as session:
        old = EventRow.number < 900, EventRow.number % 7 != 0
        session.execute(delete(EventRow).where(EventRow.job_id == job, *old))

    found = number(database, job)
    assert found is not None
    assert len(found.recent) == MOST_POINTS
    assert found.recent[0] < 50
    assert found.recent[-1] == 999


@pytest.mark.parametrize(
    ("kind", "request_", "result", "value"),
    [
        ("evaluation", {"model": "m", "file": "file-1"}, {"metrics": metrics_of(0.75)}, 0.75),
        (
            "rollout",
            {"model": "m", "file": "file-1"},
            {"statistics": {"reward": {"mean": -1.5, "ci95": [-2.0, -1.0]}}},
            -1.5,
        ),
    ],
)
def test_a_measurement_shows_its_result_with_the_interval(
    database: Database, kind: str, request_: dict[str, Any], result: dict[str, Any], value: float
) -> None:
    job = new(database, kind, request_)
    assert number(database, job) is None
    with database.write() as session:
        changed = {"result": result, "status": "succeeded"}
        session.execute(update(JobRow).where(JobRow.id == job).values(**changed))

    found = number(database, job)
    assert found is not None
    assert found.value == value
    assert found.ci95 is not None
    assert found.ci95[0] < value < found.ci95[1]
