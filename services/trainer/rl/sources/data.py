"""Answers that the data demonstrate."""

import time
from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.trajectories import FinishReason, Trajectory
from services.rollouts.chat_tokens import ChatTokens
from services.trainer.rl.draws import Draw
from services.trainer.rl.sources.source import sample_id


class DataSource:
    """Renders each row's own answer, of at most ``max_tokens`` tokens, as a trajectory."""

    def __init__(self, chat: ChatTokens, tools: Sequence[JsonObject], max_tokens: int) -> None:
        self._chat = chat
        self._tools = tools
        self._max_tokens = max_tokens

    async def sample(self, draw: Draw, index: int) -> Trajectory:
        """The answer of the row; a failed sample where it has none or cannot be rendered."""
        prompt = draw.prompt
        common = {
            "id": sample_id(draw, index),
            "prompt_index": prompt.index,
            "sample_index": index,
            "messages": list(prompt.messages),
            "tools": list(self._tools),
            "gold": list(prompt.gold),
            "extra": prompt.extra,
            "created_at": time.time(),
        }
        try:
            if not draw.row.answers:
                raise InvalidRequest("the row has no answer to learn from")
            asked = self._chat.prompt(prompt.messages, self._tools)
            shown = self._chat.demonstration(prompt.messages, self._tools, draw.row.answers)
        except InvalidRequest as error:
            return Trajectory(
                prompt_token_ids=[],
                finish_reason=FinishReason.PROMPT_REFUSED,
                error=f"row {prompt.index + 1}: {error.message}",
                **common,
            )
        fits = len(shown.token_ids) <= self._max_tokens
        ids = shown.token_ids[: self._max_tokens]
        return Trajectory(
            prompt_token_ids=asked,
            response_token_ids=ids,
            response_mask=shown.mask[: self._max_tokens],
            log_probs=[0.0] * len(ids),
            policy_versions=[-1] * len(ids),
            finish_reason=FinishReason.ANSWERED if fits else FinishReason.LENGTH,
            **common,
        )
