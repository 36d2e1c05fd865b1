"""The files of a job over REST, unique operation ids, allowed methods, and an offline /docs."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from services.api.app import create_api
from services.api.jobs.artifacts import result_file_ids
from services.api.settings import ApiSettings
from services.core.artifacts import Artifacts
from services.core.ids import new_id
from services.jobs.job import NewJob
from services.jobs.queues import TRAINING
from services.jobs.store import create_job

REQUEST = {"model": "base", "training_file": "file-1"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def client(home: Path) -> Iterator[TestClient]:
    app = create_api(ApiSettings(home=home)).app
    with TestClient(app, base_url="http://127.0.0.1:8080") as client:
        yield client


@pytest.fixture
def job_id(client: TestClient, home: Path) -> str:
    """A fine-tuning job with a model, metrics, and a link out of its folder."""
    job_id = new_id("ftjob")
    with client.app.state.context.database.write() as session:  # type: ignore[attr-defined]  # the client's type is that of any ASGI application
        job = NewJob(job_id, "fine_tuning", TRAINING.work, TRAINING.validation, REQUEST)
        create_job(session, job)
    folder = Artifacts(home).job(job_id)
    (folder / "output/model").mkdir(parents=True)
    (folder / "output/model/adapter.safetensors").write_bytes(b"weights")
    (folder / "metrics.jsonl").write_text('{"step": 1}\n')
    (home / "secret").write_text("secret")
    (folder / "link").symlink_to(home / "secret")
    (folder / "folder-link").symlink_to(home)
    return job_id


def test_job_files_are_listed_in_pages(client: TestClient, job_id: str) -> None:
    url = f"/v1/jobs/{job_id}/artifacts"

    first = client.get(url, params={"limit": 1}).json()
    second = client.get(url, params={"limit": 1, "after": first["last_id"]}).json()

    assert [each["id"] for each in first["data"] + second["data"]] == [
        "metrics.jsonl",
        "output/model/adapter.safetensors",
    ]
    assert (first["has_more"], second["has_more"]) == (True, False)
    assert second["data"][0]["bytes"] == 7


def test_a_job_file_can_be_downloaded(client: TestClient, job_id: str) -> None:
    url = f"/v1/jobs/{job_id}/artifacts/output/model/adapter.safetensors"

    response = client.get(url)

    assert (response.status_code, response.content) == (200, b"weights")
    assert "adapter.safetensors" in response.headers["content-disposition"]


@pytest.mark.parametrize(
    "path",
    [
        "absent",
        "link",
        "folder-link/secret",
        "output",
        "..%2f..%2fsecret",
        "%2fetc%2fpasswd",
        "%00",
    ],
)
def test_only_regular_files_of_the_job_can_be_downloaded(
    client: TestClient, job_id: str, path: str
) -> None:
    response = client.get(f"/v1/jobs/{job_id}/artifacts/{path}")

    assert response.status_code == 404, response.text
    assert client.get("/v1/jobs/ftjob-0/artifacts").status_code == 404


@pytest.mark.parametrize(
    ("number", "name", "text"),
    [
        (0, "step_metrics.csv", b"step,train_loss\n1,2.5\n"),
        (1, "metrics.jsonl", b'{"step": 1}\n'),
    ],
)
def test_job_metrics_are_result_files(
    client: TestClient, job_id: str, home: Path, number: int, name: str, text: bytes
) -> None:
    table = Artifacts(home).job(job_id) / "step_metrics.csv"
    table.write_text("step,train_loss\n1,2.5\n")
    file_id = result_file_ids(job_id)[number]

    shown = client.get(f"/v1/files/{file_id}").json()
    content = client.get(f"/v1/files/{file_id}/content").content

    assert content == text
    assert (shown["filename"], shown["purpose"]) == (name, "fine-tune-results")
    assert shown["sha256"] == hashlib.sha256(content).hexdigest()
    unknown = result_file_ids(new_id("ftjob"))[number]
    assert client.get(f"/v1/files/{unknown}").status_code == 404


def test_operation_ids_are_unique(client: TestClient) -> None:
    paths = client.get("/openapi.json").json()["paths"].values()
    ids = Counter(operation["operationId"] for path in paths for operation in path.values())

    assert [name for name, times in ids.items() if times > 1] == []
    assert all("/" not in name for name in ids)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/v1/models", "GET, POST"),
        ("/v1/models/some/name", "DELETE, GET"),
        ("/v1/files/file-1", "DELETE, GET"),
        ("/run_code", "POST"),
    ],
)
def test_a_405_response_lists_all_allowed_methods(
    client: TestClient, path: str, allowed: str
) -> None:
    response = client.patch(path)

    assert (response.status_code, response.headers["allow"]) == (405, allowed)


def test_the_docs_page_loads_no_external_resources(client: TestClient) -> None:
    page = client.get("/docs").text

    assert "/openapi.json" in page
    assert re.findall(r"(?:src|href)=[\"']?https?:|//[a-z]+\\.", page) == []
