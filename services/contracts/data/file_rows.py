"""Rows of an uploaded file, raw and as training examples."""

from typing import Annotated, Any, Literal

from pydantic import Field, StrictInt, StringConstraints

from services.contracts.base import Page, Request, Resource
from services.contracts.data.files import MAX_EXAMPLE_ROWS
from services.contracts.models.registered import ModelId
from services.contracts.training.fine_tuning import Method

MAX_ROWS_LIMIT = 100
MAX_TOKENS_SHOWN = 20_000
"""Most tokens listed per example; further ones are only counted."""

RowId = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(-[0-9]{1,15})?$")]


class FileRow(Resource):
    """A row, counted from 1 (in JSON Lines its line number), or why it cannot be read."""

    id: str = Field(description="Id of the row, for `after`.")
    row: int = Field(description="Number of the row, counted from 1.")
    value: Any = Field(
        default=None, description="Content of the row; null where it cannot be read."
    )
    problem: str | None = Field(
        default=None, description="Reason why the row cannot be read; null: it can."
    )


class FileRows(Page[FileRow]):
    """A page of rows; ``problem`` says why nothing after them can be read."""

    problem: str | None = Field(
        default=None, description="Reason why nothing after these rows can be read; null: none."
    )


class ShowExamples(Request):
    """The body of POST /v1/files/{id}/examples: the model and the settings of a fine-tune."""

    model: ModelId = Field(description="Model of the intended fine-tune.")
    method: Method | None = Field(
        default=None,
        description="Offline training method of the intended fine-tune; null: supervised.",
    )
    after: RowId | None = Field(
        default=None, description="Id of the last row of the previous page, or the number of a row."
    )
    limit: StrictInt = Field(
        default=5, ge=1, le=MAX_EXAMPLE_ROWS, description="Maximum number of rows on the page."
    )


class TrainingExample(Resource):
    """A sequence of tokens that training builds from a row. The three lists have one length.

    ``part`` says which answer it ends with. ``mask`` is 1 on tokens with a loss. ``cut_tokens``
    were too many for ``max_seq_length``; ``more_tokens`` are trained on, but not listed here.
    """

    part: Literal["conversation", "preferred", "rejected", "answer", "text"] = Field(
        description="Answer that the example ends with, or text."
    )
    token_ids: list[int] = Field(description="Ids of the tokens.")
    texts: list[str] = Field(description="Text of each token.")
    mask: list[int] = Field(description="Mask of the tokens: 1 with a loss, 0 without.")
    cut_tokens: int = Field(
        default=0, description="Number of tokens that are cut off at max_seq_length."
    )
    more_tokens: int = Field(
        default=0, description="Number of tokens that are trained on but not listed here."
    )


class ExampleRow(Resource):
    """The examples of a row, more than one where the chat template rewrites earlier turns, or why
    there are none. ``label``: whether the answer of a row with feedback is desirable."""

    id: str = Field(description="Id of the row, for `after`.")
    row: int = Field(description="Number of the row, counted from 1.")
    problem: str | None = Field(
        default=None, description="Reason why the row has no examples; null: it has."
    )
    label: bool | None = Field(
        default=None,
        description="Whether the answer of a row with feedback is desirable; null for other rows.",
    )
    examples: list[TrainingExample] = Field(
        default_factory=list, description="Examples that training makes of the row."
    )
    missing: list[str] = Field(
        default_factory=list, description="Parts of the row that the chat template leaves out."
    )
    warnings: list[str] = Field(
        default_factory=list, description="Further effects on the row that may be unexpected."
    )


class ExampleRows(Page[ExampleRow]):
    """A page of rows; ``problem`` says why nothing after them can be read."""

    problem: str | None = Field(
        default=None, description="Reason why nothing after these rows can be read; null: none."
    )
