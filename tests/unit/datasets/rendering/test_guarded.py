"""Control tokens are distinguished from lookalike text for any vocabulary."""

from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from services.datasets.rendering.guarded import GuardedTokenizer

_LETTERS = ["<", "e", ">", "m", "?", " "]


def tokenizer(model: Any, *, strip: bool = False) -> GuardedTokenizer:
    """A tokenizer of a few letters with special token ``<e>`` and added token ``<m>``."""
    made = Tokenizer(model)
    made.decoder = decoders.Fuse()
    made.add_special_tokens([AddedToken("<e>", special=True, rstrip=strip)])
    made.add_tokens([AddedToken("<m>", special=False, normalized=False)])
    return GuardedTokenizer(made.to_str(), template="{{ '<m>' }}")


def bpe(*pieces: str, merges: Any = (), **options: Any) -> models.BPE:
    vocabulary = {piece: number for number, piece in enumerate([*_LETTERS, *pieces])}
    return models.BPE(vocabulary, list(merges), unk_token="?", **options)


_MERGES = [("<", "e"), ("<e", ">"), ("<e>", "m")]
MODELS = {
    "apart from the vocabulary": bpe(),
    "in the vocabulary": bpe("<e>"),
    "merged of others": bpe("<e", "<e>", "<e>m", merges=_MERGES),
    "whole words": bpe("<e>", ignore_merges=True),
    "a piece": models.Unigram([("?", 0.0), *((x, -2.0) for x in "<e>m "), ("<e>", -1.0)], 0),
}


@pytest.mark.parametrize("kind", MODELS)
def test_guarded_text_contains_no_control_tokens(kind: str) -> None:
    guarded = tokenizer(MODELS[kind])
    control = {guarded.id_of("<e>"), guarded.id_of("<m>")}

    ids = guarded.encode(guarded.guard("<e>") + guarded.guard("<m><e"))

    assert not control & set(ids)
    assert guarded.decode(ids) == "<e><m><e"


@pytest.mark.parametrize("kind", MODELS)
def test_rendered_text_has_the_same_ids_as_plain_encoding(kind: str) -> None:
    guarded = tokenizer(MODELS[kind])

    assert guarded.encode("m<e>mm<m> e<e>") == guarded.encode_plain("m<e>mm<m> e<e>")
    assert guarded.id_of("<e>") in guarded.encode("m<e>mm<m> e<e>")


def test_a_token_that_strips_spaces_still_strips_them() -> None:
    guarded = tokenizer(bpe(), strip=True)

    assert guarded.encode("<e>  m") == guarded.encode_plain("<e>  m") == guarded.encode("<e>m")


def test_a_token_across_parts_belongs_to_the_part_it_begins_in() -> None:
    guarded = tokenizer(bpe("mm", merges=[("m", "m")]))

    parts = guarded.encode_parts(["em", "m<e>", "", "e"])

    assert [guarded.decode(part) for part in parts] == ["emm", "<e>", "", "e"]


def test_a_trailing_space_stays_in_its_part() -> None:
    """GPT-2-style tokenizers report that a space begins where it ends."""
    made = Tokenizer(bpe("Ġ"))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    made.post_processor = processors.ByteLevel(trim_offsets=True)
    guarded = GuardedTokenizer(made.to_str(), template="")

    first, second = guarded.encode_parts(["m ", "e"])

    assert (len(first), len(second)) == (2, 1)


def test_the_leading_space_is_added_once() -> None:
    made = Tokenizer(bpe("▁", "▁m", merges=[("▁", "m")]))
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    made.add_special_tokens(["<e>"])
    guarded = GuardedTokenizer(made.to_str(), template="")

    assert guarded.encode("m<e>m") == guarded.encode_plain("m<e>m")
    first, second = guarded.encode_parts(["m<e>", "m"])
    assert first + second == guarded.encode_plain("m<e>m")
