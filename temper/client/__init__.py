"""The Python client of Temper's gateway."""

from temper.client.client import DEFAULT_URL, Temper
from temper.client.errors import (
    ApiError,
    ClientError,
    UnexpectedAnswer,
    Unreachable,
    WaitTimedOut,
)

__all__ = [
    "DEFAULT_URL",
    "ApiError",
    "ClientError",
    "Temper",
    "UnexpectedAnswer",
    "Unreachable",
    "WaitTimedOut",
]
