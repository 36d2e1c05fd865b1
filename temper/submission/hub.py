"""Files of data sets on the hub that HF_ENDPOINT names, with the token in HF_TOKEN."""

import re
from pathlib import Path, PurePosixPath
from urllib.parse import unquote

import httpx

from services.contracts.fine_tuning import HUB_DATASET_PREFIX
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
            "file in a data set"
        )
    from huggingface_hub import hf_hub_download  # noqa: PLC0415 - takes long, rarely needed

    revision = unquote(found["revision"]) if found["revision"] else None
    try:
        return Path(
            hf_hub_download(found["name"], found["path"], repo_type="dataset", revision=revision)
        )
    except (OSError, ValueError, httpx.HTTPError) as error:
        raise SubmissionError(f"{reference}: {hub_reason(error)}") from error


def hub_reason(error: Exception) -> str:
    """Why the hub did not give what was asked for, in one line."""
    from huggingface_hub.errors import (  # noqa: PLC0415 - with the above
        LocalEntryNotFoundError,
        RemoteEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    match error:
        case RepositoryNotFoundError():  # a gated one, too
            return "the hub has no such data set, or HF_TOKEN gives no access to it"
        case RevisionNotFoundError():
            return "the data set has no such revision"
        case RemoteEntryNotFoundError():
            return "the data set has no such file"
        case LocalEntryNotFoundError():
            return f"the hub cannot be reached: {_first_line(error.__cause__ or error)}"
    return _first_line(error)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
