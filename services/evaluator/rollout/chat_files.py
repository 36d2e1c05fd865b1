"""The tokenizer and chat template of a job's model, from a folder or from a hub."""

from pathlib import Path

from services.contracts.chat_template import ChatTemplateKwargs
from services.contracts.errors import JobFailed
from services.core.artifacts import ModelSource
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.conversations import ChatTokens
from services.rollouts.chat.hub import TokenizerUnavailable, fetch_chat_files


def load_chat_tokens(source: ModelSource, variables: ChatTemplateKwargs) -> ChatTokens:
    """Load from a folder, or download from the hub if needed; ``variables`` are passed to the
    chat template.

    Raises `InvalidRequest` for a model without a chat template or a fast tokenizer and for a
    variable that the template does not read, and ``JobFailed`` when the download fails.
    """
    return open_chat_tokens(chat_folder(source), variables)


def chat_folder(source: ModelSource) -> Path:
    """The folder with the files, downloaded if needed; raises ``JobFailed`` when that fails."""
    if source.path is not None:
        return source.path
    try:
        return fetch_chat_files(str(source.hub_id), source.revision)
    except TokenizerUnavailable as error:
        raise JobFailed(error.message, code=error.code) from error
