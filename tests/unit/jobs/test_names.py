"""Names of jobs, and what they are about."""

from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import update

from services.core.db.engine import Database
from services.core.db.tables import FileRow, JobRow
from services.core.ids import new_id
from services.jobs.job import NewJob
from services.jobs.names import name_of, subject_of
from services.jobs.store import JobFilter, create_job, get_job, list_jobs

FINE_TUNE = {"model": "owner/Small-0.6B", "training_file": "file-1"}


def created(
    database: Database, kind: str, request: dict[str, Any], metadata: dict[str, str] | None = None
) -> str:
    new = NewJob(new_id("job"), kind, "queue", "queue.validation", request, metadata=metadata)
    with database.write() as session:
        return name_of(create_job(session, new))


@pytest.fixture
def files(database: Database) -> None:
    with database.write() as session:
        for number, name in enumerate(["sums.jsonl", "jokes.jsonl", "a\u202eb\x1b"], 1):
            row = FileRow(id=f"file-{number}", filename=name, purpose="fine-tune", bytes=1)
            row.sha256, row.created_at = "0" * 64, 0.0
            session.add(row)


@pytest.mark.parametrize(
    ("kind", "request_", "name"),
    [
        ("fine_tuning", FINE_TUNE, "Small-0.6B supervised on sums.jsonl"),
        ("fine_tuning", {**FINE_TUNE, "method": {"type": "dpo"}}, "Small-0.6B dpo on sums.jsonl"),
        ("fine_tuning", {**FINE_TUNE, "suffix": "mine"}, "mine"),
        ("fine_tuning", {**FINE_TUNE, "suffix": "mine", "name": "First try"}, "First try"),
        (
            "fine_tuning",
            {
                "model": "ft:tiny:temper:sums:0123abcd",
                "training_file": "file-2",
                "training_files": [{"file": "file-2"}, {"file": "hf://datasets/owner/name"}],
            },
            "sums supervised on jokes.jsonl, owner/name",
        ),
        ("evaluation", {"model": "m", "file": "file-1", "benchmark": "gsm8k"}, "m on gsm8k"),
        (
            "evaluation",
            {"model": {"model": "remote", "base_url": "http://x/v1"}, "file": "file-2"},
            "remote on jokes.jsonl",
        ),
        (
            "evaluation",
            {"model": "m", "benchmarks": [{"file": f"file-{each}"} for each in (1, 2, 3)]},
            "m on sums.jsonl, jokes.jsonl and more",
        ),
        ("rollout", {"model": "m", "prompts": [{}]}, "m on inline prompts"),
        ("check", {"training_file": "file-3"}, "check of a\ufffdb\ufffd"),
        ("indexing", {"index": "wiki", "file": "file-9"}, "wiki of file-9"),
        ("export", {"model": "ft:tiny:temper::0123abcd"}, "export of tiny 0123abcd"),
        (
            "fine_tuning",
            {**FINE_TUNE, "validation_files": {"a": "file-2"}, "validation_file": "file-2"},
            "Small-0.6B supervised on sums.jsonl",
        ),
        (
            "campaign",
            {"base_model": "m", "file": "file-1", "datasets": [{"file": "file-2"}, {"file": None}]},
            "m on sums.jsonl, jokes.jsonl",
        ),
        ("of_a_later_version", {"text": "hello"}, "of a later version"),
        ("of_a_later_version", {"model": "owner/m"}, "of a later version of m"),
    ],
)
@pytest.mark.usefixtures("files")
def test_a_job_is_named_as_asked_or_by_model_method_and_data(
    database: Database, kind: str, request_: dict[str, Any], name: str
) -> None:
    assert created(database, kind, request_) == name
    with database.read() as session:
        (job,), _ = list_jobs(session, JobFilter(text=name.upper()), None, 10)
    assert job.name == name


@pytest.mark.usefixtures("files")
def test_the_name_of_the_metadata_is_taken_unless_the_request_has_one(database: Database) -> None:
    metadata = {"name": "labeled"}

    assert created(database, "fine_tuning", {**FINE_TUNE, "suffix": "s"}, metadata) == "labeled"
    assert created(database, "fine_tuning", {**FINE_TUNE, "name": "given"}, metadata) == "given"


@pytest.mark.usefixtures("files")
def test_a_job_of_an_earlier_version_has_a_name_too(database: Database) -> None:
    new = NewJob(new_id("job"), "fine_tuning", "queue", "queue.validation", FINE_TUNE)
    with database.write() as session:
        create_job(session, new)
        session.execute(update(JobRow).values(name=None))
        job = get_job(session, new.id)

    assert name_of(job) == "Small-0.6B supervised on file-1"
    assert name_of(replace(job, name="kept")) == "kept"


def test_a_job_that_mixes_files_names_each_once() -> None:
    parts = [{"file": "a"}, {"file": "b"}, {"file": "a"}]
    request = {"model": "m", "training_file": "a", "training_files": parts}

    assert subject_of("fine_tuning", request).data == ("a", "b")
