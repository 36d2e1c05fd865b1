"""The output of a running cell, up to its limits."""

import json
import time
from collections.abc import Callable
from typing import Any

from services.sandbox.guest.frames import Header
from services.sandbox.guest.notebook.messages import (
    GATHERED_BYTES,
    GATHERING_SECONDS,
    MAX_DISPLAYS,
    MAX_ERRORS,
    MAX_NAME_LENGTH,
    MAX_REPRESENTATIONS,
    MAX_TRACEBACK_LENGTH,
    MAX_TRACEBACK_LINES,
    MAX_TYPE_LENGTH,
    MAX_VALUE_LENGTH,
)

Send = Callable[[Header, bytes], None]


class Cell:
    """A cell, from its request to its end.

    ``budget`` holds the bytes to send of stdout, of stderr, and of all displays; the rest is
    dropped, and the last message says so. Output is buffered briefly, so that small writes do not
    become a message each.
    """

    def __init__(self, send: Send, request: str, budget: dict[str, int]) -> None:
        self.request = request
        self._send = send
        self._left = dict(budget)
        self._gathered = {"stdout": bytearray(), "stderr": bytearray()}
        self._gathered_since: float | None = None
        self._displays = self._errors = 0
        self._cut = set[str]()
        self._ok = True
        self._count: int | None = None
        self._interrupt: Callable[[], None] | None = None

    @property
    def seconds_to_flush(self) -> float | None:
        """Seconds until `flush` is due; None while nothing is buffered."""
        if self._gathered_since is None:
            return None
        return max(0.0, self._gathered_since + GATHERING_SECONDS - time.monotonic())

    def printed(self, stream: str, piece: bytes) -> None:
        """Add output of a standard stream."""
        kept = piece[: self._left[stream]]
        if len(kept) < len(piece):
            self._cut.add(stream)
        self._left[stream] -= len(kept)
        gathered = self._gathered[stream]
        gathered += kept
        if len(gathered) >= GATHERED_BYTES:
            self.flush()
        elif gathered and self._gathered_since is None:
            self._gathered_since = time.monotonic()

    def flush(self) -> None:
        """Send the buffered output."""
        self._gathered_since = None
        for stream, gathered in self._gathered.items():
            if gathered:
                self._send({"type": "stream", "name": stream}, bytes(gathered))
                gathered.clear()

    def counted(self, number: int) -> None:
        """Note that the cell has started, as the ``number``-th of this kernel."""
        self._count = number
        if self._interrupt is not None:
            self._interrupt()

    def interrupt(self, means: Callable[[], None]) -> None:
        """Interrupt the cell, once it has started: the kernel ignores an earlier interrupt."""
        if self._count is None:
            self._interrupt = means
        else:
            means()

    def shown(self, bundle: dict[str, Any]) -> None:
        """Send a display: the smallest representations that the budget allows."""
        encoded = sorted(
            (
                (_text(kind, MAX_TYPE_LENGTH), not isinstance(value, str), _encoded(value))
                for kind, value in list(bundle.items())[:MAX_REPRESENTATIONS]
            ),
            key=lambda representation: len(representation[2]),
        )
        items, body = [], b""
        for kind, is_json, content in encoded:
            if self._displays < MAX_DISPLAYS and len(content) <= self._left["display"]:
                self._left["display"] -= len(content)
                items.append({"type": kind, "json": is_json, "size": len(content)})
                body += content
            else:
                self._cut.add("display")
        if items:
            self.flush()
            self._displays += 1
            self._send({"type": "display", "items": items}, body)

    def failed(self, content: dict[str, Any]) -> None:
        """Send an error that ended the cell or that it displayed."""
        lines, left = [], MAX_TRACEBACK_LENGTH
        for line in content["traceback"][:MAX_TRACEBACK_LINES]:
            lines.append(_text(line, left))
            left -= len(lines[-1])
        header = {
            "type": "error",
            "ename": _text(content["ename"], MAX_NAME_LENGTH),
            "evalue": _text(content["evalue"], MAX_VALUE_LENGTH),
            "traceback": [line for line in lines if line],
        }
        self._ok = False
        self._errors += 1
        if self._errors <= MAX_ERRORS:
            self.flush()
            self._send(header, b"")

    def ended(self) -> None:
        """Send the last message."""
        self.flush()
        header = {"type": "done", "ok": self._ok, "count": self._count, "cut": sorted(self._cut)}
        self._send(header, b"")


def _encoded(value: object) -> bytes:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text.encode(errors="replace")


def _text(value: str, length: int) -> str:
    """A text of at most ``length`` characters that every JSON parser accepts."""
    return value[:length].encode(errors="replace").decode()
