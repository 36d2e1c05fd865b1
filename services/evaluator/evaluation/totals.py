"""Totals of an evaluation over its benchmarks, which share one engine."""

from collections.abc import Mapping

from services.contracts.evaluation.results import EvaluationMetrics
from services.evaluator.evaluation.results import ResultRow, RunningTotals


class SuiteTotals:
    """The totals of all benchmarks of an evaluation, by name; None names the only one.

    ``seconds`` is the time spent generating, over all attempts.
    """

    def __init__(
        self, benchmarks: Mapping[str | None, RunningTotals], seconds: float = 0.0
    ) -> None:
        self.seconds = seconds
        self._benchmarks = benchmarks

    @property
    def unit(self) -> str:
        """What is counted."""
        return "samples"

    @property
    def done(self) -> int:
        """Samples that were asked, answered or not."""
        return sum(each.samples + each.left_out for each in self._benchmarks.values())

    @property
    def answered(self) -> int:
        """Samples with a grade, correct or not."""
        return sum(each.answered for each in self._benchmarks.values())

    @property
    def tokens(self) -> int:
        """Tokens of all answers."""
        return sum(each.completion_tokens for each in self._benchmarks.values())

    def add(self, row: ResultRow) -> None:
        """Count one row."""
        self._benchmarks[row.benchmark].add(row)

    def metrics_so_far(self) -> dict[str, float]:
        """Metrics reported while samples are asked: the accuracy of each benchmark."""
        accuracies = {
            "accuracy" if name is None else f"accuracy/{name}": each.accuracy
            for name, each in self._benchmarks.items()
            if name is None or each.samples
        }
        errors = sum(each.errors for each in self._benchmarks.values())
        left_out = sum(each.left_out for each in self._benchmarks.values())
        return {**accuracies, "errors": errors, "samples_left_out": left_out}

    def metrics(self) -> Mapping[str | None, EvaluationMetrics]:
        """The outcome of each benchmark; needs a sample of each.

        The answers of several benchmarks overlap in time: each has the share of the seconds that
        it has of the tokens.
        """
        for each in self._benchmarks.values():
            share = (
                each.completion_tokens / self.tokens if self.tokens else 1 / len(self._benchmarks)
            )
            each.seconds = self.seconds * share
        return {name: each.metrics() for name, each in self._benchmarks.items()}
