"""The limits of a campaign and its steps: its budget and its time limits."""

from enum import StrEnum

from pydantic import Field, StrictInt

from services.contracts.base import Number, Request


class CampaignBudget(Request):
    """The budget of a campaign, which ends at the first of these limits."""

    loops: StrictInt = Field(
        default=3,
        ge=1,
        le=1000,
        description="Maximum loops: ideas that are coded, trained and judged.",
    )
    steps: StrictInt | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="Maximum steps of loops; each loop has five, and those of the base model are "
        "not counted.",
    )
    hours: Number | None = Field(
        default=None,
        gt=0.0,
        le=87_600.0,
        description="Maximum hours since the first step, waiting included.",
    )
    llm_tokens: StrictInt | None = Field(
        default=None,
        ge=1,
        description="Maximum prompt and completion tokens of the LLMs, those of data scripts "
        "included; estimated where an endpoint counts none.",
    )
    gpu_hours: Number | None = Field(
        default=None,
        gt=0.0,
        le=1e6,
        description="Maximum GPU hours of the campaign's jobs: the hours of each job times its "
        "GPUs, or times one where it names none.",
    )
    cost: Number | None = Field(
        default=None,
        gt=0.0,
        le=1e6,
        description="Maximum cost of the LLMs, those of data scripts included, in the currency of "
        "their prices.",
    )
    coding_attempts: StrictInt = Field(
        default=10,
        ge=1,
        le=50,
        description="Maximum answers of the LLM until a data script passes its checks.",
    )


class CampaignTimeLimits(Request):
    """Seconds that parts of a loop may take, the waiting of jobs included, but for the trial;
    null: no limit.

    Scripts have at most what the operator's sandbox allows.
    """

    debug_script: Number = Field(
        default=300.0,
        ge=1.0,
        le=86_400.0,
        description="Maximum seconds of a data script on debug rows.",
    )
    script: Number = Field(
        default=300.0,
        ge=1.0,
        le=86_400.0,
        description="Maximum seconds of a data script on all rows.",
    )
    trial: Number = Field(
        default=1800.0,
        ge=1.0,
        le=315_360_000,
        description="Maximum seconds that the training on debug rows runs, its waiting not "
        "counted.",
    )
    training: StrictInt | None = Field(
        default=None,
        ge=1,
        le=315_360_000,
        description="Maximum seconds of each training of a loop, from its creation; null: no "
        "limit.",
    )
    evaluation: StrictInt | None = Field(
        default=None,
        ge=1,
        le=315_360_000,
        description="Maximum seconds of each evaluation of a loop, from its creation; null: no "
        "limit.",
    )


class Limit(StrEnum):
    """The limits of a budget at which a campaign ends."""

    LOOPS = "loops"
    STEPS = "steps"
    HOURS = "hours"
    LLM_TOKENS = "llm_tokens"
    GPU_HOURS = "gpu_hours"
    COST = "cost"
