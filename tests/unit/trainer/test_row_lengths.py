"""Token lengths with a real tokenizer."""

from pathlib import Path

import pytest
from tokenizers import Regex, Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Split

from services.contracts.errors import JobFailed
from services.datasets.formats import Example
from services.trainer.offline.rows.lengths import row_lengths

QUESTION = Example(turns=[("user", "abc"), ("assistant", "de")], answers=1)


def character_tokenizer(path: Path, markers: list[str]) -> Path:
    """A character-level tokenizer that truncates to three tokens."""
    tokenizer = Tokenizer(WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.add_special_tokens(markers)
    tokenizer.enable_truncation(3)
    tokenizer.save(str(path))
    return path


def total(tokenizer: Path, *examples: Example) -> int:
    """The number of tokens of all examples."""
    lengths = row_lengths(tokenizer, 2048)
    for example in examples:
        lengths.add(example)
    statistics = lengths.statistics()
    assert statistics is not None
    assert statistics.unit == "tokens"
    return statistics.total


@pytest.mark.parametrize("markers", [["<|im_start|>", "<|im_end|>"], []])
def test_a_row_is_measured_as_chatml(tmp_path: Path, markers: list[str]) -> None:
    tokenizer = character_tokenizer(tmp_path / "tokenizer.json", markers)
    user = 1 + len("user\n") + len("abc") + 1 + len("\n")
    assistant = 1 + len("assistant\n") + len("de") + 1 + len("\n")
    assert total(tokenizer, QUESTION) == user + assistant
    tools = 1 + len("system\n") + len("[1]") + 1 + len("\n")
    with_tools = Example(QUESTION.turns, answers=1, tools="[1]")
    assert total(tokenizer, QUESTION, with_tools) == 2 * (user + assistant) + tools


def test_long_and_numerous_rows_are_all_counted(tmp_path: Path) -> None:
    tokenizer = character_tokenizer(tmp_path / "tokenizer.json", ["<|im_start|>", "<|im_end|>"])
    long = Example(turns=[("user", "x" * 300_000)], answers=0)
    assert total(tokenizer, long) == 300_000 + len("user\n") + 3
    assert total(tokenizer, *[QUESTION] * 10_000) == 10_000 * total(tokenizer, QUESTION)


def test_rows_over_the_limit_are_reported(tmp_path: Path) -> None:
    tokenizer = character_tokenizer(tmp_path / "tokenizer.json", [])
    lengths = row_lengths(tokenizer, max_seq_length=40)
    lengths.add(QUESTION)
    lengths.add(Example(turns=[("user", "x" * 40)], answers=0))
    statistics = lengths.statistics()
    assert statistics is not None
    assert statistics.truncated == 1


def test_a_broken_tokenizer_raises_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text("{}")
    with pytest.raises(JobFailed, match=r"the model's tokenizer\.json cannot be read") as caught:
        row_lengths(path, 2048)
    assert caught.value.param == "model"
