"""Settings of online training: reinforcement, PPO and distillation.

Names and defaults follow the papers and the published settings of DAPO; each docstring says which.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, model_validator

from services.contracts.adaptation import LoraSettings, TrainingType
from services.contracts.base import Number, Request
from services.contracts.engine import VllmOptions
from services.contracts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.rewards import WeightedReward

PositiveInt = Annotated[StrictInt, Field(ge=1, le=65_536)]
Steps = Annotated[StrictInt, Field(ge=1, le=10**9)]
Tokens = Annotated[StrictInt, Field(ge=1, le=2**24)]
Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]


class Renamed(Request):
    """Settings with retired names: a request that uses one learns the new name."""

    retired_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_retired_names(cls, value: Any) -> Any:
        for old, new in cls.retired_names.items():
            if isinstance(value, dict) and old in value:
                raise ValueError(f"{old} has been renamed to {new}")
        return value


class AdvantageEstimator(StrEnum):
    """How rewards of a prompt's samples become advantages."""

    GRPO = "grpo"  # (R - mean) / (std + 1e-6), in the group
    DR_GRPO = "dr_grpo"  # R - mean


class Aggregation(StrEnum):
    """How losses of tokens become one."""

    MEAN_OF_TOKENS = "token-mean"  # over all trained tokens of the global batch (DAPO)
    MEAN_OF_SEQUENCE_MEANS = "seq-mean-token-mean"  # mean of the sequences' means (GRPO)
    MEAN_OF_SEQUENCE_SUMS = "seq-mean-token-sum-norm"  # sums by a constant length (Dr.GRPO)


class RatioLevel(StrEnum):
    """What an importance ratio is of."""

    TOKENWISE = "token"
    SEQUENCE = "sequence"  # GSPO


class OverlongPenalty(Request):
    """DAPO's soft punishment: 0 up to ``max_response_length - buffer``, falling to -``factor``."""

    buffer: Tokens = 512
    factor: Annotated[Number, Field(gt=0.0, le=1e6)] = 1.0


class DynamicSampling(Request):
    """DAPO's group filter: groups whose rewards are all alike are replaced by new prompts."""

    max_batches: PositiveInt = Field(
        default=10, description="BatchBuilder of prompts to draw for one step at most."
    )


class KlTo(StrEnum):
    """Where the KL to the reference goes."""

    LOSS = "loss"  # coefficient * k3, beside the policy loss
    REWARD = "reward"  # coefficient * (log-prob - reference) taken off each token's reward (PPO)


class KlPenalty(Request):
    """KL to the model that training began with (under LoRA: the base with the adapter off)."""

    coefficient: Annotated[Number, Field(gt=0.0)]
    to: KlTo = KlTo.LOSS


class OptimizerSettings(Request):
    """The optimizer (AdamW) and what is held in memory at once."""

    training_type: TrainingType = TrainingType.FULL
    lora: LoraSettings = Field(default_factory=LoraSettings)
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = 1e-6
    weight_decay: Annotated[Number, Field(ge=0.0)] = 0.01
    adam_beta1: Fraction = 0.9
    adam_beta2: Fraction = 0.95
    max_grad_norm: Annotated[Number, Field(gt=0.0)] = 1.0
    warmup_steps: Annotated[StrictInt, Field(ge=0, le=10**9)] = 0
    micro_batch_tokens: Tokens = Field(
        default=16_384, description="Tokens of one forward pass, padding included."
    )
    gradient_checkpointing: StrictBool = False
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto", description="Of the forward pass; auto: bfloat16 on a GPU that has it."
    )
    strategy: Literal["ddp", "fsdp", "deepspeed"] = Field(
        default="ddp",
        description="How several trainer processes share the model; one has it for itself. "
        "deepspeed (ZeRO) takes one gradient norm of policy and critic.",
    )
    zero_stage: Literal[1, 2, 3] | None = Field(
        default=None,
        description="What DeepSpeed cuts over the processes: 1 the optimizer's state, 2 gradients "
        "too, 3 weights too; null: 2.",
    )

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if self.zero_stage is not None and self.strategy != "deepspeed":
            raise ValueError("zero_stage belongs to the strategy deepspeed")
        return self


class PlacementMode(StrEnum):
    """Which devices the engine and the trainer use."""

    AUTO = "auto"  # split from two GPUs on
    COLOCATED = "colocated"  # the same
    SPLIT = "split"  # each its own


class OnlinePlacement(Request):
    """How the leased GPUs are shared between sampling and training."""

    mode: PlacementMode = PlacementMode.AUTO
    trainer_gpus: PositiveInt | None = Field(
        default=None, description="Of a split; null: half, rounded down."
    )
    gpus_per_engine: PositiveInt = Field(
        default=1, description="GPUs that share one engine; the others make more engines."
    )
    engine_memory: Annotated[Number, Field(gt=0.0, lt=1.0)] = Field(
        default=0.45, description="Share of each GPU's memory that a colocated engine takes."
    )
    sleep: StrictBool = Field(
        default=False, description="A colocated engine gives its memory back while updating."
    )


class OnlineSettings(Renamed):
    """Settings that all online methods share."""

    retired_names: ClassVar = {"optimisation": "optimizer"}

    steps: Steps = Field(default=100, description="Updates of the policy.")
    prompts_per_step: PositiveInt = 32
    optimizer: OptimizerSettings = Field(default_factory=OptimizerSettings)
    sampling: RolloutSampling = Field(default_factory=RolloutSampling)
    multi_turn: MultiTurn = Field(default_factory=MultiTurn)
    tools: list[Tool] = Field(default_factory=list, max_length=32)
    prompt_type: PromptType = "plain"
    max_prompt_length: Tokens = Field(
        default=2048, description="Tokens; longer prompts are left out."
    )
    max_staleness: StrictInt = Field(
        default=0,
        ge=0,
        le=64,
        description="Updates that may happen while a rollout is played; 0: strictly on-policy.",
    )
    max_concurrency: StrictInt = Field(default=256, ge=1, le=4096, description="Rollouts at once.")
    checkpoint_steps: Steps = Field(default=20, description="Updates between checkpoints.")
    eval_interval: Steps = Field(
        default=20,
        description="Updates between evaluations on the validation file; there is one before the "
        "first update and one after the last, too.",
    )
    eval_samples: Annotated[StrictInt, Field(ge=1, le=1024)] = Field(
        default=1, description="Samples of each prompt of the validation file."
    )
    keep_checkpoints: PositiveInt = 2
    placement: OnlinePlacement = Field(default_factory=OnlinePlacement)
    engine: VllmOptions = Field(default_factory=VllmOptions)


class PolicyLoss(Renamed):
    """The clipped surrogate of PPO, GRPO, DAPO, Dr.GRPO and GSPO."""

    retired_names: ClassVar = {"importance_cap": "tis_cap"}

    clip_low: Annotated[Number, Field(gt=0.0, lt=1.0)] = 0.2
    clip_high: Annotated[Number, Field(gt=0.0)] = 0.28
    dual_clip: Annotated[Number, Field(gt=1.0)] | None = Field(
        default=None, description="With A < 0 the loss is at most -A times this."
    )
    ratio: RatioLevel = RatioLevel.TOKENWISE
    aggregation: Aggregation = Aggregation.MEAN_OF_TOKENS
    tis_cap: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=2.0,
        description="Cap of the truncated importance weight between sampler and trainer; "
        "null: no weight.",
    )
    entropy_bonus: Annotated[Number, Field(ge=0.0)] = 0.0
    kl: KlPenalty | None = None


class ReinforcementHyperparameters(OnlineSettings):
    """GRPO, DAPO, Dr.GRPO and GSPO; the defaults are DAPO's published ones."""

    samples_per_prompt: Annotated[StrictInt, Field(ge=2, le=1024)] = 8
    mini_batches: PositiveInt = Field(default=1, description="Optimiser steps an update.")
    advantage: AdvantageEstimator = AdvantageEstimator.GRPO
    loss: PolicyLoss = Field(default_factory=PolicyLoss)
    overlong: OverlongPenalty | None = None
    dynamic_sampling: DynamicSampling | None = None


class Critic(Request):
    """Who estimates values."""

    kind: Literal["shared", "separate"] = Field(
        default="separate", description="A value head on the policy's trunk, or a model of its own."
    )
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = 1e-5
    coefficient: Annotated[Number, Field(gt=0.0)] = Field(
        default=0.5, description="Of the value loss, with a shared trunk."
    )
    clip: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=0.2, description="How far a value may move from its old one, in the loss."
    )


class PpoHyperparameters(OnlineSettings):
    """PPO with generalised advantage estimation over the tokens of the model."""

    samples_per_prompt: Annotated[StrictInt, Field(ge=1, le=1024)] = 1
    mini_batches: PositiveInt = 1
    epochs: PositiveInt = Field(default=1, description="Passes over each batch.")
    gamma: Fraction = 1.0
    gae_lambda: Fraction = 0.95
    whiten_advantages: StrictBool = True
    loss: PolicyLoss = Field(default_factory=lambda: PolicyLoss(clip_high=0.2))
    critic: Critic = Field(default_factory=Critic)
    overlong: OverlongPenalty | None = None


class TeacherModel(Request):
    """A registered model, loaded beside the policy: full distributions."""

    type: Literal["model"] = "model"
    model: str = Field(min_length=1, max_length=300)


class TeacherUrl(Request):
    """A vLLM server with the same tokenizer: its ``top_k`` log-probabilities."""

    type: Literal["url"] = "url"
    base_url: AnyHttpUrl
    model: str = Field(min_length=1, max_length=200)
    top_k: Annotated[StrictInt, Field(ge=1, le=1024)] = 64


class DistillationHyperparameters(OnlineSettings):
    """Generalised knowledge distillation (GKD): ``beta`` 0 is KL(teacher || student), 1 the
    reverse; with probability ``lmbda`` a prompt is answered by the student, else by the teacher
    (``seq_kd``) or by the data."""

    teacher: Annotated[TeacherModel | TeacherUrl, Field(discriminator="type")]
    lmbda: Fraction = 0.5
    beta: Fraction = 0.5
    seq_kd: StrictBool = False
    temperature: Annotated[Number, Field(gt=0.0, le=10.0)] = Field(
        default=1.0, description="That both distributions are softened by."
    )


class ReinforcementMethod(Request):
    """Learning from rewards of the policy's own samples."""

    rewards: list[WeightedReward] = Field(min_length=1, max_length=16)
    hyperparameters: ReinforcementHyperparameters = Field(
        default_factory=ReinforcementHyperparameters
    )


class PpoMethod(Request):
    """Learning from rewards, with a critic."""

    rewards: list[WeightedReward] = Field(min_length=1, max_length=16)
    hyperparameters: PpoHyperparameters = Field(default_factory=PpoHyperparameters)


class DistillationMethod(Request):
    """Learning a teacher's distribution."""

    hyperparameters: DistillationHyperparameters
