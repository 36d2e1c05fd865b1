"""Checks: the validation of a training file, without training."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints

from services.contracts.base import Resource
from services.contracts.jobs import JobRequest, JobState
from services.contracts.training.fidelity import FidelityReport
from services.contracts.training.fine_tuning import Method
from services.contracts.training.rows import DataFormat


class CreateCheck(JobRequest):
    """The body of POST /v1/checks.

    ``method``, an offline one, determines what a row must be, as in a fine-tuning job.
    """

    FILE_FIELDS: ClassVar[tuple[str, ...]] = ("training_file",)

    training_file: Annotated[str, StringConstraints(min_length=1, max_length=300)] = Field(
        description="A file id.", examples=["file-abc123"]
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        description="Model whose tokenizer counts and whose chat template renders the rows; null: "
        "lengths are in characters.",
    )
    method: Method | None = None
    max_errors: StrictInt = Field(
        default=100, ge=1, le=1000, description="Rows that are named; the check stops behind them."
    )


class RowLengths(Resource):
    """Lengths per row in ``unit``; ``truncated`` rows are longer than ``max_seq_length``."""

    unit: Literal["tokens", "characters"]
    min: int
    mean: float
    p50: int
    p95: int
    max: int
    total: int
    truncated: int | None = None


class RowCounts(Resource):
    """Sums over all rows; ``turns`` counts the assistant's messages."""

    messages: int
    turns: int
    tool_calls: int
    rows_with_tools: int
    desirable: int
    undesirable: int


class ValidationReport(Resource):
    """The findings of a file's validation; ``layout`` is the format of its rows."""

    container: str
    rows: int
    layout: DataFormat | None
    ignored_columns: list[str] = Field(description="Columns that training does not use.")
    counts: RowCounts
    lengths: RowLengths | None
    fidelity: FidelityReport | None = Field(
        default=None,
        description="Findings on the rows as the model's chat template renders them; null without "
        "a model whose files are here, and for plain text.",
    )


class Check(JobState):
    """A job that validates a file. It fails, as a fine-tune would, if rows are unusable:
    ``error.rows`` names them."""

    object: Literal["file.check"] = "file.check"
    training_file: str
    model: str | None
    method: Method
    max_errors: int
    report: ValidationReport | None = Field(
        default=None, description="Report on a file whose rows are all usable."
    )
