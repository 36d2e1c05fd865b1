"""How trajectories look in a list."""

from services.contracts.rollouts import TrajectorySummary
from services.contracts.trajectories import Trajectory
from services.datasets.messages import text_of
from services.rollouts.log.index import errors_of

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
        prompt_tokens=len(trajectory.prompt_token_ids),
        response_tokens=len(trajectory.response_token_ids),
        sampled_tokens=trajectory.sampled_tokens,
        question=text_of(messages[-1])[:SHOWN_CHARACTERS] if messages else "",
        answer=turns[-1].text[-SHOWN_CHARACTERS:] if turns else "",
        created_at=trajectory.created_at,
        seconds=trajectory.seconds,
        model_seconds=trajectory.model_seconds,
        tool_seconds=trajectory.tool_seconds,
    )
