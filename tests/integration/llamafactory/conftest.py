from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import installed_runtime

from .training_job import Job


@pytest.fixture(scope="session")
def python() -> str:
    return str(installed_runtime("training").python)


@pytest.fixture(scope="session")
def base_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def job(python: str, base_model: Path, tmp_path: Path) -> Iterator[Job]:
    spec = {
        "job_id": "ftjob-test",
        "model": {"path": str(base_model)},
        "method": "full",
        "n_epochs": 1.0,
        "batch_size": 4,
        "learning_rate": 1e-3,
        "max_seq_len": 128,
    }
    job = Job(python, tmp_path, spec)
    yield job
    job.kill()
