"""What is part of a stated value, and what is not: other values, other forms, the next line."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.answers.choices import option_of
from services.rewards.answers.numbers import stated_number

PIECES = (
    *("-", "+", "*", "/", "x", "=", "^", ",", "(", ")", "$", "%", "?", "#", "**", "\\times", "and"),
    *(
        "or",
        "to",
        "plus",
        "million",
        "minutes",
        "cents",
        "is wrong",
        "which is",
        "\\frac{1}{2}",
        "7",
    ),
    *("77", "1/2", "(A)", "C)", "C,", "/ C", "eggs", "\n", "\r\n", "\n\n"),
)


@given(
    st.sampled_from(["The answer is ", "**Answer:** ", "### Answer\n", "Final answer:\n\n"]),
    st.lists(st.sampled_from(PIECES), max_size=8).map(" ".join),
)
def test_the_next_lines_are_no_part_of_a_value(label: str, below: str) -> None:
    for value in ("18", "18 hours", "$18$", "**18**"):
        found = stated_number(f"{label}{value}\n{below}")
        assert found is not None, value
        assert found[1] == 18, value
    for letter in ("B", "(B)", "**B**"):
        assert option_of(f"{label}{letter}\n{below}", "ABCD") == "B", letter


SEVERAL = (
    *("1 or 2", "between 1 and 2", "20-25", "9 * 2", "20 to 25 eggs", "1, 2 or 3", "1, 2, 3"),
    *("5 + 6 or 5 + 7", "the sum of 3 and 4", "1 or 2 are possible", "1 and 2, or 1"),
)


@pytest.mark.parametrize("several", SEVERAL)
def test_several_values_are_no_number(several: str) -> None:
    for end in (".", "", "\n\nIt took 77.", "\n\nwhich is 77"):
        assert stated_number(f"The answer is {several}{end}") is None, end


SINGLE = {  # what is one value, though several numbers state it
    "42.5 to 3 s.f.": "42.5",
    "42.5 to 1 d.p.": "42.5",
    "42.5 to 3 SF": "42.5",
    "42.5 to 10 sig figs": "42.5",
    "42.50 to 2 places": "42.5",
    "1/2 or 0.5": "0.5",
    "0.5, or 1/2": "0.5",
    "3/8 or 0.38": "0.375",
    "3/4 or 75%": "0.75",
    "$42 or $42.00": "42",
    "12, or 12 eggs": "12",
    "1,000 or 10^3": "1000",
    "18 and 2 are left over": "18",
    "42, and 42 is even": "42",
    "3 and 1/2": "3.5",
    "$42 and 50 cents": "42.5",
    "SGD18": "18",
    "5 + 6 equals 11": "11",
    "5 + 6 is 11": "11",
    "5 + 6, or 11": "11",
    "1.5 + 2, giving 3.5": "3.5",
    "5 times 6, making 30": "30",
    "the product of 4 and 5, i.e., 20": "20",
    "the sum of 3 and 4, which is 7": "7",
}


@pytest.mark.parametrize("single", SINGLE)
def test_one_value_in_two_forms_is_a_number(single: str) -> None:
    for end in (".", "", "\n\nIt took 77.", "\n\n- 77 eggs", "\n\nor 77"):
        found = stated_number(f"The answer is {single}{end}")
        assert found is not None, end
        assert found[1] == Decimal(SINGLE[single]), end


@pytest.mark.parametrize("first", ["1) Eggs", "1) calculate eggs", "**1) Eggs**", "1. Eggs", "1)"])
def test_a_heading_with_an_ordinal_is_no_value(first: str) -> None:
    for later in ("\n#### 2) Money\n9 * 2 = 18", "\nSo it is 18.", "\n**The answer is 18.**\n- 7"):
        found = stated_number(f"#### {first}\n16 - 7 = 9{later}")
        assert found is not None
        assert found[1] == 18, later
    for marked in ("(18)", "$18$", "\\(18\\)"):
        found = stated_number(f"1 + 2\n#### {marked}\n\nIt took 77.")
        assert found is not None
        assert found[1] == 18, marked
