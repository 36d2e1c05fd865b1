"""Conversations as tokens, by a model's own chat template and tokenizer."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import JsonValue, RowError, StrictDecoder
from services.datasets.rendering.guarded import GuardedTokenizer, check_guards, mapped
from services.rollouts.chat.files import ChatFiles, refused
from services.rollouts.chat.template import (
    ChatTemplate,
    ReplyTurns,
    after_answer,
    check_variables,
    end_of_turn,
    replies_to,
)
from services.rollouts.parsers.json_calls import call_ids


@dataclass(frozen=True)
class DemonstrationTokens:
    """The tokens after a prompt, with a mask per token: 1 where the model would have written it,
    including end-of-turn tokens; 0 on turn headers and tool turns."""

    token_ids: list[int]
    mask: list[int]


class ChatTokens:
    """A model's chat template and tokenizer; safe to use from many threads."""

    def __init__(
        self,
        files: ChatFiles,
        variables: Mapping[str, JsonValue] | None = None,
        *,
        neutralizes: bool = False,
    ) -> None:
        """``variables`` are passed to the template; with ``neutralizes``, special tokens in the
        texts of prompts are ordinary text. Raises InvalidRequest for a template or a tokenizer that
        cannot be used, and for a variable that the template does not read."""
        self._tokenizer = GuardedTokenizer(files.tokenizer, files.template + files.tool_template)
        self._template = ChatTemplate(files.template, files.special_tokens, variables)
        self._tool_template = ChatTemplate(files.tool_template, files.special_tokens, variables)
        check_variables(variables or (), self._template, self._tool_template)
        self._neutralizes = neutralizes
        self._end = end_of_turn(self._tool_template, self._tokenizer.first_special)
        self._stop_token_ids = self._end_tokens(files)
        self._takes_call_ids = "tool_call_id" in files.tool_template
        self._replies: ReplyTurns | None = None
        self._no_replies = ""
        try:
            self._replies = ReplyTurns(self._tool_template, self._end)
        except InvalidRequest as error:
            self._no_replies = error.message

    @property
    def vocabulary(self) -> int:
        """The size of the tokenizer's vocabulary; the model's may be larger."""
        return self._tokenizer.vocabulary

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end the model's turn."""
        return self._stop_token_ids

    def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        """The tokens of a conversation up to the start of the model's turn, exactly as chat
        template and tokenizer produce them, but for special tokens that are neutralized.

        Raises InvalidRequest for a conversation that the template refuses, and for tools if it
        cannot render their replies.
        """
        if tools:
            self._reply_turns()
        template = self._template_for(tools)
        messages = self._neutral(messages)
        try:
            rendered = template.render(_decoded(messages), tools, opening=True)
        except InvalidRequest:
            if not any(message.get("tool_calls") for message in messages):
                raise
            rendered = template.render(_encoded(messages), tools, opening=True)
        if not self._neutralizes:
            return self._tokenizer.encode_plain(rendered)
        try:
            check_guards(rendered)
        except RowError as error:
            raise refused(error.message) from None
        return self._tokenizer.encode(rendered)

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode tokens, keeping special ones; invalid UTF-8 becomes U+FFFD."""
        return self._tokenizer.decode(list(token_ids))

    def replies(
        self, turn: Sequence[int], contents: Sequence[str], names: Sequence[str] = ()
    ) -> list[int]:
        """The tokens between the model's turn with tool calls and its next turn.

        ``turn`` holds the sampled tokens of that turn; ``contents`` the tools' replies in the order
        of the calls, and ``names`` the tools' names, which some templates render. The result is the
        rest of the ended turn (such as the newline after ``<|im_end|>``, and the end token itself
        if sampling stopped without it), the tool turns, and the header of the model's next turn.
        Replies are encoded as plain text: no content can forge a control token. Raises
        InvalidRequest if the template cannot render replies.

        Appended to the turn, the tokens equal those of the whole conversation rendered and encoded,
        provided that the model wrote canonical text: the tokenizer's own tokens for it, calls
        spaced as the template spaces them, reasoning that the template keeps, and its end-of-turn
        token. Anything else stays as it was sampled.
        """
        return self.following(turn, replies=contents, names=names)

    def following(
        self,
        turn: Sequence[int],
        messages: Sequence[JsonObject] = (),
        *,
        replies: Sequence[str] = (),
        names: Sequence[str] = (),
    ) -> list[int]:
        """Like `replies`, with further ``messages`` after them; or with ``messages`` alone, such as
        the user's next one."""
        guard = self._tokenizer.guard
        guarded = [
            {**message, "content": guard(message["content"] or "")}
            for message in _decoded(messages)
        ]
        if replies:
            ids = call_ids(self.text(turn)) if self._takes_call_ids else ()
            given = replies_to(map(guard, replies), map(guard, names), ids)
            text = self._reply_turns().text(given, guarded)
        else:
            text = after_answer(self._tool_template, self._end, guarded)
        closing, following = self._tokenizer.encode_parts(text)
        if not turn or turn[-1] not in self._stop_token_ids:
            return closing + following
        # Without an end token of its own, a turn ends with the token that begins the next one.
        is_begun = self._end is None and following[:1] == [turn[-1]]
        return following[1:] if is_begun else following

    def demonstration(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> DemonstrationTokens:
        """The tokens of ``answers``: assistant and tool messages after a prompt, the last one the
        assistant's.

        Appended to ``prompt(messages, tools)`` they equal the whole conversation as rendered, up to
        its last end of turn. Raises InvalidRequest if the template rewrites the prompt.
        """
        demonstrations = Demonstrations(self._template_for(tools), self._tokenizer, self._end)
        asked = _decoded(self._neutral(messages))
        return demonstrations.tokens(asked, tools, _decoded(answers))

    def _neutral(self, messages: Sequence[JsonObject]) -> Sequence[JsonObject]:
        """Messages whose texts hold no special token, where these are neutralized."""
        if not self._neutralizes:
            return messages
        guard = self._tokenizer.guard_special
        return [{key: mapped(value, guard) for key, value in each.items()} for each in messages]

    def _template_for(self, tools: Sequence[JsonObject]) -> ChatTemplate:
        return self._tool_template if tools else self._template

    def _reply_turns(self) -> ReplyTurns:
        if self._replies is None:
            raise refused(self._no_replies)
        return self._replies

    def _end_tokens(self, files: ChatFiles) -> tuple[int, ...]:
        """End-of-turn tokens of the template, the tokenizer and the model's configuration."""
        texts = (self._end, files.special_tokens.get("eos_token"))
        named = (self._tokenizer.id_of(text) for text in texts if text is not None)
        ids = (*(token for token in named if token is not None), *files.end_token_ids)
        return tuple(dict.fromkeys(ids))


def _decoded(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages whose tool calls have objects as arguments, as templates expect."""
    return [
        {**message, "tool_calls": [_decoded_call(call) for call in calls]}
        if isinstance(calls := message.get("tool_calls"), list)
        else message
        for message in messages
    ]


def _encoded(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Messages whose tool calls have JSON text as arguments, which DeepSeek's templates expect."""
    return [
        {**message, "tool_calls": [_encoded_call(call) for call in calls]}
        if isinstance(calls := message.get("tool_calls"), list)
        else message
        for message in messages
    ]


def _encoded_call(call: JsonValue) -> JsonValue:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or isinstance(function.get("arguments"), str):
        return call
    arguments = json.dumps(function.get("arguments"), ensure_ascii=False)
    return {**call, "function": {**function, "arguments": arguments}}


def _decoded_call(call: JsonValue) -> JsonValue:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = StrictDecoder().decode(function["arguments"].strip() or "{}")
    except RowError:
        return call
    return {**call, "function": {**function, "arguments": arguments}}


class Demonstrations:
    """Renders conversations with their answers; the template ends turns with ``end``."""

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
    ) -> DemonstrationTokens:
        """See `ChatTokens.demonstration`."""
        if not answers or answers[-1].get("role") != "assistant":
            raise refused("a demonstration ends with a message of the assistant")
        if self._end is None:
            raise refused("the chat template does not end the model's turns with a special token")
        parts = list(self._parts(messages, tools, [self._guarded(answer) for answer in answers]))
        prompt, *response = self._tokenizer.encode_parts([text for text, _ in parts])
        if prompt != self._tokenizer.encode(parts[0][0]):
            raise refused(
                "the first answer begins with a line break, which merges with the prompt's tokens"
            )
        return DemonstrationTokens(
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
        """The prompt, then alternately text the model did not write (0) and wrote (1)."""
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
                    "the chat template does not continue the prompt: it renders the conversation "
                    f"differently once answer {number} is added"
                )
            yield whole[place : len(before)], 0
            yield whole[len(before) : stop + len(end)], 1
            place = stop + len(end)

    def _guarded(self, answer: JsonObject) -> JsonObject:
        tokenizer = self._tokenizer
        guard = tokenizer.guard if answer.get("role") == "tool" else tokenizer.guard_special
        return {key: mapped(value, guard) for key, value in answer.items()}
