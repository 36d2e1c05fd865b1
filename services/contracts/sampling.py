"""How a model's answers are sampled, and which part is graded."""

from typing import Annotated

from pydantic import Field, StrictInt, StringConstraints

from services.contracts.base import Number, Request


class Sampling(Request):
    """How answers are sampled; the defaults are greedy. Null leaves a setting to the model."""

    max_tokens: StrictInt = Field(
        default=512, ge=1, le=131_072, description="Maximum tokens of an answer."
    )
    temperature: Number = Field(default=0.0, ge=0.0, le=2.0, description="Sampling temperature.")
    top_p: Number = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="Nucleus of the sampling: its share of probability.",
    )
    top_k: StrictInt | None = Field(
        default=None, ge=-1, description="Number of the most likely tokens to sample from; -1: all."
    )
    min_p: Number | None = Field(
        default=None,
        ge=0.0,
        le=1.0,
        description="Minimum probability, relative to that of the most likely token.",
    )
    presence_penalty: Number | None = Field(
        default=None, ge=-2.0, le=2.0, description="Penalty of a token that occurred."
    )
    frequency_penalty: Number | None = Field(
        default=None,
        ge=-2.0,
        le=2.0,
        description="Penalty of a token for each time that it occurred.",
    )
    repetition_penalty: Number | None = Field(
        default=None, gt=0.0, le=2.0, description="Penalty of tokens that have occurred; 1: none."
    )
    stop: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = Field(
        default=None, max_length=4, description="Texts that end an answer."
    )
    seed: StrictInt | None = Field(
        default=0,
        ge=0,
        le=2**31 - 1,
        description="Seed of an item's first sample; each further sample adds 1.",
    )


class JsonPrediction(Request):
    """A value of the JSON in an answer, which is graded in place of the answer."""

    path: Annotated[str, StringConstraints(max_length=200)] = Field(
        default="label", description="Dotted path of fields and list indexes; empty: all of it."
    )
    reasoning_ends: list[Annotated[str, StringConstraints(min_length=1, max_length=100)]] | None = (
        Field(default=None, min_length=1, max_length=10, description="Tags that end reasoning.")
    )
