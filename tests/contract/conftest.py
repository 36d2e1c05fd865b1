"""One gateway and one stub worker for all contract tests of a test process."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import openai
import pytest
from openai.types.fine_tuning import FineTuningJob

from tests.support.gateway import GatewayClient
from tests.support.processes import running, running_gateway
from tests.support.servers import running_postgres
from tests.support.waiting import wait_for

FINAL = ("succeeded", "failed", "cancelled")


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with one model folder under its model root."""
    home = tmp_path_factory.mktemp("contract") / "home"
    folder = home / "models" / "base"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "stub"}))
    (folder / "model.safetensors").touch()
    return home


NO_ENDPOINT = "http://127.0.0.1:9"
"""An allowed model endpoint without a listener."""


@pytest.fixture(scope="session")
def settings(home: Path) -> dict[str, str]:
    return {
        "TEMPER_HOME": str(home),
        "TEMPER_GRACE_SECONDS": "1",
        "TEMPER_RECONCILE_SECONDS": "0.5",
        "TEMPER_CPU_SLOTS": "4",
        "TEMPER_RETRY_SECONDS": "0.1",
        "TEMPER_MAX_EVENT_STREAMS": "8",
        "TEMPER_EXPORT_DESTINATIONS": "/srv/exports,hf://team",
    }


@pytest.fixture(scope="session")
def url(settings: dict[str, str], home: Path) -> Iterator[str]:
    """The address of a gateway without keys that knows the model ``base``."""
    log = home.parent / "gateway.log"
    with running_gateway(settings, log) as url:
        model = {"id": "base", "folder": "base"}
        answer = httpx.post(f"{url}/v1/models", json=model, timeout=60)
        assert answer.status_code == 200, answer.text
        yield url
    assert "Traceback" not in log.read_text()  # no test may cause an internal error


@pytest.fixture(scope="session")
def worker(url: str, settings: dict[str, str], home: Path) -> Iterator[None]:
    """A worker whose jobs run the script named by their suffix."""
    with running("tests.support.jobs.stub_worker", [], settings, home.parent / "worker.log"):
        yield


@pytest.fixture(
    scope="session", params=["sqlite", pytest.param("postgres", marks=pytest.mark.variant)]
)
def each_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for each kind of database, named after it."""
    return tmp_path_factory.mktemp(request.param, numbered=True)


@pytest.fixture(scope="session")
def each_database(each_folder: Path) -> Iterator[GatewayClient]:
    """A gateway without workers, over a database of each kind."""
    settings = {
        "TEMPER_HOME": str(each_folder / "home"),
        "TEMPER_ALLOWED_ENDPOINTS": NO_ENDPOINT,
    }
    with ExitStack() as stack:
        if each_folder.name.startswith("postgres"):
            settings["TEMPER_DATABASE_URL"] = stack.enter_context(running_postgres())
        url = stack.enter_context(running_gateway(settings, each_folder / "gateway.log"))
        yield stack.enter_context(GatewayClient(url, each_folder / "home"))


@pytest.fixture(scope="session")
def http(url: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def client(url: str) -> Iterator[openai.OpenAI]:
    """An unmodified ``openai`` client of the gateway."""
    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture(scope="session")
def training_file(client: openai.OpenAI) -> str:
    content = b'{"messages": []}\n'
    return client.files.create(file=("train.jsonl", content), purpose="fine-tune").id


@pytest.fixture
def wait_until(client: openai.OpenAI) -> Callable[[str, str], FineTuningJob]:
    """Wait until a job has a status; fail immediately if it ends with another one."""

    def wait(job_id: str, status: str) -> FineTuningJob:
        def probe() -> FineTuningJob | None:
            job = client.fine_tuning.jobs.retrieve(job_id)
            assert job.status == status or job.status not in FINAL, job
            return job if job.status == status else None

        return wait_for(probe, f"job {job_id} is {status}")

    return wait
