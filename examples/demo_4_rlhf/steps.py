"""Demonstrations, a reward model from rated pairs, and PPO against it."""

from dataclasses import dataclass
from pathlib import Path

from examples.demo_4_rlhf.replies import RlhfData, rating
from examples.demo_common.steps import Demo
from temper.types import (
    CreateFineTuningJob,
    CreateRollout,
    Critic,
    File,
    FilePurpose,
    FineTuningJob,
    KlPenalty,
    KlTo,
    Method,
    MethodType,
    OptimizerSettings,
    PpoHyperparameters,
    PpoLoss,
    PpoMethod,
    RewardModelHyperparameters,
    RewardModelMethod,
    RewardModelReward,
    Rollout,
    RolloutSampling,
    SupervisedHyperparameters,
    SupervisedMethod,
    TrainingType,
    WeightedReward,
)

PPO_STEPS = 10
PROMPTS_PER_STEP = 64
SAMPLES = 2
SCORE = "score"
MAX_LENGTH = 160
SAMPLING = RolloutSampling(max_tokens=64)


@dataclass(frozen=True)
class RlhfLesson:
    """The training jobs, and the replies to held-out questions before and after PPO."""

    supervised: FineTuningJob
    reward_model: FineTuningJob
    ppo: FineTuningJob
    before: Rollout
    after: Rollout


def teach(
    demo: Demo, model: Path, data: RlhfData, steps: int, seed: int, *, gamed: bool = False
) -> RlhfLesson:
    """Train, and sample replies before and after PPO.

    With ``gamed`` PPO goes far from the reference: larger updates, and twice as many.
    """
    demo.out.line("(b) base model and data")
    base = demo.register(model)
    demonstrations = demo.upload(data.demonstrations, FilePurpose.FINE_TUNE)
    pairs = demo.upload(data.pairs, FilePurpose.FINE_TUNE)
    prompts = demo.upload(data.prompts, FilePurpose.FINE_TUNE)
    held_out = demo.upload(data.held_out, FilePurpose.EVALS)
    demo.out.line("(c) supervised fine-tune on demonstrations, good and bad alike")
    tuned = demo.train(supervised(base, demonstrations, seed), demonstrations)
    demo.out.line("(d) reward model on rated pairs")
    judge = demo.train(reward_model(tuned, pairs, seed), pairs)
    demo.out.line("(e) replies before PPO")
    before = demo.sample(rollout(tuned, judge, held_out), held_out)
    demo.out.line("(f) PPO against the reward model")
    updates = 2 * steps if gamed else steps
    policy = demo.train(ppo(tuned, judge, prompts, updates, seed, gamed=gamed), prompts)
    demo.out.line("(g) replies after PPO")
    after = demo.sample(rollout(policy, judge, held_out), held_out)
    return RlhfLesson(tuned, judge, policy, before, after)


def supervised(base: str, file: File, seed: int) -> CreateFineTuningJob:
    """Full fine-tuning from random weights: a high, decaying learning rate."""
    hyperparameters = SupervisedHyperparameters(
        n_epochs=1,
        batch_size=32,
        learning_rate=4e-3,
        warmup_ratio=0.05,
        training_type=TrainingType.FULL,
        max_seq_length=MAX_LENGTH,
    )
    return CreateFineTuningJob(
        model=base,
        training_file=file.id,
        suffix="replies",
        seed=seed,
        method=Method(supervised=SupervisedMethod(hyperparameters=hyperparameters)),
    )


def reward_model(tuned: FineTuningJob, file: File, seed: int) -> CreateFineTuningJob:
    """A reward model that starts from the fine-tuned model."""
    hyperparameters = RewardModelHyperparameters(
        n_epochs=1,
        batch_size=32,
        learning_rate=1e-3,
        warmup_ratio=0.1,
        training_type=TrainingType.FULL,
        max_seq_length=MAX_LENGTH,
    )
    method = RewardModelMethod(hyperparameters=hyperparameters)
    return CreateFineTuningJob(
        model=tuned.fine_tuned_model or "",
        training_file=file.id,
        suffix="reward",
        seed=seed,
        method=Method(type=MethodType.REWARD_MODEL, reward_model=method),
    )


def ppo(
    tuned: FineTuningJob,
    judge: FineTuningJob,
    file: File,
    steps: int,
    seed: int,
    *,
    gamed: bool = False,
) -> CreateFineTuningJob:
    """PPO with a KL penalty toward the fine-tuned model in the reward, and the rater held out.

    As in InstructGPT (Ouyang et al. 2022, arXiv:2203.02155). With ``gamed`` there is no penalty,
    and the updates are larger: the policy finds what the reward model overrates.
    """
    hyperparameters = PpoHyperparameters(
        steps=steps,
        prompts_per_step=PROMPTS_PER_STEP,
        epochs=2,
        mini_batches=2,
        optimizer=OptimizerSettings(
            learning_rate=5e-4 if gamed else 1e-4,
            weight_decay=0.0,
            micro_batch_tokens=4096,
        ),
        critic=Critic(learning_rate=1e-3),
        loss=PpoLoss(kl=None if gamed else KlPenalty(coefficient=0.1, to=KlTo.REWARD)),
        sampling=SAMPLING,
        checkpoint_steps=5,
    )
    method = PpoMethod(rewards=[_score(judge), rating()], hyperparameters=hyperparameters)
    return CreateFineTuningJob(
        model=tuned.fine_tuned_model or "",
        training_file=file.id,
        suffix="rlhf",
        seed=seed,
        method=Method(type=MethodType.PPO, ppo=method),
    )


def rollout(policy: FineTuningJob, judge: FineTuningJob, file: File) -> CreateRollout:
    """Sample replies, scored by the reward model and by the rater."""
    return CreateRollout(
        model=policy.fine_tuned_model or "",
        file=file.id,
        samples_per_prompt=SAMPLES,
        sampling=SAMPLING,
        rewards=[_score(judge), rating()],
    )


def _score(judge: FineTuningJob) -> WeightedReward:
    reward = RewardModelReward(
        model=judge.fine_tuned_model or "", max_length=MAX_LENGTH, batch_size=64
    )
    return WeightedReward(name=SCORE, reward=reward)
