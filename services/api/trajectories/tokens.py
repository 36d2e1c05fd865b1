"""The tokens of a trajectory with their texts, by the tokenizer of the job's model."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from services.api.settings import ApiSettings
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.tokens import TokenOrigin, TrajectoryToken, TrajectoryTokens
from services.contracts.rollouts.trajectories import Trajectory
from services.core.artifacts import Artifacts
from services.core.db.engine import Database
from services.jobs.job import Job
from services.models.registry import locate_model
from services.rollouts.chat.token_texts import open_tokenizer, token_texts
from services.rollouts.log.updates import COLUMNS, TrainedOn, Values

if TYPE_CHECKING:
    from tokenizers import Tokenizer


def open_job_tokenizer(database: Database, job: Job, settings: ApiSettings) -> "Tokenizer":
    """The tokenizer that encoded a job's conversations.

    Raises `NotFound` if its model was deleted, and `InvalidRequest` if it cannot be read here.
    """
    name = str(job.request.get("tokenizer") or job.request["model"])
    artifacts = Artifacts(settings.home)
    with database.read() as session:
        folder = locate_model(session, name, settings.models_folder, artifacts).tokenizer_folder
    if folder is None:
        raise InvalidRequest(f"the tokenizer of {name!r} is in a hub repository", param="model")
    return open_tokenizer(folder)


def tokens_page(
    trajectory: Trajectory,
    update: TrainedOn | None,
    tokenizer: "Tokenizer | str",
    start: int,
    limit: int,
) -> TrajectoryTokens:
    """Up to ``limit`` tokens from ``start`` on. ``update`` is the one that learned from them.

    ``tokenizer`` may be the reason why there is none; then tokens have no text.
    """
    ids = trajectory.prompt_token_ids + trajectory.response_token_ids
    end = min(start + limit, len(ids))
    texts: Sequence[str | None] = [None] * max(0, end - start)
    if not isinstance(tokenizer, str):
        texts = token_texts(tokenizer, ids, start, end)
    return TrajectoryTokens(
        trajectory_id=trajectory.id,
        total=len(ids),
        text_error=tokenizer if isinstance(tokenizer, str) else None,
        step=update.step if update is not None else None,
        data=list(_tokens(trajectory, update, ids, texts, start)),
        next_start=end if end < len(ids) else None,
    )


def _tokens(
    trajectory: Trajectory,
    update: TrainedOn | None,
    ids: Sequence[int],
    texts: Sequence[str | None],
    start: int,
) -> Iterator[TrajectoryToken]:
    prompt = len(trajectory.prompt_token_ids)
    learned = _learned(trajectory, update)
    for position, text in enumerate(texts, start):
        token = TrajectoryToken(
            position=position, id=ids[position], text=text, origin=TokenOrigin.PROMPT
        )
        index = position - prompt  # in the response
        if index >= 0 and trajectory.response_mask[index]:
            token.origin = TokenOrigin.SAMPLED
            version = trajectory.policy_versions[index]
            if version >= 0:  # otherwise a teacher or the data wrote it
                token.policy_version = version
                token.log_prob = trajectory.log_probs[index]
            if learned is not None:
                # NaN, where the update computed none, is null in the answer.
                token.learner_log_prob, token.entropy, token.advantage = learned[index].tolist()
        elif index >= 0:
            token.origin = TokenOrigin.INSERTED
        yield token


def _learned(trajectory: Trajectory, update: TrainedOn | None) -> Values | None:
    """The values of an update for all tokens of the response."""
    sampled = np.array(trajectory.response_mask, np.bool_)
    if update is None or update.values is None or len(update.values) != sampled.sum():
        return None
    everywhere = np.full((len(sampled), COLUMNS), np.nan, np.float32)
    everywhere[sampled] = update.values
    return everywhere
