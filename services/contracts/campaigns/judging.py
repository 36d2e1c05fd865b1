"""How a campaign judges its models: the seeds of each, and when one is accepted."""

from enum import StrEnum

from pydantic import Field, StrictInt

from services.contracts.base import Number, Request, Resource

MAX_SEEDS = 16


class SeedPolicy(Request):
    """How many seeds each model of a campaign has where the search part is small.

    A seed is that of a training, and of the sampling of its evaluations. What is compared are means
    over seeds, by item.
    """

    most: StrictInt = Field(
        default=1, ge=1, le=MAX_SEEDS, description="Maximum seeds per model; 1: a single training."
    )
    below_items: StrictInt = Field(
        default=100,
        ge=1,
        le=1_000_000,
        description="Number of items in the search part below which further seeds are trained. "
        "From 100 on, the 95 % interval of a share of right answers reaches at most "
        "ten points to each side.",
    )
    budget_share: Number = Field(
        default=0.5,
        gt=0.0,
        le=1.0,
        description="Maximum share of the remaining hours and GPU hours that the further seeds of "
        "one model may take, each counted as what the first one took.",
    )

    def __str__(self) -> str:
        """The policy in words."""
        if self.most == 1:
            return "one"
        return (
            f"{self.most} where the search part has fewer than {self.below_items} items, in "
            f"{self.budget_share:.0%} of the budget left"
        )


class SeedScores(Resource):
    """The model of one seed, with its mean scores."""

    seed: int = Field(description="Number of the seed.")
    model: str = Field(description="Name of the model that was trained with the seed.")
    search_score: float | None = Field(
        default=None,
        description="Mean score per item of the search part; null before the measurement.",
    )
    final_score: float | None = Field(
        default=None,
        description="Mean score per item of the final part; null before the measurement.",
    )


class AcceptBy(StrEnum):
    """Statistic of the gain over the best model that must exceed the bound."""

    INTERVAL = "interval"  # the low end of its 95 % interval
    MEAN = "mean"  # its mean, whatever its interval: half of all models without a gain have one


class AcceptancePolicy(Request):
    """A model is accepted if its gain on the search part, by ``by``, is more than ``above``."""

    by: AcceptBy = Field(
        default=AcceptBy.INTERVAL,
        description="Statistic of the gain that must exceed the bound: the low end of its 95 % "
        "interval, or its mean.",
    )
    above: Number = Field(
        default=0.0,
        ge=0.0,
        le=1e6,
        description="Bound that the gain per item must exceed, in the unit of scores.",
    )

    def accepts(self, difference: float, ci95: tuple[float, float]) -> bool:
        """Whether a gain with this interval, in the direction of improvement, is accepted."""
        return (ci95[0] if self.by is AcceptBy.INTERVAL else difference) > self.above

    def __str__(self) -> str:
        """The policy in words."""
        what = "the whole 95 % interval" if self.by is AcceptBy.INTERVAL else "the mean"
        return f"{what} of the gain above {self.above:g}"
