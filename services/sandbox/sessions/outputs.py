"""The output of a cell, as reported by its driver."""

import codecs
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel
from pydantic_core import from_json

from services.contracts.sandbox.programs import OutputPiece
from services.contracts.sandbox.sessions import CellError, MimeBundle
from services.contracts.sandbox.sessions import Shown as ShownPiece
from services.sandbox.execution import Stream
from services.sandbox.guest.notebook.messages import (
    GATHERED_BYTES,
    GATHERING_SECONDS,
    MAX_DISPLAYS,
    MAX_ERRORS,
)
from services.sandbox.sessions.driver import (
    CellDisplay,
    Printed,
    ProtocolBroken,
    Raised,
    Representation,
)

MESSAGES_PER_SECOND = 4 / GATHERING_SECONDS
"""Twice the regular rate of gathered messages on two streams."""
MESSAGE_BURST = 4 * (MAX_DISPLAYS + MAX_ERRORS)
"""Each display may flush both streams first."""

CellListener = Callable[[str, BaseModel], None]
"""Called with the name and data of each event of a running cell."""


@dataclass
class OutputBudget:
    """Bytes that may still be received of each stream, and of all displays."""

    stdout: int
    stderr: int
    display: int

    def take(self, part: str, size: int) -> None:
        """Spend ``size`` bytes of a part; raises `ProtocolBroken` if fewer are left."""
        left = getattr(self, part) - size
        if left < 0:
            raise ProtocolBroken(f"{part} exceeds its limit")
        setattr(self, part, left)


class CellOutputs:
    """Collects the output of a cell within a ``budget``, which it spends."""

    def __init__(self, budget: OutputBudget, listener: CellListener | None = None) -> None:
        self.budget = budget
        self.display: list[MimeBundle] = []
        self.error: CellError | None = None
        self.cut = set[str]()
        self._listener = listener
        self._started = time.monotonic()
        self._messages = 0
        self._errors = 0
        self._max_messages = MESSAGE_BURST + 2 * (budget.stdout + budget.stderr) // GATHERED_BYTES
        self._pieces: Mapping[Stream, list[str]] = {stream: [] for stream in Stream}
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in Stream
        }

    def take(self, message: Printed | CellDisplay | Raised, body: bytes) -> None:
        """Add a message; raises `ProtocolBroken`."""
        self._messages += 1
        passed = time.monotonic() - self._started
        if self._messages > self._max_messages + MESSAGES_PER_SECOND * passed:
            raise ProtocolBroken("too many messages")
        match message:
            case Printed(name=stream):
                self.budget.take(stream, len(body))
                self._add(stream, self._decoders[stream].decode(body))
            case CellDisplay(items=items):
                self.budget.take("display", len(body))
                if bundle := _bundle(items, body, self.cut):
                    self._show(bundle)
            case Raised():
                self._errors += 1
                if self._errors > MAX_ERRORS:
                    raise ProtocolBroken("too many errors")
                self.error = CellError(
                    ename=message.ename, evalue=message.evalue, traceback=message.traceback
                )
                self._notify("error", self.error)

    def close(self) -> None:
        """Finish: incomplete characters will not be completed."""
        for stream, decoder in self._decoders.items():
            self._add(stream, decoder.decode(b"", final=True))

    def text(self, stream: Stream) -> str:
        """Everything written to a stream."""
        return "".join(self._pieces[stream])

    def _add(self, stream: Stream, text: str) -> None:
        if text:
            self._pieces[stream].append(text)
            self._notify(stream, OutputPiece(text=text))

    def _show(self, bundle: MimeBundle) -> None:
        if len(self.display) == MAX_DISPLAYS:
            raise ProtocolBroken("too many displays")
        self.display.append(bundle)
        self._notify("display", ShownPiece(data=bundle))

    def _notify(self, name: str, data: BaseModel) -> None:
        if self._listener is not None:
            self._listener(name, data)


def _bundle(items: list[Representation], body: bytes, cut: set[str]) -> MimeBundle:
    if sum(item.size for item in items) != len(body):
        raise ProtocolBroken("the body of a display has the wrong size")
    bundle: dict[str, Any] = {}
    start = 0
    for item in items:
        text = body[start : start + item.size].decode(errors="replace")
        start += item.size
        try:
            bundle[item.type] = from_json(text, allow_inf_nan=False) if item.json_ else text
        except ValueError:  # not strict JSON: NaN, or nested too deeply
            cut.add("display")
    return bundle
