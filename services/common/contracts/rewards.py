"""What a trajectory is rewarded for."""

from typing import Annotated, Literal

from pydantic import Field

from services.common.contracts.base import Number, Request


class SearchEmReward(Request):
    """Exact match after SQuAD normalisation of the last <answer>, or else the last box."""

    type: Literal["search_em"] = "search_em"
    format_score: Number = Field(
        default=0.0, description="Given for an answer in its form that is not right."
    )


class RetoolReward(Request):
    """ReTool's: whether the last box of the model's own text is right."""

    type: Literal["retool"] = "retool"


Reward = Annotated[SearchEmReward | RetoolReward, Field(discriminator="type")]


class WeightedReward(Request):
    """One component: its share of the reward is ``weight`` times its score."""

    name: str = Field(min_length=1, max_length=64, pattern=r"^[\w.-]+$")
    weight: Number = 1.0
    reward: Reward
