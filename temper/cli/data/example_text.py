"""Rows as training reads them, as text for a terminal."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from temper.cli.jobs.trajectory_text import escaped

if TYPE_CHECKING:
    from services.contracts.data.file_rows import ExampleRow, TrainingExample


def example_lines(row: ExampleRow) -> Iterator[str]:
    """Yield a row and its examples, one token per line: loss mask, id, text as JSON."""
    label = {None: "", True: " (desirable)", False: " (undesirable)"}[row.label]
    yield f"row {row.row}{label}{f': {escaped(row.problem)}' if row.problem else ''}"
    for part in row.missing:
        yield f"  not in the trained text: {escaped(part)}"
    for warning in row.warnings:
        yield f"  {escaped(warning)}"
    for example in row.examples:
        yield f"  {_heading(example)}"
        tokens = zip(example.mask, example.token_ids, example.texts, strict=True)
        for mask, token, text in tokens:
            yield f"  {mask} {token:>6} {escaped(json.dumps(text, ensure_ascii=False))}"


def _heading(example: TrainingExample) -> str:
    cut = f", {example.cut_tokens} cut off" if example.cut_tokens else ""
    more = f", {example.more_tokens} not shown" if example.more_tokens else ""
    total = len(example.token_ids) + example.more_tokens
    return f"{example.part}: {total} tokens, {sum(example.mask)} with a loss{cut}{more}"
