"""The LLMs of a campaign, by role, those of its data scripts, and their prices."""

from enum import StrEnum
from typing import Self

from pydantic import Field, StrictBool, StrictInt, model_validator

from services.contracts.base import Number, Request
from services.contracts.models.registered import RemoteModel
from services.contracts.validation import AtField

MOST_CALLS_AT_ONCE = 256


class TokenPrice(Request):
    """The price of a million tokens at an endpoint, in any one currency."""

    prompt: Number = Field(ge=0.0, le=1e6, description="Price of a million prompt tokens.")
    completion: Number = Field(ge=0.0, le=1e6, description="Price of a million completion tokens.")

    def of(self, prompt_tokens: int, completion_tokens: int) -> float:
        """The price of tokens."""
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / 1e6


class CampaignLlm(RemoteModel):
    """The LLM that proposes, codes and explains."""

    price: TokenPrice | None = Field(
        default=None, description="Price of the LLM's tokens; null: unknown."
    )
    max_tokens: StrictInt = Field(
        default=8192, ge=1, le=131_072, description="Maximum tokens of one answer."
    )
    temperature: Number | None = Field(
        default=None,
        ge=0.0,
        le=2.0,
        description="Sampling temperature; null: the endpoint's default.",
    )
    frequency_penalty: Number | None = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Frequency penalty; null: the endpoint's default.",
    )
    presence_penalty: Number | None = Field(
        default=None, ge=-2.0, le=2.0, description="Presence penalty; null: the endpoint's default."
    )
    attempts: StrictInt = Field(
        default=4,
        ge=1,
        le=100,
        description="Maximum requests for one answer, as long as they fail.",
    )
    retry_seconds: Number = Field(
        default=0.5,
        ge=0.0,
        le=600.0,
        description="Pause before the second request, in seconds; later pauses are longer.",
    )
    strip_reasoning: StrictBool = Field(
        default=False,
        description="Whether to remove the text in <think> and </think> at the beginning of an "
        "answer. Data scripts get answers as they are.",
    )


class LlmRole(StrEnum):
    """The purpose of an LLM call."""

    PROPOSAL = "proposal"
    CODING = "coding"
    FEEDBACK = "feedback"


class AnswerCaching(Request):
    """How a campaign uses the response cache that campaigns share."""

    read: StrictBool = Field(
        default=False,
        description="Whether to reuse the cached answer to an equal request, which costs no "
        "tokens.",
    )
    write: StrictBool = Field(
        default=False, description="Whether to store useful answers in the shared cache."
    )


class ScriptLlms(Request):
    """LLMs that data scripts may query, through a proxy that holds the keys and meters usage."""

    strong: list[CampaignLlm] = Field(
        min_length=1, max_length=20, description="LLMs for the demanding calls of data scripts."
    )
    weak: list[CampaignLlm] = Field(
        default_factory=list,
        max_length=20,
        description="LLMs for the many cheap calls of data scripts.",
    )
    calls: StrictInt = Field(
        default=10_000,
        ge=1,
        le=10_000_000,
        description="Maximum calls by all scripts of the campaign.",
    )
    calls_at_once: StrictInt = Field(
        default=16,
        ge=1,
        le=MOST_CALLS_AT_ONCE,
        description="Maximum concurrent calls; further ones wait.",
    )

    @property
    def by_model(self) -> dict[str, CampaignLlm]:
        """All of them by the names that scripts use."""
        return {llm.model: llm for llm in (*self.strong, *self.weak)}

    @model_validator(mode="after")
    def _models_name_one_llm(self) -> Self:
        for field, llms in (("strong", self.strong), ("weak", self.weak)):
            if any(self.by_model[llm.model] != llm for llm in llms):
                raise AtField(field, "two different LLMs of scripts have the same model")
        return self
