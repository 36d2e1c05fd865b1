"""What the gateway asks of the child that reads rows."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from services.contracts.fine_tuning import Method


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ReadRows(_Part):
    """Rows as they are."""

    kind: Literal["rows"] = "rows"
    path: Path
    after: str | None
    limit: int


class ReadExamples(_Part):
    """Rows as a training of ``method`` reads them with the tokenizer in ``folder``, or, where it is
    null, in a hub repository."""

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
    """A page as the text of its JSON, which the gateway passes on unread, or a refusal."""

    page: str | None = None
    refused: Refusal | None = None
