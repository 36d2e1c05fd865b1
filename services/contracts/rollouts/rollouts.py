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
        description="Registered model whose tokenizer a remote model has; for remote models only.",
    )
    file: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Prompt file: rows of {messages | prompt | question, gold | answer, "
        "prompt_type}.",
        examples=["file-abc123"],
    )
    prompts: list[JsonObject] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_INLINE_PROMPTS,
        description="Rows of prompts, in place of a file.",
    )
    prompt_type: PromptType = Field(
        default="plain", description="Published prompt template around each question."
    )
    system_prompt: str | None = Field(
        default=None, max_length=100_000, description="System message before every prompt."
    )
    max_prompts: StrictInt | None = Field(
        default=None, ge=1, description="Maximum number of rows, from the first; null: all."
    )
    samples_per_prompt: StrictInt = Field(
        default=1, ge=1, le=1024, description="Number of rollouts of each prompt."
    )
    tools: list[Tool] = Field(
        default_factory=list, max_length=32, description="Tools on offer to the model."
    )
    agent: Agent | None = Field(
        default=None,
        description="Agent that plays the rollouts in place of Temper's own loop; it brings its "
        "own tools.",
    )
    multi_turn: MultiTurn = Field(
        default_factory=MultiTurn, description="Limits and format of the conversations with tools."
    )
    sampling: RolloutSampling = Field(
        default_factory=RolloutSampling, description="Sampling settings of the turns."
    )
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
        description="Seed of the sampling; null: a random one for each rollout.",
    )
    max_concurrency: StrictInt = Field(
        default=256, ge=1, le=4096, description="Maximum concurrent rollouts."
    )
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

    count: int = Field(description="Number of values.")
    mean: float = Field(description="Mean of the values.")
    min: float = Field(description="Smallest value.")
    median: float = Field(description="Median of the values.")
    p95: float = Field(description="95th percentile of the values.")
    max: float = Field(description="Largest value.")


class RewardSpread(Spread):
    """A spread with the uncertainty of its mean.

    The samples of a prompt are alike, so that ``stderr`` counts prompts, not samples: it is that
    of a mean over clusters. ``ci95`` is the mean -+ 1.96 times it. With a single prompt both
    speak of that prompt's samples.
    """

    stderr: float = Field(description="Standard error of the mean, over prompts.")
    ci95: tuple[float, float] = Field(description="95 % confidence interval of the mean.")


class ToolStatistics(Resource):
    """The calls of one tool. ``outcomes`` counts their outcomes, including dropped calls."""

    calls: int = Field(description="Number of calls that were run.")
    failed: int = Field(description="Number of calls that gave no reply.")
    attempts: int = Field(description="Number of attempts of all calls, repeats included.")
    outcomes: dict[str, int] = Field(
        description="Number of calls by outcome, dropped calls included."
    )
    seconds: Spread | None = Field(
        description="Durations in seconds of the calls that were run; null without any."
    )


class RolloutStatistics(Resource):
    """Statistics over all rollouts of a job. Lengths are in tokens, times in seconds.

    ``generation_seconds`` is the time spent on rollouts, over all attempts of the job;
    ``model_seconds`` and ``tool_seconds`` are spreads over rollouts.
    """

    prompts: int = Field(description="Number of prompts.")
    trajectories: int = Field(description="Number of rollouts that ended.")
    failed: int = Field(
        description="Number of rollouts that failed in a tool, an agent, the engine or Temper, or "
        "whose prompt was refused."
    )
    left_out: int = Field(
        default=0,
        description="Number of trajectories lost to failing tools, rewards or engines; they are in "
        "no spread.",
    )
    left_out_causes: dict[InfrastructureCause, int] = Field(
        default_factory=dict, description="Number of lost trajectories by cause."
    )
    infrastructure_failures: dict[str, int] = Field(
        default_factory=dict,
        description="Number of infrastructure failures by source, including those that a repeat "
        "repaired.",
    )
    finish_reasons: dict[str, int] = Field(description="Number of rollouts by finish reason.")
    reward: RewardSpread | None = Field(
        description="Spread of the rewards; null where nothing was rewarded."
    )
    reward_components: dict[str, RewardSpread] = Field(
        description="Spread of each component of the reward, by its name."
    )
    best_reward: RewardSpread | None = Field(
        description="Spread over prompts of the reward of the best sample; null without rewards."
    )
    uniform_prompts: int = Field(
        description="Number of prompts with several samples that all have the same reward: nothing "
        "to learn from."
    )
    reward_errors: int = Field(
        description="Number of rollouts whose reward could not be computed, except those left out."
    )
    tools: dict[str, ToolStatistics] = Field(description="Statistics of the calls, by tool.")
    calls: int = Field(
        description="Number of tool calls that were run, in rollouts that are not left out."
    )
    failed_calls: int = Field(
        description="Number of tool calls that were run and gave no reply, in rollouts that are "
        "not left out."
    )
    malformed_calls: int = Field(
        description="Number of tool calls that could not be read, in rollouts that are not left "
        "out."
    )
    prompt_tokens: Spread = Field(description="Spread of the tokens of a prompt.")
    response_tokens: Spread = Field(
        description="Spread of the tokens of a response, tool results included."
    )
    sampled_tokens: Spread = Field(
        description="Spread of the tokens of a response that the model sampled."
    )
    turns: Spread = Field(description="Spread of the turns of a rollout.")
    seconds: Spread = Field(description="Spread of the seconds of a rollout.")
    model_seconds: Spread = Field(
        description="Spread of the seconds that a rollout waited for the model."
    )
    tool_seconds: Spread = Field(
        description="Spread of the seconds that a rollout waited for tools."
    )
    generation_seconds: float = Field(
        description="Seconds spent on rollouts, over all attempts of the job."
    )
    tokens_per_second: float = Field(
        description="Mean rate of sampled tokens per second while rollouts were played."
    )


class Rollout(JobState):
    """A rollout job."""

    object: Literal["rollout"] = "rollout"
    model: str | RemoteModel = Field(
        description="Registered model or checkpoint, or a model behind a URL."
    )
    tokenizer: str | None = Field(
        default=None,
        description="Registered model whose tokenizer a remote model has; null for registered "
        "models.",
    )
    file: str | None = Field(
        default=None, description="File of the prompts; null where they were given inline."
    )
    prompt_type: PromptType = Field(description="Published prompt template around each question.")
    samples_per_prompt: int = Field(description="Number of rollouts of each prompt.")
    tools: list[Tool] = Field(description="Tools on offer to the model.")
    agent: Agent | None = Field(
        default=None, description="Agent that plays the rollouts; null: Temper's own loop."
    )
    multi_turn: MultiTurn = Field(description="Limits and format of the conversations with tools.")
    sampling: RolloutSampling = Field(description="Sampling settings of the turns.")
    rewards: list[WeightedReward] = Field(
        description="Components whose weighted sum is the reward."
    )
    seed: int | None = Field(
        description="Seed of the sampling; null: a random one for each rollout."
    )
    statistics: RolloutStatistics | None = Field(
        default=None, description="Statistics over all rollouts; null until the job has succeeded."
    )


class TrajectorySummary(Resource):
    """A rollout in a list: everything but its tokens. ``errors`` counts calls without a reply,
    malformed calls, a failed reward, and the rollout's own failure.
    """

    id: str = Field(description="Id of the trajectory.")
    object: Literal["rollout.trajectory.summary"] = "rollout.trajectory.summary"
    prompt_index: int = Field(description="Row of the prompts, counted from 0.")
    sample_index: int = Field(description="Number of the sample among those of the prompt, from 0.")
    reward: float | None = Field(
        default=None,
        description="Weighted sum of the reward's components; null: there is no reward.",
    )
    reward_components: dict[str, float] = Field(
        default_factory=dict, description="Scores of the reward's components, by name."
    )
    reward_error: str | None = Field(
        default=None, description="Reason why there is no reward; null: none."
    )
    finish_reason: FinishReason = Field(description="Reason why the rollout ended.")
    error: str | None = Field(default=None, description="Error that ended the rollout; null: none.")
    errors: int = Field(
        default=0,
        description="Number of errors: calls without a reply, malformed calls, a failed reward, "
        "and the rollout's own failure.",
    )
    turns: int = Field(default=0, description="Number of turns of the model.")
    tool_calls: int = Field(default=0, description="Number of tool calls that were run.")
    failed_calls: int = Field(default=0, description="Number of tool calls that got no reply.")
    prompt_tokens: int = Field(default=0, description="Number of tokens of the prompt.")
    response_tokens: int = Field(
        default=0, description="Number of tokens after the prompt, tool results included."
    )
    sampled_tokens: int = Field(default=0, description="Number of tokens that the model sampled.")
    has_estimates: bool = Field(
        default=False,
        description="Whether numbers of tokens are partly estimated, for lack of token ids.",
    )
    question: str = Field(default="", description="Beginning of the prompt's last message.")
    answer: str = Field(default="", description="End of the model's last turn.")
    created_at: float = Field(
        default=0.0, description="Time at which the rollout began, in Unix seconds."
    )
    seconds: float = Field(default=0.0, description="Duration of the rollout, in seconds.")
    model_seconds: float = Field(
        default=0.0, description="Seconds that the rollout waited for the model."
    )
    tool_seconds: float = Field(
        default=0.0, description="Seconds that the rollout waited for tools."
    )
    notes: int = Field(default=0, description="Number of notes about the trajectory.")
    step: int | None = Field(
        default=None,
        description="Training step that learned from the trajectory; null before one does.",
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
