"""Validation of the files of offline training, before it queues for a device.

Run as ``python -m services.trainer.offline.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from services.contracts.base import JsonObject
from services.contracts.checks import RowCounts, RowLengths
from services.contracts.errors import InvalidRequest
from services.contracts.training_rows import DataFormat, RowKind
from services.datasets.record import Problem, counted
from services.datasets.scan import InvalidFile, Scan, ScanReport
from services.datasets.training_rows import TrainingRowReader
from services.datasets.validate import FileValidation, validate
from services.trainer.offline.lengths import LengthCounter, row_lengths
from services.trainer.offline.scripts import write_rows
from services.trainer.offline.spec import TrainingFilesSpec


@dataclass(frozen=True, slots=True)
class TrainingFileReport:
    """The outcome for one file.

    ``layout`` is the rows' format, None if no row showed it; ``ignored_columns`` are those that
    training does not use; ``lengths`` is None without a valid row.
    """

    scan: ScanReport
    layout: DataFormat | None
    ignored_columns: tuple[str, ...]
    counts: RowCounts
    lengths: RowLengths | None

    def to_json(self) -> JsonObject:
        """The report as one flat JSON object."""
        return {
            **asdict(self.scan),
            "layout": self.layout,
            "ignored_columns": self.ignored_columns,
            "counts": self.counts.model_dump(),
            "lengths": self.lengths and self.lengths.model_dump(),
        }

    def summary(self) -> str:
        """One line for a person."""
        text = f"{counted(self.scan.rows, 'row')}, {self.layout}"
        if self.lengths is None:
            return text
        lengths = self.lengths
        unknown = "" if lengths.unit == "tokens" else " (the model has no tokenizer.json yet)"
        return (
            f"{text}; {lengths.unit} per row: mean {lengths.mean:,.0f}, p95 {lengths.p95:,}, "
            f"max {lengths.max:,}{unknown}"
        )


def check_training_file(spec: TrainingFilesSpec, file: FileValidation) -> JsonObject:
    """Check every row, report the lengths, and warn about rows that will be truncated. The rows of
    a dataset script are generated first.
    """
    if (run := spec.scripts.get(file.param)) is not None:
        write_rows(run, file.param)
    report = scan_training_file(
        file.path,
        spec.rows,
        spec.data_format,
        row_lengths(spec.tokenizer_file, spec.max_seq_length),
        max_errors=spec.max_errors,
        progress=file.progress,
    )
    report.scan.raise_errors(file.filename, code="invalid_training_file", param=file.param)
    if spec.rows is RowKind.FEEDBACK and file.param == "training_file":
        _check_both_labels(report.counts, file)
    file.message(report.summary(), **report.to_json())
    if report.ignored_columns:
        names = ", ".join(name[:100] for name in report.ignored_columns)
        file.message(f"columns that training does not use: {names}", "warn")
    # Text is cut into sequences, not truncated.
    if report.lengths is not None and report.lengths.truncated and spec.rows is not RowKind.TEXT:
        file.message(
            f"{report.lengths.truncated:,} of {report.scan.rows:,} rows are longer than "
            f"max_seq_length ({spec.max_seq_length:,} tokens) and will be truncated",
            "warn",
        )
    return report.to_json()


def _check_both_labels(counts: RowCounts, file: FileValidation) -> None:
    """KTO compares desirable with undesirable answers."""
    if counts.desirable and counts.undesirable:
        return
    only = "desirable" if counts.desirable else "undesirable"
    problem = Problem(None, f"every answer is {only}; both kinds are needed")
    raise InvalidFile(
        file.filename,
        [problem],
        complete=True,
        code="invalid_training_file",
        param=file.param,
    )


def check_labels_together(spec: TrainingFilesSpec, reports: JsonObject) -> None:
    """Of several training files one may have desirable answers and another undesirable ones.

    Raises `InvalidRequest` when all have the same. Labels of a hub's datasets are not known yet.
    """
    several = [report for param, report in reports.items() if param.startswith("training_files.")]
    if spec.rows is not RowKind.FEEDBACK or not several or not spec.all_uploaded:
        return
    totals = {
        label: sum(report["counts"][label] for report in several)
        for label in ("desirable", "undesirable")
    }
    if all(totals.values()):
        return
    only = max(totals, key=lambda label: totals[label])
    message = f"every answer of all files is {only}; both kinds are needed"
    raise InvalidRequest(message, param="training_files", code="invalid_training_file")


def scan_training_file(
    path: Path,
    kind: RowKind,
    data_format: DataFormat,
    lengths: LengthCounter,
    *,
    max_errors: int,
    progress: Callable[[float], None],
) -> TrainingFileReport:
    """Read the whole file, or up to the first problem beyond ``max_errors``, in bounded memory."""
    reader = TrainingRowReader(kind, data_format)
    scan = Scan(path, reader.read, max_errors=max_errors, progress=progress)
    messages = turns = tool_calls = with_tools = desirable = undesirable = 0
    for row in scan:
        for example in row.examples:
            messages += len(example.turns)
            turns += example.answers
            tool_calls += example.tool_calls
        with_tools += bool(row.examples[0].tools)
        desirable += row.label is True
        undesirable += row.label is False
        lengths.add(row.longest)
    counts = RowCounts(
        messages=messages,
        turns=turns,
        tool_calls=tool_calls,
        rows_with_tools=with_tools,
        desirable=desirable,
        undesirable=undesirable,
    )
    ignored = tuple(sorted(reader.ignored))
    return TrainingFileReport(scan.report, reader.format, ignored, counts, lengths.statistics())


if __name__ == "__main__":
    validate(Path(sys.argv[1]), TrainingFilesSpec, check_training_file, check_labels_together)
