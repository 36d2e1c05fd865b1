"""What a kind of tool makes of arguments."""

from dataclasses import dataclass
from typing import Protocol

from services.contracts.base import JsonObject


@dataclass(frozen=True)
class Said:
    """A tool's reply, and how many requests it took."""

    text: str
    attempts: int


class Caller(Protocol):
    """One tool, ready to be called."""

    async def run(self, arguments: JsonObject) -> Said:
        """Call it once; raises `ToolFault`."""
        ...
