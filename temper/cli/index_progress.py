"""Showing how far an order to work on an index has come."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from temper.cli.output import Output


class OrderProgress:
    """Draws a bar where there is a terminal; elsewhere each phase is a line."""

    def __init__(self, out: Output) -> None:
        self._out = out
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            console=out.notes,
            transient=True,
            disable=not out.notes.is_terminal,
        )
        self._task = self._bar.add_task("starting", total=None)

    @contextmanager
    def shown(self) -> Iterator["OrderProgress"]:
        """Show it for the length of a block."""
        with self._bar:
            yield self

    def phase(self, name: str) -> None:
        """A part of the work begins."""
        words = name.replace("_", " ")
        self._bar.reset(self._task, description=words, total=None)
        if not self._out.notes.is_terminal:
            self._out.note(words)

    def progress(self, done: int, total: int) -> None:
        """So much of it is done."""
        self._bar.update(self._task, completed=done, total=total)

    def message(self, text: str) -> None:
        """Something worth telling."""
        self._out.note(text)
