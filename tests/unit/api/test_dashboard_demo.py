"""The dashboard on recorded responses."""

import json

import pytest
from fastapi.testclient import TestClient

from services.api.dashboard.demo import RECORDING, create_demo, key_of, load_recording

MOST_BYTES = 600_000


@pytest.fixture
def demo() -> TestClient:
    jobs = json.dumps({"data": [{"id": "ftjob-1"}]})
    recorded = {
        key_of("/v1/jobs", [("limit", "50"), ("kind", "check")], None): jobs,
        key_of("/v1/files/file-1", [], None): json.dumps({"filename": "sums.jsonl"}),
        key_of("/v1/jobs/ftjob-1/artifacts/log.txt", [], "bytes=0-3"): "line",
    }
    return TestClient(create_demo(recorded))


def test_recorded_responses_are_found_whatever_the_order_of_parameters(demo: TestClient) -> None:
    assert demo.get("/v1/jobs?kind=check&limit=50").json()["data"] == [{"id": "ftjob-1"}]
    log = demo.get("/v1/jobs/ftjob-1/artifacts/log.txt", headers={"Range": "bytes=0-3"})
    assert (log.text, log.headers["content-type"]) == ("line", "text/plain; charset=utf-8")
    assert "<title>Temper</title>" in demo.get("/ui/jobs/ftjob-1").text
    assert demo.get("/ui/session").json() == {"keys_required": False, "signed_in": True}
    assert demo.get("/ui/names?of=file-1&of=ftjob-2").json() == {"names": {"file-1": "sums.jsonl"}}
    assert "event: end" in demo.get("/v1/events?job=ftjob-1&after=0&stream=true").text


def test_what_is_not_recorded_says_how_to_start_a_stack(demo: TestClient) -> None:
    unknown = demo.get("/v1/jobs?status=failed")
    assert unknown.status_code == 404
    assert "temper up" in unknown.json()["error"]["message"]
    changed = demo.post("/v1/jobs/ftjob-1/cancel")
    assert changed.status_code == 403
    assert "temper up" in changed.json()["error"]["message"]


def test_the_recording_is_small_and_has_a_training_with_trajectories() -> None:
    assert RECORDING.stat().st_size <= MOST_BYTES
    paths = [key.split(" ")[0] for key in load_recording()]
    assert "/v1/jobs" in paths
    for ending in ("/metrics", "/trajectories", "/events", "/compare"):
        assert any(path.endswith(ending) for path in paths), ending
