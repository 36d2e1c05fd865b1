"""The places of tokens of tokenizers that do not say where these are."""

import re
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.training.rows import DataFormat, RowKind
from services.datasets.conversation import ConversationReader
from services.datasets.record import RowError
from services.datasets.rendering.rows import RowRenderer
from services.datasets.rendering.training_tokens import TokenSettings
from services.trainer.offline.rows.slow_encoder import SlowEncoder

_BLANK = "▁"
_ENDS = ("<|endoftext|>", "<s>")
_WORDS = ("The", "capital", "of", "is", "Paris", "User", "Bot", "What", "hello", "a", "p", "x")
_PIECES = [*_WORDS, *(_BLANK + word for word in _WORDS), ":", "?", ".", "\n", _BLANK, "e", "0"]


class SentencePieces:
    """A small SentencePiece tokenizer with a blank put before texts, and bytes of characters that
    it does not know. ``rule`` is how it is decoded: as GPT-SW3's in transformers, which puts blanks
    around special tokens, or as others, which strip the blanks at both ends."""

    all_special_tokens = _ENDS

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.added_tokens_decoder = {1000: SimpleNamespace(content=_ENDS[0])}
        self.truth: list[tuple[int, int]] = []

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return 1000 + _ENDS.index(token) if token in _ENDS else None

    def encode(self, text: str, *, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        ids: list[int] = []
        self.truth = []
        for found in re.finditer(r"<\|endoftext\|>|<s>|.+?(?=<\|endoftext\|>|<s>|\Z)", text, re.S):
            if (token := self.convert_tokens_to_ids(found[0])) is not None:
                ids.append(token)
                self.truth.append(found.span())
            else:
                ids += self._pieces(found[0], found.start())
        return ids

    def _pieces(self, text: str, offset: int) -> list[int]:
        shown, at, ids = _BLANK + text.replace(" ", _BLANK), 0, []
        while at < len(shown):
            known = [piece for piece in _PIECES if shown.startswith(piece, at)]
            piece = max(known, key=len, default=shown[at])
            values = [_PIECES.index(piece)] if known else [2000 + byte for byte in piece.encode()]
            begin, end = (offset + max(0, place - 1) for place in (at, at + len(piece)))
            ids += values
            self.truth += [(begin, end)] * len(values)
            at += len(piece)
        return ids

    def decode(
        self, ids: Sequence[int], *, skip_special_tokens: bool, clean_up_tokenization_spaces: bool
    ) -> str:
        assert not skip_special_tokens
        assert not clean_up_tokenization_spaces
        if self.rule == "loses bytes":
            ids = [token for token in ids if token < 2000]
        if self.rule == "lowercases":
            return self._joined(ids).lower()
        if self.rule != "gpt_sw3":
            return self._joined(ids).strip()
        text, after_special = "", False
        run: list[int] = []
        for token in ids:
            if special := 1000 <= token < 2000:
                text += "" if after_special else " "
                text += self._joined(run).removeprefix(" ") + _ENDS[token - 1000]
                run = []
            else:
                run.append(token)
            after_special = special
        return text + self._joined(run).removeprefix(" ")

    def _joined(self, ids: Sequence[int]) -> str:
        data = b"".join(
            bytes([token - 2000]) if token >= 2000 else self._piece(token).encode() for token in ids
        )
        return data.decode(errors="replace")

    def _piece(self, token: int) -> str:
        return _ENDS[token - 1000] if token >= 1000 else _PIECES[token].replace(_BLANK, " ")


RULES = st.sampled_from(["gpt_sw3", "strips"])
TEXTS = st.lists(
    st.sampled_from(
        [*_WORDS, *(f" {word}" for word in _WORDS), *_ENDS, "\n", "é", "日本", ":", " "]
    )
).map("".join)


@given(RULES, TEXTS)
def test_tokens_are_where_the_tokenizer_found_them(rule: str, text: str) -> None:
    tokenizer = SentencePieces(rule)

    found = SlowEncoder(tokenizer, [])(text)

    assert found.ids == tokenizer.encode(text, add_special_tokens=False)
    for number, (begin, _) in enumerate(tokenizer.truth):
        # A blank put before the text looks like one of the text.
        low, high = sorted((begin, found.begin(number)))
        assert not text[low:high].strip()
        if rule == "gpt_sw3" and " " not in text:
            assert low == high
    assert "".join(token.text for token in found.parts([len(text)])[0].first(len(found))) == text


WORDS = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=12).map(" ".join)


@given(RULES, WORDS, WORDS)
def test_the_answer_alone_has_a_loss(rule: str, question: str, answer: str) -> None:
    def template(messages: list[dict[str, str]], tools: object, *, prompt: bool) -> str:
        names = {"user": "User", "assistant": "Bot"}
        turns = "".join(f"{names[each['role']]}: {each['content']}<s>" for each in messages)
        return "<|endoftext|><s>" + turns + ("Bot:" if prompt else "")

    tokenizer = SentencePieces(rule)
    renderer = RowRenderer(
        RowKind.DEMONSTRATION, template, SlowEncoder(tokenizer, []), TokenSettings(4096)
    )
    turns = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
    row = {"messages": turns}
    read = ConversationReader(RowKind.DEMONSTRATION, DataFormat.AUTO).read(row)

    (sequence,) = renderer.render(row, read).usable

    tokens = zip(sequence.tokens.tokens, sequence.tokens.mask, strict=True)
    trained = [token for token, has_loss in tokens if has_loss]
    assert "".join(token.text for token in trained) == f" {answer}<s>"
    assert trained[-1].id == 1001


@pytest.mark.parametrize(
    ("rule", "text"),
    [("loses bytes", "a 日本: a"), ("loses bytes", "a 日本"), ("lowercases", "a The")],
)
def test_a_text_that_tokens_do_not_reproduce_is_refused(rule: str, text: str) -> None:
    encode = SlowEncoder(SentencePieces(rule), [])

    assert encode("capital of ").ids
    with pytest.raises(RowError, match="does not reproduce the text from"):
        encode(text)


def test_each_token_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = SentencePieces("gpt_sw3")
    encode = SlowEncoder(tokenizer, [])
    decoded: list[int] = []
    decode = tokenizer.decode

    def counted(ids: list[int], **options: bool) -> str:
        decoded.append(len(ids))
        return decode(ids, **options)

    monkeypatch.setattr(tokenizer, "decode", counted)

    encode("hello The capital of Paris" * 500)
    encode("capital hello" * 500)

    assert len(decoded) < 40
    assert max(decoded) <= 4
