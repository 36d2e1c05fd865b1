"""Chat templates and tokenizers of models, read from their folders."""

from collections.abc import Mapping
from pathlib import Path

from services.datasets.record import JsonValue
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.chat.files import read_chat_files
from services.rollouts.chat.template import ChatTemplate, check_variables

__all__ = ["ChatTokens", "check_template_reads", "open_chat_tokens"]


def open_chat_tokens(
    folder: Path,
    variables: Mapping[str, JsonValue] | None = None,
    *,
    weights: Path | None = None,
    neutralizes: bool = False,
) -> ChatTokens:
    """The chat tokens of the model in a folder; takes seconds for a large vocabulary.

    ``variables`` are passed to its chat template. ``weights`` is the folder of its weights where
    the tokenizer is in another; with ``neutralizes``, special tokens in prompts' texts are text.
    Raises InvalidRequest with param ``model`` if
    tokenizer.json or the chat template is missing or unusable, and with param
    ``chat_template_kwargs`` for a variable that the template does not read.
    """
    return ChatTokens(read_chat_files(folder, weights), variables, neutralizes=neutralizes)


def check_template_reads(folder: Path, variables: Mapping[str, JsonValue]) -> None:
    """Raise InvalidRequest for a variable that the chat template in a folder does not read."""
    if variables:
        files = read_chat_files(folder)
        templates = (ChatTemplate(text, {}) for text in {files.template, files.tool_template})
        check_variables(variables, *templates)
