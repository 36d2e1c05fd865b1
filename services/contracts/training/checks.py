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
        description="Id of the file to check.", examples=["file-abc123"]
    )
    model: str | None = Field(
        default=None,
        min_length=1,
        max_length=300,
        description="Model whose tokenizer counts and whose chat template renders the rows; null: "
        "lengths are in characters.",
    )
    method: Method | None = Field(
        default=None,
        description="Offline training method, which determines what a row must be; null: "
        "supervised.",
    )
    max_errors: StrictInt = Field(
        default=100,
        ge=1,
        le=1000,
        description="Number of unusable rows after which the check stops; each is named.",
    )


class RowLengths(Resource):
    """Lengths per row in ``unit``; ``truncated`` rows are longer than ``max_seq_length``.

    The length of a preference is that of its prompt with the longer answer.
    """

    unit: Literal["tokens", "characters"] = Field(
        description="Unit of the lengths: tokens, or characters without a tokenizer that is here."
    )
    min: int = Field(description="Length of the shortest row.")
    mean: float = Field(description="Mean length of a row.")
    p50: int = Field(description="Median length of a row.")
    p95: int = Field(description="95th percentile of the lengths.")
    max: int = Field(description="Length of the longest row.")
    total: int = Field(description="Sum of the lengths of all rows.")
    truncated: int | None = Field(
        default=None,
        description="Number of rows longer than max_seq_length; null with lengths in characters.",
    )


class RowCounts(Resource):
    """Sums over all rows; ``turns`` counts the assistant's messages.

    A preference counts as two conversations: its prompt with each answer.
    """

    messages: int = Field(
        description="Number of messages in all rows; in the prompt of a preference each counts "
        "twice."
    )
    turns: int = Field(
        description="Number of messages of the assistant in all rows; in the prompt of a "
        "preference each counts twice."
    )
    tool_calls: int = Field(
        description="Number of tool calls in all rows; in the prompt of a preference each counts "
        "twice."
    )
    rows_with_tools: int = Field(description="Number of rows that offer tools.")
    desirable: int = Field(description="Number of rows labeled desirable.")
    undesirable: int = Field(description="Number of rows labeled undesirable.")


class RowSplit(Resource):
    """The rows of a file that a training reads, by its val_size and max_samples."""

    training_rows: int = Field(
        description="Number of rows to train on; with identical rows it depends a little on the "
        "job's seed, and rows that rendering leaves out are included."
    )
    validation_rows: int = Field(
        description="Number of distinct rows that val_size holds out of training; those identical "
        "to them are not trained on either."
    )


class ValidationReport(Resource):
    """The findings of a file's validation; ``layout`` is the format of its rows."""

    container: str = Field(description="File format, such as jsonl or parquet.")
    rows: int = Field(description="Number of rows in the file.")
    layout: DataFormat | None = Field(
        description="Dataset format of the rows; null: no row shows it."
    )
    ignored_columns: list[str] = Field(
        description="Names of columns, and of keys of messages, that training does not use."
    )
    counts: RowCounts = Field(description="Number of messages, calls and labels in all rows.")
    lengths: RowLengths | None = Field(
        description="Lengths of the rows, of a preference with the longer answer; null without a "
        "row."
    )
    fidelity: FidelityReport | None = Field(
        default=None,
        description="Findings on the rows as the model's chat template renders them; null without "
        "a model whose files are here, with another template, and for plain text.",
    )
    split: RowSplit | None = Field(
        default=None,
        description="Number of rows that are trained on and held out by the method's val_size and "
        "max_samples; null without either, and for one of several files.",
    )


class Check(JobState):
    """A job that validates a file. It fails, as a fine-tune would, if rows are unusable:
    ``error.rows`` names them."""

    object: Literal["file.check"] = "file.check"
    training_file: str = Field(description="File that is checked.")
    model: str | None = Field(
        description="Model whose tokenizer counts and whose chat template renders the rows; null: "
        "none."
    )
    method: Method = Field(
        description="Offline training method that determines what a row must be."
    )
    max_errors: int = Field(description="Number of unusable rows after which the check stops.")
    report: ValidationReport | None = Field(
        default=None, description="Report on a file whose rows are all usable; null until then."
    )
