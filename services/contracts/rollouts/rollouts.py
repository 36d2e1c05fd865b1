"""Rollouts: scored conversations of a model with tools, several for each prompt."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, StrictInt, StringConstraints, model_validator

from services.contracts.base import JsonObject, Resource
from services.contracts.engine import VllmOptions
from services.contracts.failures import InfrastructureCause
from services.contracts.jobs import JobRequest, JobState
from services.contracts.models.registered import RemoteModel
from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import Agent, check_agent_fields
from services.contracts.rollouts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.rollouts.trajectories import FinishReason
from services.contracts.sampling import ChatTemplateKwargs, ControlTokens
from services.contracts.validation import AtField

MAX_INLINE_PROMPTS = 1000
MAX_TRAJECTORIES = 1_000_000
"""Of one job."""

ModelName = Annotated[str, StringConstraints(min_length=1, max_length=300)]


class CreateRollout(JobRequest):
    """The body of POST /v1/rollouts. Prompts are rows of a file, or inline."""

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("file",)

    model: ModelName | RemoteModel = Field(
        examples=["tiny-base"],
        description="Registered model or checkpoint, or a model behind a URL.",
    )
    tokenizer: ModelName | None = Field(
        default=None,
        description="The registered model whose tokenizer a remote model has; only for those.",
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Rows of {messages | prompt | question, gold | answer, prompt_type}.",
        examples=["file-abc123"],
    )
    prompts: list[JsonObject] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_INLINE_PROMPTS,
        description="The rows themselves, in place of a file.",
    )
    prompt_type: PromptType = Field(
        default="plain", description="Published prompt around each question."
    )
    system_prompt: str | None = Field(
        default=None, max_length=100_000, description="System message before every prompt."
    )
    max_prompts: StrictInt | None = Field(
        default=None, ge=1, description="Take the first rows only."
    )
    samples_per_prompt: StrictInt = Field(
        default=1, ge=1, le=1024, description="Rollouts of each prompt."
    )
    tools: list[Tool] = Field(
        default_factory=list, max_length=32, description="Tools on offer to the model."
    )
    agent: Agent | None = Field(
        default=None,
        description="Agent that plays the rollouts in place of Temper's own loop; it brings its "
        "own tools.",
    )
    multi_turn: MultiTurn = Field(default_factory=MultiTurn)
    sampling: RolloutSampling = Field(default_factory=RolloutSampling)
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    control_tokens: ControlTokens = "encode"
    rewards: list[WeightedReward] = Field(
        default_factory=list,
        max_length=16,
        description="Components whose weighted sum is the reward.",
    )
    seed: StrictInt | None = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="Seed of the sampling; null: random for each rollout.",
    )
    max_concurrency: StrictInt = Field(default=256, ge=1, le=4096, description="Rollouts at once.")
    engine: VllmOptions = Field(
        default_factory=VllmOptions, description="Options of the vLLM server of a registered model."
    )

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.file is None) == (self.prompts is None):
            raise AtField("file", "give exactly one of file and prompts")
        if isinstance(self.model, RemoteModel) and self.tokenizer is None:
            raise AtField(
                "tokenizer", "a remote model needs tokenizer: the registered model that has its"
            )
        if isinstance(self.model, str) and self.tokenizer is not None:
            raise AtField(
                "tokenizer", "tokenizer is for remote models; a registered one has its own"
            )
        check_agent_fields(self.agent, self.tools, self.rewards)
        return self

    @model_validator(mode="after")
    def _can_draft(self) -> Self:
        self.engine.check_drafts(self.sampling.min_p)
        return self


class Spread(Resource):
    """The distribution of a value over rollouts; ``p95`` is the 95th percentile."""

    count: int
    mean: float
    min: float
    median: float
    p95: float
    max: float


class RewardSpread(Spread):
    """A spread with the uncertainty of its mean.

    The samples of a prompt are alike, so that ``stderr`` counts prompts, not samples: it is that
    of a mean over clusters. ``ci95`` is the mean -+ 1.96 times it. With a single prompt both
    speak of that prompt's samples.
    """

    stderr: float
    ci95: tuple[float, float]


class ToolStatistics(Resource):
    """The calls of one tool. ``outcomes`` counts their outcomes, including dropped calls."""

    calls: int = Field(description="Calls that were run.")
    failed: int = Field(description="Number of calls that gave no reply.")
    attempts: int
    outcomes: dict[str, int]
    seconds: Spread | None = Field(
        description="Durations of the calls that were run; null without any."
    )


class RolloutStatistics(Resource):
    """Statistics over all rollouts of a job. Lengths are in tokens, times in seconds.

    ``generation_seconds`` is the time spent on rollouts, over all attempts of the job;
    ``model_seconds`` and ``tool_seconds`` are spreads over rollouts.
    """

    prompts: int
    trajectories: int
    failed: int = Field(description="Rollouts that failed in a tool, in the engine or in Temper.")
    left_out: int = Field(
        default=0,
        description="Trajectories that failing tools, rewards or engines lost: they are in no "
        "spread.",
    )
    left_out_causes: dict[InfrastructureCause, int] = Field(default_factory=dict)
    infrastructure_failures: dict[str, int] = Field(
        default_factory=dict,
        description="Infrastructure failures by source, including those that a repeat repaired.",
    )
    finish_reasons: dict[str, int]
    reward: RewardSpread | None = Field(description="Rewards; null where nothing was rewarded.")
    reward_components: dict[str, RewardSpread]
    best_reward: RewardSpread | None = Field(
        description="Mean over prompts of the best sample; null without rewards."
    )
    uniform_prompts: int = Field(
        description="Prompts of several samples, all with the same reward: nothing to learn from."
    )
    reward_errors: int
    tools: dict[str, ToolStatistics]
    calls: int
    failed_calls: int
    malformed_calls: int
    prompt_tokens: Spread
    response_tokens: Spread
    sampled_tokens: Spread
    turns: Spread
    seconds: Spread
    model_seconds: Spread
    tool_seconds: Spread
    generation_seconds: float
    tokens_per_second: float = Field(description="Sampled ones, while rollouts were played.")


class Rollout(JobState):
    """A rollout job."""

    object: Literal["rollout"] = "rollout"
    model: str | RemoteModel
    tokenizer: str | None = None
    file: str | None = Field(
        default=None, description="File of the prompts; null where they were given inline."
    )
    prompt_type: PromptType
    samples_per_prompt: int
    tools: list[Tool]
    agent: Agent | None = None
    multi_turn: MultiTurn
    sampling: RolloutSampling
    rewards: list[WeightedReward]
    seed: int | None
    statistics: RolloutStatistics | None = None


class TrajectorySummary(Resource):
    """A rollout in a list: everything but its tokens. ``errors`` counts calls without a reply,
    malformed calls, a failed reward, and the rollout's own failure.
    """

    id: str
    object: Literal["rollout.trajectory.summary"] = "rollout.trajectory.summary"
    prompt_index: int
    sample_index: int
    reward: float | None = None
    reward_components: dict[str, float] = Field(default_factory=dict)
    reward_error: str | None = None
    finish_reason: FinishReason
    error: str | None = None
    errors: int = 0
    turns: int = 0
    tool_calls: int = 0
    failed_calls: int = 0
    prompt_tokens: int = 0
    response_tokens: int = 0
    sampled_tokens: int = 0
    has_estimates: bool = Field(
        default=False, description="Numbers of tokens are estimated in part, without token ids."
    )
    question: str = Field(default="", description="The head of the prompt's last message.")
    answer: str = Field(default="", description="The tail of the model's last turn.")
    created_at: float = 0.0
    seconds: float = 0.0
    model_seconds: float = 0.0
    tool_seconds: float = 0.0
    notes: int = 0
    step: int | None = Field(
        default=None,
        description="The training step that learned from it; null before one does.",
    )
    advantage: float | None = Field(
        default=None,
        description="Advantage in the training step that learned from the trajectory: the mean "
        "over its sampled tokens.",
    )


class TrajectoryOrder(StrEnum):
    """Sort order of trajectories."""

    FINISHED = "finished"  # by completion time
    REWARD = "reward"  # those without one sort last in both directions
    LENGTH = "length"  # tokens of the response
    ERRORS = "errors"
