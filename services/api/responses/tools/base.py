"""What every tool of the server has in common."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.datasets.record import shown
from services.dialects.fields import arguments_object
from services.dialects.responses_writer import ServerCall, Unnumbered

LONGEST_OUTPUT = 1 << 18
"""Characters of a tool's answer that the model reads."""


@dataclass(frozen=True)
class Shown:
    """An item as a tool shows it, and the events beside those of every item."""

    item: JsonObject
    events: tuple[Unnumbered, ...] = ()


@dataclass(frozen=True)
class Reply:
    """A tool's answer: what the model reads, and the finished item."""

    text: str
    shown: Shown


class Tool(Protocol):
    """One function that the model sees and the server runs."""

    schema: JsonObject

    def begun(self, identity: str, call: ServerCall) -> Shown:
        """The item of a call that begins; it gets ``identity``."""
        ...

    async def run(self, identity: str, call: ServerCall) -> Reply:
        """Run a call; failures become replies."""
        ...


@dataclass(frozen=True)
class Opened:
    """Tools with their connections, and the items that list them."""

    tools: Sequence[Tool]
    listing: Sequence[JsonObject] = field(default=())


class Source(Protocol):
    """A declared tool: one function, or those of an MCP server."""

    names: Sequence[str]
    """Functions that are known without asking anybody."""

    async def open(self, stack: AsyncExitStack) -> Opened:
        """Connect for the duration of the stack; raises `TemperError`."""
        ...


def arguments_of(call: ServerCall) -> JsonObject | None:
    """The arguments of a call; None if they are no JSON object."""
    try:
        return arguments_object(call.arguments, "arguments")
    except InvalidRequest:
        return None


def refuse(tool: JsonObject, place: str, reasons: dict[str, str]) -> None:
    """Raise `InvalidRequest` for a field of a tool that is not supported."""
    for name, why in reasons.items():
        if tool.get(name):
            raise InvalidRequest(f"is {shown(tool[name])}: {why}", param=f"{place}.{name}")
