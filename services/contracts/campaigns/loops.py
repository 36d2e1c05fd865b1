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
    test, as in comparisons of evaluations. With several seeds an item's score is their mean. Items
    that the infrastructure lost of either model are not compared.
    """

    samples: int = Field(description="Number of compared items.")
    left_out: int = Field(
        default=0,
        description="Number of items that were not compared, because failing infrastructure lost "
        "their answers or grades, or an earlier version did not store which samples have a score.",
    )
    seeds: int = Field(default=1, description="Number of seeds of the model.")
    best_seeds: int = Field(default=1, description="Number of seeds of the best model so far.")
    difference: float = Field(
        description="Mean difference per item to the best model so far, in the direction of "
        "improvement."
    )
    ci95: tuple[float, float] = Field(description="95 % confidence interval of the difference.")
    p_value: float | None = Field(
        default=None, description="p-value of the paired test; null: not tested."
    )
    exact_p_value: float | None = Field(
        default=None,
        description="p-value of McNemar's exact test; null unless the score of every item is 0 or "
        "1.",
    )
    gain_p_value: float | None = Field(
        default=None,
        description="One-sided p-value of the gain, over items as a sample of all such items; "
        "null: not tested.",
    )
    level: float | None = Field(
        default=None,
        description="Level that ``gain_p_value`` must not exceed: a share of the 5 % that all "
        "verdicts of the campaign have together. Null: no test at such a level.",
    )
    improves: bool = Field(description="Whether the model is better by the acceptance criterion.")
    second_look: "Comparison | None" = Field(
        default=None,
        description="Comparison over the first and as many fresh samples of both models, made "
        "where the first one and the temperature call for it; ``improves`` is its verdict.",
    )


class CampaignLoop(Resource):
    """One attempt; loop 0 is the base model.

    Scores are means per item. An item without a score counts as the worst one of its part, or as 0
    if that is worse; where lower is better and no item has a score, there is no mean. Items that
    the infrastructure lost are in no mean. With several seeds an item's score is their mean, and
    ``model`` that of the first seed.
    """

    object: Literal["campaign.loop"] = "campaign.loop"
    loop: int = Field(description="Number of the loop; 0: the base model.")
    parent: int | None = Field(
        default=None,
        description="Number of the loop whose model this one started from; null for the base "
        "model.",
    )
    hypothesis: str | None = Field(
        default=None,
        description="Hypothesis of the LLM for this attempt; null before the proposal.",
    )
    steps: list[StepName] = Field(description="Names of the steps that have finished.")
    model: str | None = Field(
        default=None,
        description="Name of the measured model, that of the first seed; null before the "
        "measurement.",
    )
    search_score: float | None = Field(
        default=None,
        description="Mean score per item of the search part; null before the measurement.",
    )
    final_score: float | None = Field(
        default=None,
        description="Mean score per item of the final part; null before the measurement.",
    )
    search_left_out: int = Field(
        default=0,
        description="Number of items of the search part that are in no score or comparison, "
        "because failing infrastructure lost their answers or grades.",
    )
    final_left_out: int = Field(
        default=0,
        description="Number of items of the final part that are in no score or comparison, because "
        "failing infrastructure lost their answers or grades.",
    )
    seeds: list[SeedScores] = Field(
        default_factory=list, description="Models by seed; empty where there is one seed."
    )
    seeds_note: str | None = Field(
        default=None, description="Reason for fewer seeds than the policy names."
    )
    noise_floor: float | None = Field(
        default=None,
        description="Noise of the base model's score: gains up to about this are within the 95 % "
        "interval of the difference between two measurements. Null where answers are greedy, and "
        "for other loops.",
    )
    comparison: Comparison | None = Field(
        default=None,
        description="Comparison with the best model so far; null before the verdict, and for a "
        "loop that failed.",
    )
    accepted: bool | None = Field(
        default=None,
        description="Whether the model was accepted; null before the verdict, and for the base "
        "model.",
    )
    failure: Failure | None = Field(
        default=None, description="Kind of the failure; null: none, or before the verdict."
    )
    failure_message: str | None = Field(
        default=None,
        description="Description of the failure; null: none, or before the verdict.",
    )
    reason: str | None = Field(
        default=None,
        description="Explanation of the verdict by the LLM, or why there is none; null before it, "
        "and where the budget ended first.",
    )
    judged: int | None = Field(
        default=None,
        description="Position in the order of verdicts, from 1; null before the verdict. The best "
        "model is the last accepted one.",
    )


class CampaignStep(Resource):
    """A step with its output and its conversation with the LLM."""

    object: Literal["campaign.step"] = "campaign.step"
    loop: int = Field(description="Number of the loop.")
    name: StepName = Field(description="Name of the step.")
    started_at: int = Field(description="Time at which the step began, in Unix seconds.")
    finished_at: int | None = Field(
        default=None, description="Time at which the step ended, in Unix seconds; null until then."
    )
    output: JsonObject | None = Field(
        default=None, description="Output of the step, by its kind; null before it ends."
    )
    transcript: list[JsonObject] = Field(
        default_factory=list,
        description="Calls of the LLM in this step, each with messages, answer and tokens.",
    )
    jobs: list[str] = Field(
        default_factory=list, description="Ids of the jobs that the step created."
    )
