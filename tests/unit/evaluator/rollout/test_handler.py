"""What a worker passes to the children of a rollout job."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.jobs import JobKind
from services.contracts.rollouts.rollouts import CreateRollout
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.datasets.validate import SPEC as VALIDATION_SPEC
from services.evaluator.rollout.handler import RolloutHandler
from services.evaluator.rollout.spec import SPEC, RolloutSpec
from services.evaluator.serving import ENDPOINT_KEY, LocalModel, RemoteEndpoint
from services.jobs.claims import Claim, ClaimStage
from services.jobs.job import Job, NewJob
from services.jobs.queues import ROLLOUT
from services.jobs.store import create_job
from services.jobs.worker.handler import Launch
from services.jobs.worker.settings import WorkerSettings
from tests.support.runtime.stand_in import add_runtime

REMOTE = {"base_url": "http://127.0.0.1:8000/v1", "model": "big"}
QUESTION = {"question": "Größe?", "gold": "1"}


@pytest.fixture
def settings(tmp_path: Path) -> WorkerSettings:
    add_runtime(tmp_path / "home" / "runtimes", "vllm")
    return WorkerSettings(
        home=tmp_path / "home",
        endpoint_keys={"http://127.0.0.1:8000": "secret-of-the-model"},
        sandbox_api_key="secret-of-the-sandbox",
    )


@pytest.fixture
def models(database: Database, settings: WorkerSettings) -> None:
    """A model in a folder, a hub model, and an adapter of the first."""
    for name in ("base", "adapter"):
        (settings.models_folder / name).mkdir(parents=True)
    now = time.time()
    with database.write() as session:
        session.add(ModelRow(id="base", kind="full", folder="base", created_at=now))
        session.add(ModelRow(id="of-hub", kind="full", hub_id="team/m", created_at=now))
        session.add(
            ModelRow(id="tuned", kind="adapter", base="base", folder="adapter", created_at=now)
        )


def job_of(database: Database, body: dict[str, Any]) -> Job:
    request = CreateRollout.model_validate(body)
    with database.write() as session:
        return create_job(
            session,
            NewJob(
                id="rollout-1",
                kind=JobKind.ROLLOUT,
                queue=ROLLOUT.work,
                validation_queue=ROLLOUT.validation,
                request=request.model_dump(mode="json"),
            ),
        )


def work(
    database: Database, settings: WorkerSettings, folder: Path, **body: Any
) -> tuple[Launch, RolloutSpec]:
    job = job_of(database, {"model": "base", "prompts": [QUESTION], **body})
    launch = RolloutHandler(settings).work(database, Claim(job, ClaimStage.WORK), folder)
    return launch, RolloutSpec.model_validate_json((folder / SPEC).read_bytes())


@pytest.mark.usefixtures("models")
def test_inline_prompts_are_written_to_a_job_file(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    _, spec = work(database, settings, tmp_path)

    assert [json.loads(line) for line in spec.prompts.read_text().splitlines()] == [QUESTION]
    assert spec.prompts.parent == tmp_path
    assert isinstance(spec.model, LocalModel)
    assert spec.model.path == spec.tokenizer.path == settings.models_folder / "base"


@pytest.mark.usefixtures("models")
def test_keys_are_passed_by_environment_only(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    launch, spec = work(database, settings, tmp_path, model=REMOTE, tokenizer="of-hub")

    assert isinstance(spec.model, RemoteEndpoint)
    assert (spec.tokenizer.path, spec.tokenizer.hub_id) == (None, "team/m")
    assert launch.environment[ENDPOINT_KEY] == "secret-of-the-model"
    assert "secret-of-the-sandbox" in "".join(launch.environment.values())
    assert "secret" not in "".join(path.read_text() for path in tmp_path.glob("*.json*"))
    assert not any("secret" in argument for argument in launch.command)


@pytest.mark.usefixtures("models")
def test_an_adapter_uses_the_tokenizer_of_its_base(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    _, spec = work(database, settings, tmp_path, model="tuned")

    assert isinstance(spec.model, LocalModel)
    assert spec.model.adapter is not None
    assert spec.model.adapter.path == settings.models_folder / "adapter"
    assert spec.tokenizer.path == settings.models_folder / "base"


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize("name", ["of-hub", "tuned"])
def test_a_reward_model_must_be_a_folder_with_full_weights(
    database: Database, settings: WorkerSettings, tmp_path: Path, name: str
) -> None:
    rewards = [{"name": "r", "reward": {"type": "reward_model", "model": name}}]

    with pytest.raises(InvalidRequest) as caught:
        work(database, settings, tmp_path, rewards=rewards)

    assert caught.value.param == "rewards"


def test_inline_prompts_need_no_validation_child(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    job = job_of(database, {"model": "base", "prompts": [QUESTION]})

    assert RolloutHandler(settings).validation(database, job, tmp_path) is None


def test_file_prompts_are_validated_for_rewards_that_need_gold(
    database: Database, settings: WorkerSettings, tmp_path: Path
) -> None:
    file = FileRow(
        id="file-1", filename="p.jsonl", purpose="evals", bytes=1, sha256="0", created_at=0.0
    )
    with database.write() as session:
        session.add(file)
    rewards = [{"name": "box", "reward": {"type": "retool"}}]
    job = job_of(database, {"model": "base", "file": "file-1", "rewards": rewards})

    assert RolloutHandler(settings).validation(database, job, tmp_path) is not None
    assert json.loads((tmp_path / VALIDATION_SPEC).read_text())["needs_gold"] is True
