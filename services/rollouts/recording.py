"""The record of a rollout in progress: its turns and all its tokens."""

import asyncio
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from services.contracts.base import JsonObject
from services.contracts.failures import LeftOut
from services.contracts.rollouts.agent_sessions import EnvironmentRecord
from services.contracts.rollouts.trajectories import FinishReason, ToolCallRecord, Trajectory, Turn
from services.inference.seeds import derived_seed
from services.inference.token_engine.base import EngineFailed, SampledTokens
from services.rollouts.prompts import Prompt
from services.rollouts.tools.base import Episode, EpisodeStart

NOT_SAMPLED = -1
"""The policy version of an inserted token."""


@dataclass(frozen=True)
class RolloutEnd:
    """Why a rollout ended; ``error`` has details of a failure, ``status`` the engine's HTTP
    status; ``left_out`` is set where the infrastructure failed it."""

    reason: FinishReason
    error: str | None = None
    status: int | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True)
class CallRun:
    """An executed call; ``shown`` is the tool turn that the model will read."""

    record: ToolCallRecord
    shown: str


@dataclass
class ResponseTokens:
    """The tokens after the prompt, as four lists of equal length."""

    ids: list[int] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    log_probs: list[float] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ids)

    def append_sampled(self, turn: SampledTokens) -> None:
        """Append a sampled turn; raises EngineFailed for tokens that training cannot use."""
        count = len(turn.token_ids)
        if not len(turn.log_probs) == len(turn.policy_versions) == count:
            raise EngineFailed(
                f"the engine gave {count} tokens with {len(turn.log_probs)} log-probabilities"
                f" and {len(turn.policy_versions)} policy versions"
            )
        if not all(map(math.isfinite, turn.log_probs)):
            raise EngineFailed("the engine gave a log-probability that is not finite")
        self.ids += turn.token_ids
        self.mask += [1] * count
        self.log_probs += turn.log_probs
        self.versions += turn.policy_versions

    def append_inserted(self, token_ids: Sequence[int]) -> None:
        """Append the tokens between two turns of the model."""
        count = len(token_ids)
        self.ids += token_ids
        self.mask += [0] * count
        self.log_probs += [0.0] * count
        self.versions += [NOT_SAMPLED] * count


class Recording:
    """One rollout in progress, timed by the event loop's clock.

    ``budget`` is the response's limit in tokens; ``tools`` are the schemas shown to the model.
    ``prompt`` is what the model reads first.
    """

    def __init__(
        self,
        trajectory_id: str,
        prompt: Prompt,
        tools: Sequence[JsonObject],
        sample_index: int,
        seed: int | None,
        seed_index: int | None = None,
    ) -> None:
        self.trajectory_id = trajectory_id
        self.prompt_token_ids: list[int] = []
        self.tokens = ResponseTokens()
        self.turns: list[Turn] = []
        self.budget = 0
        self._unlisted = 0
        self.prompt = prompt
        self._episode: Episode | None = None
        self.tools = tools
        self._sample_index = sample_index
        self._seed = seed
        self._seed_index = prompt.index if seed_index is None else seed_index
        self._created_at = time.time()
        self._begun = asyncio.get_running_loop().time()
        self._tool_seconds = 0.0

    def clock(self) -> float:
        """Seconds since the rollout began."""
        return asyncio.get_running_loop().time() - self._begun

    @property
    def tokens_left(self) -> int:
        """Tokens left in the response's budget."""
        return self.budget - len(self.tokens) - self._unlisted

    def turn_seed(self) -> int | None:
        """The next turn's seed, distinct for every prompt, sample and turn."""
        if self._seed is None:
            return None
        return derived_seed(self._seed, self._seed_index, self._sample_index, len(self.turns))

    def episode_start(self) -> EpisodeStart:
        """What environments learn of the rollout; all samples of a prompt begin alike."""
        seed = derived_seed(str(self._seed), self._seed_index, "environment") >> 1
        return EpisodeStart(self.prompt.extra, seed)

    def enter(self, episode: Episode) -> None:
        """Record what the environments of an episode say; what one shows first becomes the end of
        the prompt's last message, or a message of its own after one of the assistant."""
        self._episode = episode
        if episode.opening is None:
            return
        *before, last = self.prompt.messages
        if last.get("role") == "user" and isinstance(last.get("content"), str):
            shown = [*before, {**last, "content": f"{last['content']}\n\n{episode.opening}"}]
        else:
            shown = [*before, last, {"role": "user", "content": episode.opening}]
        self.prompt = replace(self.prompt, messages=tuple(shown))

    def add_turn(self, text: str, sampled: SampledTokens, started: float) -> Turn:
        """Record a turn that the model began at ``started``."""
        place = len(self.tokens)
        self.tokens.append_sampled(sampled)
        turn = Turn(
            text=text,
            token_start=place,
            token_count=len(sampled.token_ids),
            finish_reason=sampled.finish_reason,
            started=started,
            seconds=self.clock() - started,
        )
        self.turns.append(turn)
        return turn

    def add_message(
        self,
        text: str,
        token_count: int,
        finish_reason: str,
        started: float,
        *,
        prompt_tokens: int | None,
    ) -> Turn:
        """Record a turn of which only the number of tokens is known."""
        self._unlisted += token_count
        turn = Turn(
            text=text,
            token_start=0,
            token_count=token_count,
            prompt_tokens=prompt_tokens,
            finish_reason=finish_reason,
            started=started,
            seconds=self.clock() - started,
        )
        self.turns.append(turn)
        return turn

    def add_tool_time(self, seconds: float) -> None:
        """Add the time spent waiting for a turn's calls."""
        self._tool_seconds += seconds

    def insert_replies(self, token_ids: Sequence[int], calls: Sequence[CallRun]) -> None:
        """Record the tokens of the replies to the last turn's ``calls``."""
        self.tokens.append_inserted(token_ids)
        self._show(len(token_ids), calls)

    def insert_messages(self, token_count: int, calls: Sequence[CallRun]) -> None:
        """Record the estimated tokens of the replies to the last turn's ``calls``."""
        self._unlisted += token_count
        self._show(token_count, calls)

    def _show(self, token_count: int, calls: Sequence[CallRun]) -> None:
        self.turns[-1].inserted_count = token_count
        for call in calls:
            call.record.shown = call.shown

    @property
    def _environments(self) -> Sequence[EnvironmentRecord]:
        return () if self._episode is None else self._episode.environments

    def trajectory(self, ending: RolloutEnd) -> Trajectory:
        """The finished trajectory."""
        return Trajectory(
            id=self.trajectory_id,
            prompt_index=self.prompt.index,
            sample_index=self._sample_index,
            messages=list(self.prompt.messages),
            tools=list(self.tools),
            gold=list(self.prompt.gold),
            extra=self.prompt.extra,
            prompt_token_ids=self.prompt_token_ids,
            response_token_ids=self.tokens.ids,
            response_mask=self.tokens.mask,
            log_probs=self.tokens.log_probs,
            policy_versions=self.tokens.versions,
            turns=self.turns,
            finish_reason=ending.reason,
            error=ending.error,
            status_code=ending.status,
            left_out=ending.left_out,
            environments=[each.model_copy(deep=True) for each in self._environments],
            created_at=self._created_at,
            seconds=self.clock(),
            model_seconds=sum(turn.seconds for turn in self.turns),
            tool_seconds=self._tool_seconds,
        )
