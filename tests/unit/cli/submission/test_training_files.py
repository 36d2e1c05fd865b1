"""Job files of online training that name a published run file."""

from pathlib import Path
from typing import Any

import pytest

from services.contracts.rewards.rewards import RetoolReward, SearchEmReward
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import ReinforcementMethod
from temper.submission.job_file import read_job_file
from temper.submission.submission import SubmissionError

RUN = """
rl_config:
  n_samples_per_prompt: 4
  verifier_function: ["retool_reward"]
  verifier_weight: [0.5]
  multi_turn_enable: true
  tool_config_path: ./tools.yaml
  max_tool_calls: 3
  max_total_response_length: 3072
generate_config:
  sampling_config:
    max_tokens: 2048
"""
TOOLS = """
tools:
  - class_name: "mindspeed_rl.tools.retool.ReTool"
    config:
      sandbox_fusion_url: "http://localhost:8080/run_code"
      type: native
"""
JOB = """
kind: fine_tuning
model: tiny
training_file: prompts.jsonl
published: run.yaml
"""


def read(folder: Path, more: str = "") -> ReinforcementMethod:
    (folder / "prompts.jsonl").touch()
    (folder / "run.yaml").write_text(RUN)
    (folder / "tools.yaml").write_text(TOOLS)
    (folder / "job.yaml").write_text(JOB + more)
    request = read_job_file(folder / "job.yaml", folder).request
    assert isinstance(request, CreateFineTuningJob)
    assert request.method is not None
    assert request.method.reinforcement is not None
    return request.method.reinforcement


def test_a_published_run_becomes_reinforcement(tmp_path: Path) -> None:
    method = read(tmp_path)
    settings = method.hyperparameters
    assert settings.samples_per_prompt == 4
    assert settings.multi_turn.max_tool_calls == 3
    assert settings.multi_turn.max_total_response_length == 3072
    assert settings.sampling.max_tokens == 2048
    assert [tool.class_name for tool in settings.tools] == ["mindspeed_rl.tools.retool.ReTool"]
    assert [(reward.weight, type(reward.reward)) for reward in method.rewards] == [
        (0.5, RetoolReward)
    ]


OVERRIDE = """
method:
  reinforcement:
    rewards:
      - {name: match, reward: {type: search_em}}
    hyperparameters: {samples_per_prompt: 16, steps: 7}
"""


def test_the_job_file_takes_precedence_over_the_published_run(tmp_path: Path) -> None:
    method = read(tmp_path, OVERRIDE)
    assert (method.hyperparameters.samples_per_prompt, method.hyperparameters.steps) == (16, 7)
    assert method.hyperparameters.multi_turn.max_tool_calls == 3
    assert [type(reward.reward) for reward in method.rewards] == [SearchEmReward]


@pytest.mark.parametrize("missing", ["run.yaml", "tools.yaml"])
def test_a_missing_run_file_is_reported(
    tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Path.write_text

    def write_all_but_one(path: Path, *content: Any) -> int:
        return 0 if path.name == missing else write(path, *content)

    monkeypatch.setattr(Path, "write_text", write_all_but_one)
    with pytest.raises(SubmissionError, match=missing):
        read(tmp_path)
