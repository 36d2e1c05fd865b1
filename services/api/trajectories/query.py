"""The parameters that ask for trajectories, the same for every kind of job that has some."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import Depends, Query

from services.contracts.base import DEFAULT_LIMIT
from services.contracts.rollouts import TrajectoryOrder
from services.contracts.trajectories import FinishReason
from services.core.web.paging import After, Limit
from services.rollouts.log.index import TrajectoryFilter

Direction = Literal["asc", "desc"]
Reward = Annotated[float | None, Query(allow_inf_nan=False, description="Inclusive.")]
Length = Annotated[int | None, Query(ge=0, description="Tokens of the response; inclusive.")]


@dataclass(frozen=True)
class TrajectoryQuery:
    """A page of trajectories: which, in what order, and where it begins."""

    where: TrajectoryFilter
    sort: TrajectoryOrder
    descending: bool
    after: str | None
    limit: int


async def _trajectory_query(
    sort: Annotated[
        TrajectoryOrder, Query(description="What trajectories are listed by.")
    ] = TrajectoryOrder.FINISHED,
    order: Annotated[Direction, Query(description="desc: the largest or latest first.")] = "desc",
    min_reward: Reward = None,
    max_reward: Reward = None,
    min_length: Length = None,
    max_length: Length = None,
    errors: Annotated[
        bool | None, Query(description="Only those with, or without, errors.")
    ] = None,
    finish_reason: FinishReason | None = None,
    prompt: Annotated[int | None, Query(ge=0, description="Row of the prompts, from 0.")] = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> TrajectoryQuery:
    where = TrajectoryFilter(
        min_reward=min_reward,
        max_reward=max_reward,
        min_length=min_length,
        max_length=max_length,
        has_errors=errors,
        finish_reason=finish_reason,
        prompt_index=prompt,
    )
    return TrajectoryQuery(where, sort, order == "desc", after, limit)


Trajectories = Annotated[TrajectoryQuery, Depends(_trajectory_query)]
