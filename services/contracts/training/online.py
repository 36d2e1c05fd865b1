"""Settings of online training: reinforcement learning, PPO and distillation.

Names and defaults follow the papers; each docstring names its source.
"""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AnyHttpUrl, Field, StrictBool, StrictInt, field_validator, model_validator

from services.contracts.base import Number, Request
from services.contracts.engine import VllmOptions
from services.contracts.failures import InfrastructureLimits
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import Agent, check_agent_fields
from services.contracts.rollouts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.rollouts.sources import SourceName
from services.contracts.sampling import ChatTemplateKwargs, ControlTokens
from services.contracts.training.curriculum import Curriculum
from services.contracts.training.optimizer import OptimizerSettings
from services.contracts.training.placement import OnlinePlacement
from services.contracts.training.policy_loss import (
    AdvantageEstimator,
    ExtensionName,
    PolicyLoss,
    PpoLoss,
    Renamed,
)
from services.contracts.training.recipes import PpoRecipe, Recipe, refuse_recipe_of, resolved
from services.contracts.validation import AtField

PositiveInt = Annotated[StrictInt, Field(ge=1, le=65_536)]
Steps = Annotated[StrictInt, Field(ge=1, le=10**9)]
Tokens = Annotated[StrictInt, Field(ge=1, le=2**24)]
SourceWeight = Annotated[Number, Field(gt=0.0, le=1e6)]
Fraction = Annotated[Number, Field(ge=0.0, le=1.0)]


class OverlongPenalty(Request):
    """Soft overlong penalty (DAPO, arXiv:2503.14476): 0 up to ``max_response_length - buffer``,
    then linear down to -``factor``."""

    buffer: Tokens = Field(
        default=512,
        description="Number of tokens before the length limit over which the penalty grows.",
    )
    factor: Annotated[Number, Field(gt=0.0, le=1e6)] = Field(
        default=1.0, description="Penalty of a response of the maximum length."
    )


class DynamicSampling(Request):
    """Dynamic sampling (DAPO): groups whose rewards are all equal are replaced by new prompts."""

    max_batches: PositiveInt = Field(
        default=10, description="Maximum batches of prompts to draw for one step."
    )


class OnlineSettings(Renamed):
    """Settings that all online methods share."""

    retired_names: ClassVar = {"optimisation": "optimizer"}

    steps: Steps = Field(default=100, description="Number of steps of the training loop.")
    source_weights: dict[SourceName, SourceWeight] = Field(
        default_factory=dict,
        max_length=100,
        description="Weights with which the sources of the training file are drawn, by the field "
        "source or data_source of their rows; others are left out. Empty: every row once an epoch.",
    )
    prompts_per_step: PositiveInt = Field(
        default=32, description="Number of prompts whose samples one update trains on."
    )
    optimizer: OptimizerSettings = Field(
        default_factory=OptimizerSettings, description="Optimizer and its settings."
    )
    sampling: RolloutSampling = Field(
        default_factory=RolloutSampling, description="Sampling settings of the rollouts."
    )
    multi_turn: MultiTurn = Field(
        default_factory=MultiTurn, description="Limits and format of the conversations with tools."
    )
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    control_tokens: ControlTokens = "encode"
    tools: list[Tool] = Field(
        default_factory=list, max_length=32, description="Tools on offer to the model."
    )
    agent: Agent | None = Field(
        default=None,
        description="Agent that plays the rollouts in place of Temper's own loop; it brings its "
        "own tools. Every sequence of turns of a session is trained on.",
    )
    prompt_type: PromptType = Field(
        default="plain", description="Published prompt template around each question."
    )
    max_prompt_length: Tokens = Field(
        default=2048, description="Maximum tokens of a prompt; longer prompts are skipped."
    )
    max_staleness: StrictInt = Field(
        default=0,
        ge=0,
        le=64,
        description="Maximum updates between the start of a rollout and the update that learns "
        "from it; 0: strictly on-policy.",
    )
    max_concurrency: StrictInt = Field(
        default=256, ge=1, le=4096, description="Maximum concurrent rollouts."
    )
    checkpoint_steps: Steps = Field(default=20, description="Number of steps between checkpoints.")
    eval_interval: Steps = Field(
        default=20,
        description="Number of steps between evaluations on the validation file; it is also "
        "evaluated before the first and after the last step.",
    )
    eval_samples: Annotated[StrictInt, Field(ge=1, le=1024)] = Field(
        default=1, description="Number of samples per prompt of the validation file."
    )
    keep_checkpoints: PositiveInt = Field(
        default=2, description="Number of checkpoints that are kept; older ones are deleted."
    )
    infrastructure: InfrastructureLimits = Field(
        default_factory=InfrastructureLimits,
        description="Limits on losses to failing tools, rewards and engines.",
    )
    placement: OnlinePlacement = Field(
        default_factory=OnlinePlacement, description="Placement of engine and trainer on the GPUs."
    )
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server that samples."
    )


class PolicySettings(OnlineSettings):
    """Settings that the methods with rewards share."""

    recipes: ClassVar[type[StrEnum]]
    """The recipes of the method, for its field recipe."""

    exact_on_policy: StrictBool = Field(
        default=False,
        description="Whether learner and engine must compute the same log-probability for every "
        "sampled token, bit by bit, or the training fails. Without a GPU, in float32, "
        "with full weights and max_staleness 0; slower.",
    )

    @model_validator(mode="before")
    @classmethod
    def _resolve_recipe(cls, value: Any) -> Any:
        return resolved(value, cls.recipes) if isinstance(value, dict) else value


class ReinforcementHyperparameters(PolicySettings):
    """GRPO, DAPO, Dr. GRPO and GSPO.

    The defaults take clip-higher and token-mean from DAPO (arXiv:2503.14476); the recipe dapo has
    all of its settings.
    """

    recipes: ClassVar = Recipe

    recipe: Recipe | None = Field(
        default=None,
        description="Published recipe that sets the other settings; explicit settings override it.",
    )
    samples_per_prompt: Annotated[StrictInt, Field(ge=2, le=1024)] = Field(
        default=8,
        description="Number of samples of each prompt, which are compared with each other.",
    )
    mini_batches: PositiveInt = Field(
        default=1, description="Number of optimizer steps per update."
    )
    advantage: AdvantageEstimator = Field(
        default=AdvantageEstimator.GRPO, description="Estimator that turns rewards into advantages."
    )
    advantage_extension: ExtensionName | None = Field(
        default=None,
        description="Name of an entry point in the group temper.advantages, for the advantage "
        "extension.",
    )
    loss: PolicyLoss = Field(default_factory=PolicyLoss, description="Loss of the policy.")
    overlong: OverlongPenalty | None = Field(
        default=None, description="Penalty for responses near the length limit; null: none."
    )
    mask_truncated: StrictBool = Field(
        default=False,
        description="Whether responses that a limit of tokens or time cut off are not trained on; "
        "their rewards still count in the group (DAPO's overlong filtering).",
    )
    dynamic_sampling: DynamicSampling | None = Field(
        default=None,
        description="Replacement of groups with equal rewards by new prompts; null: none.",
    )
    curriculum: Curriculum | None = Field(
        default=None,
        description="Curriculum that draws prompts by how often their samples pass; null: each "
        "prompt once an epoch.",
    )

    @model_validator(mode="after")
    def _check_advantage(self) -> Self:
        is_extension = self.advantage is AdvantageEstimator.EXTENSION
        if is_extension is not (self.advantage_extension is not None):
            raise AtField(
                "advantage_extension",
                "advantage_extension names the function of the advantage extension",
            )
        return self

    @field_validator("recipe", mode="before")
    @classmethod
    def _recipe_of_this_method(cls, value: Any) -> Any:
        return refuse_recipe_of(PpoRecipe, "ppo", value)


class Critic(Request):
    """The value model of PPO."""

    kind: Literal["shared", "separate"] = Field(
        default="separate",
        description="Form of the critic: a value head on the policy's trunk, or a separate model.",
    )
    learning_rate: Annotated[Number, Field(gt=0.0, le=1.0)] = Field(
        default=1e-5, description="Learning rate of the critic."
    )
    coefficient: Annotated[Number, Field(gt=0.0)] = Field(
        default=0.5, description="Weight of the value loss; with a shared trunk only."
    )
    clip: Annotated[Number, Field(gt=0.0)] | None = Field(
        default=0.2, description="Clip range of the value loss; null: no clipping."
    )


class PpoHyperparameters(PolicySettings):
    """PPO with generalized advantage estimation over the tokens that the model wrote."""

    recipes: ClassVar = PpoRecipe

    recipe: PpoRecipe | None = Field(
        default=None,
        description="Published recipe that sets the other settings; explicit settings override it.",
    )
    samples_per_prompt: Annotated[StrictInt, Field(ge=1, le=1024)] = Field(
        default=1, description="Number of samples of each prompt."
    )
    mini_batches: PositiveInt = Field(default=1, description="Number of optimizer steps per epoch.")
    epochs: PositiveInt = Field(default=1, description="Number of epochs over each batch.")
    gamma: Fraction = Field(default=1.0, description="Discount of rewards per token.")
    gae_lambda: Fraction = Field(
        default=0.95,
        description="Decay of advantages over tokens, lambda of generalized advantage estimation.",
    )
    whiten_advantages: StrictBool = Field(
        default=True,
        description="Whether advantages are shifted and scaled to mean 0 and variance 1.",
    )
    loss: PpoLoss = Field(default_factory=PpoLoss, description="Loss of the policy.")
    critic: Critic = Field(default_factory=Critic, description="Settings of the critic.")
    overlong: OverlongPenalty | None = Field(
        default=None, description="Penalty for responses near the length limit; null: none."
    )

    @field_validator("recipe", mode="before")
    @classmethod
    def _recipe_of_this_method(cls, value: Any) -> Any:
        return refuse_recipe_of(Recipe, "reinforcement", value)


class TeacherModel(Request):
    """A registered model, loaded next to the policy: full distributions."""

    type: Literal["model"] = "model"
    model: str = Field(min_length=1, max_length=300, description="Registered model that teaches.")


class TeacherUrl(Request):
    """A vLLM server with the same tokenizer: its ``top_k`` log-probabilities."""

    type: Literal["url"] = "url"
    base_url: AnyHttpUrl = Field(description="URL of the teacher's server, up to /v1.")
    model: str = Field(
        min_length=1, max_length=200, description="Name of the teacher at its server."
    )
    top_k: Annotated[StrictInt, Field(ge=1, le=1024)] = Field(
        default=64,
        description="Number of most probable tokens for which the teacher reports "
        "log-probabilities.",
    )


class DistillationHyperparameters(OnlineSettings):
    """Generalized knowledge distillation (GKD, arXiv:2306.13649).

    ``beta`` 0 is KL(teacher || student), 1 the reverse. With probability ``lmbda`` the student
    answers a prompt, otherwise the teacher (``seq_kd``) or the data.
    """

    teacher: Annotated[TeacherModel | TeacherUrl, Field(discriminator="type")] = Field(
        description="Model that teaches: a registered one, or one behind a URL."
    )
    lmbda: Fraction = Field(
        default=0.5,
        description="Probability that the student answers a prompt; otherwise the teacher or the "
        "data do (seq_kd).",
    )
    beta: Fraction = Field(
        default=0.5,
        description="Weight in the divergence: 0 is KL(teacher || student), 1 is KL(student || "
        "teacher).",
    )
    seq_kd: StrictBool = Field(
        default=False,
        description="Whether the teacher answers the prompts that the student does not; false: "
        "their answers come from the data.",
    )
    temperature: Annotated[Number, Field(gt=0.0, le=10.0)] = Field(
        default=1.0, description="Temperature that softens both distributions."
    )


class _RewardedMethod(Request):
    """Training on rewards of the policy's own samples."""

    rewards: list[WeightedReward] = Field(
        min_length=1, max_length=16, description="Components whose weighted sum is the reward."
    )
    hyperparameters: OnlineSettings

    @model_validator(mode="after")
    def _playable(self) -> Self:
        settings = self.hyperparameters
        check_agent_fields(
            settings.agent, settings.tools, self.rewards, settings=("hyperparameters",)
        )
        return self


class ReinforcementMethod(_RewardedMethod):
    """Reinforcement learning from rewards of the policy's own samples."""

    hyperparameters: ReinforcementHyperparameters = Field(
        default_factory=ReinforcementHyperparameters,
        description="Hyperparameters of reinforcement learning.",
    )


class PpoMethod(_RewardedMethod):
    """Reinforcement learning with a critic."""

    hyperparameters: PpoHyperparameters = Field(
        default_factory=PpoHyperparameters,
        description="Hyperparameters of reinforcement learning with a critic.",
    )


class DistillationMethod(Request):
    """Distillation from a teacher's distribution."""

    hyperparameters: DistillationHyperparameters = Field(
        description="Hyperparameters of distillation."
    )

    @model_validator(mode="after")
    def _playable(self) -> Self:
        settings = self.hyperparameters
        check_agent_fields(settings.agent, settings.tools, (), settings=("hyperparameters",))
        return self
