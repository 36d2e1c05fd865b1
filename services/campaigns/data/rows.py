"""The rows that a data script has generated, in Alpaca's format."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.campaigns.data.benchmark import ItemsInData, KnownItems
from services.campaigns.run.signals import StepFailed
from services.contracts.campaigns.loops import Failure

DATA = "data.json"
MAX_DATA_BYTES = 32 << 20
"""The rows are checked in memory."""
TOO_LARGE = f"{DATA} is larger than {MAX_DATA_BYTES >> 20} MiB"
MAX_CONTAMINATED_SHARE = 0.1
NAMED_ROWS = 5


class Row(BaseModel):
    """A row of data.json, in Alpaca's format."""

    model_config = ConfigDict(extra="ignore", strict=True)

    instruction: str = Field(min_length=1)
    input: str = ""
    output: str = Field(min_length=1)

    def holds_any(self, items: ItemsInData) -> bool:
        """Whether a text of the row, or its texts joined, contain an item."""
        texts = [self.instruction, self.input, self.output]
        return any(items.holds(text) for text in (*texts, "\n".join(texts)))


@dataclass(frozen=True)
class Rows:
    """Usable rows, and how many were removed because they contain benchmark items.

    ``made`` are all rows that the script generated, which the LLM may be told of: removals because
    of the final part do not show in them.
    """

    rows: list[Row]
    contaminated: int
    made: list[Row] = field(default_factory=list)

    def first(self, number: int | None) -> "Rows":
        """The first usable rows, or all of them."""
        return replace(self, rows=self.rows[:number])

    def duplicates(self) -> int:
        """How many of the generated rows duplicate an earlier one."""
        return len(self.made) - len({(row.instruction, row.input, row.output) for row in self.made})


def read_rows(path: Path, items: KnownItems) -> Rows:
    """Check all rows; raises `StepFailed` that names the first bad one.

    Rows that contain benchmark items are removed. The data is rejected if more than a tenth of the
    rows contain items of the search part. Items of the final part change neither that nor the
    message; otherwise the LLM could discover them by guessing.
    """
    rows = _parse(path)
    leaks = [number for number, row in enumerate(rows, 1) if row.holds_any(items.search)]
    if len(leaks) > MAX_CONTAMINATED_SHARE * len(rows):
        first = ", ".join(map(str, leaks[:NAMED_ROWS]))
        raise StepFailed(
            Failure.DATA,
            f"{len(leaks)} of {len(rows)} rows hold items of the benchmark's search part, the "
            f"first of them rows {first}; make other data",
        )
    leaked = set(leaks)
    clean = [
        row
        for number, row in enumerate(rows, 1)
        if number not in leaked and not row.holds_any(items.final)
    ]
    return Rows(clean, len(rows) - len(clean), rows)


def _parse(path: Path) -> list[Row]:
    if path.stat().st_size > MAX_DATA_BYTES:
        raise StepFailed(Failure.DATA, TOO_LARGE)
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise StepFailed(Failure.DATA, f"{DATA} is not JSON: {error}") from None
    if not isinstance(content, list) or not content:
        raise StepFailed(Failure.DATA, f"{DATA} is not a list of at least one row")
    rows = []
    for number, value in enumerate(content, 1):
        try:
            rows.append(Row.model_validate(value))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "row"
            raise StepFailed(
                Failure.DATA, f"{DATA}, row {number}: {where}: {first['msg']}"
            ) from None
    return rows
