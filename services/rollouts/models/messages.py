"""Conversations as messages, with a chat endpoint that writes calls in OpenAI's shape."""

from collections.abc import Sequence

from services.contracts.base import JsonObject
from services.contracts.rollouts.multi_turn import MultiTurn
from services.contracts.sampling import ChatTemplateKwargs, Sampling
from services.datasets.record import RowError, StrictDecoder
from services.inference.chat_answers import ToolCall
from services.inference.clients.chat import ChatCompletion, ChatRequest, InferenceClient
from services.inference.clients.retries import ServiceFailed
from services.inference.seeds import SEEDS
from services.inference.token_engine.base import EngineFailed
from services.rollouts.models.base import Conversation, ModelTurn
from services.rollouts.parsers import ParsedCall
from services.rollouts.parsers.base import MAX_CALLS
from services.rollouts.prompts import Prompt
from services.rollouts.recording import CallRun, Recording, RolloutEnd

BYTES_PER_TOKEN = 4
"""To estimate tokens that the endpoint does not count."""


class MessageModel:
    """A model behind a chat endpoint, which returns text and calls but no token ids. The endpoint's
    token counts are deducted from the response budget; those of replies, and of turns without a
    count, are estimated.
    """

    def __init__(
        self,
        client: InferenceClient,
        model: str,
        settings: MultiTurn,
        sampling: Sampling,
        chat_template_kwargs: ChatTemplateKwargs,
    ) -> None:
        self._client = client
        self._model = model
        self._budget = settings.max_total_response_length or sampling.max_tokens
        self._settings = sampling.model_dump(exclude={"max_tokens", "seed"})
        if chat_template_kwargs:
            self._settings["chat_template_kwargs"] = chat_template_kwargs

    def begin(
        self, recording: Recording, prompt: Prompt, tools: Sequence[JsonObject]
    ) -> Conversation | RolloutEnd:
        """See `ConversationModel`."""
        recording.budget = self._budget
        return _MessageConversation(self, recording, prompt.messages, tools)

    async def ask(
        self, messages: Sequence[JsonObject], tools: Sequence[JsonObject], recording: Recording
    ) -> ChatCompletion:
        """The next turn; raises `EngineFailed`."""
        seed = recording.turn_seed()
        request = ChatRequest(
            model=self._model,
            messages=list(messages),
            tools=list(tools) or None,
            max_tokens=recording.tokens_left,
            seed=None if seed is None else seed % SEEDS,
            **self._settings,
        )
        try:
            return await self._client.chat(request)
        except ServiceFailed as error:
            raise EngineFailed(error.message) from error


class _MessageConversation:
    def __init__(
        self,
        model: MessageModel,
        recording: Recording,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
    ) -> None:
        self._model = model
        self._recording = recording
        self._messages = list(messages)
        self._tools = tools
        self._calls: Sequence[ToolCall] = ()

    async def turn(self) -> ModelTurn:
        recording = self._recording
        started = recording.clock()
        completion = await self._model.ask(self._messages, self._tools, recording)
        self._calls = completion.tool_calls[:MAX_CALLS]
        turn = recording.add_message(
            completion.content or "",
            _tokens_of(completion),
            "length" if completion.finish_reason == "length" else "stop",
            started,
            prompt_tokens=completion.usage.prompt if completion.usage else None,
        )
        calls = tuple(ParsedCall(call.name, _arguments(call)) for call in self._calls)
        return ModelTurn(turn, calls)

    def reply(self, runs: Sequence[CallRun]) -> bool:
        recording = self._recording
        tokens = sum(_estimated(run.shown) for run in runs)
        if tokens >= recording.tokens_left:
            return False
        # An endpoint requires a reply to every call, so calls that were not executed are omitted.
        ran = self._calls[: len(runs)]
        self._messages.append(
            {
                "role": "assistant",
                "content": recording.turns[-1].text or None,
                "tool_calls": [_as_written(call, run) for call, run in zip(ran, runs, strict=True)],
            }
        )
        self._messages += (
            {"role": "tool", "tool_call_id": call.id, "content": run.shown}
            for call, run in zip(ran, runs, strict=True)
        )
        recording.insert_messages(tokens, runs)
        return True


def _tokens_of(completion: ChatCompletion) -> int:
    """At least one: the conversation terminates because each turn uses up budget."""
    if completion.usage is not None:
        return max(1, completion.usage.completion)
    said = [completion.content or "", *(call.arguments for call in completion.tool_calls)]
    return max(1, sum(map(_estimated, said)))


def _estimated(text: str) -> int:
    return -(-len(text.encode(errors="replace")) // BYTES_PER_TOKEN)


def _arguments(call: ToolCall) -> JsonObject | None:
    """None unless they are a JSON object; a call without arguments may have an empty text."""
    if not call.arguments.strip():
        return {}
    try:
        arguments = StrictDecoder().decode(call.arguments)
    except RowError:
        return None
    return arguments if isinstance(arguments, dict) else None


def _as_written(call: ToolCall, run: CallRun) -> JsonObject:
    # Servers decode the arguments for their chat template, and reject non-objects.
    arguments = "{}" if run.record.arguments is None else call.arguments
    function = {"name": call.name, "arguments": arguments or "{}"}
    return {"id": call.id, "type": "function", "function": function}
