"""The durable rows of an evaluation: ``results.jsonl`` in the job directory.

The file is an `AppendLog` of `ResultRow`, readable while it is written:

- a line holds the fields of ``SampleResult`` except ``id``, which the reader assigns;
- rows are in the order in which samples finished; a ``benchmark``, ``index`` and ``sample`` occur
  at most once;
- rows are only ever appended, so that a byte offset after a newline stays valid, with one
  exception: when a new attempt begins and the previous one left rows without a grade, the file is
  replaced by one without these rows, because their samples are asked again.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import Field, ValidationError

from services.contracts.evaluation.results import (
    SampleResult,
)
from services.datasets.append_log import read_records

RESULTS = "results.jsonl"


class ResultRow(SampleResult):
    """A row as it is stored."""

    id: str = Field(default="", exclude=True)


class Answered:
    """Which samples in the first ``rows`` rows of a benchmark have a grade."""

    def __init__(self, rows: int, samples_per_item: int = 1) -> None:
        self._rows = rows
        self._samples_per_item = samples_per_item
        self._seen = bytearray(rows * samples_per_item)

    def has(self, index: int, sample: int) -> bool:
        """Whether a sample of a row has a grade."""
        return bool(self._seen[index * self._samples_per_item + sample])

    def take(self, row: ResultRow) -> bool:
        """Note a row; false for one without a grade, of no sample, or of one that has a grade."""
        wanted = 0 <= row.index < self._rows and 0 <= row.sample < self._samples_per_item
        if not wanted or row.correct is None or self.has(row.index, row.sample):
            return False
        self._seen[row.index * self._samples_per_item + row.sample] = True
        return True


def prepare(path: Path, answered: Mapping[str | None, Answered]) -> None:
    """Make the file of earlier attempts, if there is one, ready for appending.

    Drops a torn last line, unreadable rows (after a power loss), rows of no benchmark in
    ``answered``, and those that its `Answered` does not take; it has noted the others. A kill in
    between leaves the file unchanged or ready.
    """
    if not path.exists():
        return
    kept_path = path.with_suffix(".partial")
    whole_bytes, dropped = 0, False
    with open(path, "r+b") as file, open(kept_path, "wb") as kept:
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole_bytes += len(line)
            if _is_taken(line, answered):
                kept.write(line)
            else:
                dropped = True
        file.truncate(whole_bytes)
        os.fsync(file.fileno())
        kept.flush()
        os.fsync(kept.fileno())
    if dropped:
        kept_path.replace(path)
    else:
        kept_path.unlink()


def _is_taken(line: bytes, answered: Mapping[str | None, Answered]) -> bool:
    try:
        row = ResultRow.model_validate_json(line)
    except ValidationError:
        return False
    return row.benchmark in answered and answered[row.benchmark].take(row)


def read_rows(path: Path) -> Iterator[ResultRow]:
    """The rows of a prepared file in order; none without a file."""
    return (row for _, row in read_records(path, ResultRow))
