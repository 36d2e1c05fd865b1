"""The report of a campaign: what was tried and learned, the best model, and what it cost."""

from typing import Literal

from pydantic import Field

from services.contracts.base import Resource
from services.contracts.campaigns.campaigns import Campaign
from services.contracts.campaigns.llms import LlmRole
from services.contracts.campaigns.loops import CampaignLoop


class ReportedAttempt(CampaignLoop):
    """A loop with its data and its lesson. Texts are truncated to 2,000 characters."""

    depth: int = Field(
        description="Number of attempts from the base model, which has 0, to this one."
    )
    task: str = Field(
        default="",
        description="Task of the attempt, as the LLM proposed it; truncated to 2,000 characters.",
    )
    code_summary: str = Field(
        default="", description="Summary of the data script; truncated to 2,000 characters."
    )
    rows: int | None = Field(default=None, description="Number of training rows that were used.")
    contaminated_rows: int | None = Field(
        default=None,
        description="Number of rows that held items of the benchmark and were removed, of all "
        "that the script made.",
    )
    training_job: str | None = Field(
        default=None, description="Id of the training job; null without one."
    )


class FinalComparison(Resource):
    """The best model against the base model, paired over the items of the final part.

    Differences are in the direction of improvement. Nothing was chosen by the final part, so that
    the interval needs no correction for the number of attempts.
    """

    samples: int = Field(description="Number of compared items.")
    left_out: int = Field(
        default=0,
        description="Number of items that were not compared, because failing infrastructure lost "
        "their answers or grades, or an earlier version did not store which samples have a score.",
    )
    base_seeds: int = Field(default=1, description="Number of seeds of the base model.")
    best_seeds: int = Field(default=1, description="Number of seeds of the best model.")
    base_score: float = Field(description="Score of the base model on the final part.")
    best_score: float = Field(description="Score of the best model on the final part.")
    difference: float = Field(
        description="Mean difference per item, in the direction of improvement."
    )
    ci95: tuple[float, float] = Field(description="95 % confidence interval of the difference.")
    p_value: float = Field(description="p-value of the paired test.")


class RoleCost(Resource):
    """The LLM usage for one purpose."""

    model: str = Field(description="Name of the LLM.")
    calls: int = Field(
        description="Number of calls of the LLM, those that the cache answered not included."
    )
    cached_answers: int = Field(default=0, description="Number of calls that the cache answered.")
    saved_tokens: int = Field(
        default=0,
        description="Number of tokens that the cached answers cost when they were first given.",
    )
    prompt_tokens: int = Field(description="Number of prompt tokens.")
    completion_tokens: int = Field(description="Number of completion tokens.")
    cost: float | None = Field(
        default=None,
        description="Cost in the currency of the price; null without a price of tokens.",
    )


class ScriptCost(Resource):
    """The LLM usage of data scripts."""

    calls: int = Field(description="Number of calls by data scripts.")
    prompt_tokens: int = Field(description="Number of prompt tokens.")
    completion_tokens: int = Field(description="Number of completion tokens.")
    cost: float | None = Field(
        default=None, description="Cost of all LLMs; null where one has no price."
    )


class CampaignCost(Resource):
    """The usage of a campaign so far."""

    llm_calls: int = Field(
        default=0, description="Number of calls of the LLMs, those of data scripts included."
    )
    prompt_tokens: int = Field(
        default=0,
        description="Number of prompt tokens of the LLMs, those of data scripts included.",
    )
    completion_tokens: int = Field(
        default=0,
        description="Number of completion tokens of the LLMs, those of data scripts included.",
    )
    llm_cost: float | None = Field(
        default=None,
        description="Cost of the LLMs, those of data scripts included; null where one has no "
        "price.",
    )
    llm_by_role: dict[LlmRole, RoleCost] = Field(
        default_factory=dict, description="LLM usage by role."
    )
    by_scripts: ScriptCost | None = Field(
        default=None, description="LLM usage of data scripts; null where scripts have no LLMs."
    )
    hours: float = Field(
        default=0.0, description="Hours from the first step to the end, or to now."
    )
    jobs: dict[str, int] = Field(default_factory=dict, description="Number of jobs by kind.")
    job_hours: dict[str, float] = Field(
        default_factory=dict,
        description="Hours that jobs ran, without pauses and waiting, summed by kind.",
    )
    gpu_hours: float = Field(
        default=0.0,
        description="GPU hours of the campaign's jobs: the hours of each job times its GPUs, or "
        "times one where it names none.",
    )


class CampaignReport(Resource):
    """A campaign as one page. ``attempts`` are in the order of the tree, the base model first."""

    object: Literal["campaign.report"] = "campaign.report"
    campaign: Campaign = Field(description="Campaign that the report is about.")
    attempts: list[ReportedAttempt] = Field(
        description="Attempts in the order of the tree, the base model first."
    )
    best_model: str | None = Field(
        default=None, description="Best model so far; null before the base model is measured."
    )
    lineage: list[int] = Field(description="Loops from the base model to the best one.")
    final: FinalComparison | None = Field(
        default=None,
        description="Comparison of the best model with the base model on the final part; null "
        "while the base model is the best, and where failing infrastructure lost every item of one "
        "of them.",
    )
    cost: CampaignCost = Field(description="Usage of the campaign so far.")
    reproduce_model: str | None = Field(
        default=None,
        description="Command that trains the best model again; null while the base model is the "
        "best.",
    )
    reproduce_campaign: str = Field(description="Command that starts the same campaign again.")
