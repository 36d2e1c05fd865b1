"""One agent's session: its requests are answered by the policy, token by token on record."""

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.rollouts.multi_turn import RolloutSampling
from services.dialects.exchange import Call, ModelAnswer, ModelRequest
from services.inference.seeds import derived_seed
from services.inference.token_engine.base import (
    EngineFailed,
    SampledTokens,
    TokenEngine,
    TurnSampling,
)
from services.rollouts.activity import Phase, Presence
from services.rollouts.agents.tree import Node, Place, TurnTree
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.parsers import ToolParser

REASONING_END = "</think>"
_REASONING_BEGIN = "<think>"
_MARKS_OF_CALLS = ("<|python_tag|>",)
MAX_NOTES = 20


class SessionEnded(InvalidRequest):
    """The session takes no more requests."""

    code = "session_ended"


class CallsSpent(InvalidRequest):
    """The session has asked the model as often as it may."""

    code = "max_model_calls"


class ContextFull(InvalidRequest):
    """The conversation leaves no token for an answer."""

    code = "context_length_exceeded"


@dataclass(frozen=True)
class Policy:
    """The model that answers a job's sessions. ``stop_token_ids`` end a turn; ``budget`` bounds the
    tokens after a sequence's prompt, ``context_length`` those of prompt and response."""

    name: str
    engine: TokenEngine
    chat: ChatTokens
    parser: ToolParser
    sampling: RolloutSampling
    stop_token_ids: tuple[int, ...]
    budget: int
    context_length: int | None


class AgentSession:
    """Answers one agent's requests and records every turn; used by one event loop.

    ``seed`` derives a seed for every turn; None: the engine draws one.
    """

    def __init__(
        self, session_id: str, policy: Policy, max_model_calls: int, seed: str | None
    ) -> None:
        self.id = session_id
        self.tree = TurnTree()
        self.reward: float | None = None
        self.engine_failures = 0
        self.is_full = False
        self.notes: dict[str, None] = {}
        self.presence: Presence | None = None
        """The session among the rollouts in flight, if it is counted."""
        self._policy = policy
        self._max_model_calls = max_model_calls
        self._seed = seed
        self._unanswered: dict[str, EngineFailed] = {}
        self._asked = 0
        self._asking = 0
        self._begun = time.monotonic()
        self._ended = False

    def end(self) -> None:
        """Take no more requests."""
        self._ended = True

    @property
    def failure(self) -> EngineFailed | None:
        """The engine's failure of a request that was not answered later."""
        return next(iter(self._unanswered.values()), None)

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """The policy's next turn, recorded.

        Raises InvalidRequest for a conversation that the template refuses and for one that is over
        a limit, and `EngineFailed`.
        """
        if self._ended:
            raise SessionEnded("the session has ended")
        if self._asked >= self._max_model_calls:
            raise CallsSpent(f"the session has made its {self._max_model_calls} requests")
        number, self._asked = self._asked, self._asked + 1
        for name in request.ignored[: MAX_NOTES - len(self.notes)]:
            self.notes[f"{name} has no effect: the job's sampling decides"] = None
        place = self.tree.place(request.messages, request.tools)
        place, context, inserted = self._continued(place, request)
        started = time.monotonic()
        try:
            sampled = await self._sample(context, place, request, number)
        except EngineFailed as error:
            self.engine_failures += 1
            self._unanswered[place.request] = error
            raise
        self._unanswered.pop(place.request, None)  # clients ask again by themselves
        return self._recorded(number, place, request, context, inserted, sampled, started)

    def count(self, request: ModelRequest) -> int:
        """Tokens of a conversation up to the policy's next turn; raises InvalidRequest."""
        _, context, _ = self._continued(self.tree.place(request.messages, request.tools), request)
        return len(context)

    def _continued(self, place: Place, request: ModelRequest) -> tuple[Place, list[int], list[int]]:
        """The tokens before the turn, and those of them that no earlier turn has."""
        chat = self._policy.chat
        if place.parent is not None and place.fresh[0]["role"] != "assistant":
            try:
                inserted = _rendered(chat, place.parent, place.fresh)
            except InvalidRequest:
                pass  # such messages cannot follow a turn: the whole is rendered
            else:
                return place, place.parent.tokens + inserted, inserted
        context = chat.prompt(request.messages, request.tools)
        return Place(None, request.messages, place.request), context, context

    async def _sample(
        self, context: Sequence[int], place: Place, request: ModelRequest, number: int
    ) -> SampledTokens:
        policy = self._policy
        prompt = len(place.parent.path()[0].context) if place.parent else len(context)
        left = policy.budget - (len(context) - prompt)
        if policy.context_length is not None:
            left = min(left, policy.context_length - len(context))
        if left <= 0:
            self.is_full = True
            raise ContextFull(f"the conversation's {len(context)} tokens leave none for an answer")
        sampling = policy.sampling
        asked = TurnSampling(
            max_tokens=min(left, request.max_tokens or left),
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            min_p=sampling.min_p,
            stop=tuple(sampling.stop or ()),
            stop_token_ids=policy.stop_token_ids,
            seed=self._turn_seed(number),
            session=self.id,
        )
        with self._generating():
            return await policy.engine.generate(context, asked)

    @contextmanager
    def _generating(self) -> Iterator[None]:
        """The session generates during the block, in which it may ask for other turns, too."""
        self._asking += 1
        self._show_phase()
        try:
            yield
        finally:
            self._asking -= 1
            self._show_phase()

    def _show_phase(self) -> None:
        if self.presence is not None:
            self.presence.change(Phase.GENERATE if self._asking else Phase.TOOLS)

    def _turn_seed(self, number: int) -> int | None:
        if self._seed is None:
            return None
        return derived_seed(self._seed, number)

    def _recorded(
        self,
        number: int,
        place: Place,
        request: ModelRequest,
        context: list[int],
        inserted: list[int],
        sampled: SampledTokens,
        started: float,
    ) -> ModelAnswer:
        ids = list(sampled.token_ids)
        text = self._policy.chat.text(ids)
        answer = self._read(ids, request.tools, len(context), sampled)
        node = Node(
            number=number,
            parent=place.parent,
            request=place.request,
            context=context,
            inserted=inserted,
            sampled=sampled,
            text=text,
            answer=answer.message(),
            messages=request.messages,
            tools=request.tools,
            calls=answer.calls,
            started=started - self._begun,
            seconds=time.monotonic() - started,
        )
        self.tree.add(node)
        return answer

    def _read(
        self,
        ids: list[int],
        tools: Sequence[JsonObject],
        prompt_tokens: int,
        sampled: SampledTokens,
    ) -> ModelAnswer:
        """The turn's reasoning, text and calls."""
        is_ended = bool(ids) and ids[-1] in self._policy.stop_token_ids
        text = self._policy.chat.text(ids[:-1] if is_ended else ids)
        calls: tuple[Call, ...] = ()
        if tools:
            parsed = self._policy.parser.parse(text, tools)
            calls = tuple(
                Call(f"call_{secrets.token_hex(12)}", call.name, call.arguments)
                for call in parsed.calls
                if call.arguments is not None
            )
            if calls:
                text = text[: parsed.begin]
                for mark in _MARKS_OF_CALLS:
                    text = text.rstrip().removesuffix(mark)
        reasoning, content = _parts(text)
        return ModelAnswer(
            id=secrets.token_hex(12),
            content=content,
            reasoning=reasoning,
            calls=calls,
            finish_reason=sampled.finish_reason,
            prompt_tokens=prompt_tokens,
            completion_tokens=len(ids),
            model=self._policy.name,
            created=int(time.time()),
        )


def _rendered(chat: ChatTokens, parent: Node, fresh: Sequence[JsonObject]) -> list[int]:
    """The tokens that ``fresh`` messages add to a turn; raises InvalidRequest."""
    count = next((at for at, each in enumerate(fresh) if each["role"] != "tool"), len(fresh))
    replies, further = fresh[:count], fresh[count:]
    names = {call.id: call.name for call in parent.calls}
    return chat.following(
        parent.sampled.token_ids,
        further,
        replies=[str(reply["content"]) for reply in replies],
        names=[names.get(reply["tool_call_id"], "") for reply in replies],
    )


def _parts(text: str) -> tuple[str | None, str]:
    """The reasoning of a turn, None without any, and what it says."""
    thought, ended, said = text.partition(REASONING_END)
    if ended:
        return thought.strip().removeprefix(_REASONING_BEGIN).strip(), said.strip()
    if text.lstrip().startswith(_REASONING_BEGIN):
        return text.strip().removeprefix(_REASONING_BEGIN).strip(), ""
    return None, text.strip()
