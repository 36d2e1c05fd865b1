"""The loops of a campaign: their steps and outcomes."""

from enum import StrEnum
from typing import Literal

from pydantic import Field

from services.contracts.base import JsonObject, Resource
from services.contracts.campaigns.judging import SeedScores
from services.contracts.campaigns.llms import LlmRole


class StepName(StrEnum):
    """The steps of a loop, in order; loop 0 has ``base`` alone, the other loops the rest."""

    BASE = "base"  # the base model is evaluated
    PROPOSAL = "direct_exp_gen"  # a parent is chosen, and the LLM says what to try
    CODING = "coding"  # the LLM writes a data script and settings until they pass their checks
    RUNNING = "running"  # all data, a fine-tuning job, evaluations
    FEEDBACK = "feedback"  # the measurements decide, the LLM explains
    RECORD = "record"


ROLE_OF_STEP = {
    StepName.PROPOSAL: LlmRole.PROPOSAL,
    StepName.CODING: LlmRole.CODING,
    StepName.FEEDBACK: LlmRole.FEEDBACK,
}


class Failure(StrEnum):
    """Why a loop failed."""

    CONFIG = "CONFIG"
    OUT_OF_MEMORY = "OOM"
    DATA = "DATA"
    ENVIRONMENT = "ENV"


class Comparison(Resource):
    """The paired difference to the best model so far, in the direction of improvement.

    ``ci95`` is the interval of the mean difference per item, and ``p_value`` that of the paired
    test, as in comparisons of evaluations. With several seeds an item's score is their mean.
    """

    samples: int = Field(description="Number of items.")
    seeds: int = Field(default=1, description="Number of seeds of the model.")
    best_seeds: int = Field(default=1, description="Number of seeds of the best model so far.")
    difference: float
    ci95: tuple[float, float]
    p_value: float | None = None
    exact_p_value: float | None = Field(
        default=None,
        description="p-value of McNemar's exact test; null unless samples are single 0/1 values.",
    )
    improves: bool
    second_look: "Comparison | None" = Field(
        default=None,
        description="Comparison on fresh samples of both models, made where the first one and the "
        "temperature call for it; ``improves`` is its verdict.",
    )


class CampaignLoop(Resource):
    """One attempt; loop 0 is the base model.

    Scores are means per item. An item without a score counts as the worst one of its part, or as 0
    if that is worse; where lower is better and no item has a score, there is no mean. With several
    seeds an item's score is their mean, and ``model`` that of the first seed.
    """

    object: Literal["campaign.loop"] = "campaign.loop"
    loop: int
    parent: int | None = None
    hypothesis: str | None = None
    steps: list[StepName] = Field(description="Names of the steps that have finished.")
    model: str | None = None
    search_score: float | None = None
    final_score: float | None = None
    seeds: list[SeedScores] = Field(
        default_factory=list, description="Models by seed; empty where there is one seed."
    )
    seeds_note: str | None = Field(
        default=None, description="Reason for fewer seeds than the policy names."
    )
    noise_floor: float | None = Field(
        default=None,
        description="Noise of the base model's score: gains up to about this are within the 95 % "
        "interval of the difference between two measurements. Null where answers are greedy.",
    )
    comparison: Comparison | None = None
    accepted: bool | None = None
    failure: Failure | None = None
    failure_message: str | None = None
    reason: str | None = None
    judged: int | None = Field(
        default=None,
        description="Position in the order of verdicts. The best model is the last accepted one.",
    )


class CampaignStep(Resource):
    """A step with its output and its conversation with the LLM."""

    object: Literal["campaign.step"] = "campaign.step"
    loop: int
    name: StepName
    started_at: int
    finished_at: int | None = None
    output: JsonObject | None = None
    transcript: list[JsonObject] = Field(
        default_factory=list,
        description="Calls of the LLM in this step, each with messages, answer and tokens.",
    )
    jobs: list[str] = Field(default_factory=list)
