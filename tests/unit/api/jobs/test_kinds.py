"""Every reader of the kinds of job knows all of them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from services.api import examples
from services.api.app import create_api
from services.api.dashboard.assets import build_assets
from services.api.settings import ApiSettings
from services.contracts.data.files import FilePurpose
from services.contracts.jobs import JobStatus, files_at
from services.contracts.kinds import KINDS, JobKind, Kind, kind_of_request
from services.jobs.claims import Claimant, claim_work
from services.jobs.devices import HostDevices
from services.jobs.job import REMOTE_SLOT, NewJob
from services.jobs.queues import all_queues
from services.jobs.store import create_job, move_job
from temper.cli.main import main
from temper.client import Temper

URL = "http://127.0.0.1:8080"
EXAMPLES = {
    JobKind.FINE_TUNING: examples.FINE_TUNING,
    JobKind.EVALUATION: examples.EVALUATION,
    JobKind.ROLLOUT: examples.ROLLOUT,
    JobKind.INDEXING: examples.INDEXING,
    JobKind.BATCH: examples.BATCH,
    JobKind.CHECK: examples.CHECK,
    JobKind.CAMPAIGN: examples.CAMPAIGN,
}
each_kind = pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: str(kind.name))


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """A gateway that has not started: it only tells which routes it has."""
    return TestClient(
        create_api(ApiSettings(home=tmp_path_factory.mktemp("home"))).app, base_url=URL
    )


def allowed(routes: TestClient, path: str) -> set[str]:
    """The methods of a path; none without such a path."""
    answer = routes.request("PROPFIND", path)
    return set(answer.headers.get("allow", "").split(", ")) - {""}


@each_kind
def test_the_gateway_has_every_route_of_a_kind(kind: Kind, routes: TestClient) -> None:
    job = f"{kind.path}/{kind.id_prefix}-1"
    posted, recorded = {"POST"} if kind.is_posted else set(), kind.has_trajectories

    assert allowed(routes, kind.path) - {"HEAD"} == {"GET"} | posted
    assert allowed(routes, job) >= {"GET", "DELETE"}
    for action in ("cancel", "pause", "resume", "retry"):
        assert "POST" in allowed(routes, f"{job}/{action}")
    assert "GET" in allowed(routes, f"{job}/events")
    assert ("GET" in allowed(routes, f"{job}/trajectories")) == recorded


@each_kind
def test_the_client_and_the_dashboard_know_a_kind(kind: Kind) -> None:
    with Temper(URL) as client:
        resource = client.of_kind(kind.name)
    pages = b"".join(asset.content for asset in build_assets().plain.values()).decode()

    assert vars(client)[kind.attribute] is resource
    assert (resource.path, resource.resource) == (kind.path, kind.resource)
    assert f'"{kind.name}": {{"path": "{kind.path}"' in pages


def test_kinds_have_names_queues_and_ids_of_their_own() -> None:
    assert set(KINDS) == {kind.value for kind in JobKind}
    assert len(set(all_queues())) == 2 * len(KINDS)
    assert len({kind.id_prefix for kind in KINDS.values()}) == len(KINDS)
    assert len({kind.attribute for kind in KINDS.values()}) == len(KINDS)


@pytest.mark.parametrize("kind", [KINDS[kind] for kind in EXAMPLES])
def test_file_references_of_a_request_are_all_the_files_it_names(kind: Kind) -> None:
    for example in EXAMPLES[JobKind(kind.name)].values():
        request = kind.request.model_validate({**_required(kind), **(example["value"] or {})})
        named = set(re.findall(r'"(file-\w+)"', request.model_dump_json()))
        renamed = request.with_file_references(dict.fromkeys(request.file_references, "file-new"))
        stored = request.model_dump(mode="json")

        assert named <= set(request.file_references.values())
        assert set(re.findall(r'"(file-\w+)"', renamed.model_dump_json())) <= {"file-new"}
        assert {file for field in request.FILE_FIELDS for file in files_at(stored, field)} == set(
            request.file_references.values()
        )
        assert kind_of_request(request) is kind
        assert kind.purpose in {purpose.value for purpose in FilePurpose}


def _required(kind: Kind) -> dict[str, str]:
    """The examples' fields that every user has to fill in."""
    required = [name for name, field in kind.request.model_fields.items() if field.is_required()]
    given = {"model": "tiny-base", "training_file": "file-abc123", "input_file_id": "file-abc123"}
    return {name: value for name, value in given.items() if name in required}


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[TestClient]:
    with TestClient(create_api(ApiSettings(home=tmp_path)).app, base_url=URL) as client:
        yield client


def test_a_batch_is_shown_with_its_counts_and_output(
    gateway: TestClient, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(httpx, "Client", lambda **_: TestClient(gateway.app, base_url=URL))
    app = gateway.app
    assert isinstance(app, FastAPI)
    body = KINDS[JobKind.BATCH].request.model_validate(
        {
            "input_file_id": "file-abc123",
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
        }
    )
    worker = Claimant("host:1", HostDevices("host", (), 1, (), 1), 60.0)
    result = {
        "model": "m",
        "counts": {"total": 3, "completed": 2, "failed": 1},
        "usage": {"input_tokens": 1200, "output_tokens": 34, "total_tokens": 1234},
    }
    with app.state.context.database.write() as session:
        job = create_job(session, NewJob.of(JobKind.BATCH, body, REMOTE_SLOT))
        move_job(session, job, JobStatus.QUEUED, "Files are valid")
        claim = claim_work(session, ["batch"], worker, ())
        assert claim is not None
        move_job(session, claim.job, JobStatus.SUCCEEDED, "Job succeeded", result=result)

    assert main(["show", job.id]) == 0
    shown = capsys.readouterr().out
    assert main(["show", job.id, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)

    assert "2 of 3 completed, 1 failed" in shown
    assert f"file-{job.id}-output" in shown
    assert f"file-{job.id}-errors" in shown
    assert (document["kind"], document["status"]) == ("batch", "succeeded")
    assert document["batch"]["request_counts"] == {"total": 3, "completed": 2, "failed": 1}
