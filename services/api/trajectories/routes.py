"""Trajectory routes, nested under the jobs that produce trajectories."""

from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query

from services.api.context import Gateway, GatewayContext
from services.api.files.service import add_file
from services.api.idempotency import Creation
from services.api.notes.service import count_trajectory_notes
from services.api.trajectories.listing import (
    Selection,
    Trajectories,
    get_trajectory,
    list_trajectories,
)
from services.api.trajectories.session import sequence_of, session_turns
from services.contracts.base import Page
from services.contracts.errors import (
    AuthenticationFailed,
    Conflict,
    InvalidRequest,
    NotFound,
    PayloadTooLarge,
    StorageFull,
    Unavailable,
)
from services.contracts.kinds import KINDS, JobKind, kind_of
from services.contracts.rewards.audits import MAX_BINS, RewardAudit, RewardHistogram
from services.contracts.rollouts.rollouts import TrajectorySummary
from services.contracts.rollouts.tokens import (
    MAX_TOKENS_PER_PAGE,
    MAX_TURNS_PER_PAGE,
    SessionTurns,
    TrajectoryTokens,
)
from services.contracts.rollouts.training_rows import CreateTrainingRows, TrainingRows
from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.training.fine_tuning import CreateFineTuningJob
from services.core.web.auth import Principal
from services.core.web.errors import documented_errors
from services.core.web.paging import MAX_NUMBER
from services.jobs.job import Job
from services.jobs.store import get_job

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Bins = Annotated[int, Query(ge=1, le=MAX_BINS, description="Number of bins of equal width.")]
Start = Annotated[int, Query(ge=0, le=MAX_NUMBER, description="Position of the first token.")]
Number = Annotated[
    int,
    Query(
        ge=0,
        le=MAX_NUMBER,
        description="Number of a sequence of an agent's session; 0: the trajectory's own.",
    ),
]
FirstTurn = Annotated[int, Query(ge=0, le=MAX_NUMBER, description="Number of the first turn.")]
TurnCount = Annotated[
    int, Query(ge=1, le=MAX_TURNS_PER_PAGE, description="Maximum number of turns.")
]
Count = Annotated[int, Query(ge=1, le=MAX_TOKENS_PER_PAGE, description="Maximum number of tokens.")]


def trajectory_routes(kind: str) -> APIRouter:
    """The routes of jobs of one kind."""
    described = kind_of(kind)
    router = APIRouter(
        prefix=described.path + "/{job_id}/trajectories",
        tags=[described.tag],
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
        """List the trajectories so far, sorted by end, reward, length or errors.

        A page continues after the trajectory ``after`` in the same order.
        """
        _job(gateway, job_id, kind)
        page = list_trajectories(gateway.artifacts.job(job_id), query)
        with gateway.database.read() as session:
            notes = count_trajectory_notes(session, job_id, [each.id for each in page.data])
        for each in page.data:
            each.notes = notes.get(each.id, 0)
        return page

    @router.get(
        "/rewards",
        name="reward_histogram",
        summary="Show the reward distribution of a job's trajectories",
        responses=documented_errors(InvalidRequest, NotFound),
    )
    def rewards(
        gateway: Gateway, _principal: Principal, job_id: str, where: Selection, bins: Bins = 20
    ) -> RewardHistogram:
        """Count the rewards so far, of all trajectories and of each of the latest steps."""
        from services.api.trajectories.rewards import reward_histogram  # noqa: PLC0415 - with numpy, which an idle gateway does without

        _job(gateway, job_id, kind)
        return reward_histogram(gateway.artifacts.job(job_id), where, bins)

    if kind == JobKind.FINE_TUNING:

        @router.get(
            "/audit",
            name="audit_rewards",
            summary="Audit the reward of a training",
            responses=documented_errors(InvalidRequest, NotFound, Unavailable),
        )
        def audit(gateway: Gateway, _principal: Principal, job_id: str) -> RewardAudit:
            """Compare the first with the last samples so far: signs of a reward that is gained
            without doing better."""
            from services.rollouts.audit.report import audit_folder, weights_of  # noqa: PLC0415 - with numpy, which an idle gateway does without

            request = CreateFineTuningJob.model_validate(_job(gateway, job_id, kind).request)
            method = request.method.online if request.method is not None else None
            if method is None:
                raise InvalidRequest("only trainings with samples and rewards can be audited")
            return audit_folder(gateway.artifacts.job(job_id), weights_of(method))

    @router.post(
        "/training_rows",
        name="create_training_rows",
        summary="Make a training file of a job's trajectories",
        responses=documented_errors(
            InvalidRequest, NotFound, Conflict, PayloadTooLarge, Unavailable, StorageFull
        ),
    )
    def training_rows(
        gateway: Gateway, creation: Creation, job_id: str, body: CreateTrainingRows
    ) -> TrainingRows:
        """Make a file of supervised, preference or reinforcement rows from the trajectories so far.

        Every row names its origin, and what gives no row is counted by reason.
        """
        from services.api.trajectories.row_file import written_rows  # noqa: PLC0415 - with numpy, which an idle gateway does without

        job = _job(gateway, job_id, kind)
        with written_rows(gateway, job, body) as written:
            if not written.rows:
                reasons = "; ".join(f"{each.reason} ({each.count})" for each in written.left_out)
                raise InvalidRequest(
                    f"no row can be made of {written.trajectories} trajectories"
                    + (f": {reasons}" if reasons else ""),
                    code="no_rows",
                )
            return creation.create(
                f"{described.path}/{job_id}/training_rows",
                body,
                TrainingRows,
                lambda session: TrainingRows(
                    file=add_file(session, gateway.artifacts, written.upload),
                    layout=body.layout,
                    rows=written.rows,
                    trajectories=written.trajectories,
                    has_more=written.has_more,
                    left_out=written.left_out,
                ),
            )

    @router.get(
        "/{trajectory_id}",
        name="get_trajectory",
        summary="Show one trajectory",
        responses=documented_errors(NotFound, Unavailable),
    )
    def get(gateway: Gateway, _principal: Principal, job_id: str, trajectory_id: str) -> Trajectory:
        """Show one trajectory: turns, calls, replies, tokens, masks and log-probabilities."""
        _job(gateway, job_id, kind)
        return get_trajectory(gateway.artifacts.job(job_id), trajectory_id)

    @router.get(
        "/{trajectory_id}/tokens",
        name="list_trajectory_tokens",
        summary="List a trajectory's tokens with their text",
        responses=documented_errors(InvalidRequest, NotFound, Unavailable),
    )
    def tokens(
        gateway: Gateway,
        _principal: Principal,
        job_id: str,
        trajectory_id: str,
        start: Start = 0,
        limit: Count = 1000,
        sequence: Number = 0,
    ) -> TrajectoryTokens:
        """List the tokens of prompt and response with their known values.

        Their text comes from the tokenizer of the job's model.
        """
        from services.api.trajectories.tokens import tokens_page  # noqa: PLC0415 - with numpy, which an idle gateway does without
        from services.rollouts.log.updates import find_update  # noqa: PLC0415 - with numpy, which an idle gateway does without

        job = _job(gateway, job_id, kind)
        folder = gateway.artifacts.job(job_id)
        trajectory = sequence_of(get_trajectory(folder, trajectory_id), sequence)
        tokenizer = _tokenizer(gateway, job)
        update = find_update(folder, trajectory_id) if sequence == 0 else None
        return tokens_page(trajectory, update, tokenizer, start, limit)

    @router.get(
        "/{trajectory_id}/turns",
        name="list_session_turns",
        summary="List the turns of an agent's session",
        responses=documented_errors(InvalidRequest, NotFound, Unavailable),
    )
    def turns(
        gateway: Gateway,
        _principal: Principal,
        job_id: str,
        trajectory_id: str,
        start: FirstTurn = 0,
        limit: TurnCount = 1000,
    ) -> SessionTurns:
        """List the turns of the agent's session that made the trajectory, as a tree.

        A trajectory of Temper's own loop has none.
        """
        job = _job(gateway, job_id, kind)
        trajectory = get_trajectory(gateway.artifacts.job(job_id), trajectory_id)
        tokenizer = _tokenizer(gateway, job)
        return session_turns(trajectory, tokenizer, start, limit)

    return router


def _tokenizer(gateway: GatewayContext, job: Job) -> "Tokenizer | str":
    """The tokenizer of a job's model, or the reason why there is none."""
    from services.api.trajectories.tokens import open_job_tokenizer  # noqa: PLC0415 - with numpy, which an idle gateway does without

    try:
        return open_job_tokenizer(gateway.database, job, gateway.settings)
    except (InvalidRequest, NotFound) as error:
        return error.message


def _job(gateway: GatewayContext, job_id: str, kind: str) -> Job:
    with gateway.database.read() as session:
        return get_job(session, job_id, kind)


ROUTERS = tuple(trajectory_routes(kind.name) for kind in KINDS.values() if kind.has_trajectories)
