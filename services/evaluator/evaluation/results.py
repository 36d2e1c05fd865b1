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
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import Field, ValidationError

from services.contracts.evaluation.results import (
    EvaluationMetrics,
    ItemEstimate,
    MeasureEstimate,
    ParsingOutcome,
    SampleResult,
)
from services.contracts.infrastructure import InfrastructureCause
from services.datasets.append_log import read_records
from services.evaluator.evaluation.tool_call_totals import ToolCallTotals
from services.evaluator.evaluation.tool_use import ToolUseTotals
from services.metrics.measures import LOWER_IS_BETTER, Measures, mean_of_clusters
from services.metrics.repeated import Estimate, RepeatedSamples, shown_k

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


@dataclass
class RunningTotals:
    """Sums over rows, independent of their order.

    ``seconds`` is the time spent generating, over all attempts. ``extracts``: the grader names what
    it compared, so that an answer without it is unparsable. ``tool_calls`` counts the calls in
    answers, where these are graded.
    """

    samples_per_item: int = 1
    extracts: bool = False
    tool_calls: ToolCallTotals | None = None
    samples: int = 0
    correct: int = 0
    errors: int = 0
    left_out: int = 0
    unanswered: int = 0
    unparsable: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    seconds: float = 0.0
    _left_out: Counter[InfrastructureCause] = field(default_factory=Counter)
    _parsing: Counter[ParsingOutcome] = field(default_factory=Counter)
    _scores: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))
    _measures: Measures = field(default_factory=Measures)
    _tool_use: ToolUseTotals = field(default_factory=ToolUseTotals)
    _repeated: RepeatedSamples = field(init=False)

    def __post_init__(self) -> None:
        self._repeated = RepeatedSamples(self.samples_per_item)

    @property
    def answered(self) -> int:
        """Samples with a grade, correct or not."""
        return self.samples - self.errors

    @property
    def accuracy(self) -> float:
        """The fraction of correct answers so far; a sample without a grade is incorrect."""
        return self.correct / self.samples if self.samples else 0.0

    def add(self, row: ResultRow) -> None:
        """Count one row; one that is left out, in ``left_out`` only."""
        if row.left_out is not None:
            self.left_out += 1
            self._left_out[row.left_out.cause] += 1
            return
        self.samples += 1
        self.correct += row.correct is True
        self._repeated.add(row.index, correct=row.correct is True, answer=row.extracted)
        if row.group is not None:
            self._measures.add(row.group, row.index, row.measures or {})
        if row.correct is None:
            self.errors += 1
            self.unanswered += row.answer is None
        else:
            score = float(row.correct) if row.score is None else row.score
            self._scores[row.index].append(score)
            self.unparsable += self.extracts and row.extracted is None
        self._tool_use.add(row)
        if self.tool_calls is not None:
            self.tool_calls.add(row)
        if row.parsing is not None:
            self._parsing[row.parsing] += 1
        self.prompt_tokens += row.prompt_tokens or 0
        self.completion_tokens += row.completion_tokens or 0

    def metrics(self) -> EvaluationMetrics:
        """The outcome; needs at least one sample that is not left out."""
        share, majority = self._repeated.accuracy(), None
        score = mean_of_clusters(self._scores) if self._scores else None
        pass_at_k: dict[str, ItemEstimate] | None = None
        if self.samples_per_item > 1:
            pass_at_k = {
                str(k): _on_the_wire(self._repeated.pass_at(k))
                for k in shown_k(self.samples_per_item)
                if k <= self._repeated.most_samples  # some may have been left out
            }
            majority = self._repeated.majority()
        return EvaluationMetrics(
            samples=self.samples,
            correct=self.correct,
            errors=self.errors,
            items=self._repeated.items,
            samples_per_item=self.samples_per_item,
            left_out=self.left_out,
            left_out_causes=dict(self._left_out) or None,
            unanswered=self.unanswered,
            unparsable=self.unparsable,
            parsing=dict(self._parsing) or None,
            pass_at_k=pass_at_k,
            measures=self._measured() or None,
            majority=_on_the_wire(majority) if majority else None,
            tool_use=self._tool_use.metrics(),
            tool_calls=None if self.tool_calls is None else self.tool_calls.scores(),
            accuracy=share.mean,
            mean_score=score.mean if score else None,
            mean_score_stderr=score.stderr if score else None,
            mean_score_ci95=score.ci95 if score else None,
            stderr=share.stderr,
            ci95=share.ci95,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            generation_seconds=self.seconds,
            tokens_per_second=self.completion_tokens / self.seconds if self.seconds else 0.0,
        )

    def _measured(self) -> dict[str, dict[str, MeasureEstimate]]:
        return {
            group: {
                name: MeasureEstimate(**asdict(mean), lower_is_better=name in LOWER_IS_BETTER)
                for name, mean in means.items()
            }
            for group, means in self._measures.means().items()
        }


def _on_the_wire(estimate: Estimate) -> ItemEstimate:
    return ItemEstimate(**asdict(estimate))
