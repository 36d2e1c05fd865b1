"""What a demonstration prints: results on standard output, everything else on standard error."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH = 500
"""Columns without a terminal, so that no value is cut off."""


class Printer:
    """The two streams of a demonstration."""

    def __init__(self) -> None:
        self._results, self._notes = Console(highlight=False), Console(stderr=True, highlight=False)
        for console in (self._results, self._notes):
            if not console.is_terminal:
                console.width = PIPE_WIDTH

    def line(self, text: str) -> None:
        """Print a line of the results."""
        self._results.print(Text(text), soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table of the results."""
        self._results.print(table)

    def note(self, text: str, style: str = "") -> None:
        """Print a line that is not part of the results."""
        self._notes.print(Text(text, style=style), soft_wrap=True)


def duration(seconds: float) -> str:
    """Format a duration: 8s, 4m10s."""
    minutes, rest = divmod(max(0, round(seconds)), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
