"""Aggregate tool usage of an evaluation."""

from collections import Counter
from dataclasses import asdict, dataclass, field

from services.contracts.evaluation.results import MeasureEstimate, SampleResult, ToolUseMetrics
from services.metrics.measures import Measures

_GROUP = "tools"


@dataclass
class ToolUseTotals:
    """Sums over the answered rows of an evaluation with tools, independent of their order."""

    calls: int = 0
    failed_calls: int = 0
    malformed_calls: int = 0
    _endings: Counter[str] = field(default_factory=Counter)
    _per_sample: Measures = field(default_factory=Measures)

    def add(self, row: SampleResult) -> None:
        """Count one row; one without an answer or without tools counts for nothing."""
        if row.tools is None or row.answer is None:
            return
        self.calls += row.tools.calls
        self.failed_calls += row.tools.failed_calls
        self.malformed_calls += row.tools.malformed_calls
        self._endings[row.finish_reason or ""] += 1
        numbers = row.tools.model_dump(exclude={"trajectory"})
        self._per_sample.add(_GROUP, row.index, numbers)

    def metrics(self) -> ToolUseMetrics | None:
        """The sums and the means, whose intervals are over items; None without such a row."""
        if not self._endings:
            return None
        means = self._per_sample.means()[_GROUP]
        # At the same accuracy, an answer that takes less is cheaper.
        return ToolUseMetrics(
            calls=self.calls,
            failed_calls=self.failed_calls,
            malformed_calls=self.malformed_calls,
            endings=dict(self._endings),
            per_sample={
                name: MeasureEstimate(**asdict(mean), lower_is_better=True)
                for name, mean in means.items()
            },
        )
