"""Sources of rows: the names by which one job treats the rows of several data sets differently."""

from collections.abc import Collection
from typing import Annotated

from pydantic import Field, StringConstraints

from services.contracts.base import JsonObject

SourceName = Annotated[str, StringConstraints(min_length=1, max_length=100)]
Sources = Annotated[list[SourceName], Field(min_length=1, max_length=100)]
FIELDS = ("source", "data_source")
"""Fields of a row that name its source, by precedence; the second one is verl's."""


def source_of(extra: JsonObject) -> str | None:
    """The source of a row, by its fields beside prompt and gold; None where it names none."""
    return next((extra[name] for name in FIELDS if isinstance(extra.get(name), str)), None)


def applies(sources: Collection[str] | None, source: str | None) -> bool:
    """Whether what is meant for ``sources``, None for all, is meant for a row of ``source``."""
    return sources is None or source in sources
