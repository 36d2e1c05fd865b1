"""Registered data sets: rows from which campaigns may build training data."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request, Resource

DatasetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]

CHARACTERS_PER_TOKEN = 4


class RegisterDataset(Request):
    """The body of POST /v1/datasets: an uploaded file of JSON Lines, under a name."""

    name: DatasetName
    file: str = Field(min_length=1, max_length=200)
    description: str = Field(default="", max_length=10_000)
    license: str | None = Field(default=None, max_length=200)
    source: str | None = Field(default=None, max_length=1000, description="Origin of the data.")


class DatasetField(Resource):
    """A field of rows: its JSON types, and in how many rows it is neither null nor empty."""

    name: str
    types: list[str]
    filled: int


class TokenStatistics(Resource):
    """Tokens per row, without those that a chat template adds."""

    total: int
    mean: float
    median: int
    p95: int
    longest: int
    model: str | None = Field(
        default=None,
        description="Model whose tokenizer counted; null: estimated at four characters per token.",
    )
    rows: int | None = Field(
        default=None, description="Number of rows that were counted, from the first on; null: all."
    )
    not_counted: str | None = Field(
        default=None, description="Reason why the tokenizer of the requested model did not count."
    )


class DatasetStatistics(Resource):
    """Statistics of a data set; ``samples`` are the first rows, with long texts truncated."""

    rows: int
    fields: list[DatasetField]
    tokens: TokenStatistics
    samples: list[dict[str, Any]]


class Dataset(Resource):
    """A registered data set; its ``id`` is the name that campaigns use."""

    id: str
    object: Literal["dataset"] = "dataset"
    created_at: int
    file: str
    bytes: int
    description: str
    license: str | None = None
    source: str | None = None
    statistics: DatasetStatistics
