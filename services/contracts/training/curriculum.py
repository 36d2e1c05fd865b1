"""Curricula of reinforcement learning: which prompts are drawn."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from services.contracts.base import Number, Request
from services.contracts.validation import AtField, given_of

BUCKETS = 5

Share = Annotated[Number, Field(ge=0.0, le=1.0)]
Weight = Annotated[Number, Field(ge=0.0, le=1000.0)]


class Curriculum(Request):
    """Draws prompts by how often their samples pass, that is, earn the highest reward."""

    prioritized: Share = Field(
        default=0.5,
        description="Fraction of draws among the prompts that were seen, by the weights of their "
        "pass rates. The other draws go through all prompts in turn.",
    )
    weights: Annotated[list[Weight], Field(min_length=BUCKETS, max_length=BUCKETS)] = Field(
        default=[0.09, 0.21, 0.25, 0.21, 0.09],
        description="Weights of a prompt with a pass rate below 0.2, 0.4, 0.6, 0.8 and 1; by "
        "default p (1 - p), the variance of its rewards.",
    )
    replay: Share = Field(
        default=0.1,
        description="Largest fraction of draws that repeat a prompt which passed for the first "
        "time after groups that failed as a whole. Each is repeated once; where none is left, the "
        "draw goes through all prompts in turn.",
    )

    @model_validator(mode="after")
    def _check_shares(self) -> Self:
        if self.prioritized + self.replay > 1.0:
            raise AtField(
                given_of(self, "prioritized", "replay"),
                "prioritized and replay are shares of one whole: less than 1 together",
            )
        if not any(self.weights):
            raise AtField("weights", "weights must not all be 0")
        return self
