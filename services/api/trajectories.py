"""The routes of trajectories, for the kinds of jobs that produce them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query

from services.api.context import Gateway, GatewayContext
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound, Unavailable
from services.contracts.jobs import JobKind
from services.contracts.rollouts import TrajectoryOrder, TrajectorySummary
from services.contracts.trajectories import FinishReason, Trajectory
from services.core.jobs.store import get_job
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import After, Limit, page_of
from services.datasets.append_log import LineSpan, UnreadableRecord
from services.datasets.messages import text_of
from services.rollouts.log.index import TrajectoryFilter, errors_of
from services.rollouts.log.log import open_listing, read_places

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


def trajectory_routes(prefix: str, tag: str, kind: JobKind) -> APIRouter:
    """The two routes below those of jobs of one kind."""
    router = APIRouter(
        prefix=prefix + "/{job_id}/trajectories",
        tags=[tag],
        responses=documented_errors(AuthenticationFailed),
    )

    @router.get(
        "",
        name="list_trajectories",
        summary="List a job's trajectories",
        responses=documented_errors(InvalidRequest, NotFound, Unavailable),
    )
    def list_all(
        gateway: Gateway, _principal: Principal, job_id: str, query: Trajectories
    ) -> Page[TrajectorySummary]:
        """List the trajectories so far, by their end, their reward, their length or their errors.

        A page continues after the trajectory ``after`` in the same order.
        """
        _check_job(gateway, job_id, kind)
        return list_trajectories(gateway.artifacts.job(job_id), query)

    @router.get(
        "/{trajectory_id}",
        name="get_trajectory",
        summary="Show one trajectory",
        responses=documented_errors(NotFound, Unavailable),
    )
    def get(gateway: Gateway, _principal: Principal, job_id: str, trajectory_id: str) -> Trajectory:
        """Show one trajectory: turns, calls, replies, tokens, masks and log-probabilities."""
        _check_job(gateway, job_id, kind)
        return get_trajectory(gateway.artifacts.job(job_id), trajectory_id)

    return router


def _check_job(gateway: GatewayContext, job_id: str, kind: JobKind) -> None:
    with gateway.database.read() as session:
        get_job(session, job_id, kind)


ROUTERS = (
    trajectory_routes("/v1/rollouts", "rollouts", JobKind.ROLLOUT),
    trajectory_routes("/v1/fine_tuning/jobs", "fine-tuning", JobKind.FINE_TUNING),
    trajectory_routes("/v1/evaluations", "evaluations", JobKind.EVALUATION),
)


def list_trajectories(job_dir: Path, query: TrajectoryQuery) -> Page[TrajectorySummary]:
    """A page of the trajectories so far; raises `InvalidRequest` for an unknown ``after``."""
    try:
        places, has_more = open_listing(job_dir).page(
            query.where,
            query.sort,
            descending=query.descending,
            after=query.after,
            limit=query.limit,
        )
    except LookupError:
        message = f"{str(query.after)[:80]!r} is not a trajectory of this job"
        raise InvalidRequest(message, param="after") from None
    return page_of([summary_view(each) for each in _read(job_dir, places)], has_more)


def get_trajectory(job_dir: Path, trajectory_id: str) -> Trajectory:
    """One complete trajectory; raises `NotFound`."""
    place = open_listing(job_dir).place_of(trajectory_id)
    if place is not None:
        (trajectory,) = _read(job_dir, [place])
        if trajectory.id == trajectory_id:
            return trajectory
    raise NotFound(
        f"no trajectory {trajectory_id[:80]!r} of this job",
        param="trajectory_id",
        code="trajectory_not_found",
    )


def _read(job_dir: Path, places: list[LineSpan]) -> Iterator[Trajectory]:
    """Lazily: a single trajectory can take megabytes."""
    try:
        yield from read_places(job_dir, places)
    except (FileNotFoundError, UnreadableRecord) as error:
        # A resuming training truncates the log to its checkpoint.
        raise Unavailable("the trajectories are being rewritten; try again") from error


SHOWN_CHARACTERS = 300


def summary_view(trajectory: Trajectory) -> TrajectorySummary:
    """A trajectory without its tokens and its turns."""
    messages, turns = trajectory.messages, trajectory.turns
    return TrajectorySummary(
        id=trajectory.id,
        prompt_index=trajectory.prompt_index,
        sample_index=trajectory.sample_index,
        reward=trajectory.reward,
        reward_components=trajectory.reward_components,
        reward_error=trajectory.reward_error,
        finish_reason=trajectory.finish_reason,
        error=trajectory.error,
        errors=errors_of(trajectory),
        turns=len(turns),
        tool_calls=trajectory.tool_calls,
        failed_calls=trajectory.failed_calls,
        prompt_tokens=trajectory.prompt_tokens,
        response_tokens=trajectory.response_tokens,
        sampled_tokens=trajectory.sampled_tokens,
        question=text_of(messages[-1])[:SHOWN_CHARACTERS] if messages else "",
        answer=turns[-1].text[-SHOWN_CHARACTERS:] if turns else "",
        created_at=trajectory.created_at,
        seconds=trajectory.seconds,
        model_seconds=trajectory.model_seconds,
        tool_seconds=trajectory.tool_seconds,
    )
