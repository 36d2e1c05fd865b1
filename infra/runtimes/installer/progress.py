"""Progress display: one updating line on a terminal, periodic lines elsewhere."""

import os
import shutil
import time
from typing import TextIO

LINE_SECONDS = 10.0
"""Minimum time between two lines if the output is not a terminal."""


class Progress:
    """Shows the progress of one task; every line ends with the elapsed time."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._started = time.monotonic()
        self._printed = float("-inf")
        self._phase = ""

    def show(self, phase: str, detail: str = "") -> None:
        """Show ``phase`` with a changing ``detail``. Cheap to call often."""
        now = time.monotonic()
        line = f"{self._title}: {phase}{', ' if detail else ''}{detail}, {self.elapsed()}"
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            self._stream.write(f"\r\x1b[2K{line[:width]}")
        elif phase != self._phase or now - self._printed >= LINE_SECONDS:
            self._stream.write(f"{line}\n")
            self._printed = now
        self._phase = phase
        self._stream.flush()

    def end(self, text: str) -> None:
        """Show the outcome as the last line."""
        clear = "\r\x1b[2K" if self._terminal else ""
        self._stream.write(f"{clear}{self._title}: {text}\n")
        self._stream.flush()

    def elapsed(self) -> str:
        """Time since the work began, as minutes:seconds."""
        minutes, seconds = divmod(int(time.monotonic() - self._started), 60)
        return f"{minutes}:{seconds:02d}"
