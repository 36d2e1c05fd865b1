"""The rows that a data script has generated, in Alpaca's format, and row lengths, in tokens of the
base model if its tokenizer is available here.

Counts are recorded with their step, so that a rerun of the step tells the LLM the same.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from services.campaigns.data.benchmark import ItemsInData, KnownItems
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import MadeRows
from services.campaigns.run.run import CampaignRun
from services.campaigns.run.signals import StepFailed
from services.contracts.campaigns.loops import Failure
from services.contracts.data.datasets import TokenStatistics
from services.contracts.errors import TemperError
from services.contracts.validation import first_fault
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem
from services.datasets.statistics import estimate_tokens
from services.datasets.token_counts.counter import TokenCounter, TokensNotCounted, checksum_of
from services.models.registry import resolve_model

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
            told = first_fault(error).sentence("row")
            raise StepFailed(Failure.DATA, f"{DATA}, row {number}: {told}") from None
    return rows


def lengths_of_rows(run: CampaignRun, key: str, rows: Sequence[Row]) -> TokenStatistics | None:
    """Token statistics of the rows of a script's data, counted once; None without rows."""

    async def count() -> Effect:
        values: list[JsonValue] = [row.model_dump() for row in rows]
        content = "".join(f"{json.dumps(value)}\n" for value in values).encode()
        path = run.folder / f"{key}.jsonl"
        path.write_bytes(content)
        try:
            return await _count(run, path, hashlib.sha256(content).hexdigest(), lambda: values)
        finally:
            path.unlink(missing_ok=True)

    return _statistics(run.once(key, count, long=True)) if rows else None


def lengths_of_file(run: CampaignRun, name: str, file: str) -> TokenStatistics | None:
    """Token statistics of the rows of a dataset, counted once; None without rows."""
    path = run.artifacts.file(file)

    def values() -> list[JsonValue]:
        return [each.value for each in open_records(path) if not isinstance(each, Problem)]

    async def count() -> Effect:
        return await _count(run, path, await asyncio.to_thread(checksum_of, path), values)

    return _statistics(run.once(f"lengths.{name}", count, long=True))


def rows_made(run: CampaignRun, key: str, rows: Rows) -> MadeRows:
    """All rows that a script generated, including those that contain benchmark items."""
    return MadeRows(
        rows=len(rows.made),
        duplicates=rows.duplicates(),
        tokens=lengths_of_rows(run, key, rows.made),
    )


def made_text(made: MadeRows) -> str:
    """A summary of a script's rows for the LLM."""
    return f"{made.rows} rows, {made.duplicates} of them duplicates; {lengths_text(made.tokens)}"


def lengths_text(lengths: TokenStatistics | None) -> str:
    """A summary of row lengths for the LLM."""
    if lengths is None:
        return "no rows"
    unit = "tokens" if lengths.model else "tokens, estimated,"
    first = f"of the first {lengths.rows} rows" if lengths.rows else "of a row"
    return (
        f"{unit} {first}: {lengths.mean:.0f} on average, {lengths.median} median, "
        f"{lengths.p95} at 95 %, {lengths.longest} at most"
    )


def _statistics(effect: Effect) -> TokenStatistics | None:
    return TokenStatistics.model_validate(effect.response) if effect.response else None


async def _count(
    run: CampaignRun, path: Path, sha256: str, values: Callable[[], list[JsonValue]]
) -> Effect:
    """Count with the tokenizer of the base model, or estimate and say why."""
    try:
        counter = TokenCounter(run.settings.home)
        found = await counter.count(path, sha256, _tokenizer(run), run.request.base_model)
    except TokensNotCounted as error:
        rows = values()
        if not rows:
            return Effect({})
        found = estimate_tokens(rows).model_copy(update={"not_counted": error.message})
    return Effect(found.model_dump(mode="json"))


def _tokenizer(run: CampaignRun) -> Path:
    """Raises `TokensNotCounted` for a model whose tokenizer is not on this host."""
    settings = run.settings
    try:
        with run.database.read() as session:
            model = resolve_model(
                session,
                run.request.base_model,
                settings.models_folder,
                run.artifacts,
                settings.trusted_models,
            )
    except TemperError as error:
        raise TokensNotCounted(error.message) from error
    if model.tokenizer_file is None:
        raise TokensNotCounted(model.without_tokenizer)
    return model.tokenizer_file
