"""The tokenizer and chat template of a model in a hub repository."""

from pathlib import Path

from services.contracts.errors import TemperError

WANTED = ("*.json", "*.jinja")


class TokenizerUnavailable(TemperError):
    """The files cannot be downloaded; the message says why."""

    code = "tokenizer_unavailable"


def fetch_chat_files(hub_id: str, revision: str | None) -> Path:
    """A folder with the files, downloaded unless this host has cached them, with the environment's
    HF_TOKEN if set; raises `TokenizerUnavailable`."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415 - takes long, rarely needed

    from services.models.hub_errors import reason_of  # noqa: PLC0415 - imports the same

    try:
        folder = snapshot_download(
            hub_id, revision=revision, allow_patterns=list(WANTED), ignore_patterns=["*/*"]
        )
    except Exception as error:  # the library lets some of its HTTP client's exceptions through
        raise TokenizerUnavailable(reason_of(error, f"model {hub_id}", revision)) from error
    return Path(folder)
