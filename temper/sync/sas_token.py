"""Shared access signatures of Azure Blob, validated before anything is sent.

A token is a query string: ``st`` is its start, ``se`` its expiry, ``sp`` its permissions, ``sig``
the signature (Microsoft, "Create a service SAS").
"""

import os
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from temper.submission.submission import SubmissionError

MAX_BYTES = 8192
RIGHTS_UP = "rwlc"
RIGHTS_DOWN = "rl"
RIGHTS_MADE = "rwdl"
ACCOUNT_KEY = "AZURE_STORAGE_ACCOUNT_KEY"
LONGEST_REASON = 500

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


def make_token(account: str, container: str, start: datetime, end: datetime) -> str:
    """Make a token with the rights to list, read, write and delete, for a container.

    With the account's key in AZURE_STORAGE_ACCOUNT_KEY it is signed here. Otherwise the
    account that is signed in to Azure gets a key of its own for it (a user delegation). Raises
    `SubmissionError`.
    """
    try:
        blob = import_module("azure.storage.blob")
        key = os.environ.get(ACCOUNT_KEY)
        signed_by = {"account_key": key} if key else _delegation(blob, account, start, end)
        token = blob.generate_container_sas(
            account,
            container,
            permission=blob.ContainerSasPermissions.from_string(RIGHTS_MADE),
            start=start,
            expiry=end,
            protocol="https",
            **signed_by,
        )
    except ImportError as error:
        raise SubmissionError(f"{error}; the package adlfs brings what is missing") from error
    except Exception as error:  # the packages raise errors of their own, and of binascii
        reason = " ".join(str(error).split())[:LONGEST_REASON]
        raise SubmissionError(f"no SAS token for {account}/{container}: {reason}") from error
    return str(token)


def write_token(token: str, path: Path) -> None:
    """Write a token for its owner alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{token}\n")
    partial.replace(path)


def _delegation(blob: Any, account: str, start: datetime, end: datetime) -> dict[str, Any]:
    identity = import_module("azure.identity")
    service = blob.BlobServiceClient(
        f"https://{account}.blob.core.windows.net", credential=identity.DefaultAzureCredential()
    )
    with service:
        return {"user_delegation_key": service.get_user_delegation_key(start, end)}


def _time(text: str, name: str) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        raise SubmissionError(f"the SAS token's {name} is not a time: {text[:40]!r}") from None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
