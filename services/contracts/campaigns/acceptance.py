"""When a campaign accepts a model."""

from enum import StrEnum

from pydantic import Field

from services.contracts.base import Number, Request


class AcceptBy(StrEnum):
    """Statistic of the gain over the best model that must exceed the bound."""

    INTERVAL = "interval"  # the low end of its 95 % interval
    MEAN = "mean"  # its mean, whatever its interval: half of all models without a gain have one


class AcceptancePolicy(Request):
    """A model is accepted if its gain on the search part, by ``by``, is more than ``above``."""

    by: AcceptBy = AcceptBy.INTERVAL
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
