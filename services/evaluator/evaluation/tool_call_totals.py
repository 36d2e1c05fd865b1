"""The calls that answers state, counted against those of their golds."""

import json
from collections.abc import Mapping
from dataclasses import asdict

from services.contracts.evaluation.metrics import (
    CallCounts,
    CallScore,
    CallTable,
    EqualCalls,
    ToolCallScores,
)
from services.contracts.evaluation.results import SampleResult
from services.contracts.rewards.graders import ToolCallsGrader
from services.metrics.tool_call_rows import predict
from services.metrics.tool_calls import (
    Comparison,
    Counts,
    Sample,
    ToolCallMetrics,
    macro_average,
    micro_average,
    parse_calls,
)

MAX_LISTED = 200
"""Names in a table: a model may invent any number of them."""
MAX_NAME = 200
"""Characters of a name in a table."""


class ToolCallTotals:
    """Counts over the rows of an evaluation with the grader ``tool_calls``, in any order."""

    def __init__(self, grader: ToolCallsGrader) -> None:
        self._path = grader.path
        self._comparison = Comparison(strict_types=grader.strict_types)
        self._counted = ToolCallMetrics()

    def add(self, row: SampleResult) -> None:
        """Count one row; ``extracted`` are the calls that the grader read, null without any."""
        stated = [] if row.extracted is None else parse_calls(json.loads(row.extracted), "calls")
        samples = [Sample(predict(gold, self._path)[0], stated) for gold in row.gold]
        equal = filter(self._comparison.equal, samples)
        self._counted.add(next(equal, samples[0]), self._comparison)

    def scores(self) -> ToolCallScores:
        """The scores of all rows so far."""
        return ToolCallScores(
            tools=_table(self._counted.tools),
            parameters=_table(self._counted.parameters),
            single=EqualCalls(**asdict(self._counted.single)),
            multi=EqualCalls(**asdict(self._counted.multi)),
        )


def _table(counts: Mapping[str, Counts]) -> CallTable:
    def rank(name: str) -> tuple[int, int, str]:
        return -counts[name].label_count, -counts[name].pred_count, name

    short = (name for name in counts if len(name) <= MAX_NAME)
    listed = sorted(short, key=rank)[:MAX_LISTED]
    return CallTable(
        entries=[_entry(name, counts[name]) for name in listed],
        left_out=len(counts) - len(listed),
        micro_avg=CallScore(**asdict(micro_average(counts.values()))),
        macro_avg=CallScore(**asdict(macro_average(counts.values()))),
    )


def _entry(name: str, counts: Counts) -> CallCounts:
    return CallCounts(name=name, **asdict(counts.score), **asdict(counts))
