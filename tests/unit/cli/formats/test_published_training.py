"""The training settings of published run files: each is mapped, rejected or reported."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.contracts.errors import InvalidRequest
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import PpoHyperparameters, ReinforcementHyperparameters
from temper.formats.published_training import read_published_training
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission, SubmissionError

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

VERL = """
algorithm:
  adv_estimator: grpo
  gamma: 1.0
  use_kl_in_reward: false
  filter_groups: {enable: true, max_num_gen_batches: 10}
data:
  train_batch_size: 512
  max_prompt_length: 1024
  max_response_length: 4096
actor_rollout_ref:
  actor:
    optim: {lr: 2e-6, weight_decay: 0.1, lr_warmup_steps: 10}
    grad_clip: 0.5
    clip_ratio_low: 0.1
    clip_ratio_high: 0.3
    clip_ratio_c: 10.0
    loss_agg_mode: token-mean
    use_kl_loss: true
    kl_loss_coef: 0.001
    ppo_mini_batch_size: 32
    ppo_epochs: 1
    strategy: fsdp
  rollout:
    n: 16
reward_model:
  overlong_buffer: {enable: true, len: 4096, penalty_factor: 0.5}
trainer:
  total_training_steps: 200
  save_freq: 25
  test_freq: 5
"""


REWARDED = "{type: reinforcement, reinforcement: {rewards: [{name: r, reward: {type: retool}}]}}"


def submitted(folder: Path, run: str, **job: Any) -> Submission:
    (folder / "run.yaml").write_text(run)
    (folder / "rows.jsonl").write_text("{}")
    lines = {"kind": "fine_tuning", "model": "m", "training_file": "rows.jsonl", **job}
    text = "published: run.yaml\n" + "".join(f"{name}: {value}\n" for name, value in lines.items())
    (folder / "job.yaml").write_text(text)
    return read_job_file(folder / "job.yaml", folder)


def method(submission: Submission) -> Any:
    request = submission.request
    assert isinstance(request, CreateFineTuningJob)
    assert request.method is not None
    return request.method.online


def reinforcement(folder: Path, run: str, **job: Any) -> ReinforcementHyperparameters:
    hyperparameters = method(submitted(folder, run, **job)).hyperparameters
    assert isinstance(hyperparameters, ReinforcementHyperparameters)
    return hyperparameters


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


def test_a_verl_file_sets_the_jobs_values(tmp_path: Path) -> None:
    made = reinforcement(tmp_path, VERL, method=REWARDED)

    assert (made.steps, made.checkpoint_steps, made.eval_interval) == (200, 25, 5)
    assert (made.prompts_per_step, made.samples_per_prompt, made.mini_batches) == (512, 16, 16)
    assert made.optimizer.learning_rate == 2e-6
    assert (made.optimizer.weight_decay, made.optimizer.warmup_steps) == (0.1, 10)
    assert made.optimizer.max_grad_norm == 0.5
    assert (made.loss.clip_low, made.loss.clip_high, made.loss.dual_clip) == (0.1, 0.3, 10.0)
    assert made.loss.kl is not None
    assert (made.loss.kl.coefficient, made.loss.kl.to.value) == (0.001, "loss")
    assert made.overlong is not None
    assert (made.overlong.buffer, made.overlong.factor) == (4096, 0.5)
    assert made.dynamic_sampling is not None
    assert made.dynamic_sampling.max_batches == 10


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


def verl(*changes: tuple[str, Any]) -> str:
    """verl's file with keys set."""
    run = yaml.safe_load(VERL)
    for key, value in changes:
        *sections, name = key.split(".")
        section = run
        for each in sections:
            section = section.setdefault(each, {})
        section[name] = value
    return yaml.safe_dump(run)


MODEL, ACTOR = "actor_rollout_ref.model", "actor_rollout_ref.actor"
CORRECTION = "algorithm.rollout_correction"


@pytest.mark.parametrize(
    ("changes", "path", "value"),
    [
        ([(f"{MODEL}.lora_rank", 32)], "optimizer.training_type", "lora"),
        ([(f"{MODEL}.lora_rank", 32)], "optimizer.lora.rank", 32),
        ([(f"{MODEL}.lora_rank", 32)], "optimizer.lora.alpha", 16),
        ([(f"{MODEL}.lora_rank", 8), (f"{MODEL}.lora_alpha", 64)], "optimizer.lora.alpha", 64),
        ([(f"{MODEL}.lora_rank", 8), (f"{MODEL}.target_modules", ["q_proj"])],
         "optimizer.lora.target_modules", ["q_proj"]),
        ([(f"{MODEL}.lora_rank", 8), (f"{MODEL}.target_modules", "all-linear")],
         "optimizer.lora.target_modules", None),
        ([(f"{MODEL}.lora_rank", 0)], "optimizer.training_type", "full"),
        ([(f"{ACTOR}.policy_loss.loss_mode", "gspo"),
          (f"{ACTOR}.loss_agg_mode", "seq-mean-token-mean")], "loss.ratio", "sequence"),
        ([(f"{ACTOR}.policy_loss.loss_mode", "vanilla")], "loss.ratio", "token"),
        ([(f"{ACTOR}.tis_imp_ratio_cap", 4.0)], "loss.tis_cap", 4.0),
        ([(f"{ACTOR}.tis_imp_ratio_cap", -1)], "loss.tis_cap", None),
        ([(f"{CORRECTION}.rollout_is", "token"), (f"{CORRECTION}.rollout_is_threshold", 3.0)],
         "loss.tis_cap", 3.0),
        ([("actor_rollout_ref.rollout.val_kwargs.n", 4)], "eval_samples", 4),
    ],
)  # fmt: skip
def test_each_decisive_value_of_verl_changes_the_job(
    tmp_path: Path, changes: list[tuple[str, Any]], path: str, value: object
) -> None:
    found: Any = reinforcement(tmp_path, verl(*changes), method=REWARDED)
    for name in path.split("."):
        found = getattr(found, name)
    assert getattr(found, "value", found) == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (f"{ACTOR}.policy_loss.loss_mode", "clip_cov"),
        (f"{ACTOR}.kl_loss_type", "mse"),
        (f"{ACTOR}.optim.lr_scheduler_type", "cosine"),
        (f"{ACTOR}.optim.warmup_style", "cosine"),
        (f"{MODEL}.exclude_modules", ["lm_head"]),
        (f"{MODEL}.lora_adapter_path", "/adapter"),
        (f"{MODEL}.target_modules", [1]),
        (f"{CORRECTION}.rollout_is", "sequence"),
        (f"{CORRECTION}.rollout_rs", "token"),
        (f"{CORRECTION}.bypass_mode", True),
        ("algorithm.use_pf_ppo", True),
        ("data.shuffle", False),
        ("trainer.critic_warmup", 5),
    ],
)
def test_decisive_values_of_verl_that_are_not_offered_are_refused(
    tmp_path: Path, key: str, value: object
) -> None:
    (tmp_path / "run.yaml").write_text(verl((key, value)))
    with pytest.raises(InvalidRequest, match=r"run\.yaml: ") as raised:
        read_published_training(tmp_path / "run.yaml")
    assert raised.value.param == key


def test_kinds_of_kl_matter_where_there_is_a_penalty(tmp_path: Path) -> None:
    idle = [(f"{ACTOR}.use_kl_loss", False), (f"{ACTOR}.kl_loss_type", "mse")]
    idle += [("algorithm.kl_ctrl.type", "adaptive")]
    assert reinforcement(tmp_path, verl(*idle), method=REWARDED).loss.kl is None

    used = [("algorithm.use_kl_in_reward", True), ("algorithm.kl_ctrl.kl_coef", 0.1)]
    with pytest.raises(SubmissionError, match=r"kl_ctrl\.type 'adaptive' is not supported"):
        submitted(tmp_path, verl(*idle, *used), method=REWARDED)


def test_epochs_need_a_number_of_steps(tmp_path: Path) -> None:
    run = verl(("trainer.total_training_steps", None), ("trainer.total_epochs", 15))
    with pytest.raises(SubmissionError, match=r"trainer\.total_epochs counts epochs"):
        submitted(tmp_path, run, method=REWARDED)

    own = REWARDED.replace("{rewards", "{hyperparameters: {steps: 7}, rewards")
    assert reinforcement(tmp_path, run, method=own).steps == 7


def test_a_file_that_inherits_has_the_defaults_of_verl(tmp_path: Path) -> None:
    run = {
        "defaults": ["ppo_trainer", "_self_"],
        "actor_rollout_ref": {"actor": {"optim": {"lr": 2e-6}}, "rollout": {"mode": "async"}},
        "trainer": {"total_training_steps": 10},
    }
    rewarded = REWARDED.replace("reinforcement", "ppo")
    made = method(submitted(tmp_path, yaml.safe_dump(run), method=rewarded)).hyperparameters

    assert isinstance(made, PpoHyperparameters)
    assert (made.samples_per_prompt, made.prompts_per_step, made.mini_batches) == (1, 1024, 4)
    assert (made.loss.dual_clip, made.loss.clip_low, made.loss.clip_high) == (3.0, 0.2, 0.2)
    assert (made.optimizer.learning_rate, made.optimizer.adam_beta2) == (2e-6, 0.999)
    assert (made.gae_lambda, made.critic.clip, made.max_prompt_length) == (1.0, 0.5, 512)

    del run["trainer"]
    with pytest.raises(SubmissionError, match=r"trainer\.total_epochs counts epochs"):
        submitted(tmp_path, yaml.safe_dump(run), method=rewarded)


SCRIPT = """
#!/usr/bin/env bash
set -x
# lr=9e-9
export max_len=$((1024 * 4))
half=$((max_len / 2))
model=${MODEL:-"Qwen/Qwen2.5-7B"}

python3 -m verl.trainer.main_ppo \\
    algorithm.adv_estimator=grpo \\
    data.max_response_length=${max_len} data.max_prompt_length=$half \\
    actor_rollout_ref.model.path="$model" \\
    actor_rollout_ref.model.lora_rank=64 \\
    actor_rollout_ref.actor.optim.lr=3e-6 \\
    +actor_rollout_ref.actor.use_kl_loss=False \\
    actor_rollout_ref.rollout.n=5 \\
    trainer.logger='["console","wandb"]' \\
    trainer.n_gpus_per_node=$GPUS \\
    trainer.total_training_steps=12 $@ 2>&1 | tee log
"""


def scripted(folder: Path, script: str) -> Submission:
    (folder / "run.sh").write_text(script)
    (folder / "rows.jsonl").write_text("{}")
    lines = "kind: fine_tuning\nmodel: m\ntraining_file: rows.jsonl\n"
    (folder / "job.yaml").write_text(f"published: run.sh\n{lines}method: {REWARDED}\n")
    return read_job_file(folder / "job.yaml", folder)


def test_a_script_of_verl_is_read_over_the_defaults_of_verl(tmp_path: Path) -> None:
    submission = scripted(tmp_path, SCRIPT)

    made = method(submission).hyperparameters
    assert isinstance(made, ReinforcementHyperparameters)
    assert (made.steps, made.samples_per_prompt, made.prompts_per_step) == (12, 5, 1024)
    assert (made.max_prompt_length, made.sampling.max_tokens) == (2048, 4096)
    assert (made.optimizer.learning_rate, made.optimizer.adam_beta2) == (3e-6, 0.999)
    assert (made.optimizer.training_type.value, made.optimizer.lora.rank) == ("lora", 64)
    assert made.loss.dual_clip == 3.0
    assert "trainer.n_gpus_per_node" in submission.notes[0]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("verl.trainer.main_ppo", "other.program", "has no command of verl's trainer"),
        ("lr=3e-6", "lr=$LR", "actor_rollout_ref.actor.optim.lr is '$LR', not a number"),
        ("rollout.n=5", "rollout.n=$((N + 1))", "rollout.n"),
        ("algorithm.adv_estimator=grpo", "--config-name=sft_trainer", "sft_trainer"),
        ("algorithm.adv_estimator=grpo", '"${ARGS[@]}"', "is not KEY=VALUE"),
        ("algorithm.adv_estimator=grpo", "~algorithm.gamma", "is not KEY=VALUE"),
        ("lora_rank=64", "path.x=64", "actor_rollout_ref.model.path.x is below a value"),
    ],
)
def test_scripts_that_cannot_be_read_name_the_problem(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in SCRIPT
    with pytest.raises(SubmissionError, match=re.escape(problem)):
        scripted(tmp_path, SCRIPT.replace(old, new))


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
