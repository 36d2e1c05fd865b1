"""Run files of MindSpeed: each setting is mapped, refused or reported."""

from pathlib import Path
from typing import Any

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import PpoHyperparameters
from temper.formats.published_training import read_published_training
from temper.submission.submission import SubmissionError
from tests.support.training.published_files import method, reinforcement, submitted

DAPO_7B = """
megatron_training:
  bf16: true
  global_batch_size: 32
  save_interval: 100
  train_iters: 1000
actor_config:
  lr: 1e-6
  lr_decay_style: constant
  weight_decay: 0.01
  lr_warmup_fraction: 0.0
  clip_grad: 1.0
  adam_beta1: 0.9
  adam_beta2: 0.95
rl_config:
  gamma: 1.0
  lam: 0.95
  adv_estimator: group_norm
  mini_batch_size: 32
  max_prompt_length: 2048
  epochs: 1
  clip_ratio: 0.2
  entropy_coeff: 0.0
  n_samples_per_prompt: 8
  verifier_function: ["acc_for_dapo"]
  verifier_weight: [1.0]
  token_level_loss: true
  clip_higher_enable: true
  clip_ratio_low: 0.2
  clip_ratio_high: 0.28
  overlong_buffer_enable: false
  overlong_buffer: 512
  overlong_buffer_penalty_factor: 1.0
  filter_groups_enable: false
  filter_groups_max_batches: -1
generate_config:
  gpu_memory_utilization: 0.4
  sampling_config:
    max_tokens: 2048
    temperature: 1.0
"""


def test_the_published_7b_file_sets_the_jobs_values(tmp_path: Path) -> None:
    made = reinforcement(tmp_path, DAPO_7B)

    assert (made.prompts_per_step, made.samples_per_prompt, made.mini_batches) == (32, 8, 1)
    assert (made.steps, made.checkpoint_steps) == (1000, 100)
    assert (made.optimizer.learning_rate, made.optimizer.weight_decay) == (1e-6, 0.01)
    assert (made.loss.clip_low, made.loss.clip_high) == (0.2, 0.28)
    assert made.loss.aggregation.value == "token-mean"
    assert made.overlong is None
    assert made.dynamic_sampling is None
    assert made.loss.kl is None
    assert made.advantage.value == "grpo"


@pytest.mark.parametrize(
    ("old", "new", "path", "value"),
    [
        ("global_batch_size: 32", "global_batch_size: 256", "prompts_per_step", 256),
        ("global_batch_size: 32", "global_batch_size: 256", "mini_batches", 8),
        ("train_iters: 1000", "train_iters: 200", "steps", 200),
        ("save_interval: 100", "save_interval: 50", "checkpoint_steps", 50),
        ("lr: 1e-6", "lr: 5e-7", "optimizer.learning_rate", 5e-7),
        ("weight_decay: 0.01", "weight_decay: 0.1", "optimizer.weight_decay", 0.1),
        ("clip_grad: 1.0", "clip_grad: 0.3", "optimizer.max_grad_norm", 0.3),
        ("adam_beta1: 0.9", "adam_beta1: 0.8", "optimizer.adam_beta1", 0.8),
        ("adam_beta2: 0.95", "adam_beta2: 0.99", "optimizer.adam_beta2", 0.99),
        ("lr_warmup_fraction: 0.0", "lr_warmup_iters: 7", "optimizer.warmup_steps", 7),
        ("lr_warmup_fraction: 0.0", "lr_warmup_fraction: 0.1", "optimizer.warmup_steps", 100),
        ("clip_ratio_low: 0.2", "clip_ratio_low: 0.1", "loss.clip_low", 0.1),
        ("clip_ratio_high: 0.28", "clip_ratio_high: 0.4", "loss.clip_high", 0.4),
        ("clip_higher_enable: true", "clip_higher_enable: false", "loss.clip_high", 0.2),
        ("token_level_loss: true", "token_level_loss: false", "loss.aggregation",
         "seq-mean-token-mean"),
        ("entropy_coeff: 0.0", "entropy_coeff: 0.01", "loss.entropy_bonus", 0.01),
        ("gamma: 1.0", "use_kl_loss: true\n  kl_coef: 0.001", "loss.kl.coefficient", 0.001),
        ("overlong_buffer_enable: false", "overlong_buffer_enable: true", "overlong.buffer", 512),
        ("filter_groups_enable: false", "filter_groups_enable: true",
         "dynamic_sampling.max_batches", 65_536),
        ("n_samples_per_prompt: 8", "n_samples_per_prompt: 4", "samples_per_prompt", 4),
        ("max_tokens: 2048", "max_tokens: 512", "sampling.max_tokens", 512),
    ],
)  # fmt: skip
def test_each_mindspeed_value_changes_the_job(
    tmp_path: Path, old: str, new: str, path: str, value: object
) -> None:
    assert old in DAPO_7B
    found: Any = reinforcement(tmp_path, DAPO_7B.replace(old, new))
    for name in path.split("."):
        found = getattr(found, name)
    assert found == value


GRPO_KL = "{estimator}\n  kl_penalty: low_var_kl\n  kl_ctrl_type: fixed\n  init_kl_coef: 0.001"


def with_kl(stage: str, estimator: str = "group_norm", *, more: str = "") -> str:
    run = DAPO_7B.replace("bf16: true", f"bf16: true\n  stage: {stage}")
    return run.replace("group_norm", GRPO_KL.format(estimator=estimator) + more)


@pytest.mark.parametrize(
    ("stage", "estimator", "to"),
    [("ray_grpo", "group_norm", "loss"), ("ray_ppo", "gae", "reward")],
)
def test_the_kl_coefficient_of_a_mindspeed_stage_needs_no_flag(
    tmp_path: Path, stage: str, estimator: str, to: str
) -> None:
    submission = submitted(tmp_path, with_kl(stage, estimator))

    kl = method(submission).hyperparameters.loss.kl
    assert kl is not None
    assert (kl.coefficient, kl.to.value) == (0.001, to)
    assert "init_kl_coef" not in "".join(submission.notes)


def test_an_unused_kl_coefficient_of_dapo_is_reported(tmp_path: Path) -> None:
    submission = submitted(tmp_path, with_kl("ray_dapo"))

    assert method(submission).hyperparameters.loss.kl is None
    assert "rl_config.init_kl_coef" in submission.notes[0]


def test_a_flag_turns_the_kl_penalty_of_a_stage_off(tmp_path: Path) -> None:
    run = with_kl("ray_grpo", more="\n  use_kl_loss: false")

    assert reinforcement(tmp_path, run).loss.kl is None


def test_a_file_with_gae_trains_with_ppo(tmp_path: Path) -> None:
    run = DAPO_7B.replace("group_norm", "gae").replace("lam: 0.95", "lam: 0.9")
    run = run.replace("epochs: 1", "epochs: 2\n  cliprange_value: 0.5")
    made = method(submitted(tmp_path, run + "critic_config:\n  lr: 5e-6\n")).hyperparameters

    assert isinstance(made, PpoHyperparameters)
    assert (made.gamma, made.gae_lambda, made.epochs) == (1.0, 0.9, 2)
    assert (made.critic.learning_rate, made.critic.clip) == (5e-6, 0.5)


def test_settings_without_a_counterpart_are_named(tmp_path: Path) -> None:
    (note,) = submitted(tmp_path, DAPO_7B).notes

    assert note == (
        "run.yaml: settings without a counterpart: megatron_training.bf16, "
        "generate_config.gpu_memory_utilization"
    )


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("group_norm", "rloo", "rl_config.adv_estimator"),
        ("epochs: 1", "epochs: 2", "rl_config.epochs"),
        ("mini_batch_size: 32", "mini_batch_size: 7", "rl_config.mini_batch_size"),
        ("lr: 1e-6", "lr: low", "actor_config.lr"),
        ("token_level_loss: true", "token_level_loss: 1", "rl_config.token_level_loss"),
        ("train_iters: 1000", "train_iters: 1.5", "megatron_training.train_iters"),
        ("train_iters: 1000", "train_iters: .inf", "megatron_training.train_iters"),
        ("group_norm", "[group_norm]", "rl_config.adv_estimator"),
        ("gamma: 1.0", "use_kl_loss: true", "rl_config.kl_coef"),
    ],
)
def test_settings_that_would_train_something_else_are_refused(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    (tmp_path / "run.yaml").write_text(DAPO_7B.replace(old, new, 1))
    with pytest.raises(InvalidRequest, match=r"run\.yaml: ") as raised:
        read_published_training(tmp_path / "run.yaml")
    assert raised.value.param == key


@pytest.mark.parametrize("section", ["actor_config", "megatron_training"])
def test_a_lora_run_of_mindspeed_trains_lora(tmp_path: Path, section: str) -> None:
    lora = "lora_r: 16\n  lora_target_modules: [linear_qkv, linear_proj]"
    made = reinforcement(tmp_path, DAPO_7B.replace(f"{section}:", f"{section}:\n  {lora}"))

    assert made.optimizer.training_type.value == "lora"
    assert (made.optimizer.lora.rank, made.optimizer.lora.alpha) == (16, 32)
    assert made.optimizer.lora.target_modules == ["q_proj", "k_proj", "v_proj", "o_proj"]


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        ("constant", "cosine", "actor_config.lr_decay_style"),
        ("lr: 1e-6", "lr: 1e-6\n  lora_r: 8\n  lora_target_modules: [router]",
         "actor_config.lora_target_modules"),
        ("gamma: 1.0", "use_kl_loss: true\n  kl_coef: 0.1\n  kl_penalty: mse",
         "rl_config.kl_penalty"),
        ("gamma: 1.0", "use_kl_loss: true\n  kl_coef: 0.1\n  kl_ctrl_type: adaptive",
         "rl_config.kl_ctrl_type"),
    ],
)  # fmt: skip
def test_decisive_values_of_mindspeed_that_are_not_offered_are_refused(
    tmp_path: Path, old: str, new: str, key: str
) -> None:
    (tmp_path / "run.yaml").write_text(DAPO_7B.replace(old, new, 1))
    with pytest.raises(InvalidRequest) as raised:
        read_published_training(tmp_path / "run.yaml")
    assert raised.value.param == key


def test_the_job_file_takes_precedence_key_by_key(tmp_path: Path) -> None:
    own = "{reinforcement: {hyperparameters: {steps: 5, optimizer: {learning_rate: 0.1}}}}"
    made = reinforcement(tmp_path, DAPO_7B, method=own)

    assert (made.steps, made.prompts_per_step) == (5, 32)
    assert (made.optimizer.learning_rate, made.optimizer.weight_decay) == (0.1, 0.01)


def test_a_method_other_than_the_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SubmissionError, match=r"run\.yaml trains with reinforcement"):
        submitted(tmp_path, DAPO_7B, method="{type: ppo}")


def test_a_dataset_file_sets_the_prompt_type(tmp_path: Path) -> None:
    (tmp_path / "data.yaml").write_text("input: x.parquet\nprompt_type: qwen_retool\n")
    made = reinforcement(tmp_path, DAPO_7B, published_dataset="data.yaml")
    assert made.prompt_type == "qwen_retool"
    (tmp_path / "data.yaml").write_text("prompt_type: empty\n")
    assert reinforcement(tmp_path, DAPO_7B, published_dataset="data.yaml").prompt_type == "plain"


@pytest.mark.parametrize("name", ["base_acc", "math_17k_acc", "math_verify_reward", "acc_for_ppo"])
def test_published_accuracy_rewards_exist(tmp_path: Path, name: str) -> None:
    (reward,) = method(submitted(tmp_path, DAPO_7B.replace("acc_for_dapo", name))).rewards
    assert reward.reward.type == "retool"
