"""Settings of online training: reinforcement learning, PPO and distillation.

Names and defaults follow the papers; each docstring names its source.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, model_validator

from services.contracts.base import Number, Request
from services.contracts.chat_template import ChatTemplateKwargs, ControlTokens
from services.contracts.engine import VllmOptions
from services.contracts.infrastructure import InfrastructureLimits
from services.contracts.policy_objectives import (
    Anchor,
    KlEstimator,
    Objective,
    Ratio,
    SequenceMask,
)
from services.contracts.recipes import Recipe, resolved
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import Agent, check_agent_fields
from services.contracts.rollouts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.training.adaptation import LoraSettings, TrainingType

PositiveInt = Annotated[StrictInt, Field(ge=1, le=65_536)]
Steps = Annotated[StrictInt, Field(ge=1, le=10**9)]
Tokens = Annotated[StrictInt, Field(ge=1, le=2**24)]
Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]


class Renamed(Request):
    """Settings with renamed fields, whose old names are rejected with the new one."""

    retired_names: ClassVar[Mapping[str, str]] = {}

    @model_validator(mode="before")
    @classmethod
    def _refuse_retired_names(cls, value: Any) -> Any:
        for old, new in cls.retired_names.items():
            if isinstance(value, dict) and old in value:
                raise ValueError(f"{old} has been renamed to {new}")
        return value


class AdvantageEstimator(StrEnum):
    """How the rewards of a prompt's samples become advantages."""

    GRPO = "grpo"  # (R - mean) / (std + 1e-6), in the group
    DR_GRPO = "dr_grpo"  # R - mean
    RLOO = "rloo"  # R - mean of the others in the group
    MAX_RL = "max_rl"  # (R - mean) / mean, in the group, of rewards that are not negative
    REINFORCE_PLUS_PLUS = "reinforce++"  # (R - mean) / (std + 1e-6), over the whole batch


class Aggregation(StrEnum):
    """How token losses are aggregated."""

    MEAN_OF_TOKENS = "token-mean"  # mean over all trained tokens of the batch (DAPO)
    MEAN_OF_SEQUENCE_MEANS = "seq-mean-token-mean"  # mean of sequence means (GRPO)
    MEAN_OF_SEQUENCE_SUMS = (
        "seq-mean-token-sum-norm"  # sequence sums over a constant length (Dr. GRPO)
    )


class RatioLevel(StrEnum):
    """The level of importance ratios."""

    TOKENWISE = "token"
    SEQUENCE = "sequence"  # GSPO


class OverlongPenalty(Request):
    """Soft overlong penalty (DAPO, arXiv:2503.14476): 0 up to ``max_response_length - buffer``,
    then linear down to -``factor``."""

    buffer: Tokens = 512
    factor: Annotated[Number, Field(gt=0.0, le=1e6)] = 1.0


class DynamicSampling(Request):
    """Dynamic sampling (DAPO): groups whose rewards are all equal are replaced by new prompts."""

    max_batches: PositiveInt = Field(
        default=10, description="Batches of prompts to draw for one step at most."
    )


class KlTo(StrEnum):
    """Where the KL penalty is applied."""

    LOSS = "loss"  # coefficient * estimate, beside the policy loss
    REWARD = "reward"  # coefficient * estimate, taken off each token's reward (PPO)


class KlPenalty(Request):
    """KL penalty to the initial model."""

    coefficient: Annotated[Number, Field(gt=0.0)]
    to: KlTo = KlTo.LOSS
    estimator: KlEstimator | None = Field(
        default=None,
        description="Estimator of the divergence; null: k3 in the loss, k1 in the reward.",
    )

    @property
    def estimate(self) -> KlEstimator:
        """The estimator in use."""
        return self.estimator or (KlEstimator.K3 if self.to is KlTo.LOSS else KlEstimator.K1)

    @model_validator(mode="after")
    def _check_estimator(self) -> Self:
        if self.to is KlTo.REWARD and self.estimator is KlEstimator.UNBIASED:
            raise ValueError("the estimator unbiased has its gradient in the loss only")
        return self


class OptimizerSettings(Request):
    """AdamW, and memory use."""

    training_type: Literal[TrainingType.FULL, TrainingType.LORA] = TrainingType.FULL
    lora: LoraSettings = Field(default_factory=LoraSettings)
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = 1e-6
    weight_decay: Annotated[Number, Field(ge=0.0)] = 0.01
    adam_beta1: Fraction = 0.9
    adam_beta2: Fraction = 0.95
    max_grad_norm: Annotated[Number, Field(gt=0.0)] = 1.0
    warmup_steps: Annotated[StrictInt, Field(ge=0, le=10**9)] = 0
    micro_batch_tokens: Tokens | None = Field(
        default=None,
        description="Tokens of one forward pass, including padding; null: what the GPU's memory "
        "allows, at most 16,384.",
    )
    gradient_checkpointing: StrictBool | None = Field(
        default=None,
        description="Recompute activations in the backward pass; null: only where the GPU's "
        "memory requires it.",
    )
    dtype: Literal["auto", "float32", "bfloat16"] = Field(
        default="auto",
        description="Precision of the forward pass; auto: bfloat16 where the GPU supports it.",
    )
    strategy: Literal["ddp", "fsdp", "deepspeed"] = Field(
        default="ddp",
        description="Strategy by which several trainer processes share the model. deepspeed "
        "(ZeRO) clips one gradient norm over policy and critic.",
    )
    offload: StrictBool = Field(
        default=False,
        description="Keep the optimizer's states in host memory: slower steps, 8 bytes less of GPU "
        "memory per trained weight (deepspeed: 14). Not with fsdp.",
    )
    zero_stage: Literal[1, 2, 3] | None = Field(
        default=None,
        description="Stage of ZeRO: 1 shards the optimizer state, 2 also gradients, 3 also "
        "weights; null: 2.",
    )

    @model_validator(mode="after")
    def _check_stage(self) -> Self:
        if self.zero_stage is not None and self.strategy != "deepspeed":
            raise ValueError("zero_stage requires the strategy deepspeed")
        if self.offload and self.strategy == "fsdp":
            raise ValueError("offload requires the strategy ddp or deepspeed")
        return self


class PlacementMode(StrEnum):
    """How engine and trainer share the devices."""

    AUTO = "auto"  # split with two or more GPUs
    COLOCATED = "colocated"  # on the same devices
    SPLIT = "split"  # on separate devices


class OnlinePlacement(Request):
    """How the leased GPUs are shared between sampling and training."""

    mode: PlacementMode = PlacementMode.AUTO
    trainer_gpus: PositiveInt | None = Field(
        default=None,
        description="Number of GPUs of the trainer with `split`; null: half, rounded down.",
    )
    gpus_per_engine: PositiveInt = Field(
        default=1,
        description="GPUs per engine (tensor parallelism); remaining GPUs form more engines.",
    )
    engine_memory: Annotated[Number, Field(gt=0.0, lt=1.0)] = Field(
        default=0.45, description="Fraction of each GPU's memory that a colocated engine takes."
    )
    sleep: StrictBool = Field(
        default=False, description="A colocated engine releases its memory during updates."
    )

    def splits(self, gpus: int) -> bool:
        """Whether engine and trainer have separate GPUs, of ``gpus``."""
        if self.mode is PlacementMode.AUTO:
            return gpus > 1
        return self.mode is PlacementMode.SPLIT

    def learner_gpus(self, gpus: int) -> int:
        """The GPUs of the learner, of ``gpus``."""
        return (self.trainer_gpus or gpus // 2) if self.splits(gpus) else gpus


class OnlineSettings(Renamed):
    """Settings that all online methods share."""

    retired_names: ClassVar = {"optimisation": "optimizer"}

    steps: Steps = Field(default=100, description="Steps of the training loop.")
    prompts_per_step: PositiveInt = 32
    optimizer: OptimizerSettings = Field(default_factory=OptimizerSettings)
    sampling: RolloutSampling = Field(default_factory=RolloutSampling)
    multi_turn: MultiTurn = Field(default_factory=MultiTurn)
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    control_tokens: ControlTokens = "encode"
    tools: list[Tool] = Field(default_factory=list, max_length=32)
    agent: Agent | None = Field(
        default=None,
        description="Agent that plays the rollouts in place of Temper's own loop; it brings its "
        "own tools. A session is trained on by its last sequence of turns.",
    )
    prompt_type: PromptType = "plain"
    max_prompt_length: Tokens = Field(
        default=2048, description="Tokens; longer prompts are skipped."
    )
    max_staleness: StrictInt = Field(
        default=0,
        ge=0,
        le=64,
        description="Updates that may happen during a rollout; 0: strictly on-policy.",
    )
    max_concurrency: StrictInt = Field(
        default=256, ge=1, le=4096, description="Maximum concurrent rollouts."
    )
    checkpoint_steps: Steps = Field(default=20, description="Steps between checkpoints.")
    eval_interval: Steps = Field(
        default=20,
        description="Steps between evaluations on the validation file; it is also evaluated before "
        "the first and after the last step.",
    )
    eval_samples: Annotated[StrictInt, Field(ge=1, le=1024)] = Field(
        default=1, description="Samples per prompt of the validation file."
    )
    keep_checkpoints: PositiveInt = 2
    infrastructure: InfrastructureLimits = Field(
        default_factory=InfrastructureLimits,
        description="Limits on losses to failing tools, rewards and engines.",
    )
    placement: OnlinePlacement = Field(default_factory=OnlinePlacement)
    engine: VllmOptions = Field(default_factory=VllmOptions)


class PolicyLoss(Renamed):
    """The clipped surrogate of PPO, GRPO, DAPO, Dr.GRPO and GSPO, or another objective."""

    retired_names: ClassVar = {"importance_cap": "tis_cap"}

    objective: Objective = Objective.CLIP
    anchor: Anchor = Field(
        default=Anchor.OLD,
        description="Distribution that ratios are relative to; dppo_tv: sampler.",
    )
    clip_low: Annotated[Number, Field(gt=0.0, lt=1.0)] = 0.2
    clip_high: Annotated[Number, Field(gt=0.0)] = 0.28
    dual_clip: Annotated[Number, Field(gt=1.0)] | None = Field(
        default=None,
        description="Bound of dual clipping: with a negative advantage A the loss is at most -A "
        "times this.",
    )
    ratio: RatioLevel = RatioLevel.TOKENWISE
    aggregation: Aggregation = Aggregation.MEAN_OF_TOKENS
    tis_cap: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=2.0,
        description="Truncated importance sampling: cap of the weight p_trainer / p_sampler of "
        "each token; null: no correction. With sequence ratios the gradient of a sequence is "
        "multiplied by the mean of its tokens' weights.",
    )
    tis_level: RatioLevel = Field(
        default=RatioLevel.TOKENWISE,
        description="sequence: the weight of a token is that of its response, the capped product.",
    )
    token_mask: tuple[Ratio, Ratio] | None = Field(
        default=None,
        description="Leave out tokens whose p_old / p_sampler is out of these bounds (IcePop: 0.5 "
        "and 5).",
    )
    sequence_mask: SequenceMask | None = None
    off_policy_mask: Annotated[Number, Field(ge=0.0)] | None = Field(
        default=None,
        description="Leave out responses with a negative advantage in which log p_sampler - log p "
        "is above this on average (DeepSeek-V3.2).",
    )
    gate_temperatures: tuple[Annotated[Number, Field(gt=0.0)], Annotated[Number, Field(gt=0.0)]] = (
        Field(
            default=(1.0, 1.05),
            description="Temperatures of SAPO for positive and negative advantages.",
        )
    )
    entropy_bonus: Annotated[Number, Field(ge=0.0)] = 0.0
    kl: KlPenalty | None = None

    @model_validator(mode="after")
    def _check_objective(self) -> Self:
        if self.objective is Objective.DPPO_TV and "anchor" not in self.model_fields_set:
            self.anchor = Anchor.SAMPLER
        if self.anchor is Anchor.SAMPLER and "tis_cap" not in self.model_fields_set:
            self.tis_cap = None
        if self.anchor is Anchor.SAMPLER and self.tis_cap is not None:
            raise ValueError("ratios to the sampler correct for it already: tis_cap must be null")
        if self.objective is not Objective.CLIP and self.ratio is RatioLevel.SEQUENCE:
            raise ValueError(f"the objective {self.objective.value} has ratios of tokens only")
        if self.objective is not Objective.CLIP and self.dual_clip is not None:
            raise ValueError("dual_clip belongs to the objective clip")
        if self.token_mask is not None and self.token_mask[0] >= self.token_mask[1]:
            raise ValueError("token_mask: the first bound must be below the second")
        return self

    @model_validator(mode="after")
    def _aggregate_sequence_ratios(self) -> Self:
        """GSPO's objective is a mean over sequences (Zheng et al. 2025, arXiv:2507.18071)."""
        if self.ratio is RatioLevel.SEQUENCE:
            if "aggregation" not in self.model_fields_set:
                self.aggregation = Aggregation.MEAN_OF_SEQUENCE_MEANS
            if self.aggregation is not Aggregation.MEAN_OF_SEQUENCE_MEANS:
                wanted = Aggregation.MEAN_OF_SEQUENCE_MEANS.value
                raise ValueError(f"the ratio of a sequence (GSPO) requires aggregation {wanted}")
        return self


class ReinforcementHyperparameters(OnlineSettings):
    """GRPO, DAPO, Dr. GRPO and GSPO.

    The defaults take clip-higher and token-mean from DAPO (arXiv:2503.14476); the recipe dapo has
    all of its settings.
    """

    recipe: Recipe | None = Field(
        default=None,
        description="A published recipe, resolved to the other settings; those that are given "
        "count more.",
    )
    samples_per_prompt: Annotated[StrictInt, Field(ge=2, le=1024)] = 8
    mini_batches: PositiveInt = Field(default=1, description="Optimizer steps per update.")
    advantage: AdvantageEstimator = AdvantageEstimator.GRPO
    loss: PolicyLoss = Field(default_factory=PolicyLoss)
    overlong: OverlongPenalty | None = None
    mask_truncated: StrictBool = Field(
        default=False,
        description="Responses that were cut off are not trained on; their rewards still count in "
        "the group (DAPO's overlong filtering).",
    )
    dynamic_sampling: DynamicSampling | None = None

    @model_validator(mode="before")
    @classmethod
    def _resolve_recipe(cls, value: Any) -> Any:
        return resolved(value) if isinstance(value, dict) else value


class Critic(Request):
    """The value model of PPO."""

    kind: Literal["shared", "separate"] = Field(
        default="separate", description="A value head on the policy's trunk, or a separate model."
    )
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = 1e-5
    coefficient: Annotated[Number, Field(gt=0.0)] = Field(
        default=0.5, description="Weight of the value loss; with a shared trunk only."
    )
    clip: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=0.2, description="Clip range of the value loss; null: no clipping."
    )


class PpoHyperparameters(OnlineSettings):
    """PPO with generalized advantage estimation over the tokens that the model wrote."""

    samples_per_prompt: Annotated[StrictInt, Field(ge=1, le=1024)] = 1
    mini_batches: PositiveInt = 1
    epochs: PositiveInt = Field(default=1, description="Epochs over each batch.")
    gamma: Fraction = 1.0
    gae_lambda: Fraction = 0.95
    whiten_advantages: StrictBool = True
    loss: PolicyLoss = Field(default_factory=lambda: PolicyLoss(clip_high=0.2))
    critic: Critic = Field(default_factory=Critic)
    overlong: OverlongPenalty | None = None


class TeacherModel(Request):
    """A registered model, loaded next to the policy: full distributions."""

    type: Literal["model"] = "model"
    model: str = Field(min_length=1, max_length=300)


class TeacherUrl(Request):
    """A vLLM server with the same tokenizer: its ``top_k`` log-probabilities."""

    type: Literal["url"] = "url"
    base_url: AnyHttpUrl
    model: str = Field(min_length=1, max_length=200)
    top_k: Annotated[StrictInt, Field(ge=1, le=1024)] = 64


class DistillationHyperparameters(OnlineSettings):
    """Generalized knowledge distillation (GKD, arXiv:2306.13649).

    ``beta`` 0 is KL(teacher || student), 1 the reverse. With probability ``lmbda`` the student
    answers a prompt, otherwise the teacher (``seq_kd``) or the data.
    """

    teacher: Annotated[TeacherModel | TeacherUrl, Field(discriminator="type")]
    lmbda: Fraction = 0.5
    beta: Fraction = 0.5
    seq_kd: StrictBool = False
    temperature: Annotated[Number, Field(gt=0.0, le=10.0)] = Field(
        default=1.0, description="Softens both distributions."
    )


class _RewardedMethod(Request):
    """Training on rewards of the policy's own samples."""

    rewards: list[WeightedReward] = Field(min_length=1, max_length=16)
    hyperparameters: OnlineSettings

    @model_validator(mode="after")
    def _playable(self) -> Self:
        settings = self.hyperparameters
        check_agent_fields(settings.agent, settings.tools, self.rewards)
        return self


class ReinforcementMethod(_RewardedMethod):
    """Reinforcement learning from rewards of the policy's own samples."""

    hyperparameters: ReinforcementHyperparameters = Field(
        default_factory=ReinforcementHyperparameters
    )


class PpoMethod(_RewardedMethod):
    """Reinforcement learning with a critic."""

    hyperparameters: PpoHyperparameters = Field(default_factory=PpoHyperparameters)


class DistillationMethod(Request):
    """Distillation from a teacher's distribution."""

    hyperparameters: DistillationHyperparameters

    @model_validator(mode="after")
    def _playable(self) -> Self:
        check_agent_fields(self.hyperparameters.agent, self.hyperparameters.tools, ())
        return self
