"""Both runtimes load reward models; batched scores match single scores."""

import json
import subprocess
from pathlib import Path

import pytest

from services.core.operator_environment import OperatorEnvironment
from services.core.process.runtimes import child_environment
from services.rewards.interface import Sample
from tests.support.rewards import rewarded_all, trajectory
from tests.support.runtimes import installed_runtime

pytestmark = pytest.mark.runtime

SAMPLES = [
    trajectory("4<|im_end|>"),
    trajectory("Let me run it.", "It is four, as the program says.", replies=["4"]),
    trajectory(""),
    trajectory("It is five. " * 20),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reward-models")


@pytest.fixture(scope="module")
def scores(folder: Path) -> dict[str, list[float]]:
    """Scores of each sample by the models created in ``folder``."""
    conversations = folder / "conversations.json"
    conversations.write_text(json.dumps([Sample.of(each).conversation for each in SAMPLES]))
    script = ["-m", "tests.support.models.reward_model", str(folder), str(conversations)]
    done = subprocess.run(
        [str(installed_runtime("training").python), *script],
        env=child_environment({}),
        check=True,
        capture_output=True,
        timeout=300,
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize(("runtime", "name"), [("training", "templated"), ("vllm", "plain")])
def test_batched_scores_match_single_scores(
    folder: Path, scores: dict[str, list[float]], runtime: str, name: str
) -> None:
    environment = OperatorEnvironment(
        reward_models={"rm": folder / name}, model_python=installed_runtime(runtime).python
    )
    reward = {"type": "reward_model", "model": "rm", "batch_size": 3}

    judged = rewarded_all(SAMPLES, reward, environment=environment)

    assert [each.reward for each in judged] == pytest.approx(scores[name], abs=1e-5)
    assert len({round(score, 6) for score in scores[name]}) == len(SAMPLES)
