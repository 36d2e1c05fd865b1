"""Notes about jobs and trajectories over REST. No worker runs these jobs."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from services.rollouts.log.log import IndexedLog
from tests.support.trajectories import trajectory

HOSTILE = "<script>alert(1)</script> \u202e \U0001f389\n\nx"


@pytest.fixture
def job(http: httpx.Client, url: str, home: Path) -> str:
    """A rollout job with two trajectories."""
    body = {"model": "base", "prompts": [{"question": "1+1=", "gold": 2}]}
    job_id = str(http.post("/v1/rollouts", json=body).json()["id"])
    folder = home / "jobs" / job_id
    folder.mkdir(parents=True, exist_ok=True)
    with IndexedLog(folder) as log:
        log.append(trajectory(0))
        log.append(trajectory(1))
    return job_id


def write(http: httpx.Client, job_id: str, text: str, about: str | None = None) -> dict[str, Any]:
    answer = http.post(f"/v1/jobs/{job_id}/notes", json={"text": text, "trajectory_id": about})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def texts(http: httpx.Client, job_id: str, **query: Any) -> list[str]:
    page = http.get(f"/v1/jobs/{job_id}/notes", params=query).json()
    return [note["text"] for note in page["data"]]


def test_notes_persist_and_are_counted_in_lists(http: httpx.Client, job: str) -> None:
    write(http, job, "first")
    about = write(http, job, HOSTILE, "traj-1-0")

    assert texts(http, job) == [HOSTILE, "first"]
    assert texts(http, job, trajectory="traj-1-0") == [HOSTILE]
    assert http.get(f"/v1/jobs/{job}").json()["notes"] == 2
    listed = http.get(f"/v1/rollouts/{job}/trajectories", params={"order": "asc"}).json()["data"]
    assert [each["notes"] for each in listed] == [0, 1]
    jobs = {each["id"]: each["notes"] for each in http.get("/v1/jobs").json()["data"]}
    assert jobs[job] == 2

    gone = http.delete(f"/v1/jobs/{job}/notes/{about['id']}")
    assert gone.json() == {"id": about["id"], "object": "job.note", "deleted": True}
    assert texts(http, job) == ["first"]


def test_notes_are_paged_newest_first(http: httpx.Client, job: str) -> None:
    made = [write(http, job, str(number)) for number in range(3)]

    page = http.get(f"/v1/jobs/{job}/notes", params={"limit": 2}).json()

    assert ([note["text"] for note in page["data"]], page["has_more"]) == (["2", "1"], True)
    assert page["last_id"] == made[1]["id"]
    assert texts(http, job, after=page["last_id"]) == ["0"]


def test_a_retried_note_is_written_once(http: httpx.Client, job: str) -> None:
    path, headers = f"/v1/jobs/{job}/notes", {"Idempotency-Key": f"note-{job}"}

    first, again = (http.post(path, json={"text": "x"}, headers=headers) for _ in range(2))

    assert first.json() == again.json()
    assert texts(http, job) == ["x"]


@pytest.mark.parametrize(
    ("body", "status", "param"),
    [
        ({"text": ""}, 400, "text"),
        ({"text": " \n"}, 400, "text"),
        ({"text": "x" * 4001}, 400, "text"),
        ({"text": "x", "trajectory_id": "traj-9-9"}, 400, "trajectory_id"),
        ({"text": "x\0"}, 400, None),
        ({"text": "x", "other": 1}, 400, "other"),
    ],
)
def test_an_invalid_note_is_rejected(
    http: httpx.Client, job: str, body: dict[str, Any], status: int, param: str | None
) -> None:
    answer = http.post(f"/v1/jobs/{job}/notes", json=body)

    assert (answer.status_code, answer.json()["error"]["param"]) == (status, param)
    assert texts(http, job) == []


def test_notes_belong_to_their_job(http: httpx.Client, job: str) -> None:
    other = http.post("/v1/rollouts", json={"model": "base", "prompts": [{"question": "?"}]})
    note = write(http, job, "x")["id"]

    strange = http.delete(f"/v1/jobs/{other.json()['id']}/notes/{note}")

    assert (strange.status_code, strange.json()["error"]["code"]) == (404, "note_not_found")
    assert http.get("/v1/jobs/rollout-0/notes").status_code == 404
    assert http.post("/v1/jobs/rollout-0/notes", json={"text": "x"}).status_code == 404
