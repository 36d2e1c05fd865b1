"""Published run files of MindSpeed-RL and verl."""

from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import CountedCalls, TruncateSide
from services.parsing.yaml_text import parse_yaml
from services.rollouts.settings import validate_multi_turn
from temper.formats.published_runs import is_published, read_published

TOOLS = """
tools:
  - class_name: "mindspeed_rl.tools.retool.ReTool"
    config:
      sandbox_fusion_url: "http://localhost:8080/run_code"
      type: native
"""

MINDSPEED = """
defaults:
  - model:
      - some_model

megatron_training:
  global_batch_size: 32
  dataset_additional_keys: ['labels',]

actor_config:
  lr: 1e-6

rl_config:
  adv_estimator: group_norm
  max_prompt_length: 1024
  n_samples_per_prompt: 8
  verifier_function: ["retool_reward"]
  verifier_weight: [1.0]
  multi_turn_enable: true
  tool_config_path: ./configs/tools/tools.yaml
  max_tool_calls: 3
  max_parallel_calls: 2
  max_total_response_length: 3072
  max_tool_response_length: 128
  tool_response_truncate_side: 'right'
  tool_parser_format: 'hermes'
  async_engine: true
  actor_resource:
    num_npus: 8

generate_config:
  sampling_config:
    logprobs: 1
    max_tokens: 2048
    top_p: 1
    top_k: -1
    min_p: 0.0
    temperature: 0.8
    detokenize: false
"""

VERL = """
hydra:
  searchpath:
    - file://verl/trainer/config
data:
  max_prompt_length: 1024
  max_response_length: 4096
actor_rollout_ref:
  rollout:
    name: sglang
    mode: async
    n: 16
    temperature: 0.9
    top_k: 0
    response_length: ${oc.select:data.max_response_length,512}
    multi_turn:
      _target_: verl.workers.config.MultiTurnConfig
      enable: True
      max_assistant_turns: 5
      max_user_turns: null
      max_parallel_calls: 2
      max_tool_response_length: 512
      tool_response_truncate_side: left
      format: qwen
      tool_config_path: "configs/tools/tools.yaml"
"""


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    tools = tmp_path / "configs" / "tools"
    tools.mkdir(parents=True)
    (tools / "tools.yaml").write_text(TOOLS)
    return tmp_path


def write(repository: Path, text: str) -> Path:
    path = repository / "configs" / "run.yaml"
    path.write_text(text)
    return path


def test_a_mindspeed_rl_run_file_is_read(repository: Path) -> None:
    run = read_published(write(repository, MINDSPEED))
    turns, sampling = run.multi_turn, run.sampling
    assert turns.multi_turn_enable
    assert (turns.max_tool_calls, turns.count_tool_calls) == (3, CountedCalls.CALLS)
    assert (turns.max_parallel_calls, turns.max_total_response_length) == (2, 3072)
    assert turns.max_tool_response_length == 128
    assert turns.tool_response_truncate_side is TruncateSide.RIGHT
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p) == (2048, 0.8, 1.0)
    assert [tool.class_name for tool in run.tools] == ["mindspeed_rl.tools.retool.ReTool"]
    assert (run.samples_per_prompt, run.max_prompt_length) == (8, 1024)
    assert (run.verifier_functions, run.verifier_weights) == (("retool_reward",), (1.0,))
    validate_multi_turn(turns, sampling)


def test_a_verl_run_file_is_read(repository: Path) -> None:
    run = read_published(write(repository, VERL))
    turns = run.multi_turn
    assert turns.multi_turn_enable
    assert (turns.max_tool_calls, turns.count_tool_calls) == (4, CountedCalls.TURNS)
    assert (turns.max_parallel_calls, turns.max_tool_response_length) == (2, 512)
    assert turns.tool_response_truncate_side is TruncateSide.LEFT
    assert turns.tool_parser_format == "hermes"
    assert (turns.max_total_response_length, run.sampling.max_tokens) == (4096, 4096)
    assert (run.sampling.temperature, run.sampling.top_k) == (0.9, -1)
    assert len(run.tools) == 1
    assert (run.samples_per_prompt, run.max_prompt_length) == (16, 1024)
    validate_multi_turn(turns, run.sampling)


def test_a_bare_verl_rollout_section_is_read(repository: Path) -> None:
    text = "response_length: 64\nmulti_turn: {enable: false, max_user_turns: 2}"
    run = read_published(write(repository, text))
    assert not run.multi_turn.multi_turn_enable
    assert run.multi_turn.max_tool_calls == 2
    assert run.multi_turn.max_total_response_length == 64


def test_a_prompt_type_is_read(repository: Path) -> None:
    run = read_published(write(repository, "prompt_type: qwen_retool\n" + MINDSPEED))
    assert run.prompt_type == "qwen_retool"


def test_a_single_turn_run_needs_no_tool_file(repository: Path) -> None:
    text = MINDSPEED.replace("multi_turn_enable: true", "multi_turn_enable: false")
    run = read_published(write(repository, text.replace("tools.yaml", "gone.yaml")))
    assert run.tools == ()


@pytest.mark.parametrize(
    ("old", "new", "param"),
    [
        ("tools/tools.yaml", "tools/gone.yaml", "tool_config_path"),
        ("max_parallel_calls: 2", "max_parallel_calls: two", "rl_config.max_parallel_calls"),
        ("'right'", "'upper'", "rl_config.tool_response_truncate_side"),
        ("n_samples_per_prompt: 8", "n_samples_per_prompt: 0", "rl_config.n_samples_per_prompt"),
        ("top_p: 1", "top_p: 7", "generate_config.sampling_config.top_p"),
        ("verifier_weight: [1.0]", "verifier_weight: [much]", "rl_config.verifier_weight.0"),
        ("rl_config:", "prompt_type: bard\nrl_config:", "prompt_type"),
        ("  sampling_config:", "  sampling_config: 3\n  more:", "generate_config.sampling_config"),
    ],
)
def test_an_invalid_run_file_names_file_and_key(
    repository: Path, old: str, new: str, param: str
) -> None:
    with pytest.raises(InvalidRequest, match=r"run\.yaml: ") as raised:
        read_published(write(repository, MINDSPEED.replace(old, new)))
    assert raised.value.param == param


@pytest.mark.parametrize("text", ["[", "7", "model: x", "", "kind: rollout\nmulti_turn: {}"])
def test_other_files_are_rejected(repository: Path, text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"run\.yaml: "):
        read_published(write(repository, text))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"gone\.yaml"):
        read_published(tmp_path / "gone.yaml")


def test_published_files_are_recognized() -> None:
    assert is_published(parse_yaml(MINDSPEED))
    assert is_published(parse_yaml(VERL))
    assert not is_published({"kind": "rollout", "multi_turn": {"multi_turn_enable": True}})
