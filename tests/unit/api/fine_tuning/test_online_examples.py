"""The example files of online training are accepted by the gateway."""

import json
from pathlib import Path

import pytest

from services.api.examples import FINE_TUNING
from services.api.fine_tuning.service import create_fine_tuning_job
from services.api.settings import ApiSettings
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import ReinforcementHyperparameters
from services.contracts.training.policy_loss import Aggregation
from services.core.artifacts import SourceFile
from services.core.db.engine import Database
from services.core.db.tables import FileRow, ModelRow
from services.core.process.reporter import RESULT
from services.core.process.runtimes import REPOSITORY
from services.datasets.validate import SPEC, validate
from services.rewards.needs import needs_gold
from services.trainer.rl.spec import PromptFilesSpec, online_method, rewards_of
from services.trainer.rl.validation import check_prompts
from temper.submission.job_file import read_job_file

FILES = sorted((REPOSITORY / "examples" / "online").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_example_is_accepted_with_valid_prompts(
    path: Path, tmp_path: Path, database: Database
) -> None:
    submission = read_job_file(path, tmp_path)
    (file,) = submission.files
    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    assert request.method is not None
    row = FileRow(
        id="file-1",
        filename=file.path.name,
        purpose="fine-tune",
        bytes=1,
        sha256="0" * 64,
        created_at=0.0,
    )
    with database.write() as session:
        session.add(ModelRow(id=request.model, kind="full", folder="base", created_at=0.0))
        session.add(row)
    with database.write() as session:
        body = request.model_copy(update={"training_file": "file-1"})
        create_fine_tuning_job(session, body, ApiSettings())

    online = online_method(request.method)
    spec = PromptFilesSpec(
        training_file=SourceFile(path=file.path, filename=file.path.name),
        validation_rows=1,
        prompt_type=online.hyperparameters.prompt_type,
        needs_gold=needs_gold(rewards_of(online)),
        needs_answer=True,
    )
    (tmp_path / SPEC).write_text(spec.model_dump_json())
    validate(tmp_path, PromptFilesSpec, check_prompts)
    assert json.loads((tmp_path / RESULT).read_text())["status"] == "succeeded"


def test_examples_that_say_dapo_have_each_of_its_techniques() -> None:
    """Yu et al. 2025, arXiv:2503.14476."""
    named = [
        CreateFineTuningJob.model_validate(example["value"])
        for example in FINE_TUNING.values()
        if "DAPO" in (example["summary"] or "")
    ]
    for path in FILES:
        request = read_job_file(path, path.parent).request
        if "DAPO" in path.read_text() and isinstance(request, CreateFineTuningJob):
            named.append(request)

    assert len(named) == 2
    for request in named:
        assert request.method is not None
        settings = online_method(request.method).hyperparameters
        assert isinstance(settings, ReinforcementHyperparameters)
        assert (settings.loss.clip_low, settings.loss.clip_high) == (0.2, 0.28)
        assert settings.loss.aggregation is Aggregation.MEAN_OF_TOKENS
        assert settings.loss.kl is None
        assert settings.dynamic_sampling is not None
        assert settings.overlong is not None
