"""Jobs by a text that occurs in them."""

from typing import Any

import pytest
from sqlalchemy import update

from services.contracts.jobs import JobError, JobStatus
from services.core.db.engine import Database
from services.core.db.tables import JobRow
from services.jobs.job import Job
from services.jobs.store import JobFilter, fail_job, list_jobs
from tests.unit.jobs.machine import new_job


def found(database: Database, text: str, **where: Any) -> list[str]:
    with database.read() as session:
        jobs, _ = list_jobs(session, JobFilter(text=text, **where), None, 10)
    return [job.id for job in jobs]


def set_values(database: Database, job: Job, **values: Any) -> None:
    with database.write() as session:
        session.execute(update(JobRow).where(JobRow.id == job.id).values(**values))


@pytest.mark.parametrize(
    "asked",
    [
        {"model": "blue-whale"},
        {"model": {"model": "blue-whale", "base_url": "http://127.0.0.1:1/v1"}},
        {"base_model": "blue-whale"},
        {"suffix": "blue-whale"},
        {"index": "blue-whale"},
        {"benchmark": "blue-whale"},
        {"benchmarks": [{"name": "other"}, {"name": "blue-whale"}]},
    ],
)
def test_a_job_is_found_by_the_names_of_its_request(
    database: Database, asked: dict[str, Any]
) -> None:
    job = new_job(database, asked=asked)
    new_job(database, asked={"seed": "blue-whale"})

    assert found(database, "Blue-Whale") == [job.id]


def test_a_job_is_found_by_its_id_its_kind_and_its_metadata(database: Database) -> None:
    plain = new_job(database)
    job = new_job(database, metadata={"team": "Blau/grün", "said": 'a "quote"\\'})

    assert found(database, job.id[8:20].upper()) == [job.id]
    assert found(database, "fine_tun") == [job.id, plain.id]
    assert found(database, "team") == found(database, "blau/grün") == [job.id]
    assert found(database, '"quote"\\') == [job.id]


def test_a_job_is_found_by_why_it_waits_or_failed_and_by_what_it_made(database: Database) -> None:
    failed, waiting, done = (new_job(database) for _ in range(3))
    with database.write() as session:
        fail_job(session, failed, JobError(code="bad_data", message="row 3: no answer"))
    set_values(database, waiting, queue_reason="waiting for 2 GPUs; 0 free on big-box")
    set_values(database, done, result={"fine_tuned_model": "ft:tiny-base:blue"})

    assert found(database, "ROW 3") == [failed.id]
    assert found(database, "big-box") == [waiting.id]
    assert found(database, "ft:tiny") == [done.id]


def test_a_text_is_no_pattern(database: Database) -> None:
    new_job(database, asked={"suffix": "plain"})
    for text in ("%", "_", "/", "[a-z]", "*", "'", '"'):
        job = new_job(database, metadata={"odd": f"a{text}b"})

        assert found(database, f"a{text}b") == [job.id]
        assert found(database, f"p{text}n") == []


def test_a_text_goes_with_other_filters_and_with_pages(database: Database) -> None:
    jobs = [new_job(database, metadata={"team": "blue" if n % 2 else "red"}) for n in range(8)]
    with database.write() as session:
        fail_job(session, jobs[5], JobError(code="bad_data", message="why"))
    blue = [job.id for job in reversed(jobs[1::2])]

    with database.read() as session:
        first, more = list_jobs(session, JobFilter(text="blue"), None, 3)
        rest, no_more = list_jobs(session, JobFilter(text="blue"), first[-1].id, 3)

    assert [job.id for job in [*first, *rest]] == blue
    assert (more, no_more) == (True, False)
    assert found(database, "blue", status=JobStatus.FAILED) == [jobs[5].id]
    assert found(database, "blue", metadata={"team": "red"}) == []


def test_a_job_is_found_by_the_whole_id_of_its_model(database: Database) -> None:
    trained = new_job(database, asked={"model": "base"})
    set_values(database, trained, result={"fine_tuned_model": "ft:base:a"})
    tuned = new_job(database, asked={"model": "ft:base:a"})
    campaign = new_job(database, asked={"base_model": "base"})
    new_job(database, asked={"model": {"model": "base", "base_url": "http://127.0.0.1:1/v1"}})
    new_job(database, asked={"model": "base2", "suffix": "base"})

    def of(model: str) -> list[str]:
        with database.read() as session:
            return [job.id for job in list_jobs(session, JobFilter(model=model), None, 10)[0]]

    assert of("base") == [campaign.id, trained.id]
    assert of("ft:base:a") == [tuned.id, trained.id]
    assert of("ft:base") == []
