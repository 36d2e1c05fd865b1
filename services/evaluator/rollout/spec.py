"""Specifications of a rollout job's children: files in their job directories."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.rewards.rewards import WeightedReward
from services.contracts.rollouts.agents import Agent
from services.contracts.rollouts.multi_turn import MultiTurn, PromptType, RolloutSampling, Tool
from services.contracts.sampling import ChatTemplateKwargs, ControlTokens
from services.core.artifacts import ModelSource, SourceFile
from services.datasets.validate import PromptTemplate, ValidationSpec
from services.evaluator.serving import LocalModel, RemoteEndpoint

SPEC = "spec.json"
INLINE_PROMPTS = "prompts.jsonl"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


class RolloutSpec(_Strict):
    """One job: model, prompts, sampling, tools and rewards."""

    model: Annotated[LocalModel | RemoteEndpoint, Field(discriminator="type")]
    tokenizer: ModelSource
    prompts: Path
    prompt_type: PromptType
    system_prompt: str | None
    max_prompts: int | None = Field(ge=1)
    samples_per_prompt: int = Field(ge=1)
    tools: list[Tool]
    agent: Agent | None = None
    model_name: str = "policy"
    multi_turn: MultiTurn
    sampling: RolloutSampling
    chat_template_kwargs: ChatTemplateKwargs = Field(default_factory=dict)
    control_tokens: ControlTokens = "encode"
    is_inline: bool = Field(
        default=False, description="Whether the request held the prompts: no file was validated."
    )
    rewards: list[WeightedReward]
    seed: int | None
    max_concurrency: int = Field(ge=1)


class PromptFileSpec(ValidationSpec):
    """The prompts to validate, and whether rewards compare with their golds."""

    file: SourceFile
    prompt_type: PromptType
    system_prompt: str | None = None
    needs_gold: bool
    gold_sources: list[str] = Field(
        default_factory=list, description="Sources whose rows need a gold in any case."
    )
    max_prompts: int | None = Field(ge=1)
    samples_per_prompt: int = Field(ge=1)
    template: PromptTemplate | None = None
