"""Evaluation with tools: every sample is a conversation, run by the rollout loop."""

from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.evaluation.results import ToolUse
from services.contracts.rollouts.trajectories import FinishReason, Trajectory
from services.evaluator.evaluation.endpoint import Answer, Unanswered
from services.evaluator.evaluation.samples import EvaluationSample
from services.evaluator.failures import RequestFailure
from services.rewards.interface import without_turn_end
from services.rollouts.log.log import IndexedLog, open_listing, read_places
from services.rollouts.loop import Rollouts
from services.rollouts.outages import ToolMonitor
from services.rollouts.prompts import Prompt, plain_message

_STATUS = {
    FinishReason.PROMPT_REFUSED: HTTPStatus.BAD_REQUEST,
    FinishReason.INTERNAL_ERROR: HTTPStatus.INTERNAL_SERVER_ERROR,
}
"""Failures before the model was sampled, reported like failures of an endpoint."""


class ConversationStore:
    """The conversations of an evaluation, stored in the job's folder under separate file names."""

    def __init__(self, log: IndexedLog, job_dir: Path, monitor: ToolMonitor) -> None:
        self._log = log
        self._job_dir = job_dir
        self._earlier = open_listing(job_dir)
        self._monitor = monitor

    def stored(self, name: str) -> Trajectory | None:
        """The conversation of an earlier attempt, if it ended."""
        place = self._earlier.place_of(name)
        if place is None:
            return None
        (trajectory,) = read_places(self._job_dir, [place])
        is_wanted = trajectory.id == name and not trajectory.finish_reason.is_failure
        return trajectory if is_wanted else None

    def keep(self, played: Trajectory) -> Trajectory:
        """The stored conversation."""
        trajectory = self._log.keep(played)
        self._monitor.observe(trajectory)
        return trajectory

    async def sync_forever(self) -> None:
        """Sync stored conversations periodically, until cancelled."""
        await self._log.sync_forever()


class ToolConversations:
    """Answers the samples of a benchmark in conversations with tools.

    Each conversation is stored before its answer is graded, so that it is not repeated after a
    kill. Its seeds come from the row of its own benchmark, and do not depend on the other
    benchmarks of the job.
    """

    def __init__(self, rollouts: Rollouts, store: ConversationStore, seed: int | None) -> None:
        self._rollouts = rollouts
        self._store = store
        self._seed = seed

    async def ask(
        self, messages: Sequence[JsonObject], sample: EvaluationSample
    ) -> Answer | Unanswered:
        """The last turn of the sample's conversation."""
        name = f"traj-{sample.prompt_index}-{sample.sample}"
        trajectory = self._store.stored(name)
        if trajectory is None:
            prompt = tuple(map(plain_message, messages))
            played = await self._rollouts.play(
                Prompt(sample.prompt_index, prompt, sample.gold, sample.extra),
                sample_index=sample.sample,
                seed=self._seed,
                seed_index=sample.index,
                trajectory_id=name,
            )
            trajectory = self._store.keep(played)
        return outcome_of(trajectory)


def outcome_of(trajectory: Trajectory) -> Answer | Unanswered:
    """The result of a conversation."""
    tools = ToolUse(
        trajectory=trajectory.id,
        turns=len(trajectory.turns),
        calls=trajectory.tool_calls,
        failed_calls=trajectory.failed_calls,
        malformed_calls=sum(len(turn.malformed) for turn in trajectory.turns),
    )
    ending = trajectory.finish_reason
    if ending.is_failure:
        status = trajectory.status_code or _STATUS.get(ending)
        failure = RequestFailure(status, trajectory.error or ending.value)
        return Unanswered(failure, attempts=1, tools=tools, left_out=trajectory.left_out)
    return Answer(
        text=final_answer(trajectory),
        finish_reason=ending.value,
        prompt_tokens=trajectory.prompt_tokens,
        completion_tokens=trajectory.sampled_tokens,
        attempts=1,
        latency_seconds=trajectory.seconds,
        tools=tools,
        environments=tuple(trajectory.environments),
    )


def final_answer(trajectory: Trajectory) -> str:
    """The model's last turn; empty if it called a tool: arguments are not an answer."""
    last = trajectory.turns[-1] if trajectory.turns else None
    return "" if last is None or last.calls else without_turn_end(last.text)
