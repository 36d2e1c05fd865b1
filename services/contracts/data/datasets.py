"""Registered data sets: rows from which campaigns may build training data."""

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from services.contracts.base import Request, Resource

DatasetName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$")]

CHARACTERS_PER_TOKEN = 4


class RegisterDataset(Request):
    """The body of POST /v1/datasets: an uploaded file of JSON Lines, under a name."""

    name: DatasetName = Field(description="Name for the data set, which campaigns use.")
    file: str = Field(min_length=1, max_length=200, description="Id of the file with the rows.")
    description: str = Field(
        default="",
        max_length=10_000,
        description="Content of the data set, as a campaign's LLM reads it.",
    )
    license: str | None = Field(
        default=None, max_length=200, description="License of the data; null: unknown."
    )
    source: str | None = Field(default=None, max_length=1000, description="Origin of the data.")


class DatasetField(Resource):
    """A field of rows: its JSON types, and in how many rows it is neither null nor empty."""

    name: str = Field(description="Name of the field.")
    types: list[str] = Field(description="JSON types of the field's values.")
    filled: int = Field(description="Number of rows in which the field is neither null nor empty.")


class TokenStatistics(Resource):
    """Tokens per row, without those that a chat template adds."""

    total: int = Field(description="Number of tokens of all counted rows.")
    mean: float = Field(description="Mean number of tokens of a row.")
    median: int = Field(description="Median number of tokens of a row.")
    p95: int = Field(description="95th percentile of the tokens of a row.")
    longest: int = Field(description="Number of tokens of the longest row.")
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

    rows: int = Field(description="Number of rows.")
    fields: list[DatasetField] = Field(description="Fields of the rows.")
    tokens: TokenStatistics = Field(description="Tokens per row.")
    samples: list[dict[str, Any]] = Field(
        description="First 3 rows, with long texts and lists truncated."
    )


class Dataset(Resource):
    """A registered data set; its ``id`` is the name that campaigns use."""

    id: str = Field(description="Name of the data set, which campaigns use.")
    object: Literal["dataset"] = "dataset"
    created_at: int = Field(description="Time of the registration, in Unix seconds.")
    file: str = Field(description="Id of the file with the rows.")
    bytes: int = Field(description="Size of the file in bytes.")
    description: str = Field(description="Content of the data set, as a campaign's LLM reads it.")
    license: str | None = Field(default=None, description="License of the data; null: unknown.")
    source: str | None = Field(default=None, description="Origin of the data; null: unknown.")
    statistics: DatasetStatistics = Field(description="Statistics of the rows.")
