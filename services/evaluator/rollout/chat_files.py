"""The tokenizer and chat template of the model that a job asks, from a folder or from a hub."""

from pathlib import Path

from services.contracts.chat_template import ChatTemplateKwargs
from services.contracts.errors import JobFailed
from services.core.artifacts import ModelSource
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.conversations import ChatTokens

_WANTED = ("*.json", "*.jinja")


def load_chat_tokens(source: ModelSource, variables: ChatTemplateKwargs) -> ChatTokens:
    """Load from a folder, or download from the hub if needed; ``variables`` are passed to the
    chat template.

    Raises `InvalidRequest` for a model without a chat template or a fast tokenizer and for a
    variable that the template does not read, and ``JobFailed`` when the download fails.
    """
    return open_chat_tokens(chat_folder(source), variables)


def chat_folder(source: ModelSource) -> Path:
    """The folder with the files, downloaded if needed; raises ``JobFailed`` when that fails."""
    return source.path or _fetch(str(source.hub_id), source.revision)


def _fetch(hub_id: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes long, rarely needed
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(_WANTED)))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise JobFailed(
            f"cannot download the tokenizer of {hub_id!r}: {reason}", code="tokenizer_unavailable"
        ) from error
