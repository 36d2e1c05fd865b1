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

UNITS = [
    ({"kilometers", "km", "kilometres"}, set()),
    ({"inches", "in", "inch"}, set()),
    ({"minutes", "min", "mins", "minute"}, set()),
    ({"seconds", "sec", "secs", "s", "second"}, set()),
    ({"hours", "hrs", "hr", "h"}, set()),
    ({"days", "day"}, {"d"}),
    ({"weeks", "week", "wks"}, {"wk"}),
    ({"months", "month"}, set()),
    ({"years", "yrs", "yr", "years old"}, set()),
    ({"liters", "L", "l", "litres"}, set()),
    ({"milliliters", "mL", "ml"}, set()),
    ({"gallons", "gal"}, set()),
    ({"grams", "g", "gm", "gms"}, set()),
    ({"pounds", "lb", "lbs"}, set()),
    ({"dollars", "USD", "US dollars"}, set()),
    ({"cents", "cent"}, set()),
    ({"kelvin", "kelvins"}, {"K"}),
    ({"degrees Celsius", "degrees C"}, {"\u00b0C", "C"}),
    ({"degrees Fahrenheit", "degrees F"}, {"\u00b0F", "F"}),
    ({"teslas"}, {"T"}),
    ({"henries", "henrys"}, {"H"}),
    ({"newtons", "newton"}, {"N"}),
    ({"joules"}, {"J"}),
    ({"megabytes", "MB"}, {"mb", "Mb"}),
    ({"ohms"}, {"\\Omega", "\u03a9"}),
    ({"angstroms"}, {"\u00c5"}),
    ({"moles per liter", "mol/L"}, {"M", "mol L^{-1}"}),
    ({"electronvolts", "electron volts", "eV"}, set()),
    ({"newton meters"}, {"N m", "Nm", "N\\cdot m"}),
    ({"miles per hour", "mph", "mi/h", "miles an hour", "miles/hour"}, {"mi/hr"}),
    ({"kilometers per hour", "km/h", "kmph", "kph"}, set()),
    ({"meters per second", "m/s"}, set()),
    ({"meters per second squared"}, {"m/s/s", "m/s^2", "m s^{-2}"}),
    ({"revolutions per minute", "rpm"}, {"rev/min"}),
    ({"square centimeters", "cm squared", "sq. cm"}, {"cm^2", "cm\u00b2"}),
    ({"cubic centimeters", "cc"}, {"cm^3"}),
    ({"dollars per day", "dollars a day", "dollars/day"}, set()),
]
"""Spellings of one unit, and those that only a command of LaTeX tells from names."""
LETTERS = ["K", "C", "F", "T", "H", "M", "N", "J", "c", "u", "D", "\u00c5", "L", "d", "\\%"]

EQUAL = [
    ("12\\text{ ways}", "12\\text{ arrangements}"),
    ("12\\text{ different ways}", "12\\text{ possible ways}"),
    ("5\\text{ vertices}", "5\\text{ vertex}"),
    ("5\\text{ dollars an hour}", "\\$5\\text{ per hour}"),
    ("\\frac12\\text{ an hour}", "0.5\\text{ hours}"),
    ("5\\text{ cm in length}", "5\\text{ cm}"),
    ("30^\\circ\\mathrm{C}", "30"),
    ("30^\\circ C", "30\\text{ degrees}"),
    ("30^\\circ\\text{ Celsius}", "30 \u00b0C"),
    ("\\text{-40\u00b0F}", "-40"),
    ("\\text{5cm}", "5\\text{ cm}"),
    ("5!\\text{ ways}", "5!"),
    ("2\\mathrm{Z}", "2\\mathbb{Z}"),
    ("5\\mathrm{N}", "5"),
    ("5\\ \\mu\\text{m}", "5\\text{ micrometers}"),
    ("5\\ \\frac{\\text{m}}{\\text{s}}", "5\\text{ m/s}"),
    ("5\\ \\text{m}^2/\\text{s}", "5\\text{ m}^{2}\\text{/s}"),
    ("5\\ \\mathrm{mol}\\,\\mathrm{L}^{-1}", "5\\text{ mol/L}"),
    ("25\\pi\\text{ square units}", "25\\pi"),
    ("25\\pi cm^2", "25\\pi\\text{ square centimeters}"),
    ("50\\text{\\%}", "0.5"),
    ("\\text{50\\%}", "50\\text{ percentage}"),
    ("5\\text{ J/(mol K)}", "5\\mathrm{J\\,mol^{-1}\\,K^{-1}}"),
    ("5\\text{ foot-pounds}", "5\\text{ lb ft}"),
    ("12\\text{ apples}", "12\\text{ pieces of fruit}"),
    ("12\\text{ apples}", "12\\text{ kg}"),
    ("8 p.m.", "8\\text{ PM}"),
    ("5kg", "5 kg"),
    ("12 C", "12\\text{ C}"),
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
    ("5 sec x", "5"),
    ("5 min theta", "5"),
    ("5\\mathrm{i}", "5"),
    ("2\\pi h", "2\\pi"),
    ("5 a/b", "5"),
    ("5 a", "5"),
    ("\\text{5x}", "5"),
    ("8 a.m.", "8 pm"),
    ("5 men", "5\\text{ women}"),
    ("2\\text{nd place}", "2\\text{rd place}"),
    ("5\\text{ dollars an hour}", "\\$5\\text{ per day}"),
    ("30^\\circ C", "30^\\circ F"),
    ("30^\\circ\\text{ east}", "30^\\circ\\text{ west}"),
    ("25\\pi\\text{ ft}", "25\\pi\\text{ m}"),
    ("12\\text{ units}^3", "12\\text{ cm}^2"),
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


def written(words: set[str], symbols: set[str]) -> list[str]:
    """Twelve of a unit in every writing of its spellings."""
    in_commands = [
        f"12{space}\\{command}{{{word}}}"
        for command in ("text", "mathrm")
        for space in ("", " ", "\\ ", "\\,", "~")
        for word in sorted(words | symbols)
    ]
    return in_commands + [f"12 {word}" for word in sorted(words)]


@pytest.mark.parametrize(("words", "symbols"), UNITS)
def test_a_unit_in_any_spelling_fits_itself_and_no_unit(words: set[str], symbols: set[str]) -> None:
    forms = written(words, symbols)
    unequal = [
        (one, other)
        for form in forms
        for one, other in (("12", form), (form, "12"), (forms[0], form), (form, forms[-1]))
        if not are_equal(one, other)
    ]
    assert unequal == []


@pytest.mark.parametrize(("words", "symbols"), UNITS)
def test_a_unit_in_any_spelling_is_no_other_unit(words: set[str], symbols: set[str]) -> None:
    others = [max(each, key=len) for each, _ in UNITS if each != words]
    equal = [
        (form, other)
        for form in written(words, symbols)[::3]
        for other in others
        if are_equal(form, f"12 {other}")
    ]
    assert equal == []


@pytest.mark.parametrize("letter", LETTERS)
def test_a_letter_of_a_unit_in_a_command_for_text_is_no_factor(letter: str) -> None:
    for form in (
        f"300\\text{{ {letter}}}",
        f"300\\mathrm{{{letter}}}",
        f"300\\,\\text{{{letter}}}",
    ):
        assert are_equal("300", form), form
        assert are_equal(form, "300"), form


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
    assert fit(words, others) == fit(others, words)
    assert fit(words, others) or not (words <= others or others <= words)


@given(st.integers(1, 999), st.sampled_from(sorted(SCALES)), WORDS)
def test_a_number_with_its_scale_in_words_is_its_product(
    number: int, scale: str, words: str
) -> None:
    written, value = f"{number}\\text{{ {scale} {words}}}", str(number * SCALES[scale])
    assert are_equal(written, value)
    assert not are_equal(written, str(number))


@given(
    st.lists(st.sampled_from(["1", " " * 200, "\\text{a}", "a", "/", "^2", "°", "."]), max_size=8)
)
def test_words_behind_a_number_never_raise_and_equal_themselves(parts: list[str]) -> None:
    text = "12" + "".join(parts)
    assert are_equal(text, text)
    are_equal("12", text)
