"""Chat templates and tokenizers of models, read from their folders."""

from pathlib import Path

from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.chat.files import read_chat_files

__all__ = ["ChatTokens", "open_chat_tokens"]


def open_chat_tokens(folder: Path) -> ChatTokens:
    """The chat tokens of the model in a folder; takes seconds for a large vocabulary.

    Raises InvalidRequest with param ``model`` if tokenizer.json or the chat template is missing or
    unusable.
    """
    return ChatTokens(read_chat_files(folder))
