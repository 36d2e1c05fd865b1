"""One pass over a file that checks every row and keeps the first problems."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from services.contracts.errors import InvalidRequest
from services.core.process.reporter import Reporter
from services.datasets.containers.container import Container
from services.datasets.reader import RecordReader, open_records
from services.datasets.record import JsonValue, Problem, RowError, UnreadableFile, counted

Row = TypeVar("Row")

_ROWS_PER_PROGRESS = 500


class InvalidFile(InvalidRequest):
    """A file with unusable rows; ``problems`` are the first ones, in order.

    ``complete`` is false when checking stopped before the end of the file.
    """

    def __init__(
        self,
        filename: str,
        problems: Sequence[Problem],
        *,
        complete: bool,
        code: str,
        param: str = "file",
    ) -> None:
        self.problems = tuple(problems)
        self._filename = filename
        self._complete = complete
        more = len(self.problems) - 1
        stopped = "" if complete else "; checking stopped there"
        rest = f" (and {counted(more, 'more error')}{stopped})" if more else ""
        super().__init__(f"{filename}: {self.problems[0]}{rest}", param=param)
        self.code = code

    @property
    def rows(self) -> list[dict[str, JsonValue]]:
        """Row and message of every problem of a single row."""
        kept = [problem for problem in self.problems if problem.row is not None]
        return [{"row": problem.row, "message": problem.message} for problem in kept]

    def announce(self, reporter: Reporter) -> None:
        """Report every problem, and whether there may be more."""
        for problem in self.problems:
            text = f"{self._filename}: {problem}"
            reporter.message(text, "error", row=problem.row, problem=problem.message)
        if not self._complete:
            found = counted(len(self.problems), "error")
            reporter.message(f"{self._filename}: checking stopped after {found}", "error")


@dataclass(frozen=True, slots=True)
class ScanReport:
    """The outcome of a scan.

    ``rows`` counts the rows read, ``errors`` holds the first problems in order. ``complete`` is
    false if the scan stopped because there were more than it could keep.
    """

    container: Container | None
    rows: int
    valid_rows: int
    errors: tuple[Problem, ...]
    complete: bool

    def raise_errors(self, filename: str, *, code: str, param: str = "file") -> None:
        """Raise `InvalidFile` if there are errors."""
        if self.errors:
            raise InvalidFile(filename, self.errors, complete=self.complete, code=code, param=param)


class Scan(Generic[Row]):
    """Iterates over the rows that pass ``check``, which returns a row's parsed form.

    Keeps up to ``max_errors`` problems and stops at the next one. The report is final once the
    iteration ends; a bad file raises nothing.
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
        self.number = 0
        """The number of the row that was read last."""

    @property
    def report(self) -> ScanReport:
        """The findings so far."""
        return ScanReport(
            self._container, self._rows, self._valid_rows, tuple(self._errors), self._complete
        )

    def run(self) -> ScanReport:
        """Scan the whole file and return the report, discarding the parsed rows."""
        for _ in self:
            pass
        return self.report

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
            self.number = record.row or 0
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
        """Keep a problem if there is room; otherwise the report is incomplete."""
        if len(self._errors) < self._max_errors:
            self._errors.append(problem)
        else:
            self._complete = False
        return self._complete
