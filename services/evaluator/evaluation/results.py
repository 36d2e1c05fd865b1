"""The durable rows of an evaluation: ``results.jsonl`` in the job directory.

The file is an `AppendLog` of `ResultRow`, readable while it is written:

- a line holds the fields of ``SampleResult`` except ``id``, which the reader assigns;
- rows are in the order in which samples finished; an ``index`` occurs at most once;
- rows are only ever appended, so that a byte offset after a newline stays valid, with one
  exception: when a new attempt begins and the previous one left rows without a grade, the file is
  replaced by one without these rows, because their samples are asked again.
"""

import os
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, ValidationError

from services.contracts.evaluations import SampleResult
from services.datasets.append_log import read_records

RESULTS = "results.jsonl"


class ResultRow(SampleResult):
    """A row as it is stored."""

    id: str = Field(default="", exclude=True)


def prepare(path: Path, samples: int) -> None:
    """Make the file of earlier attempts, if there is one, ready for appending.

    Drops a torn last line, rows without a grade, unreadable rows (after a power loss), and rows
    whose index is outside ``range(samples)`` or a duplicate. A kill in between leaves the file
    unchanged or ready.
    """
    if not path.exists():
        return
    kept_path = path.with_suffix(".partial")
    seen = bytearray(samples)
    whole_bytes, dropped = 0, False
    with open(path, "r+b") as file, open(kept_path, "wb") as kept:
        for line in file:
            if not line.endswith(b"\n"):
                break
            whole_bytes += len(line)
            index = _answered_index(line)
            if index is not None and 0 <= index < samples and not seen[index]:
                seen[index] = True
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


def read_rows(path: Path) -> Iterator[ResultRow]:
    """The rows of a prepared file, in their order; none when there is no file."""
    return (row for _, row in read_records(path, ResultRow))


def _answered_index(line: bytes) -> int | None:
    try:
        row = ResultRow.model_validate_json(line)
    except ValidationError:
        return None
    return None if row.correct is None else row.index
