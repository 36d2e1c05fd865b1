"""A teacher: its samples, and how probable it finds tokens."""

from collections.abc import Sequence

from services.contracts.trajectories import Trajectory
from services.inference.token_engine import CompletionsTokenEngine
from services.trainer.rl.draws import Draw
from services.trainer.rl.sequences import TopK
from services.trainer.rl.sources.source import Source


class TeacherSource:
    """Plays rollouts with a teacher's engine; their log-probabilities are not the policy's."""

    def __init__(self, rollouts: Source) -> None:
        self._rollouts = rollouts

    async def sample(self, draw: Draw, index: int) -> Trajectory:
        """One rollout of the teacher; no policy version is named for its tokens."""
        trajectory = await self._rollouts.sample(draw, index)
        length = len(trajectory.response_token_ids)
        return trajectory.model_copy(
            update={"log_probs": [0.0] * length, "policy_versions": [-1] * length}
        )


class RemoteTopTokens:
    """The ``top_k`` most probable tokens of a server elsewhere."""

    def __init__(self, engine: CompletionsTokenEngine, top_k: int) -> None:
        self._engine = engine
        self._top_k = top_k

    async def top(self, token_ids: Sequence[int]) -> TopK:
        """Ask for a whole sequence; raises `EngineFailed`."""
        given = await self._engine.prompt_log_probs(token_ids, self._top_k)
        return TopK(given.top_ids, given.top_log_probs)
