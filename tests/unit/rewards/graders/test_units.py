"""The words behind a number count: what multiplies it, its unit, and what is counted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.mathematics.expressions import are_equal
from services.rewards.mathematics.units import SCALES, fit, read_words

WORDS = st.lists(
    st.text("abcdefghilmnoprstuvw", min_size=3, max_size=6).filter(
        lambda word: word not in {"and", "cos", "per", "pct", "squ", "sin"}
    ),
    max_size=3,
).map(" ".join)

EQUAL = [
    ("5{,}000{,}000", "5\\text{ million}"),
    ("\\$5{,}000{,}000", "5\\text{ million dollars}"),
    ("5\\text{ million}", "5{,}000{,}000\\text{ people}"),
    ("1.5 billion", "1500000000"),
    ("3\\text{ hundred thousand}", "300000"),
    ("3\\text{ dozen}", "36"),
    ("\\frac{1}{2}\\text{ dozen}", "6"),
    ("2\\sqrt{3}\\text{ million}", "2000000\\sqrt{3}"),
    ("5 percent", "5\\%"),
    ("5\\text{ per cent}", "0.05"),
    ("2\\sqrt3\\text{ percent}", "\\frac{2\\sqrt3}{100}"),
    ("10\\text{ kilojoules}", "10\\text{ kJ}"),
    ("10\\text{ feet per second}", "10\\text{ ft/s}"),
    ("10\\ \\mathrm{m}/\\mathrm{s}", "10\\text{ m/s}"),
    ("10\\text{ miles per hour}", "10 mph"),
    ("10 square feet", "10\\text{ ft}^2"),
    ("5\\text{ cm squared}", "5\\text{ cm}^2"),
    ("12\\text{ units}", "12\\text{ square units}"),
    ("12\\text{ square units}", "12\\text{ cm}^2"),
    ("10\\text{ boxes}", "10\\text{ box}"),
    ("10\\text{ parties}", "10\\text{ party}"),
    ("10\\text{ houses}", "10\\text{ house}"),
    ("5 people", "5\\text{ persons}"),
    ("5\\text{ red apples}", "5\\text{ apples}"),
    ("5 square feet of paint", "5\\text{ sq. ft}"),
    ("5\\text{ KG}", "5 kg"),
    ("8\\text{ a.m.}", "8\\text{ AM}"),
    ("\\text{90 degrees}", "90^\\circ"),
    ("\\text{5 million}", "5{,}000{,}000"),
    ("180^\\circ", "180\\text{ degrees}"),
    ("3\\mathbf{i}+4\\mathbf{j}", "4\\mathbf{j}+3\\mathbf{i}"),
]
DIFFERENT = [
    ("5\\text{ billion}", "5\\text{ million}"),
    ("5\\text{ million}", "5"),
    ("3\\text{ dozen}", "3"),
    ("2\\sqrt3\\text{ million}", "2\\sqrt3"),
    ("10\\text{ kJ}", "10\\text{ J}"),
    ("10\\text{ MW}", "10\\text{ mW}"),
    ("10\\text{ GB}", "10\\text{ MB}"),
    ("5\\text{ N}", "5\\text{ J}"),
    ("10\\text{ km/h}", "10\\text{ m/s}"),
    ("5\\text{ feet}", "5\\text{ feet per second}"),
    ("10\\text{ m/s}", "10\\text{ m/s}^2"),
    ("10\\text{ dollars per hour}", "10\\text{ dollars per day}"),
    ("8\\text{ a.m.}", "8\\text{ p.m.}"),
    ("5\\text{ east}", "5\\text{ west}"),
    ("5\\text{ units left}", "5\\text{ units right}"),
    ("3\\text{ wins}", "3\\text{ losses}"),
    ("10\\%\\text{ increase}", "10\\%\\text{ decrease}"),
    ("1\\text{st}", "1\\text{nd}"),
    ("12\\text{ square units}", "12\\text{ cubic units}"),
    ("90\\text{ degrees}", "90\\text{ radians}"),
    ("90\\text{ degrees Celsius}", "90\\text{ degrees Fahrenheit}"),
    ("3\\mathbf{i}+4\\mathbf{j}", "3\\mathbf{i}+4\\mathbf{k}"),
    ("3\\mathbf{i}+4\\mathbf{j}", "3\\mathbf{i}+4"),
    ("\\text{5 or more}", "5"),
    ("\\text{5 of 6 boys}", "5"),
    ("5", "5 cos theta"),
    ("5", "5 theta"),
    ("5", "5\\mathrm{e}"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_the_same_of_the_same_is_equal(one: str, other: str) -> None:
    assert are_equal(one, other)
    assert are_equal(other, one)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_the_same_number_of_something_else_is_not_equal(one: str, other: str) -> None:
    assert not are_equal(one, other)
    assert not are_equal(other, one)


@given(WORDS, WORDS)
def test_words_fit_themselves_and_none_and_those_that_have_them_all(one: str, other: str) -> None:
    words, others = read_words(one).unit, read_words(other).unit
    assert fit(words, words)
    assert fit(words, frozenset())
    assert fit(words, others) == fit(others, words) == (words <= others or others <= words)


@given(st.integers(1, 999), st.sampled_from(sorted(SCALES)), WORDS)
def test_a_number_with_its_scale_in_words_is_its_product(
    number: int, scale: str, words: str
) -> None:
    written, value = f"{number}\\text{{ {scale} {words}}}", str(number * SCALES[scale])
    assert are_equal(written, value)
    assert not are_equal(written, str(number))
