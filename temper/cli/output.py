"""Output of a command: results on standard output, everything else on standard error."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from pydantic import BaseModel
    from rich.console import Console
    from rich.text import Text

PIPE_WIDTH = 500
"""Columns without a terminal: wide enough that no value is cut off for scripts."""

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON document, or JSON lines when following.")
]


class Output:
    """The streams of one command. With ``as_json``, standard output carries only JSON."""

    def __init__(self, as_json: bool) -> None:
        self.as_json = as_json

    @cached_property
    def results(self) -> Console:
        """What is written to standard output as text."""
        return _console(sys.stdout.isatty(), stderr=False)

    @cached_property
    def notes(self) -> Console:
        """What is written to standard error."""
        return _console(sys.stderr.isatty(), stderr=True)

    @property
    def is_live(self) -> bool:
        """Whether standard output is a terminal on which progress can be drawn."""
        return self.results.is_terminal and not self.as_json

    def document(self, value: BaseModel) -> None:
        """Print a command's JSON document."""
        sys.stdout.write(value.model_dump_json(indent=2) + "\n")
        sys.stdout.flush()

    def json_line(self, value: BaseModel) -> None:
        """Print one JSON line of a stream."""
        sys.stdout.write(value.model_dump_json() + "\n")
        sys.stdout.flush()

    def line(self, text: str, style: str = "") -> None:
        """Print a line of the result."""
        from rich.text import Text

        self.results.print(Text(text, style=style), soft_wrap=True)

    def note(self, text: str, style: str = "") -> None:
        """Print a line that is not part of the result."""
        from rich.text import Text

        self.notes.print(Text(text, style=style), soft_wrap=True)

    def fields(self, values: Mapping[str, str | None]) -> None:
        """Print one name and value per line; empty values are left out."""
        from rich.text import Text

        width = max(map(len, values), default=0) + 2
        for name, value in values.items():
            if value:
                field = Text.assemble((name.ljust(width), "bold"), value)
                self.results.print(field, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> None:
        """Print a table, one line per row regardless of width, so that values can be copied."""
        from rich.text import Text

        heading = [Text(column, style="bold") for column in columns]
        lines = [heading] + [[_text(cell) for cell in row] for row in rows]
        widths = [max(cell.cell_len for cell in column) for column in zip(*lines, strict=True)]
        for line in lines:
            for cell, width in zip(line[:-1], widths, strict=False):
                cell.pad_right(width - cell.cell_len)
            self.results.print(Text("  ").join(line), soft_wrap=True)


def _text(cell: str | Text) -> Text:
    from rich.text import Text

    return cell if isinstance(cell, Text) else Text(cell)


def _console(is_terminal: bool, *, stderr: bool) -> Console:
    from rich.console import Console

    return Console(
        stderr=stderr,
        width=None if is_terminal else PIPE_WIDTH,
        highlight=False,
        soft_wrap=not is_terminal,
    )


@contextmanager
def transfer_bar(out: Output, label: str) -> Iterator[Callable[[int, int], None] | None]:
    """Yield a callback for (bytes done, bytes in total), or None without a terminal."""
    if not out.notes.is_terminal:
        yield None
        return
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=out.notes, transient=True) as progress:
        task = progress.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total or None)

        yield report
