"""A job's trajectories, listed and read from the job's folder."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Depends, Query

from services.api.trajectories.search import MAX_BYTES, MAX_SCANNED, contains
from services.contracts.base import DEFAULT_LIMIT, Page
from services.contracts.errors import InvalidRequest, NotFound, Unavailable
from services.contracts.rollouts.rollouts import TrajectoryOrder, TrajectorySummary
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.core.web.paging import MAX_NUMBER, After, Limit, page_of
from services.datasets.append_log import LineSpan, UnreadableRecord
from services.datasets.messages import text_of
from services.rollouts.log.filter import TrajectoryFilter

if TYPE_CHECKING:
    from services.rollouts.log.listing import Listing

Direction = Literal["asc", "desc"]
Lowest = Annotated[
    float | None, Query(allow_inf_nan=False, description="Lowest reward, inclusive.")
]
Highest = Annotated[
    float | None, Query(allow_inf_nan=False, description="Highest reward, inclusive.")
]
Shortest = Annotated[
    int | None, Query(ge=0, le=MAX_NUMBER, description="Fewest tokens of a response, inclusive.")
]
Longest = Annotated[
    int | None, Query(ge=0, le=MAX_NUMBER, description="Most tokens of a response, inclusive.")
]

MAX_STEP = 2**31 - 1


@dataclass(frozen=True)
class TrajectorySelection:
    """Selects trajectories of a job; ``step`` selects those of one training step."""

    where: TrajectoryFilter
    step: int | None

    def within(self, listing: "Listing", job_dir: Path) -> TrajectoryFilter:
        """The filter for the listing of a job."""
        if self.step is None:
            return self.where
        return replace(self.where, mask=listing.steps(job_dir) == self.step)


@dataclass(frozen=True)
class TrajectoryQuery:
    """A page of trajectories: filter, order and cursor."""

    where: TrajectorySelection
    text: str | None
    sort: TrajectoryOrder
    descending: bool
    after: str | None
    limit: int


async def _selection(
    min_reward: Lowest = None,
    max_reward: Highest = None,
    min_length: Shortest = None,
    max_length: Longest = None,
    errors: Annotated[
        bool | None, Query(description="Only trajectories with, or without, errors.")
    ] = None,
    finish_reason: FinishReason | None = None,
    prompt: Annotated[
        int | None, Query(ge=0, le=MAX_NUMBER, description="Row of the prompts, from 0.")
    ] = None,
    step: Annotated[
        int | None,
        Query(ge=1, le=MAX_STEP, description="Training step that learned from the trajectories."),
    ] = None,
) -> TrajectorySelection:
    where = TrajectoryFilter(
        min_reward=min_reward,
        max_reward=max_reward,
        min_length=min_length,
        max_length=max_length,
        has_errors=errors,
        finish_reason=finish_reason,
        prompt_index=prompt,
    )
    return TrajectorySelection(where, step)


Selection = Annotated[TrajectorySelection, Depends(_selection)]


async def _trajectory_query(
    where: Selection,
    sort: Annotated[TrajectoryOrder, Query(description="Sort key.")] = TrajectoryOrder.FINISHED,
    order: Annotated[Direction, Query(description="desc: the largest or latest first.")] = "desc",
    text: Annotated[
        str | None,
        Query(
            min_length=1,
            max_length=200,
            description="Only trajectories that contain this text. A page may have few, or none, "
            "while more follow after its last_id.",
        ),
    ] = None,
    after: After = None,
    limit: Limit = DEFAULT_LIMIT,
) -> TrajectoryQuery:
    return TrajectoryQuery(where, text, sort, order == "desc", after, limit)


Trajectories = Annotated[TrajectoryQuery, Depends(_trajectory_query)]


def list_trajectories(job_dir: Path, query: TrajectoryQuery) -> Page[TrajectorySummary]:
    """A page of the trajectories so far; raises `InvalidRequest` for an unknown ``after``."""
    from services.rollouts.log.listings import open_kept  # noqa: PLC0415 - with numpy, which an idle gateway does without

    listing = open_kept(job_dir)
    try:
        spans, has_more = listing.page(
            query.where.within(listing, job_dir),
            query.sort,
            descending=query.descending,
            after=query.after,
            limit=query.limit if query.text is None else MAX_SCANNED,
        )
    except LookupError:
        message = f"{str(query.after)[:80]!r} is not a trajectory of this job"
        raise InvalidRequest(message, param="after") from None
    if query.text is None:
        page = page_of([summary_view(each) for each in _read(job_dir, spans)], has_more)
    else:
        page = _search(job_dir, spans, has_more, query.text, query.limit)
    _add_updates(job_dir, page.data)
    return page


def _add_updates(job_dir: Path, listed: list[TrajectorySummary]) -> None:
    """Add training step and advantage to the trajectories of a page."""
    from services.rollouts.log.updates import find_updates  # noqa: PLC0415 - with numpy, which an idle gateway does without

    updates = find_updates(job_dir, [each.id for each in listed])
    for each, update in zip(listed, updates, strict=True):
        if update is not None:
            each.step, each.advantage = update.step, update.advantage


def _search(
    job_dir: Path, spans: list[LineSpan], has_more: bool, text: str, limit: int
) -> Page[TrajectorySummary]:
    """Up to ``limit`` trajectories that contain a text. ``last_id`` is the last one read, whether
    or not it does."""
    found: list[TrajectorySummary] = []
    last_id, read = None, 0
    for number, trajectory in enumerate(_read(job_dir, spans), 1):
        last_id, read = trajectory.id, read + spans[number - 1].length
        if contains(trajectory, text):
            found.append(summary_view(trajectory))
        if len(found) == limit or read >= MAX_BYTES:
            has_more = has_more or number < len(spans)
            break
    return page_of(found, has_more).model_copy(update={"last_id": last_id})


def get_trajectory(job_dir: Path, trajectory_id: str) -> Trajectory:
    """One complete trajectory; raises `NotFound`."""
    from services.rollouts.log.listings import open_kept  # noqa: PLC0415 - with numpy, which an idle gateway does without

    span = open_kept(job_dir).place_of(trajectory_id)
    if span is not None:
        (trajectory,) = _read(job_dir, [span])
        if trajectory.id == trajectory_id:
            return trajectory
    raise NotFound(
        f"no trajectory {trajectory_id[:80]!r} of this job",
        param="trajectory_id",
        code="trajectory_not_found",
    )


def _read(job_dir: Path, spans: list[LineSpan]) -> Iterator[Trajectory]:
    """Lazily: a single trajectory can take megabytes."""
    from services.rollouts.log.log import read_places  # noqa: PLC0415 - with numpy, which an idle gateway does without

    try:
        yield from read_places(job_dir, spans)
    except (FileNotFoundError, UnreadableRecord) as error:
        # A resuming training truncates the log to its checkpoint.
        raise Unavailable("the trajectories are being rewritten; try again") from error


SHOWN_CHARACTERS = 300


def summary_view(trajectory: Trajectory) -> TrajectorySummary:
    """A trajectory without its tokens and its turns."""
    from services.rollouts.log.index import errors_of  # noqa: PLC0415 - with numpy, which an idle gateway does without

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
        has_estimates=trajectory.has_estimates,
        question=text_of(messages[-1])[:SHOWN_CHARACTERS] if messages else "",
        answer=turns[-1].text[-SHOWN_CHARACTERS:] if turns else "",
        created_at=trajectory.created_at,
        seconds=trajectory.seconds,
        model_seconds=trajectory.model_seconds,
        tool_seconds=trajectory.tool_seconds,
    )
