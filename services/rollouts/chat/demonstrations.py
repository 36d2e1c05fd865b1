"""Conversations of data as tokens, and which of them a model would have written."""

from collections.abc import Callable, Iterator, Sequence

from services.contracts.base import JsonObject
from services.datasets.record import JsonValue
from services.rollouts.chat.files import refused
from services.rollouts.chat.guarded import GuardedTokenizer
from services.rollouts.chat.template import ChatTemplate
from services.rollouts.chat_tokens import Demonstration


class Demonstrations:
    """Renders conversations with their answers by a template that ends turns with ``end``."""

    def __init__(
        self, template: ChatTemplate, tokenizer: GuardedTokenizer, end: str | None
    ) -> None:
        self._template = template
        self._tokenizer = tokenizer
        self._end = end

    def tokens(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> Demonstration:
        """See `ChatTokens.demonstration`."""
        if not answers or answers[-1].get("role") != "assistant":
            raise refused("a demonstration ends with a message of the assistant")
        if self._end is None:
            raise refused("the chat template ends the model's turns without a special token")
        parts = list(self._parts(messages, tools, [self._guarded(answer) for answer in answers]))
        prompt, *response = self._tokenizer.encode_parts([text for text, _ in parts])
        if prompt != self._tokenizer.encode(parts[0][0]):
            raise refused("the first answer melts into the prompt: it begins with a line break")
        return Demonstration(
            token_ids=[token for part in response for token in part],
            mask=[
                written
                for part, (_, written) in zip(response, parts[1:], strict=True)
                for _ in part
            ],
        )

    def _parts(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> Iterator[tuple[str, int]]:
        """The prompt, and then by turns what the model wrote (1) and what it did not (0)."""
        end = self._end or ""
        whole = self._template.render([*messages, *answers], tools)
        place = 0
        for number, answer in enumerate(answers):
            if answer.get("role") != "assistant":
                continue
            before = self._template.render([*messages, *answers[:number]], tools, opening=True)
            stop = whole.find(end, len(before))
            if len(before) < place or not whole.startswith(before) or stop < 0:
                raise refused(
                    "the chat template does not go on from the prompt: it writes the conversation "
                    f"differently once answer {number} is there"
                )
            yield whole[place : len(before)], 0
            yield whole[len(before) : stop + len(end)], 1
            place = stop + len(end)

    def _guarded(self, answer: JsonObject) -> JsonObject:
        tokenizer = self._tokenizer
        guard = tokenizer.guard if answer.get("role") == "tool" else tokenizer.guard_special
        return {key: _mapped(value, guard) for key, value in answer.items()}


def _mapped(value: JsonValue, change: Callable[[str], str]) -> JsonValue:
    """A value with all its texts changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_mapped(item, change) for item in value]
    if isinstance(value, dict):
        return {key: _mapped(item, change) for key, item in value.items()}
    return value
