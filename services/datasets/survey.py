"""Going through a file once, row by row, to learn whether every row is of use."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from services.core.process.reporter import Reporter
from services.datasets.container import Container
from services.datasets.reader import RecordReader, open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, counted

Row = TypeVar("Row")

_ROWS_PER_PROGRESS = 500


@dataclass(frozen=True, slots=True)
class Findings:
    """What a survey found.

    ``rows`` counts the rows that were read, ``errors`` holds the first problems in order.
    ``complete`` is false when there are more of them: reading stopped at the first not kept.
    """

    container: Container | None
    rows: int
    valid_rows: int
    errors: tuple[Problem, ...]
    complete: bool

    def failure(self, filename: str) -> str:
        """One line for a person: the first problem, and how many more there are."""
        more = len(self.errors) - 1
        if not more:
            return f"{filename}: {self.errors[0]}"
        stopped = "" if self.complete else "; checking stopped there"
        return f"{filename}: {self.errors[0]} (and {counted(more, 'more error')}{stopped})"

    def announce(self, reporter: Reporter, filename: str) -> None:
        """Report every problem that was kept, and whether there may be more."""
        for problem in self.errors:
            text = f"{filename}: {problem}"
            reporter.message(text, "error", row=problem.row, problem=problem.message)
        if not self.complete:
            shown = counted(len(self.errors), "error")
            reporter.message(f"{filename}: checking stopped after {shown}", "error")


class Survey(Generic[Row]):
    """Iterates over the rows that pass ``check``, which turns a row into what it holds.

    Problems are kept up to ``max_errors``; at the first beyond them reading stops. The findings
    are whole once the iteration has ended; it raises nothing on account of the file.
    """

    def __init__(
        self,
        path: Path,
        check: Callable[[JsonValue], Row],
        *,
        max_errors: int,
        progress: Callable[[float], None],
    ) -> None:
        self._path = path
        self._check = check
        self._max_errors = max_errors
        self._progress = progress
        self._container: Container | None = None
        self._rows = 0
        self._valid_rows = 0
        self._errors: list[Problem] = []
        self._complete = True

    @property
    def findings(self) -> Findings:
        """What was found so far."""
        return Findings(
            self._container, self._rows, self._valid_rows, tuple(self._errors), self._complete
        )

    def __iter__(self) -> Iterator[Row]:
        try:
            reader = open_records(self._path)
            self._container = reader.container
            yield from self._valid(reader)
        except UnreadableFile as error:
            self._keep(error.problem)
            return
        self._progress(1.0)
        if not self._rows:
            self._keep(Problem(None, "the file holds no rows"))

    def _valid(self, reader: RecordReader) -> Iterator[Row]:
        for record in reader:
            self._rows += 1
            if self._rows % _ROWS_PER_PROGRESS == 0:
                self._progress(reader.share_read)
            try:
                if isinstance(record, Problem):
                    raise RowError(record.message)
                row = self._check(record.value)
            except RowError as error:
                if not self._keep(Problem(record.row, error.message)):
                    return
            else:
                self._valid_rows += 1
                yield row

    def _keep(self, problem: Problem) -> bool:
        """Keep a problem if there is room; otherwise the survey is not complete."""
        if len(self._errors) < self._max_errors:
            self._errors.append(problem)
        else:
            self._complete = False
        return self._complete
