"""Validation of one training or validation file."""

from collections.abc import Callable
from pathlib import Path

from services.contracts.fine_tuning import DataFormat
from services.datasets.survey import Survey
from services.trainer.validation.layout import RowReader
from services.trainer.validation.report import Counts, TrainingFileReport
from services.trainer.validation.tokens import RowLengths


def validate_training_file(
    path: Path,
    layout: DataFormat,
    lengths: RowLengths,
    *,
    max_errors: int,
    progress: Callable[[float], None],
) -> TrainingFileReport:
    """Read the whole file, unless it has more than ``max_errors`` problems.

    ``progress`` is told now and then which share of the file was read. Whatever is wrong with
    the file is in the report; memory is bounded however long the file is.
    """
    reader = RowReader(layout)
    survey = Survey(path, reader.read, max_errors=max_errors, progress=progress)
    messages = turns = tool_calls = with_tools = 0
    for example in survey:
        messages += len(example.turns)
        turns += example.answers
        tool_calls += example.tool_calls
        with_tools += bool(example.tools)
        lengths.add(example)
    counts = Counts(messages, turns, tool_calls, with_tools)
    return TrainingFileReport(survey.findings, reader.layout, counts, lengths.statistics())
