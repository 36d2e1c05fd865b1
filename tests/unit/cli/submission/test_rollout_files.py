"""Job files of rollouts, and published run files in them."""

from pathlib import Path

import pytest

from services.contracts.data.files import FilePurpose
from services.contracts.rewards.rewards import RetoolReward
from services.contracts.rollouts.multi_turn import TruncateSide
from services.contracts.rollouts.rollouts import CreateRollout
from temper.submission.job_file import read_job_file
from temper.submission.submission import SubmissionError

OWN = """
kind: rollout
model: tiny
file: prompts.jsonl
samples_per_prompt: 2
"""

RUN = """
defaults:
  - model:
      - some_model
actor_config:
  lr: 1e-6
rl_config:
  n_samples_per_prompt: 8
  verifier_function: ["retool_reward"]
  verifier_weight: [0.5]
  multi_turn_enable: true
  tool_config_path: ./configs/tools/retool_config.yaml
  max_tool_calls: 3
  max_parallel_calls: 1
  max_total_response_length: 3072
  max_tool_response_length: 128
  tool_response_truncate_side: 'right'
  tool_parser_format: 'hermes'
  async_engine: true
generate_config:
  sampling_config:
    max_tokens: 2048
    temperature: 0.8
"""

TOOLS = """
tools:
  - class_name: "mindspeed_rl.tools.retool.ReTool"
    config:
      sandbox_fusion_url: "http://localhost:8080/run_code"
      type: native
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder laid out like a repository: a run file, a tool file and prompts."""
    (tmp_path / "prompts.jsonl").touch()
    (tmp_path / "configs" / "tools").mkdir(parents=True)
    (tmp_path / "configs" / "tools" / "retool_config.yaml").write_text(TOOLS)
    (tmp_path / "configs" / "run.yaml").write_text(RUN)
    return tmp_path


def read(folder: Path, text: str) -> CreateRollout:
    (folder / "job.yaml").write_text(text)
    request = read_job_file(folder / "job.yaml", folder).request
    assert isinstance(request, CreateRollout)
    return request


def test_a_rollout_job_uploads_its_prompts(folder: Path) -> None:
    (folder / "job.yaml").write_text(OWN)

    submission = read_job_file(folder / "job.yaml", folder)

    assert [(file.field, file.path, file.purpose) for file in submission.files] == [
        ("file", folder / "prompts.jsonl", FilePurpose.EVALS)
    ]


def test_prompts_may_be_inline(folder: Path) -> None:
    request = read(folder, "kind: rollout\nmodel: m\nprompts: [{question: 1+1=, gold: 2}]\n")

    assert request.prompts == [{"question": "1+1=", "gold": 2}]


@pytest.mark.parametrize(
    "text",
    [f"{OWN}published: configs/run.yaml\n", OWN + RUN],
    ids=["named", "in the file itself"],
)
def test_a_published_run_completes_a_job(folder: Path, text: str) -> None:
    request = read(folder, text)

    assert request.multi_turn.multi_turn_enable
    assert request.multi_turn.max_tool_calls == 3
    assert request.multi_turn.tool_response_truncate_side is TruncateSide.RIGHT
    assert request.multi_turn.max_total_response_length == 3072
    assert (request.sampling.max_tokens, request.sampling.temperature) == (2048, 0.8)
    assert [tool.class_name for tool in request.tools] == ["mindspeed_rl.tools.retool.ReTool"]
    (reward,) = request.rewards
    assert isinstance(reward.reward, RetoolReward)
    assert reward.weight == 0.5


def test_the_job_file_takes_precedence(folder: Path) -> None:
    request = read(folder, f"{OWN}published: configs/run.yaml\nrewards: []\n")

    assert (request.samples_per_prompt, request.rewards) == (2, [])


def test_a_typo_beside_a_published_run_is_reported(folder: Path) -> None:
    with pytest.raises(SubmissionError, match="sampels_per_prompt"):
        read(folder, f"{OWN}sampels_per_prompt: 3\n{RUN}")


def test_a_published_run_alone_is_rejected_with_advice(folder: Path) -> None:
    with pytest.raises(SubmissionError, match="kind: rollout, model and file"):
        read_job_file(folder / "configs" / "run.yaml", folder)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (f"{OWN}published: absent.yaml\n", "absent.yaml"),
        (f"{OWN}{RUN}".replace("max_tool_calls: 3", "max_tool_calls: many"), "max_tool_calls"),
        (f"{OWN}{RUN}".replace("[0.5]", "[0.5, 0.5]"), "weights"),
        (f"{OWN}{RUN}".replace("retool_reward", "unheard_of"), "unheard_of"),
        (f"{OWN}{RUN}".replace("retool_config", "absent"), "absent"),
    ],
)
def test_unusable_parts_of_a_published_run_are_named(folder: Path, text: str, problem: str) -> None:
    with pytest.raises(SubmissionError, match=problem):
        read(folder, text)


@pytest.mark.parametrize(
    ("lines", "warning"),
    [
        ("multi_turn: {multi_turn_enable: true}", "without tools"),
        (
            "multi_turn: {multi_turn_enable: true}\ntools: [{class_name: retool}]",
            "prompt_type is plain",
        ),
        ("tools: [{class_name: retool}]", "tools are never called"),
    ],
)
def test_unusual_settings_cause_a_warning(folder: Path, lines: str, warning: str) -> None:
    path = folder / "job.yaml"
    path.write_text(f"{OWN}\n{lines}\n")
    (note,) = read_job_file(path, folder).notes
    assert warning in note
