"""The report on tool calls: an Excel workbook, JSON, CSV or one HTML page."""

import csv
import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from services.metrics.tables import LONE_SURROGATES, Cell, Sheet, write_html
from services.metrics.tool_call_rows import Row, outcomes
from services.metrics.tool_calls import (
    Counts,
    Score,
    Strict,
    Table,
    ToolCallMetrics,
    as_text,
    important,
    macro_average,
    micro_average,
)

METRIC_COLUMNS = ("工具名", "P", "R", "F1", "label_count", "pred_count", "hit_count")
BAD_CASE_COLUMNS = ("url", "历史对话", "query", "label", "pred")


@dataclass(frozen=True)
class Report:
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
                "parameters": _averages(important(parameters, self.important)),
            }
        return document

    def sheets(self) -> Iterator[Sheet]:
        """The name, columns and rows of each table."""
        yield "工具指标", METRIC_COLUMNS, self._metric_rows(self.metrics.tools)
        yield "参数指标", METRIC_COLUMNS, self._metric_rows(self.metrics.parameters)
        yield "badcase", BAD_CASE_COLUMNS, self._bad_cases()

    def _metric_rows(self, table: Table) -> Iterator[Sequence[Cell]]:
        for name, each in _sorted(table):
            counts = (each.label_count, each.pred_count, each.hit_count)
            yield (name, *_rounded(each.score), *counts)
        yield from _average_rows(table.values(), "")
        if self.important:
            subset = important(table, self.important)
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


def write_report(report: Report, path: Path) -> None:
    """Write a report in the format of the path's suffix; raises `ValueError` for another one."""
    if path.suffix not in WRITERS:
        raise ValueError(f"{path.name}: a report is one of {', '.join(WRITERS)}")
    WRITERS[path.suffix](report, path)


def _write_workbook(report: Report, path: Path) -> None:
    # openpyxl takes longer to import than the rest of a command.
    from services.metrics.workbook import write_workbook  # noqa: PLC0415

    write_workbook(path, report.sheets())


def _write_json(report: Report, path: Path) -> None:
    text = json.dumps(report.as_json(), ensure_ascii=False, indent=2)
    path.write_text(f"{text}\n", encoding="utf-8", errors=LONE_SURROGATES)


def _write_csv(report: Report, path: Path) -> None:
    """Both metric tables in one, distinguished by the first column."""
    text = StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(("sheet", *METRIC_COLUMNS))
    for name, columns, rows in report.sheets():
        if columns == METRIC_COLUMNS:
            writer.writerows((name, *row) for row in rows)
    # Excel takes it for UTF-8 by the mark.
    path.write_text(text.getvalue(), encoding="utf-8-sig", errors=LONE_SURROGATES)


def _write_html(report: Report, path: Path) -> None:
    single, multi = report.metrics.single, report.metrics.multi
    summary = (
        f"{len(report.rows)} samples. Equal calls: {single.hits} of {single.total} with one call, "
        f"{multi.hits} of {multi.total} with several."
    )
    write_html(path, "Tool calls", summary, report.sheets())


WRITERS: Mapping[str, Callable[[Report, Path], None]] = {
    ".xlsx": _write_workbook,
    ".json": _write_json,
    ".csv": _write_csv,
    ".html": _write_html,
}
"""The writer of a report, by file suffix."""


def _sorted(table: Table) -> list[tuple[str, Counts]]:
    return sorted(table.items())


def _entry(counts: Counts) -> dict[str, float | int]:
    return {
        **asdict(counts.score),
        "tp": counts.hit_count,
        "fp": counts.pred_count - counts.hit_count,
        "fn": counts.label_count - counts.hit_count,
        **asdict(counts),
    }


def _averages(table: Table) -> dict[str, dict[str, float]]:
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
