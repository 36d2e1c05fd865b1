"""The messages between the gateway and the child that reads rows."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.training.fine_tuning import Method


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


class ReadRows(_Part):
    """Read raw rows."""

    kind: Literal["rows"] = "rows"
    path: Path
    after: str | None
    limit: int


class ReadExamples(_Part):
    """Read rows as training with ``method`` does, with the tokenizer in ``folder`` or, if it is
    None, in a hub repository."""

    kind: Literal["examples"] = "examples"
    path: Path
    after: str | None
    limit: int
    folder: Path | None
    hub_id: str | None
    revision: str | None
    method: Method


RowRequest = Annotated[ReadRows | ReadExamples, Field(discriminator="kind")]


class Refusal(_Part):
    """A request that cannot be answered, and the field at fault."""

    message: str
    param: str | None
    code: str


class RowAnswer(_Part):
    """A page as JSON text, which the gateway forwards unparsed, or a refusal."""

    page: str | None = None
    refused: Refusal | None = None
