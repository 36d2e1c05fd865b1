"""Large JSON texts mean what they mean to the standard library."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.core.web import large_json
from services.core.web.large_json import TooManyValues, parse_large

MOST = 1000
CHARACTERS = st.sampled_from('ab"\\/\n\x00é€😀\u2028')
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(CHARACTERS, max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(CHARACTERS), inner),
    max_leaves=8,
)


@pytest.fixture(params=[1, 8, 13], autouse=True, scope="module")
def _short_pieces(request: pytest.FixtureRequest) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_json, "_LONG_BYTES", request.param)
        # No shorter than an escape and the character behind it.
        patch.setattr(large_json, "_PIECE_BYTES", max(8, request.param))
        patch.setattr(large_json, "_MOST_QUOTES", request.param)
        yield


@given(value=VALUES, ascii_only=st.booleans(), indent=st.sampled_from([None, 2]))
def test_every_value_is_read(value: Any, ascii_only: bool, indent: int | None) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent).encode()

    assert parse_large(text, MOST) == value


@given(text=st.binary(max_size=40) | st.text('{}[]",:\\u0d8', max_size=40).map(str.encode))
def test_what_is_not_json_is_refused(text: bytes) -> None:
    try:
        expected = json.loads(text.decode())
    except ValueError:
        with pytest.raises(ValueError, match=" "):
            parse_large(text, MOST)
    else:
        assert repr(parse_large(text, MOST)) == repr(without_lone_surrogates(expected))


def without_lone_surrogates(value: Any) -> Any:
    text = json.dumps(value, ensure_ascii=False)
    return json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))


@pytest.mark.parametrize("before", range(12))
def test_surrogates_are_paired_or_replaced(before: int) -> None:
    pair, lone = r"\ud83d\ude00", r"\ud83d"
    text = f'["{"x" * before}{pair}{"y" * 9}{lone}{"z" * 9}", "{lone}"]'

    assert parse_large(text.encode(), MOST) == [
        f"{'x' * before}😀{'y' * 9}\ufffd{'z' * 9}",
        "\ufffd",
    ]


def test_the_number_of_values_is_bounded() -> None:
    assert parse_large(json.dumps([","] * MOST).encode(), MOST) == [","] * MOST
    with pytest.raises(TooManyValues):
        parse_large(json.dumps([1] * (MOST + 1)).encode(), MOST)


def test_no_call_decodes_more_than_a_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    loads = json.loads

    def counted(text: str) -> Any:
        sizes.append(len(text))
        return loads(text)

    monkeypatch.setattr(json, "loads", counted)
    text = json.dumps({"stdin": "line\n" * 2_000})

    assert parse_large(text.encode(), MOST) == {"stdin": "line\n" * 2_000}
    assert max(sizes) < 100
