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

    id: str
    row: int
    value: Any = None
    problem: str | None = None


class FileRows(Page[FileRow]):
    """A page of rows; ``problem`` says why nothing after them can be read."""

    problem: str | None = None


class ShowExamples(Request):
    """The body of POST /v1/files/{id}/examples: the model and the settings of a fine-tune."""

    model: ModelId
    method: Method | None = None
    after: RowId | None = Field(
        default=None, description="Id of the last row of the previous page, or the number of a row."
    )
    limit: StrictInt = Field(default=5, ge=1, le=MAX_EXAMPLE_ROWS)


class TrainingExample(Resource):
    """A sequence of tokens that training builds from a row. The three lists have one length.

    ``part`` says which answer it ends with. ``mask`` is 1 on tokens with a loss. ``cut_tokens``
    were too many for ``max_seq_length``; ``more_tokens`` are trained on, but not listed here.
    """

    part: Literal["conversation", "preferred", "rejected", "answer", "text"]
    token_ids: list[int]
    texts: list[str]
    mask: list[int]
    cut_tokens: int = 0
    more_tokens: int = 0


class ExampleRow(Resource):
    """The examples of a row, more than one where the chat template rewrites earlier turns, or why
    there are none. ``label``: whether the answer of a row with feedback is desirable."""

    id: str
    row: int
    problem: str | None = None
    label: bool | None = None
    examples: list[TrainingExample] = Field(default_factory=list)
    missing: list[str] = Field(
        default_factory=list, description="Parts of the row that the chat template leaves out."
    )
    warnings: list[str] = Field(
        default_factory=list, description="Further effects on the row that may be unexpected."
    )


class ExampleRows(Page[ExampleRow]):
    """A page of rows; ``problem`` says why nothing after them can be read."""

    problem: str | None = None
