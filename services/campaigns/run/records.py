"""The outputs of steps."""

from typing import Self

from pydantic import Field

from services.contracts.base import JsonObject, Resource
from services.contracts.campaigns.limits import Limit
from services.contracts.campaigns.loops import Comparison, Failure
from services.contracts.data.datasets import TokenStatistics
from services.metrics.missing_scores import ScoredItems, Scores, stored_scores


class WrongSample(Resource):
    """A wrongly answered sample of the search part, truncated for the LLM."""

    question: str
    gold: list[str]
    answer: str


class PartScores(Resource):
    """Scores of a model by item of each part."""

    model: str
    search: Scores
    final: Scores
    search_worst: float | None = Field(
        default=None, description="The worst score of a sample of the search part."
    )
    final_worst: float | None = Field(
        default=None, description="The worst score of a sample of the final part."
    )

    @property
    def on_search(self) -> ScoredItems:
        """The scores of the search part."""
        return ScoredItems(self.search, self.search_worst)

    def as_stored(self, samples: int) -> Self:
        """The measurement with what scores of earlier versions mean, which took so many samples of
        an item: see `stored_scores`."""
        update = {name: stored_scores(getattr(self, name), samples) for name in ("search", "final")}
        return self.model_copy(update=update)


class SeedMeasurement(PartScores):
    """Scores of the model of one seed."""

    seed: int


class Measurement(PartScores):
    """Scores of a model by item of each part; with several seeds, the means of their models.

    ``model`` and the wrong samples belong to the first seed.
    """

    wrong: list[WrongSample]
    shares: bool = Field(
        default=False, description="All samples scored 0 or 1, so that scores are shares of them."
    )
    search_left_out: int = Field(
        default=0, description="Items of the search part that the infrastructure lost."
    )
    final_left_out: int = Field(
        default=0, description="Items of the final part that the infrastructure lost."
    )
    seeds: list[SeedMeasurement] = Field(
        default_factory=list, description="Empty where there is one seed."
    )
    seeds_note: str | None = Field(
        default=None, description="Why there are fewer seeds than the policy names."
    )
    noise_floor: float | None = Field(
        default=None,
        description="Half the 95 % interval of the difference between two measurements of it.",
    )


class Failed(Resource):
    """Why a step has no other output."""

    failure: Failure
    message: str


class Proposal(Resource):
    """The proposal of a loop. Loop ``parent`` is where it starts from; 0 is the base model."""

    parent: int
    reason: str = ""
    hypothesis: str = ""
    task: str = ""
    skip_data_processing: bool = False
    failed: Failed | None = None


class Code(Resource):
    """A data script and settings that passed their checks."""

    script: str = ""
    settings: str = Field(default="", description="train.yaml, as written by the LLM.")
    hyperparameters: JsonObject = Field(default_factory=dict)
    notes: list[str] = Field(default_factory=list)
    attempts: int = 0
    failed: Failed | None = None


class MadeRows(Resource):
    """The rows that a script generated, including removed ones: the LLM is told about them."""

    rows: int
    duplicates: int
    tokens: TokenStatistics | None = None


class Attempt(Resource):
    """The result of the running step."""

    rows: int = 0
    contaminated: int = 0
    tokens: TokenStatistics | None = Field(default=None, description="Of the rows trained on.")
    made: MadeRows | None = None
    measurement: Measurement | None = None
    failed: Failed | None = None


class Feedback(Resource):
    """The verdict of the numbers, and the LLM's explanation of it."""

    accepted: bool
    order: int = Field(
        default=0, description="Its place among the verdicts, from 1; 0: that of its loop."
    )
    comparison: Comparison | None = None
    code_summary: str = ""
    reason: str = ""
    unexplained: Limit | None = Field(
        default=None, description="The limit of the budget that left no explanation."
    )
    failed: Failed | None = None


class Record(Resource):
    """The best loop after this one."""

    best_loop: int
    best_model: str
