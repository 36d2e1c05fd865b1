"""Run files of slime: each argument is mapped, rejected or reported."""

import re
from pathlib import Path

import pytest

from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.contracts.training.online import (
    PpoHyperparameters,
    ReinforcementHyperparameters,
)
from temper.submission.job_file import read_job_file
from temper.submission.submission import Submission, SubmissionError

SCRIPT = """
#!/bin/bash
set -ex
source "${SCRIPT_DIR}/models/qwen3-4B.sh"
PROMPTS="${PROMPTS:-32}"

ROLLOUT_ARGS=(
   --prompt-data /root/dapo-math-17k.jsonl
   --apply-chat-template
   --apply-chat-template-kwargs '{"enable_thinking": false}'
   --rollout-shuffle
   --num-rollout 3000  # --num-rollout 1
   --rollout-batch-size ${PROMPTS}
   --n-samples-per-prompt 8
   --rollout-max-response-len 8192
   --rollout-temperature 0.8
   --rollout-stop a b

   --global-batch-size 128
   --dynamic-sampling-filter-path slime.rollout.filters.check_reward_nonzero_std
)
GRPO_ARGS=(
   --advantage-estimator grpo
   --use-kl-loss
   --kl-loss-coef 0.01
   --kl-loss-type low_var_kl
   --eps-clip 0.2
   --eps-clip-high=0.28
   --use-tis
)
OPTIMIZER_ARGS=( --optimizer adam --lr 2e-6 --lr-decay-style constant --adam-beta2 0.98 )

RUNTIME_ENV_JSON="{
  \\"env_vars\\": {\\"PYTHONPATH\\": \\"/root\\"}
}"
ray job submit --runtime-env-json="${RUNTIME_ENV_JSON}" -- python3 train.py \\
   --actor-num-nodes 1 \\
   --colocate \\
   ${MODEL_ARGS[@]} \\
   ${ROLLOUT_ARGS[@]} \\
   "${GRPO_ARGS[@]}" \\
   ${OPTIMIZER_ARGS[@]}
"""
REWARDS = "{rewards: [{name: answer, reward: {type: math}}]}"


def submitted(folder: Path, script: str, method: str = "reinforcement") -> Submission:
    (folder / "run.sh").write_text(script)
    (folder / "rows.jsonl").write_text("{}")
    lines = "kind: fine_tuning\nmodel: m\ntraining_file: rows.jsonl\n"
    method = f"method: {{type: {method}, {method}: {REWARDS}}}"
    (folder / "job.yaml").write_text(f"published: run.sh\n{lines}{method}\n")
    return read_job_file(folder / "job.yaml", folder)


def requested(submission: Submission) -> CreateFineTuningJob:
    assert isinstance(submission.request, CreateFineTuningJob)
    return submission.request


def settings(submission: Submission) -> ReinforcementHyperparameters | PpoHyperparameters:
    method = requested(submission).method
    assert method is not None
    assert method.online is not None
    made = method.online.hyperparameters
    assert isinstance(made, ReinforcementHyperparameters | PpoHyperparameters)
    return made


def test_the_arguments_of_a_script_are_read_over_the_defaults_of_slime(tmp_path: Path) -> None:
    submission = submitted(tmp_path, SCRIPT)

    made = settings(submission)
    assert isinstance(made, ReinforcementHyperparameters)
    assert (made.steps, made.prompts_per_step, made.samples_per_prompt) == (3000, 32, 8)
    assert made.mini_batches == 2
    assert (made.sampling.max_tokens, made.sampling.temperature) == (8192, 0.8)
    assert made.sampling.stop == ["a", "b"]
    assert made.chat_template_kwargs == {"enable_thinking": False}
    optimizer = made.optimizer
    assert (optimizer.learning_rate, optimizer.adam_beta1, optimizer.adam_beta2) == (
        2e-6,
        0.9,
        0.98,
    )
    assert (made.loss.clip_low, made.loss.clip_high, made.loss.tis_cap) == (0.2, 0.28, 2.0)
    assert made.loss.aggregation.value == "seq-mean-token-mean"
    assert made.loss.kl is not None
    assert (made.loss.kl.coefficient, made.loss.kl.to, made.loss.kl.estimate) == (
        0.01,
        "loss",
        "k3",
    )
    assert made.dynamic_sampling is not None
    assert requested(submission).seed == 42
    assert "--actor-num-nodes" in submission.notes[0]
    assert "--lr" not in submission.notes[0].split(", ")


def test_other_estimators_are_mapped(tmp_path: Path) -> None:
    gspo = settings(submitted(tmp_path, SCRIPT.replace("estimator grpo", "estimator gspo")))
    assert gspo.loss.ratio.value == "sequence"

    plain = SCRIPT.replace("   --use-tis\n", "   --disable-grpo-std-normalization\n")
    made = settings(submitted(tmp_path, plain))
    assert isinstance(made, ReinforcementHyperparameters)
    assert (made.advantage.value, made.loss.tis_cap) == ("dr_grpo", None)

    critic = SCRIPT.replace("estimator grpo", "estimator ppo --critic-lr 1e-5 --lambd 0.9")
    critic = re.sub(r" *--dynamic.*\n", "", critic)
    ppo = settings(submitted(tmp_path, critic, "ppo"))
    assert isinstance(ppo, PpoHyperparameters)
    assert (ppo.critic.learning_rate, ppo.critic.clip, ppo.gae_lambda) == (1e-5, 0.2, 0.9)
    assert not ppo.whiten_advantages


def test_corrections_and_divergences_are_mapped(tmp_path: Path) -> None:
    icepop = (
        "--use-tis --tis-clip-low 0.5 --tis-clip 5 --custom-tis-function-path a.icepop_function"
    )
    loss = settings(submitted(tmp_path, SCRIPT.replace("--use-tis", icepop))).loss
    assert (loss.token_mask, loss.tis_cap) == ((0.5, 5.0), 5.0)

    moved = "--use-rollout-logprobs --use-opsm --opsm-delta 0.01 --use-unbiased-kl"
    loss = settings(submitted(tmp_path, SCRIPT.replace("--use-tis", moved))).loss
    assert (loss.off_policy_mask, loss.anchor.value, loss.tis_cap) == (0.01, "sampler", None)
    assert loss.kl is not None
    assert loss.kl.estimate == "unbiased"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("estimator grpo", "estimator reinforce_plus_plus", "--advantage-estimator"),
        (" --lr-decay-style constant", "", "--lr-decay-style 'linear' is not supported"),
        ("--rollout-shuffle", "", "--rollout-shuffle"),
        ("--use-tis", "--use-tis --custom-tis-function-path a.b", "--custom-tis-function-path"),
        ("--use-tis", "--use-tis --tis-clip-low 0.1", "--tis-clip-low"),
        ("--use-tis", "--use-opsm", "--use-opsm"),
        ("--use-tis", "--use-unbiased-kl --kl-loss-type k1", "--use-unbiased-kl"),
        ("--use-tis", "--use-opd", "--use-opd"),
        ("--use-tis", "--lora-rank 8", "--lora-rank"),
        ("--use-tis", "--loss-of-next-year on", "--loss-of-next-year is unknown"),
        ("--use-tis", "--attention-dropout 0.1", "--attention-dropout is unknown"),
        ("--use-tis", "--kl-coef 0.1", "--kl-coef"),
        ("check_reward_nonzero_std", "mine", "--dynamic-sampling-filter-path"),
        ("batch-size 128", "batch-size 100", "--global-batch-size is not supported: 100"),
        ("--lr 2e-6", "--lr $LR", "--lr is '$LR', not a number"),
        ("num-rollout 3000", "num-epoch 2", "--num-epoch counts epochs"),
        ("${ROLLOUT_ARGS[@]}", "${OTHER_ARGS[@]}", "does not set OTHER_ARGS"),
        ("GRPO_ARGS=(", "ROLLOUT_ARGS+=(", "ROLLOUT_ARGS grows by +="),
    ],
)
def test_what_would_train_something_else_is_refused_by_name(
    tmp_path: Path, old: str, new: str, problem: str
) -> None:
    assert old in SCRIPT
    with pytest.raises(SubmissionError, match=re.escape(problem)):
        submitted(tmp_path, SCRIPT.replace(old, new))
