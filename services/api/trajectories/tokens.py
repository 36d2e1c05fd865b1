"""The tokens of a trajectory with their texts, by the tokenizer of the job's model."""

from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.trajectories import Trajectory
from services.contracts.trajectory_tokens import TokenOrigin, TrajectoryToken, TrajectoryTokens
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.core.jobs.job import Job
from services.core.registry import locate_model
from services.rollouts.chat.token_texts import open_tokenizer, token_texts


def open_job_tokenizer(database: Database, job: Job, settings: ApiSettings) -> Tokenizer:
    """The tokenizer that a job's conversations were encoded by.

    Raises `NotFound` if its model was deleted, and `InvalidRequest` if it cannot be read here.
    """
    name = str(job.request.get("tokenizer") or job.request["model"])
    artifacts = Artifacts(settings.home)
    with database.read() as session:
        # It is stored with the weights, for an adapter with those of its base.
        weights = locate_model(session, name, settings.models_folder, artifacts).weights
    if weights.path is None:
        raise InvalidRequest(f"the tokenizer of {name!r} is in a hub repository", param="model")
    return open_tokenizer(weights.path)


def tokens_page(
    trajectory: Trajectory, tokenizer: Tokenizer | str, start: int, limit: int
) -> TrajectoryTokens:
    """Up to ``limit`` tokens from ``start`` on; without text if, in place of the tokenizer, there
    is a reason why it is missing."""
    ids = trajectory.prompt_token_ids + trajectory.response_token_ids
    end = min(start + limit, len(ids))
    texts: Sequence[str | None] = [None] * max(0, end - start)
    if isinstance(tokenizer, Tokenizer):
        texts = token_texts(tokenizer, ids, start, end)
    return TrajectoryTokens(
        trajectory_id=trajectory.id,
        total=len(ids),
        text_error=tokenizer if isinstance(tokenizer, str) else None,
        data=list(_tokens(trajectory, ids, texts, start)),
        next_start=end if end < len(ids) else None,
    )


def _tokens(
    trajectory: Trajectory, ids: Sequence[int], texts: Sequence[str | None], start: int
) -> Iterator[TrajectoryToken]:
    prompt = len(trajectory.prompt_token_ids)
    for position, text in enumerate(texts, start):
        place = position - prompt  # in the response
        token = TrajectoryToken(
            position=position, id=ids[position], text=text, origin=TokenOrigin.PROMPT
        )
        if place >= 0:
            token.origin = TokenOrigin.INSERTED
        if place >= 0 and trajectory.response_mask[place]:
            token.origin = TokenOrigin.SAMPLED
            token.log_prob = trajectory.log_probs[place]
            token.policy_version = trajectory.policy_versions[place]
        yield token
