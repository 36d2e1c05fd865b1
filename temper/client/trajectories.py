"""Trajectories: turns, tool calls and rewards of a job's rollouts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from services.contracts.base import Page
from services.contracts.kinds import JobKind, kind_of
from temper.client import pages
from temper.client.transport import Transport

if TYPE_CHECKING:
    from services.contracts.rewards.audits import RewardAudit
    from services.contracts.rollouts.rollouts import TrajectoryOrder, TrajectorySummary
    from services.contracts.rollouts.tokens import SessionTurn, TrajectoryToken
    from services.contracts.rollouts.training_rows import CreateTrainingRows, TrainingRows
    from services.contracts.rollouts.trajectories import FinishReason, Trajectory


@dataclass(frozen=True)
class TrajectoryFilter:
    """Filters; None matches all. Bounds are inclusive, lengths in tokens."""

    min_reward: float | None = None
    max_reward: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    errors: bool | None = None
    finish_reason: FinishReason | None = None
    prompt: int | None = None
    step: int | None = None
    text: str | None = None

    def query(self) -> dict[str, str]:
        """Return the query parameters."""
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in vars(self).items()
            if value is not None
        }


EVERY = TrajectoryFilter()


class Trajectories:
    """The trajectories of rollouts, online training and evaluations with tools; ``kind`` is the
    job's kind."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    def page(
        self,
        job_id: str,
        kind: str = JobKind.ROLLOUT,
        *,
        sort: TrajectoryOrder | None = None,
        ascending: bool = False,
        where: TrajectoryFilter = EVERY,
        most: int = 20,
    ) -> Page[TrajectorySummary]:
        """Return up to ``most`` trajectories in this order; by default as they finished."""
        from services.contracts.rollouts.rollouts import TrajectoryOrder, TrajectorySummary

        order = "asc" if ascending else "desc"
        by = sort or TrajectoryOrder.FINISHED
        query = {"sort": by.value, "order": order, **where.query()}
        return pages.page(
            self._transport, _path(kind, job_id), Page[TrajectorySummary], query, most
        )

    def audit(self, job_id: str) -> RewardAudit:
        """Return the reward audit of an online training."""
        from services.contracts.rewards.audits import RewardAudit

        return self._transport.get(f"{_path(JobKind.FINE_TUNING, job_id)}/audit", RewardAudit)

    def get(self, job_id: str, trajectory_id: str, kind: str = JobKind.ROLLOUT) -> Trajectory:
        """Return a trajectory with its tokens."""
        from services.contracts.rollouts.trajectories import Trajectory

        return self._transport.get(_one(kind, job_id, trajectory_id), Trajectory)

    def training_rows(
        self, job_id: str, request: CreateTrainingRows, kind: str = JobKind.ROLLOUT
    ) -> TrainingRows:
        """Make a training file of a job's trajectories, on the gateway."""
        from services.contracts.rollouts.training_rows import TrainingRows

        return self._transport.post(f"{_path(kind, job_id)}/training_rows", TrainingRows, request)

    def turns(
        self, job_id: str, trajectory_id: str, kind: str = JobKind.ROLLOUT
    ) -> Iterator[SessionTurn]:
        """Yield the turns of the agent's session that made a trajectory, as a tree."""
        from services.contracts.rollouts.tokens import SessionTurns

        path = f"{_one(kind, job_id, trajectory_id)}/turns"
        start: int | None = 0
        while start is not None:
            page = self._transport.get(path, SessionTurns, {"start": start})
            yield from page.data
            start = page.next_start

    def tokens(
        self, job_id: str, trajectory_id: str, kind: str = JobKind.ROLLOUT, *, sequence: int = 0
    ) -> Iterator[TrajectoryToken]:
        """Yield the tokens of a trajectory, or of one sequence of its session, with their texts."""
        from services.contracts.rollouts.tokens import MAX_TOKENS_PER_PAGE, TrajectoryTokens

        path = f"{_one(kind, job_id, trajectory_id)}/tokens"
        start: int | None = 0
        while start is not None:
            query = {"start": start, "limit": MAX_TOKENS_PER_PAGE, "sequence": sequence}
            page = self._transport.get(path, TrajectoryTokens, query)
            yield from page.data
            start = page.next_start


def _path(kind: str, job_id: str) -> str:
    return f"{kind_of(kind).path}/{quote(job_id, safe='')}/trajectories"


def _one(kind: str, job_id: str, trajectory_id: str) -> str:
    return f"{_path(kind, job_id)}/{quote(trajectory_id, safe='')}"
