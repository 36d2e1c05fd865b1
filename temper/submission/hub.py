"""Dataset files on the hub at HF_ENDPOINT, with the token in HF_TOKEN."""

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

from services.contracts.training.rows import HUB_DATASET_PREFIX
from temper.submission.submission import SubmissionError

_REFERENCE = re.compile(
    re.escape(HUB_DATASET_PREFIX)
    + r"(?P<name>\w[\w.-]*/\w[\w.-]*)(?:@(?P<revision>[^/]+))?/(?P<path>.+)",
    re.ASCII,
)


def fetch_hub_file(reference: str) -> Path:
    """Return the file that ``hf://datasets/OWNER/NAME[@REVISION]/PATH`` names, downloaded once.

    A slash in the revision is written %2F. Raises `SubmissionError` with the cause.
    """
    found = _REFERENCE.fullmatch(reference)
    if found is None or ".." in PurePosixPath(found["path"]).parts:
        raise SubmissionError(
            f"{reference!r} is not {HUB_DATASET_PREFIX}OWNER/NAME[@REVISION]/PATH, the path of a "
            "file in a dataset"
        )
    import httpx
    from huggingface_hub import hf_hub_download

    revision = unquote(found["revision"]) if found["revision"] else None
    try:
        return Path(
            hf_hub_download(found["name"], found["path"], repo_type="dataset", revision=revision)
        )
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise SubmissionError(f"{reference}: {hub_reason(error)}") from error


def hub_reason(error: Exception) -> str:
    """Explain in one line why the hub did not return a file."""
    from huggingface_hub.errors import (
        LocalEntryNotFoundError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    match error:
        case RepositoryNotFoundError():  # a gated one, too
            return "the hub has no such dataset, or HF_TOKEN gives no access to it"
        case RevisionNotFoundError():
            return "the dataset has no such revision"
        case RemoteEntryNotFoundError():
            return "the dataset has no such file"
        case LocalEntryNotFoundError():
            return f"the hub cannot be reached: {_first_line(error.__cause__ or error)}"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
