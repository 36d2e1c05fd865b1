"""Online training of models that a hub has, from a stand-in of one on the loopback."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from services.core.artifacts import ModelSource
from services.core.process.runtimes import child_environment
from services.trainer.rl.spec import TEACHER
from tests.integration.rl.training_job import OnlineJob
from tests.support.models.hub import Hub, Kind, Repository, running_hub
from tests.support.models.tiny_model import make_tiny_model

pytestmark = [pytest.mark.runtime, pytest.mark.timeout(900)]

NAME, REVISION = "lab/tiny", "v1.0"
MODEL = ModelSource(hub_id=NAME, revision=REVISION)
MISSING = ModelSource(hub_id="lab/none")
REWARDS = [{"name": "written", "reward": {"type": "search_em", "format_score": 0.5}}]
SETTINGS = {
    "steps": 1,
    "prompts_per_step": 2,
    "max_prompt_length": 256,
    "sampling": {"max_tokens": 16},
    "optimizer": {"learning_rate": 1e-3, "training_type": "lora", "lora": {"rank": 4}},
    "engine": {"max_model_len": 512, "cpu_kv_cache_gib": 0.1},
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def hub(model: Path) -> Iterator[Hub]:
    with running_hub() as hub:
        hub.add(Repository(Kind.MODEL, NAME, {"main": model, REVISION: model}))
        yield hub


@pytest.fixture
def environment(hub: Hub, tmp_path: Path) -> dict[str, str]:
    """Of processes that find the hub, and nothing else of the network."""
    # It is their proxy too: requests that would leave the loopback fail there.
    proxies = {"http_proxy": hub.url, "https_proxy": hub.url, "no_proxy": "127.0.0.1"}
    return {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path / "cache"), **proxies}


def reinforcement(folder: Path, model: ModelSource, environment: dict[str, str]) -> OnlineJob:
    hyperparameters = {**SETTINGS, "samples_per_prompt": 2, "dynamic_sampling": None}
    settings: dict[str, Any] = {"rewards": REWARDS, "hyperparameters": hyperparameters}
    return OnlineJob(folder, model, "reinforcement", environment=environment, **settings)


def test_unknown_hub_model_fails_the_job_and_is_named(
    environment: dict[str, str], tmp_path: Path
) -> None:
    error = reinforcement(tmp_path / "job", MISSING, environment).fail()

    assert (error["code"], error["param"]) == ("model_load_failed", "model")
    assert "has no model 'lab/none'" in error["message"]


def test_unknown_hub_teacher_fails_the_job_and_is_named(
    environment: dict[str, str], model: Path, tmp_path: Path
) -> None:
    hyperparameters = {**SETTINGS, "teacher": {"type": "model", "model": "none"}}
    job = OnlineJob(
        tmp_path / "job",
        model,
        "distillation",
        teacher=MISSING,
        environment=environment,
        hyperparameters=hyperparameters,
    )

    error = job.fail()

    assert (error["code"], error["param"]) == ("model_load_failed", TEACHER)


def found_by(job_dir: Path, environment: dict[str, str]) -> Path:
    """The folder of the model's main branch, in an attempt of a job."""
    program = (
        "import sys; from pathlib import Path\n"
        "from services.core import artifacts; from services.trainer import hub\n"
        f"source = artifacts.ModelSource(hub_id={NAME!r})\n"
        "print(hub.model_folder(source, Path(sys.argv[1]), lambda phase: None))"
    )
    job_dir.mkdir(exist_ok=True)
    ended = subprocess.run(
        [sys.executable, "-c", program, str(job_dir)],
        env=child_environment(environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return Path(ended.stdout.splitlines()[-1])


def test_retries_use_the_commit_of_the_first_attempt(
    environment: dict[str, str], model: Path, tmp_path: Path
) -> None:
    moved = Path(shutil.copytree(model, tmp_path / "moved"))
    with running_hub() as hub:
        environment |= {"HF_ENDPOINT": hub.url}
        hub.add(Repository(Kind.MODEL, NAME, {"main": model}))
        first = found_by(tmp_path / "job", environment)
        hub.add(Repository(Kind.MODEL, NAME, {"main": moved, "before": model}))
        assert found_by(tmp_path / "job", environment) == first
        assert found_by(tmp_path / "another", environment) != first


@pytest.mark.long
def test_adapter_names_the_hub_repository_of_its_base(
    environment: dict[str, str], hub: Hub, tmp_path: Path
) -> None:
    job = reinforcement(tmp_path / "job", MODEL, environment)

    result = job.run()

    assert {"type": "phase", "phase": "downloading_model"}.items() <= job.reports("phase")[
        0
    ].items()
    config = json.loads((job.folder / result["model_dir"] / "adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == (NAME, REVISION)
