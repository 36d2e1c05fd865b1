"""How conversations become tokens: the part of a model's tokenizer that rollouts need."""

from collections.abc import Sequence
from typing import Protocol

from services.common.contracts.base import JsonObject


class ChatTokens(Protocol):
    """A model's chat template and tokenizer."""

    @property
    def stop_token_ids(self) -> tuple[int, ...]:
        """Tokens that end a turn of the model."""
        ...

    def prompt(self, messages: Sequence[JsonObject], tools: Sequence[JsonObject]) -> list[int]:
        """The tokens of a conversation up to where the model's turn begins.

        Raises `InvalidRequest` for what the template refuses.
        """
        ...

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of tokens, special ones kept."""
        ...

    def replies(self, turn: Sequence[int], contents: Sequence[str]) -> list[int]:
        """The tokens between a turn of the model and its next one, where tools replied.

        ``turn`` are the sampled tokens of the turn that called; ``contents`` what the tools
        said, in the order of the calls. Appended to the turn, the tokens are what the chat
        template gives for the whole conversation, up to where the model's next turn begins: the
        rest of the ended turn (such as the newline behind ``<|im_end|>``, and the end token
        itself where the turn was stopped without it), the tools' turns, and the opening of the
        model's. Text is encoded as text: no content can forge a special token.
        """
        ...
