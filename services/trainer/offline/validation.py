"""Validation of the files of offline training, before it queues for a device.

Run as ``python -m services.trainer.offline.validation JOB_DIR`` (see services.datasets.validate).
"""

import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from services.contracts.base import JsonObject
from services.contracts.errors import InvalidRequest
from services.contracts.training.checks import RowCounts, RowLengths, RowSplit
from services.contracts.training.fidelity import FidelityReport
from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import ConversationRow, conversation_row
from services.datasets.record import JsonValue, Problem, counted
from services.datasets.rendering.fidelity import FidelityCounter, announce, check_fidelity
from services.datasets.rendering.rows import RowRenderer
from services.datasets.scan import InvalidFile, Scan, ScanReport
from services.datasets.training_rows import TrainingRow, TrainingRowReader
from services.datasets.validate import FileValidation, validate
from services.rollouts.chat.examples import MAX_CHARACTERS, load_encoder, row_renderer
from services.trainer.offline.rows.alternation import alternate
from services.trainer.offline.rows.lengths import LengthCounter, row_lengths
from services.trainer.offline.rows.split_count import SplitCounter
from services.trainer.offline.scripts import write_rows
from services.trainer.offline.spec import TrainingFilesSpec

MAX_RENDERED = 100_000
"""Rendering takes about a millisecond for each row."""


@dataclass(frozen=True, slots=True)
class TrainingFileReport:
    """The outcome for one file.

    ``layout`` is the rows' format, None if no row showed it; ``ignored_columns`` are those that
    training does not use; ``lengths`` is None without a valid row, ``fidelity`` where the rows are
    not rendered, and ``split`` where every row is trained.
    """

    scan: ScanReport
    layout: DataFormat | None
    ignored_columns: tuple[str, ...]
    counts: RowCounts
    lengths: RowLengths | None
    fidelity: FidelityReport | None = None
    split: RowSplit | None = None

    def to_json(self) -> JsonObject:
        """The report as one flat JSON object."""
        return {
            **asdict(self.scan),
            "layout": self.layout,
            "ignored_columns": self.ignored_columns,
            "counts": self.counts.model_dump(),
            "lengths": self.lengths and self.lengths.model_dump(),
            "fidelity": self.fidelity and self.fidelity.model_dump(mode="json"),
            "split": self.split and self.split.model_dump(),
        }

    def summary(self) -> str:
        """One line for a person."""
        text = f"{counted(self.scan.rows, 'row')}, {self.layout}"
        if self.split is not None:
            trained, held = self.split.training_rows, self.split.validation_rows
            text += f", {trained:,} to train and {held:,} held out"
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
        renderer=file_renderer(spec),
        joins_turns=spec.method is not None and spec.method.as_offline.join_turns,
        split=_split_counter(spec, file.param),
    )
    report.scan.raise_errors(file.filename, code="invalid_training_file", param=file.param)
    if spec.rows is RowKind.FEEDBACK and file.param == "training_file":
        _check_both_labels(report.counts, file)
    file.message(report.summary(), **report.to_json())
    if report.ignored_columns:
        names = ", ".join(name[:100] for name in report.ignored_columns)
        file.message(f"columns that training does not use: {names}", "warn")
    if report.fidelity is not None:
        announce(report.fidelity, file.message)
        if spec.refuses:
            check_fidelity(report.fidelity, file.param, file.filename)
    # Text is cut into sequences, not truncated.
    elif report.lengths is not None and report.lengths.truncated and spec.rows is not RowKind.TEXT:
        file.message(
            f"{report.lengths.truncated:,} of {report.scan.rows:,} rows are longer than "
            f"max_seq_length ({spec.max_seq_length:,} tokens) and will be truncated",
            "warn",
        )
    return report.to_json()


def _split_counter(spec: TrainingFilesSpec, param: str) -> SplitCounter | None:
    """Several files are split together, validation files not at all."""
    if spec.method is None or param != "training_file":
        return None
    return SplitCounter.of(spec.method.as_offline)


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
    renderer: "RowCheck | None" = None,
    joins_turns: bool = False,
    split: SplitCounter | None = None,
) -> TrainingFileReport:
    """Read the whole file, or up to the first problem beyond ``max_errors``, in bounded memory."""
    reader = TrainingRowReader(kind, data_format, joins_turns=joins_turns)

    def check(value: JsonValue) -> TrainingRow:
        row = reader.read(value)
        if renderer is not None:
            renderer.add(scan.number, value, conversation_row(kind, reader.format, row))
        if split is not None:
            split.add(value)
        return row

    scan = Scan(path, check, max_errors=max_errors, progress=progress)
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
    fidelity = renderer.report() if renderer is not None else None
    return TrainingFileReport(
        scan.report,
        reader.format,
        ignored,
        counts,
        lengths.statistics(),
        fidelity,
        split.split() if split is not None and not scan.report.errors else None,
    )


class RowCheck(Protocol):
    """What training does to the rows of one file."""

    def add(self, number: int, row: JsonValue, read: ConversationRow) -> None:
        """Check a row; a RowError says why training would refuse it."""

    def report(self) -> FidelityReport | None:
        """What becomes of the rows; None where that is not known."""


class NamedTemplateRows:
    """Checks that a named template of the library, which renders rows in training alone, takes all
    conversations."""

    def add(self, _number: int, _row: JsonValue, read: ConversationRow) -> None:
        """Check a row."""
        for conversation in read.conversations:
            alternate(conversation, "\n")

    def report(self) -> None:
        """Nothing is rendered."""


class FileRenderer:
    """Renders the rows of one file as training will, as far as `MAX_RENDERED` rows: training itself
    renders and checks them all."""

    def __init__(self, renderer: RowRenderer, counter: FidelityCounter) -> None:
        self._renderer = renderer
        self._counter = counter
        self._rendered = 0

    def add(self, number: int, row: JsonValue, read: ConversationRow) -> None:
        """Render a row; a RowError says why the chat template refuses it."""
        characters = sum(
            len(message.content) for each in read.conversations for message in each.messages
        )
        if self._rendered >= MAX_RENDERED or characters > MAX_CHARACTERS:
            return
        self._rendered += 1
        self._counter.add(number, self._renderer.render(row, read))

    def report(self) -> FidelityReport | None:
        """The findings; None without a rendered row."""
        return self._counter.report()


def file_renderer(spec: TrainingFilesSpec) -> RowCheck | None:
    """Renders rows with the model's own chat template, or checks that the named one takes them;
    None for plain text, and while a model with its own template is on a hub. Raises InvalidRequest
    for a template that is unusable."""
    if spec.method is None or spec.rows is RowKind.TEXT:
        return None
    settings = spec.method.as_offline
    if settings.template is not None:
        return NamedTemplateRows()
    if spec.tokenizer_file is None:
        return None
    folder = spec.tokenizer_file.parent
    encode = load_encoder(folder)
    renderer = row_renderer(folder, encode, settings)
    return FileRenderer(renderer, FidelityCounter(encode.special, settings.max_lossy_share))


if __name__ == "__main__":
    validate(Path(sys.argv[1]), TrainingFilesSpec, check_training_file, check_labels_together)
