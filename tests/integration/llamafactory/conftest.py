import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.common.process.runtimes import REPOSITORY
from tests.support.runtimes import installed_runtime

from .training_job import DEADLINE, Job, runtime_environment


@pytest.fixture(scope="session")
def python() -> str:
    return str(installed_runtime("training").python)


@pytest.fixture(scope="session")
def base_model(python: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "tiny"
    script = REPOSITORY / "temper/demo/addition/model.py"
    subprocess.run(
        [python, script, folder],
        env=runtime_environment(),
        check=True,
        capture_output=True,
        timeout=DEADLINE,
    )
    return folder


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
