"""The text of every single token, for the tokenizers of every family."""

from pathlib import Path

import pytest

from services.contracts.errors import InvalidRequest
from services.rollouts.chat.token_texts import open_tokenizer, token_texts
from tests.support.chat_templates.families import FAMILIES
from tests.unit.rollouts.chat.conftest import Opened

TEXT = "Wie héißt 🎉 das?\n\n  zwei<tool_call>{}"


def test_the_texts_of_tokens_make_up_the_sequence(opened_family: Opened) -> None:
    tokenizer = opened_family.tokenizer
    ids = opened_family.ids(TEXT + opened_family.family.ends[0])

    texts = token_texts(tokenizer, ids, 0, len(ids))

    assert "".join(texts) == tokenizer.decode(ids, skip_special_tokens=False)
    assert texts[-1] == opened_family.family.ends[0]
    assert "\ufffd" not in "".join(texts)


def test_a_page_of_tokens_has_the_texts_of_the_whole(opened_family: Opened) -> None:
    ids = opened_family.ids(TEXT)
    whole = token_texts(opened_family.tokenizer, ids, 0, len(ids))

    pages = [token_texts(opened_family.tokenizer, ids, at, at + 3) for at in range(0, len(ids), 3)]

    assert [text for page in pages for text in page] == whole


def test_a_character_of_several_tokens_is_the_text_of_the_last(qwen3: Opened) -> None:
    ids = qwen3.ids("a🎉b")

    assert token_texts(qwen3.tokenizer, ids, 0, len(ids)) == ["a", "", "", "", "🎉", "b"]


def test_invalid_bytes_and_unknown_ids_hide_no_other_tokens(qwen3: Opened) -> None:
    first_byte = qwen3.ids("🎉")[0]
    ids = [*qwen3.ids("a"), *[first_byte] * 9, 10**6, *qwen3.ids("b")]

    texts = token_texts(qwen3.tokenizer, ids, 0, len(ids))

    assert len(texts) == len(ids)
    assert (texts[0], texts[-1][-1]) == ("a", "b")
    assert set("".join(texts)) == {"a", "b", "\ufffd"}


def test_a_tokenizer_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(InvalidRequest, match="cannot be used"):
        open_tokenizer(tmp_path)

    FAMILIES["qwen3"].write(tmp_path)

    assert open_tokenizer(tmp_path) is open_tokenizer(tmp_path)


def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=f"{tmp_path.name} has no tokenizer.json"):
        open_tokenizer(tmp_path)
