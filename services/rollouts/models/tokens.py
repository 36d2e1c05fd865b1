"""Conversations as token ids from first to last, for training on them and for exact replays."""

from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import MultiTurn, RolloutSampling
from services.contracts.rollouts.trajectories import FinishReason, Turn
from services.inference.token_engine.base import SampledTokens, TokenEngine, TurnSampling
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.models.base import Conversation, ModelTurn
from services.rollouts.parsers import ParsedCall, parser_of
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd
from services.rollouts.settings import validate_multi_turn


class TokenModel:
    """A model that continues token ids.

    ``stop_token_ids`` end a turn in addition to those of the chat template. ``context_length``
    bounds prompt plus response in tokens; None leaves that check to the engine. Raises what
    `validate_multi_turn` raises.
    """

    def __init__(
        self,
        engine: TokenEngine,
        chat: ChatTokens,
        settings: MultiTurn,
        sampling: RolloutSampling,
        *,
        stop_token_ids: Sequence[int] = (),
        context_length: int | None = None,
    ) -> None:
        validate_multi_turn(settings, sampling)
        self._engine = engine
        self._chat = chat
        self._parser = parser_of(settings.tool_parser_format)
        self._settings = settings
        self._sampling = sampling
        self._stop_token_ids = tuple(dict.fromkeys((*chat.stop_token_ids, *stop_token_ids)))
        self._context_length = context_length

    def begin(
        self, recording: Recording, prompt: Prompt, tools: Sequence[JsonObject]
    ) -> Conversation | RolloutEnd:
        """See `ConversationModel`; the chat template may refuse the prompt."""
        try:
            tokens = self._chat.prompt(prompt.messages, tools)
        except InvalidRequest as error:
            return RolloutEnd(FinishReason.PROMPT_REFUSED, error.message)
        recording.prompt_token_ids = tokens
        recording.budget = self._settings.max_total_response_length or self._sampling.max_tokens
        if self._context_length is not None:
            recording.budget = min(recording.budget, self._context_length - len(tokens))
        if recording.budget <= 0:
            problem = f"its {len(tokens)} tokens fill the context of {self._context_length}"
            return RolloutEnd(FinishReason.PROMPT_REFUSED, problem)
        return _TokenConversation(self, recording, tools)

    async def sample(self, recording: Recording) -> SampledTokens:
        """Sample the next turn; raises `EngineFailed`."""
        sampling = self._sampling
        return await self._engine.generate(
            recording.prompt_token_ids + recording.tokens.ids,
            TurnSampling(
                max_tokens=recording.tokens_left,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                top_k=sampling.top_k,
                min_p=sampling.min_p,
                stop=tuple(sampling.stop or ()),
                stop_token_ids=self._stop_token_ids,
                seed=recording.turn_seed(),
                session=recording.trajectory_id,
            ),
        )

    def text(self, token_ids: Sequence[int]) -> str:
        """A turn's text, with special tokens."""
        return self._chat.text(token_ids)

    def calls(self, turn: Turn, tools: Sequence[JsonObject]) -> tuple[ParsedCall, ...]:
        """The calls in a turn; malformed ones are recorded in the turn."""
        if not self._settings.multi_turn_enable:
            return ()
        parsed = self._parser.parse(turn.text, tools)
        turn.malformed += parsed.malformed
        return parsed.calls

    def replies(self, turn: Sequence[int], runs: Sequence[CallRun]) -> list[int]:
        """The tokens between a turn with calls and the next one."""
        return self._chat.replies(
            turn, [run.shown for run in runs], [run.record.name for run in runs]
        )


class _TokenConversation:
    def __init__(
        self, model: TokenModel, recording: Recording, tools: Sequence[JsonObject]
    ) -> None:
        self._model = model
        self._recording = recording
        self._tools = tools

    async def turn(self) -> ModelTurn:
        recording = self._recording
        started = recording.clock()
        sampled = await self._model.sample(recording)
        turn = recording.add_turn(self._model.text(sampled.token_ids), sampled, started)
        return ModelTurn(turn, self._model.calls(turn, self._tools))

    def reply(self, runs: Sequence[CallRun]) -> bool:
        recording = self._recording
        sampled = recording.tokens.ids[recording.turns[-1].token_start :]
        inserted = self._model.replies(sampled, runs)
        if len(inserted) >= recording.tokens_left:
            return False
        recording.insert_replies(inserted, runs)
        return True
