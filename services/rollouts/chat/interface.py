"""The interface that turns conversations into tokens."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject


@dataclass(frozen=True)
class Demonstration:
    """The tokens after a prompt, with a mask per token: 1 where the model would have written it,
    including end-of-turn tokens; 0 on turn headers and tool turns."""

    token_ids: list[int]
    mask: list[int]


class ChatTokens(Protocol):
    """A model's chat template and tokenizer."""

    @property
    def vocabulary(self) -> int:
        """The size of the tokenizer's vocabulary; the model's may be larger."""
        ...

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end the model's turn."""
        ...

    def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        """The tokens of a conversation up to the start of the model's turn, exactly as chat
        template and tokenizer produce them.

        Raises InvalidRequest for a conversation that the template refuses, and for tools if it
        cannot render their replies.
        """
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """Decode tokens, keeping special ones; invalid UTF-8 becomes U+FFFD."""
        ...

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
        ...

    def demonstration(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> Demonstration:
        """The tokens of ``answers``: assistant and tool messages after a prompt, the last one the
        assistant's.

        Appended to ``prompt(messages, tools)`` they equal the whole conversation as rendered, up to
        its last end of turn. Raises InvalidRequest if the template rewrites the prompt.
        """
        ...
