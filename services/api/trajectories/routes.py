"""The routes of trajectories, for kinds of jobs that play them."""

from fastapi import APIRouter

from services.api.context import Gateway, GatewayContext
from services.api.trajectories.query import Trajectories
from services.api.trajectories.service import get_trajectory, list_trajectories
from services.contracts.base import Page
from services.contracts.errors import AuthenticationFailed, InvalidRequest, NotFound, Unavailable
from services.contracts.jobs import JobKind
from services.contracts.rollouts import TrajectorySummary
from services.contracts.trajectories import Trajectory
from services.core.jobs.store import get_job
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors


def trajectory_routes(prefix: str, tag: str, kind: JobKind) -> APIRouter:
    """The two routes below those of jobs of one kind."""
    router = APIRouter(
        prefix=prefix + "/{job_id}/trajectories",
        tags=[tag],
        responses=documented_errors(AuthenticationFailed),
    )

    @router.get(
        "",
        summary="List a job's trajectories",
        responses=documented_errors(InvalidRequest, NotFound, Unavailable),
    )
    def list_all(
        gateway: Gateway, _principal: Principal, job_id: str, query: Trajectories
    ) -> Page[TrajectorySummary]:
        """List the trajectories so far, by their end, their reward, their length or their errors.

        A page goes on behind the trajectory ``after``, asked for with the same order.
        """
        _check_job(gateway, job_id, kind)
        return list_trajectories(gateway.artifacts.job(job_id), query)

    @router.get(
        "/{trajectory_id}",
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
)
