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
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from services.contracts.evaluations import EvaluationMetrics, SampleResult
from services.datasets.append_log import read_records
from services.evaluator.statistics import proportion

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
    """The rows of a prepared file in order; none without a file."""
    return (row for _, row in read_records(path, ResultRow))


def _answered_index(line: bytes) -> int | None:
    try:
        row = ResultRow.model_validate_json(line)
    except ValidationError:
        return None
    return None if row.correct is None else row.index


@dataclass
class RunningTotals:
    """Sums over rows, independent of their order.

    ``seconds`` is the time spent generating, over all attempts.
    """

    samples: int = 0
    correct: int = 0
    errors: int = 0
    score_sum: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0

    @property
    def unit(self) -> str:
        """What is counted."""
        return "samples"

    @property
    def done(self) -> int:
        """Samples that were asked, answered or not."""
        return self.samples

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return self.completion_tokens

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported while samples are asked."""
        return {"accuracy": self.accuracy, "errors": self.errors}

    @property
    def answered(self) -> int:
        """Samples with a grade, correct or not."""
        return self.samples - self.errors

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers so far; a sample without a grade is incorrect."""
        return self.correct / self.samples if self.samples else 0.0

    def add(self, row: ResultRow) -> None:
        """Count one row."""
        self.samples += 1
        self.correct += row.correct is True
        self.errors += row.correct is None
        if row.correct is not None:
            self.score_sum += float(row.correct) if row.score is None else row.score
        self.prompt_tokens += row.prompt_tokens or 0
        self.completion_tokens += row.completion_tokens or 0

    def metrics(self) -> EvaluationMetrics:
        """The outcome; needs at least one sample."""
        share = proportion(self.correct, self.samples)
        return EvaluationMetrics(
            samples=self.samples,
            correct=self.correct,
            errors=self.errors,
            accuracy=share.mean,
            mean_score=self.score_sum / self.answered if self.answered else None,
            stderr=share.stderr,
            ci95=share.ci95,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            generation_seconds=self.seconds,
            tokens_per_second=self.completion_tokens / self.seconds if self.seconds else 0.0,
        )
