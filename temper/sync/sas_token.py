"""Shared access signatures of Azure Blob, validated before anything is sent.

A token is a query string: ``st`` is its start, ``se`` its expiry, ``sp`` its permissions, ``sig``
the signature (Microsoft, "Create a service SAS").
"""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs

from temper.submission.submission import SubmissionError

MAX_BYTES = 8192
RIGHTS_UP = "rwlc"
RIGHTS_DOWN = "rl"

_NAMES = {"r": "read", "w": "write", "l": "list", "c": "create"}
_IMPLIED = {"c": "w"}
"""Write permission implies create."""


def read_token(path: Path) -> str:
    """Read a token from a file, without a leading question mark."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(MAX_BYTES + 1).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SubmissionError(f"{path}: {error}") from error
    if not text or len(text) > MAX_BYTES or "\n" in text:
        raise SubmissionError(f"{path}: is not a SAS token: expected one line")
    return text.removeprefix("?")


def check_token(token: str, rights: str, now: datetime) -> None:
    """Raise `SubmissionError` for a token that is malformed, not valid now, or lacks permissions.

    Only the store can verify the signature. No message contains the token.
    """
    fields = {name: values[0] for name, values in parse_qs(token).items()}
    missing = [name for name in ("se", "sp", "sig") if name not in fields]
    if missing:
        raise SubmissionError(f"the SAS token has no {', '.join(missing)}: it is not a SAS token")
    end = _time(fields["se"], "se")
    if end <= now:
        raise SubmissionError(f"the SAS token expired at {fields['se']}")
    if "st" in fields and _time(fields["st"], "st") > now:
        raise SubmissionError(f"the SAS token is not valid before {fields['st']}")
    given = fields["sp"]
    lacking = [
        _NAMES[right]
        for right in rights
        if right not in given and _IMPLIED.get(right, right) not in given
    ]
    if lacking:
        raise SubmissionError(f"the SAS token lacks permission to {', '.join(lacking)}")


def _time(text: str, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SubmissionError(f"the SAS token's {name} is not a time: {text[:40]!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
