"""The Python client of Temper's gateway."""

from typing import TYPE_CHECKING, Any

from temper.client.errors import (
    ApiError,
    ClientError,
    UnexpectedAnswer,
    Unreachable,
    WaitTimedOut,
)

if TYPE_CHECKING:
    from temper.client.client import DEFAULT_URL, Temper

__all__ = [
    "DEFAULT_URL",
    "ApiError",
    "ClientError",
    "Temper",
    "UnexpectedAnswer",
    "Unreachable",
    "WaitTimedOut",
]


def __getattr__(name: str) -> Any:
    # What knows only the errors does not wait for httpx and every contract.
    if name not in {"DEFAULT_URL", "Temper"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from temper.client import client

    return getattr(client, name)
