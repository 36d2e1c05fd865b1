"""Trajectories, read from the folder of their job."""

from collections.abc import Iterator
from pathlib import Path

from services.api.trajectories.query import TrajectoryQuery
from services.api.trajectories.view import summary_view
from services.contracts.base import Page
from services.contracts.errors import InvalidRequest, NotFound, Unavailable
from services.contracts.rollouts import TrajectorySummary
from services.contracts.trajectories import Trajectory
from services.core.web.paging import page_of
from services.datasets.append_log import Span, UnreadableRecord
from services.rollouts.log.log import open_listing, read_places


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
        message = f"{str(query.after)[:80]!r} is no trajectory of this job"
        raise InvalidRequest(message, param="after") from None
    return page_of([summary_view(each) for each in _read(job_dir, places)], has_more)


def get_trajectory(job_dir: Path, trajectory_id: str) -> Trajectory:
    """One trajectory, whole; raises `NotFound`."""
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


def _read(job_dir: Path, places: list[Span]) -> Iterator[Trajectory]:
    """One after the other: a single one can take megabytes."""
    try:
        yield from read_places(job_dir, places)
    except (FileNotFoundError, UnreadableRecord) as error:
        # A training that resumes cuts off what its checkpoint does not know.
        raise Unavailable("the trajectories are being written anew; ask again") from error
