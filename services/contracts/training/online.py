"""Settings of online training: reinforcement learning, PPO and distillation.

Names and defaults follow the papers; each docstring names its source.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, model_validator

from services.contracts.base import Number, Request
from services.contracts.chat_template import ChatTemplateKwargs, ControlTokens
from services.contracts.engine import VllmOptions
from services.contracts.infrastructure import InfrastructureLimits
from services.contracts.policy_objectives import ExtensionName
from services.contracts.recipes import Recipe, resolved
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import Agent, check_agent_fields
from services.contracts.rollouts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.training.adaptation import LoraSettings, TrainingType
from services.contracts.training.policy_loss import AdvantageEstimator, PolicyLoss, Renamed

PositiveInt = Annotated[StrictInt, Field(ge=1, le=65_536)]
Steps = Annotated[StrictInt, Field(ge=1, le=10**9)]
Tokens = Annotated[StrictInt, Field(ge=1, le=2**24)]
Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]


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
        "own tools. Every sequence of turns of a session is trained on.",
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
    advantage_extension: ExtensionName | None = Field(
        default=None,
        description="Name of an entry point in the group temper.advantages, for the advantage "
        "extension.",
    )
    loss: PolicyLoss = Field(default_factory=PolicyLoss)
    overlong: OverlongPenalty | None = None
    mask_truncated: StrictBool = Field(
        default=False,
        description="Responses that were cut off are not trained on; their rewards still count in "
        "the group (DAPO's overlong filtering).",
    )
    dynamic_sampling: DynamicSampling | None = None

    @model_validator(mode="after")
    def _check_advantage(self) -> Self:
        is_extension = self.advantage is AdvantageEstimator.EXTENSION
        if is_extension is not (self.advantage_extension is not None):
            raise ValueError("advantage_extension names the function of the advantage extension")
        return self

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
