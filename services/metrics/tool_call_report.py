"""The report on tool calls: metrics by tool and by parameter, and the rows that are wrong."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from services.metrics.reports.document import Cell, Document, Section, Table
from services.metrics.tool_call_rows import Row, outcomes
from services.metrics.tool_calls import (
    Counts,
    Score,
    Strict,
    ToolCallMetrics,
    as_text,
    important,
    macro_average,
    micro_average,
)

METRIC_COLUMNS = ("工具名", "P", "R", "F1", "label_count", "pred_count", "hit_count")
FORMATS = (".xlsx", ".json", ".csv", ".html", ".md")
"""The file suffixes that a report can have."""
BAD_CASE_COLUMNS = ("url", "历史对话", "query", "label", "pred")


@dataclass(frozen=True)
class ToolCallReport:
    """The metrics of rows; ``important`` names tools whose averages are repeated.

    The list of bad cases has the rows whose calls differ, or ``all_rows``.
    """

    metrics: ToolCallMetrics
    rows: Sequence[Row]
    important: tuple[str, ...] = ()
    all_rows: bool = False

    def as_json(self) -> dict[str, Any]:
        """The document that ``--json`` prints. Averages are over tools unless named otherwise."""
        tools, parameters = self.metrics.tools, self.metrics.parameters
        document: dict[str, Any] = {
            "tools": {name: _entry(each) for name, each in _sorted(tools)},
            "parameters": {name: _entry(each) for name, each in _sorted(parameters)},
            **_averages(tools),
            "parameter_averages": _averages(parameters),
            "strict": {"single": _pair(self.metrics.single), "multi": _pair(self.metrics.multi)},
            "predictions": outcomes(self.rows),
            "samples": len(self.rows),
        }
        if self.important:
            document["important"] = {
                "tools": _averages(important(tools, self.important)),
                "parameters": _averages(self.metrics.parameters_of(self.important)),
            }
        return document

    def document(self) -> Document:
        """The report, for a writer."""
        return Document("Tool calls", [self._summary()], self._sections(), self.as_json)

    def metric_tables(self) -> Iterator[tuple[str, Table]]:
        """The metrics of tools and of parameters, with their names."""
        tools, parameters = self.metrics.tools, self.metrics.parameters
        of_some = important(tools, self.important), self.metrics.parameters_of(self.important)
        yield "工具指标", Table(METRIC_COLUMNS, self._metric_rows(tools, of_some[0]))
        yield "参数指标", Table(METRIC_COLUMNS, self._metric_rows(parameters, of_some[1]))

    def _summary(self) -> str:
        single, multi = self.metrics.single, self.metrics.multi
        return (
            f"{len(self.rows)} samples. Equal calls: {single.hits} of {single.total} with one "
            f"call, {multi.hits} of {multi.total} with several."
        )

    def _sections(self) -> Iterator[Section]:
        for name, table in self.metric_tables():
            yield Section(name, [table])
        yield Section("badcase", [Table(BAD_CASE_COLUMNS, self._bad_cases())])

    def _metric_rows(
        self, table: Mapping[str, Counts], subset: Mapping[str, Counts]
    ) -> Iterator[Sequence[Cell]]:
        for name, each in _sorted(table):
            counts = (each.label_count, each.pred_count, each.hit_count)
            yield (name, *_rounded(each.score), *counts)
        yield from _average_rows(table.values(), "")
        if self.important:
            yield from _average_rows(subset.values(), f" ({', '.join(self.important)})")

    def _bad_cases(self) -> Iterator[Sequence[Cell]]:
        positions = range(len(self.rows)) if self.all_rows else self.metrics.wrong
        for row in map(self.rows.__getitem__, positions):
            history = row.record.get("历史对话", row.record.get("history"))
            if isinstance(history, list):
                history = "\n".join(map(_text, history))
            yield (
                _text(row.record.get("url")),
                _text(history),
                _text(row.record.get("当前query", row.record.get("query"))),
                as_text(row.sample.label),
                as_text(row.sample.prediction),
            )


def _sorted(table: Mapping[str, Counts]) -> list[tuple[str, Counts]]:
    return sorted(table.items())


def _entry(counts: Counts) -> dict[str, float | int]:
    return {
        **asdict(counts.score),
        "tp": counts.hit_count,
        "fp": counts.pred_count - counts.hit_count,
        "fn": counts.label_count - counts.hit_count,
        **asdict(counts),
    }


def _averages(table: Mapping[str, Counts]) -> dict[str, dict[str, float]]:
    return {
        "micro_avg": asdict(micro_average(table.values())),
        "macro_avg": asdict(macro_average(table.values())),
    }


def _average_rows(counts: Collection[Counts], suffix: str) -> Iterator[Sequence[Cell]]:
    for name, average in (("micro_avg", micro_average), ("macro_avg", macro_average)):
        yield (name + suffix, *_rounded(average(counts)), None, None, None)


def _rounded(score: Score) -> tuple[float, float, float]:
    return round(score.precision, 4), round(score.recall, 4), round(score.f1, 4)


def _pair(strict: Strict) -> list[int]:
    return [strict.hits, strict.total]


def _text(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
