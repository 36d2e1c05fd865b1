"""The live status of a prompt batch, one line on stderr."""

import asyncio
import sys
import time
from collections.abc import Callable
from typing import TextIO

from services.evaluator.prompts.rows import PromptRows

TERMINAL_SECONDS = 0.5
LOG_SECONDS = 10.0


class StatusLine:
    """Rewrites one line on a terminal; appends a line now and then elsewhere."""

    def __init__(
        self,
        rows: PromptRows,
        in_flight: Callable[[], int],
        to_ask: int,
        stream: TextIO = sys.stderr,
    ) -> None:
        self._rows = rows
        self._in_flight = in_flight
        self._to_ask = to_ask
        self._stream = stream
        self._begun = time.monotonic()
        self._tokens_before = rows.completion_tokens
        self.ended = 0

    async def show_forever(self) -> None:
        """Show the status periodically until cancelled."""
        is_terminal = self._stream.isatty()
        while True:
            await asyncio.sleep(TERMINAL_SECONDS if is_terminal else LOG_SECONDS)
            self._stream.write(f"\r\x1b[K{self.text()}" if is_terminal else f"{self.text()}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self._stream.isatty():
            self._stream.write("\r\x1b[K")

    def text(self) -> str:
        """Rows, rates, the remaining time, failures and requests in flight."""
        elapsed = max(time.monotonic() - self._begun, 1e-9)
        rows = self._rows
        parts = [
            f"{rows.answered + rows.failed:,} rows",
            f"{self._to_ask - self.ended:,} left",
            f"{self.ended / elapsed:,.1f} rows/s",
            f"{(rows.completion_tokens - self._tokens_before) / elapsed:,.0f} tokens/s",
        ]
        if self.ended:
            seconds = round(elapsed / self.ended * (self._to_ask - self.ended))
            minutes, seconds = divmod(seconds, 60)
            hours, minutes = divmod(minutes, 60)
            parts.append(f"ETA {hours}:{minutes:02}:{seconds:02}")
        parts += [f"{rows.failed:,} failed", f"{self._in_flight()} in flight"]
        return " | ".join(parts)
