"""One-line reasons why something cannot be loaded from a hub."""

from urllib.parse import urlsplit

from huggingface_hub import constants
from huggingface_hub.errors import (
    GatedRepoError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)


def reason_of(error: Exception, what: str, revision: str | None) -> str:
    """What an exception of the hub's library means for ``what``, without secrets."""
    # An address may hold a password.
    hub = urlsplit(constants.ENDPOINT).netloc.rpartition("@")[2]
    if isinstance(error, GatedRepoError):
        anonymous = error.response.status_code == 401
        why = "there is no HF_TOKEN" if anonymous else "HF_TOKEN gives no access to it"
        return f"{what} is gated on {hub}, and {why}"
    if isinstance(error, RepositoryNotFoundError):
        return f"{hub} has no {what}; a private one needs an HF_TOKEN that may read it"
    if isinstance(error, RevisionNotFoundError):
        return f"{what} has no revision {revision!r} on {hub}"
    if isinstance(error, LocalEntryNotFoundError):
        cause = _first_line(error.__cause__ or error)
        return f"{what} is not in the cache, and {hub} cannot be reached: {cause}"
    return f"{what} cannot be loaded from {hub}: {_first_line(error)}"


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
