"""The chat tokens of a model, from the files in its folder."""

from pathlib import Path

from services.rollouts.chat.conversations import TemplateChatTokens
from services.rollouts.chat.files import read_chat_files
from services.rollouts.chat.interface import ChatTokens

__all__ = ["open_chat_tokens"]


def open_chat_tokens(folder: Path) -> ChatTokens:
    """The chat tokens of the model in a folder. It takes seconds with a large vocabulary.

    Raises InvalidRequest, with ``model`` as its param, where the folder has no tokenizer.json or
    chat template, or where one of them cannot be used.
    """
    return TemplateChatTokens(read_chat_files(folder))
