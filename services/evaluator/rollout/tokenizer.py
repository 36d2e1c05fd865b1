"""The chat template and the tokenizer that a job plays with."""

from pathlib import Path

from services.contracts.errors import JobFailed
from services.core.artifacts import ModelSource
from services.rollouts.chat import open_chat_tokens
from services.rollouts.chat.interface import ChatTokens

_WANTED = ("*.json", "*.jinja")


def load_chat_tokens(source: ModelSource) -> ChatTokens:
    """Load from a folder, or fetch from the hub what is not here yet.

    Raises `InvalidRequest` for a model without a chat template or a fast tokenizer, and
    ``JobFailed`` when the hub does not give it.
    """
    return open_chat_tokens(source.path or _fetch(str(source.hub_id), source.revision))


def _fetch(hub_id: str, revision: str | None) -> Path:
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes long, rarely needed
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError  # noqa: PLC0415

    try:
        return Path(snapshot_download(hub_id, revision=revision, allow_patterns=list(_WANTED)))
    except (OSError, HfHubHTTPError, HFValidationError) as error:
        reason = str(error).strip().partition("\n")[0]
        raise JobFailed(
            f"the tokenizer of {hub_id!r} is not to be had: {reason}", code="tokenizer_unavailable"
        ) from error
