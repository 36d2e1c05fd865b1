"""Run files and scripts of verl: each setting is mapped, refused or reported."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.contracts.errors import InvalidRequest
from services.contracts.training.online import PpoHyperparameters, ReinforcementHyperparameters
from temper.formats.published_runs import read_published
from temper.formats.published_training import read_published_training
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission, SubmissionError
from tests.support.training.published_files import REWARDED, method, reinforcement, submitted

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
KL_IN_REWARD = [
    (f"{ACTOR}.use_kl_loss", False),
    ("algorithm.use_kl_in_reward", True),
    ("algorithm.kl_ctrl.kl_coef", 0.01),
]


def policy(name: str, value: Any) -> tuple[str, Any]:
    return f"{ACTOR}.policy_loss.{name}", value


def loss_mode(mode: str) -> tuple[str, Any]:
    return policy("loss_mode", mode)


def rejected(by: str, threshold: Any) -> list[tuple[str, Any]]:
    return [(f"{CORRECTION}.rollout_rs", by), (f"{CORRECTION}.rollout_rs_threshold", threshold)]


def overlong(place: str) -> list[tuple[str, Any]]:
    given = {"enable": True, "len": 64, "penalty_factor": 2.0}
    return [("reward_model", {}), *((f"{place}.{name}", value) for name, value in given.items())]


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
          (f"{ACTOR}.loss_agg_mode", "seq-mean-token-mean")], "loss.ratio", "sequence_token"),
        ([(f"{ACTOR}.policy_loss.loss_mode", "vanilla")], "loss.ratio", "token"),
        ([(f"{ACTOR}.tis_imp_ratio_cap", 4.0)], "loss.tis_cap", 4.0),
        ([(f"{ACTOR}.tis_imp_ratio_cap", -1)], "loss.tis_cap", None),
        ([(f"{CORRECTION}.rollout_is", "token"), (f"{CORRECTION}.rollout_is_threshold", 3.0)],
         "loss.tis_cap", 3.0),
        ([("actor_rollout_ref.rollout.val_kwargs.n", 4)], "eval_samples", 4),
        ([loss_mode("gspo"), (f"{ACTOR}.loss_agg_mode", "seq-mean-token-mean")],
         "loss.dual_clip", None),
        ([loss_mode("cispo"), (f"{ACTOR}.clip_ratio_low", 10)], "loss.objective", "cispo"),
        ([loss_mode("cispo"), (f"{ACTOR}.clip_ratio_low", 10)], "loss.clip_low", 1.0),
        ([loss_mode("sapo"), (f"{ACTOR}.tau_neg", 1.2)], "loss.gate_temperatures", (1.0, 1.2)),
        ([loss_mode("sapo")], "loss.aggregation", "seq-mean-token-mean"),
        ([loss_mode("clip_cov")], "loss.objective", "clip_cov"),
        ([loss_mode("clip_cov")], "loss.covariance.share", 2e-4),
        ([loss_mode("clip_cov"), policy("clip_cov_ratio", 0.01)], "loss.covariance.share", 0.01),
        ([loss_mode("clip_cov"), policy("clip_cov_lb", -1.0)], "loss.covariance.low", -1.0),
        ([loss_mode("clip_cov"), policy("clip_cov_ub", 9.0)], "loss.covariance.high", 9.0),
        ([loss_mode("clip_cov")], "loss.clip_low", 0.1),
        ([loss_mode("kl_cov")], "loss.objective", "kl_cov"),
        ([loss_mode("kl_cov")], "loss.covariance.kl", 0.1),
        ([loss_mode("kl_cov"), policy("ppo_kl_coef", 1.0)], "loss.covariance.kl", 1.0),
        ([loss_mode("kl_cov"), policy("kl_cov_ratio", 0.02)], "loss.covariance.share", 0.02),
        ([("algorithm.adv_estimator", "rloo")], "advantage", "rloo"),
        ([("algorithm.adv_estimator", "grpo_vectorized")], "advantage", "grpo"),
        ([("algorithm.norm_adv_by_std_in_grpo", False)], "advantage", "dr_grpo"),
        ([(f"{ACTOR}.kl_loss_type", "low_var_kl")], "loss.kl.estimator", "k3"),
        ([(f"{ACTOR}.kl_loss_type", "kl")], "loss.kl.estimator", "k1"),
        ([(f"{ACTOR}.kl_loss_type", "mse")], "loss.kl.estimator", "k2"),
        ([(f"{ACTOR}.kl_loss_type", "k3+")], "loss.kl.estimator", "k2"),
        ([*KL_IN_REWARD, ("algorithm.kl_penalty", "kl")], "loss.kl.estimator", "k1"),
        ([*KL_IN_REWARD, ("algorithm.kl_penalty", "low_var_kl")], "loss.kl.estimator", "k3"),
        ([(f"{CORRECTION}.rollout_is", "sequence")], "loss.tis_level", "sequence"),
        ([(f"{CORRECTION}.rollout_is", "sequence")], "loss.tis_cap", 2.0),
        ([(f"{CORRECTION}.rollout_is", "token"), (f"{CORRECTION}.rollout_is_threshold", "0.5_5.0")],
         "loss.token_mask", (0.5, 5.0)),
        ([(f"{CORRECTION}.rollout_is", "token"), (f"{CORRECTION}.rollout_is_threshold", "0.5_5.0")],
         "loss.tis_cap", 5.0),
        ([(f"{CORRECTION}.rollout_is", "sequence"),
          (f"{CORRECTION}.rollout_is_threshold", "0.5_2.0")],
         "loss.sequence_mask.ratio", "product"),
        ([(f"{CORRECTION}.rollout_is", None)], "loss.tis_cap", None),
        (rejected("token_k1", "0.5_4"), "loss.token_mask", (0.25, 2.0)),
        (rejected("token_k1", 4), "loss.token_mask", (0.25, 4.0)),
        (rejected("seq_mean_k1", "0.8_1.25"), "loss.sequence_mask.ratio", "geometric"),
        (rejected("token_k1,seq_sum_k1", "0.1_10,0.5_4"), "loss.sequence_mask.low", 0.25),
        (rejected("token_k1,seq_sum_k1", 4), "loss.sequence_mask.ratio", "product"),
        ([(f"{CORRECTION}.bypass_mode", True)], "loss.anchor", "sampler"),
        ([(f"{CORRECTION}.bypass_mode", True)], "loss.tis_cap", None),
        ([(f"{MODEL}.lora.rank", 8), (f"{MODEL}.lora.dropout", 0.1),
          (f"{MODEL}.lora.target_modules", ["linear_proj"])], "optimizer.lora.target_modules",
         ["o_proj"]),
        ([(f"{MODEL}.lora.rank", 8)], "optimizer.lora.alpha", 32),
        ([(f"{MODEL}.lora.rank", 8), (f"{MODEL}.lora.dropout", 0.1)],
         "optimizer.lora.dropout", 0.1),
        ([(f"{ACTOR}.grad_clip", None), (f"{ACTOR}.optim.clip_grad", 0.3)],
         "optimizer.max_grad_norm", 0.3),
        (overlong("reward_model.reward_kwargs.overlong_buffer_cfg"), "overlong.buffer", 64),
        (overlong("reward.reward_kwargs.overlong_buffer_cfg"), "overlong.factor", 2.0),
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
        (f"{ACTOR}.policy_loss.loss_mode", "geo_mean"),
        (f"{ACTOR}.kl_loss_type", "full"),
        (f"{ACTOR}.optim.lr_scheduler_type", "cosine"),
        (f"{ACTOR}.optim.warmup_style", "cosine"),
        (f"{MODEL}.exclude_modules", ["lm_head"]),
        (f"{MODEL}.lora_adapter_path", "/adapter"),
        (f"{MODEL}.target_modules", [1]),
        (f"{CORRECTION}.rollout_is", "batch"),
        (f"{CORRECTION}.rollout_is_batch_normalize", True),
        ("algorithm.use_pf_ppo", True),
        ("data.shuffle", False),
        ("trainer.critic_warmup", 5),
        (f"{ACTOR}.optim.optimizer", "Muon"),
        (f"{ACTOR}.optim.clip_value", 0.1),
        (f"{ACTOR}.loss_scale_factor", 1024),
        (f"{ACTOR}.router_replay.mode", "R2"),
        (f"{MODEL}.override_config.attention_dropout", 0.1),
        (f"{MODEL}.custom_chat_template", "{{ messages }}"),
        ("actor_rollout_ref.rollout.ignore_eos", True),
        ("algorithm.a_setting_of_next_year", "on"),
        ("data.custom_cls.path", "rows.py"),
    ],
)
def test_decisive_values_of_verl_that_are_not_offered_are_refused(
    tmp_path: Path, key: str, value: object
) -> None:
    (tmp_path / "run.yaml").write_text(verl((key, value)))
    with pytest.raises(InvalidRequest, match=r"run\.yaml: ") as raised:
        read_published_training(tmp_path / "run.yaml")
    assert raised.value.param == key


def test_unknown_values_of_verl_that_ask_for_nothing_are_named(tmp_path: Path) -> None:
    off = [(f"{ACTOR}.a_switch", False), ("algorithm.a_name", ""), (f"{MODEL}.override_config", {})]
    speed = [(f"{ACTOR}.fsdp_config.param_offload", True), (f"{ACTOR}.use_dynamic_bsz", True)]
    critic = [("critic.optim.betas", [0.9, 0.95])]  # of a critic that GRPO does not train
    (tmp_path / "run.yaml").write_text(verl(*off, *speed, *critic))

    ignored = read_published_training(tmp_path / "run.yaml").ignored

    named = {key for key, _ in (*off[:2], *speed, *critic)}
    assert named <= set(ignored)


def test_a_critic_has_no_unknown_settings_either(tmp_path: Path) -> None:
    ppo = [("algorithm.adv_estimator", "gae"), ("algorithm.filter_groups.enable", False)]
    speed = [("critic.model.fsdp_config.param_offload", True), ("critic.model.path", "m")]
    (tmp_path / "run.yaml").write_text(verl(*ppo, *speed))
    assert read_published_training(tmp_path / "run.yaml").ignored

    (tmp_path / "run.yaml").write_text(verl(*ppo, *speed, ("critic.optim.betas", [0.9, 0.95])))
    with pytest.raises(
        InvalidRequest, match=r"critic\.optim\.betas .* must be that of .*actor\.optim\.betas"
    ):
        read_published_training(tmp_path / "run.yaml")


def test_arguments_of_chat_templates_are_those_of_the_run_file(tmp_path: Path) -> None:
    run = verl(("data.apply_chat_template_kwargs", {"enable_thinking": False}))

    made = reinforcement(tmp_path, run, method=REWARDED)

    assert made.chat_template_kwargs == {"enable_thinking": False}


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


TABLE = yaml.safe_load((Path(__file__).parent / "verl_keys.yaml").read_text())
NOTHING = {"trainer.total_training_steps": 10, "actor_rollout_ref.model.path": "policy"}


@pytest.mark.parametrize("rows", TABLE, ids=lambda rows: "-".join(map(str, rows["given"].values())))
def test_each_key_of_verl_is_mapped_refused_or_noted(tmp_path: Path, rows: dict[str, Any]) -> None:
    given = {**NOTHING, **rows["given"]}
    before = _found(tmp_path, given)
    wrong = []
    for outcome in ("mapped", "refused", "noted"):
        for key, value in rows.get(outcome, {}).items():
            try:
                after = _found(tmp_path, {**given, key: value})
            except InvalidRequest as refused:
                found = "refused" if str(refused.param).startswith(key) else str(refused)
            else:
                is_mapped = after[0] != before[0]
                found = "mapped" if is_mapped else "noted" if key in after[1] else "nothing"
            wrong += [] if found == outcome else [(key, value, found)]
    assert wrong == []


def _found(folder: Path, settings: dict[str, Any]) -> tuple[Any, tuple[str, ...]]:
    """What a file that inherits verl's defaults, with some settings, stands for, and its notes."""
    overrides = " ".join(f"'{key}={json.dumps(value)}'" for key, value in settings.items())
    (folder / "run.sh").write_text(f"python3 -m verl.trainer.main_ppo {overrides}\n")
    training = read_published_training(folder / "run.sh")
    run = read_published(folder / "run.sh")
    return (training.hyperparameters, training.seed, training.epochs_key, run), training.ignored
