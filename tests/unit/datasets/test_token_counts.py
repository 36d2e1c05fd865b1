"""Tokens of rows by a model's own tokenizer, in a real child process."""

import asyncio
import json
from pathlib import Path

import pytest

from services.contracts.data.datasets import TokenStatistics
from services.datasets.token_counts.counter import TokenCounter, TokensNotCounted
from tests.support.models.word_tokenizer import write_word_tokenizer

ROWS = [{"q": "one two three", "a": ["four", {"b": "five"}]}, {"q": "one", "a": None}]


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def count(home: Path, rows: Path, tokenizer: Path, **bounds: int) -> TokenStatistics:
    counter = TokenCounter(home)
    return asyncio.run(counter.count(rows, "checksum of rows", tokenizer, "tiny", **bounds))


def test_all_texts_of_a_row_are_counted_by_the_tokenizer(tmp_path: Path, rows: Path) -> None:
    found = count(tmp_path, rows, write_word_tokenizer(tmp_path / "model"))

    assert (found.total, found.mean, found.longest) == (6, 3.0, 5)
    assert (found.model, found.rows, found.not_counted) == ("tiny", None, None)


def test_counts_are_cached_by_checksums(tmp_path: Path, rows: Path) -> None:
    tokenizer = write_word_tokenizer(tmp_path / "model")
    first = count(tmp_path, rows, tokenizer)
    rows.unlink()

    assert count(tmp_path, rows, tokenizer) == first, "the file is not read again"
    tokenizer.write_text(tokenizer.read_text() + "\n")
    with pytest.raises(TokensNotCounted):
        count(tmp_path, rows, tokenizer)


def test_only_the_first_rows_of_a_large_file_are_counted(tmp_path: Path, rows: Path) -> None:
    found = count(tmp_path, rows, write_word_tokenizer(tmp_path / "model"), most=10)

    assert (found.rows, found.total) == (1, 5)


def test_a_text_that_is_longer_than_a_batch_is_counted(tmp_path: Path) -> None:
    rows = tmp_path / "long.jsonl"
    rows.write_text(json.dumps({"q": "word " * 200_000}) + "\n")

    found = count(tmp_path, rows, write_word_tokenizer(tmp_path / "model"))

    assert 200_000 <= found.total <= 200_050, "a cut within a word adds a token"


def test_an_invalid_tokenizer_file_is_named(tmp_path: Path, rows: Path) -> None:
    broken = tmp_path / "tokenizer.json"
    broken.write_text("{}")

    with pytest.raises(TokensNotCounted, match="the process that counts raised"):
        count(tmp_path, rows, broken)
