"""How conversations become tokens: the part of a model's tokenizer that rollouts need."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject


@dataclass(frozen=True)
class Demonstration:
    """The tokens behind a prompt, and a mask of one entry a token: 1 where a model would have
    written it, which includes the tokens that end its turns; 0 on openings and tools' turns."""

    token_ids: list[int]
    mask: list[int]


class ChatTokens(Protocol):
    """A model's chat template and tokenizer."""

    @property
    def vocabulary(self) -> int:
        """How many tokens there are; a model can have room for more."""
        ...

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn of the model."""
        ...

    def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        """The tokens of a conversation up to where the model's turn begins, exactly as the chat
        template and the tokenizer give them.

        Raises InvalidRequest for what the template refuses, and for tools whose replies it cannot
        write.
        """
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, special ones kept; bytes that are no UTF-8 become U+FFFD."""
        ...

    def replies(
        self, turn: Sequence[int], contents: Sequence[str], names: Sequence[str] = ()
    ) -> list[int]:
        """The tokens between a turn of the model and its next one, where tools replied.

        ``turn`` are the sampled tokens of the turn that called; ``contents`` what the tools
        said, in the order of the calls, and ``names`` those of the tools, which some templates
        write. Appended to the turn, the tokens are what the chat
        template gives for the whole conversation, up to where the model's next turn begins: the
        rest of the ended turn (such as the newline behind ``<|im_end|>``, and the end token
        itself where the turn was stopped without it), the tools' turns, and the opening of the
        model's. Text is encoded as text: no content can forge a control token. Raises
        InvalidRequest where the template cannot write replies.

        The whole conversation, rendered by the template and encoded, gives the same tokens
        wherever the model wrote canonical text: the tokens that the tokenizer gives for it, calls
        spaced as the template writes them, thoughts as it keeps them, and the template's own
        token at the end of each turn. What the model wrote differently stands as it was sampled.
        """
        ...

    def demonstration(
        self,
        messages: Sequence[JsonObject],
        tools: Sequence[JsonObject],
        answers: Sequence[JsonObject],
    ) -> Demonstration:
        """The tokens of ``answers``: the messages behind a prompt, of the assistant and of tools,
        the last one of the assistant.

        Behind ``prompt(messages, tools)`` they are what the template gives for the whole
        conversation up to its last end of a turn. Raises InvalidRequest where the template does
        not go on from the prompt.
        """
        ...
