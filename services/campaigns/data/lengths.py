"""Row lengths, in tokens of the base model if its tokenizer is available here.

Counts are recorded with their step, so that a rerun of the step tells the LLM the same.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from services.campaigns.data.rows import Row, Rows
from services.campaigns.run.effects import Effect
from services.campaigns.run.records import MadeRows
from services.campaigns.run.run import CampaignRun
from services.contracts.data.datasets import TokenStatistics
from services.contracts.errors import TemperError
from services.datasets.reader import open_records
from services.datasets.record import JsonValue, Problem
from services.datasets.statistics import estimate_tokens
from services.datasets.token_counts.counter import TokenCounter, TokensNotCounted, checksum_of
from services.models.registry import resolve_model


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
