"""What counts as a statement of the answer: a table of its parts, each of which says what it means.

The expected reading follows from the parts: the value of a sentence is read if no part of it denies
or supposes it, and else what the rest of the text says.
"""

from collections.abc import Iterator
from decimal import Decimal
from itertools import islice, product

import pytest

from services.contracts.rewards.graders import NumericGrader
from services.rewards.answers.choices import option_of
from services.rewards.answers.numbers import stated_number
from services.rewards.graders.gold import matcher

STATING = {  # what stands before a statement, and the number that it leaves to be read
    "": None,
    "So ": None,
    "Therefore, ": None,
    "We find that ": None,
    "I would say ": None,
    "As 7 is wrong, ": None,
    "If x > 1, then ": "1",
    "It is not 7, so ": None,
    "We cannot stop here. ": None,
    "Not only do we know that, but ": None,
    "There is no doubt that ": None,
}
DENYING = (
    *("I do not think that ", "I don't believe ", "It is false that ", "It isn't true that "),
    *("It is wrong to say that ", "Nobody says that "),
)
SUPPOSING = (
    *("If ", "Suppose ", "Suppose that ", "Let us check whether ", "Assuming that ", "Unless "),
    *("You might think ", "One could believe that ", "Some say ", "Many people think that "),
)
NEUTRAL = ("answer", "final answer", "correct answer", "numerical answer", "right final answer")
OTHERS = (
    *("wrong answer", "incorrect answer", "least likely answer", "most common wrong answer"),
    *("first answer", "previous answer", "least correct answer", "worst answer"),
)
LINKS = (
    " is ",
    " is: ",
    " must be ",
    " should therefore be ",
    " was ",
    ": ",
    " = ",
    " to this is ",
)
DENIED_LINKS = (
    *(" is not ", " isn't ", " isn\u2019t ", " cannot be ", " is definitely not ", " is never "),
    *(" is anything but ", " should not be ", " can't be "),
)
NUMBERS = {
    "18": "18",
    "$1,234.50": "1234.5",
    "\u22125": "-5",
    "**42**": "42",
    "3/4": "0.75",
    "3 1/2": "3.5",
    "2\u00bd": "2.5",
    "\u2212\u00bd": "-0.5",
    "\\frac{1}{2}": "0.5",
    "6.0\u00d710\u00b2\u00b3": "6e23",
    "2 \\times 10^{-3}": "0.002",
    "10\u207b\u00b3": "0.001",
    "2\u2078": "256",
    "2^8": "256",
    "$5 million": "5000000",
    "1.5 thousand": "1500",
    "3/4 billion": "750000000",
    "25 m2": "25",
    "25 m\u00b2": "25",
    "25 km^2": "25",
    "25 g CO2": "25",
    "2 hours 30 minutes": "2.5",
    "5 feet and 6 inches": "5.5",
    "7:30": "7.5",
    "3:1": "3",
    "about 18": "18",
    "x = 18": "18",
    "9 * 2 = 18": "18",
    "9*2, which is 18": "18",
    "6 \u00d7 3 \u2192 18": "18",
}
LETTERS = ("B", "(B)", "**B**", "option B", "the letter B", "B) Lima", "B. Lima", "Lima (B)", "b.")
TAILS = {  # what follows a value, and the reading of the text where the value is denied
    ".": None,
    "": None,
    ", of course.": None,
    " (rounded).": None,
    "\nDone!": None,
    ". Then 77 is left.": "77",
    ", because of the rest. So 77 is left.": "77",
    " (77).": "77",
    "\n\nIt took 77.": "77",
    "\n\n- 76 eggs a day\n- 77 eaten": "77",
    "\n+ 77 eggs": "77",
    "\n\n* 11 * 7 = 77": "77",
    "\n\nCheck:\n\n1. 70 + 7 = 77\n": "77",
    "\n\n### 77 in all": "77",
    "\n\n77 eggs are too many.": "77",
    "\n\nand 77 eggs": "77",
    "\nto 77": "77",
    "\r\n\r\n/ 77": "77",
    "\nx 77": "77",
    "\nminutes: 77": "77",
}
LETTER_TAILS = (
    *(
        ".",
        "",
        ", of course.",
        ", not C.",
        " \u2013 as said.",
        " (Lima).",
        "\n\nOption C is wrong.",
    ),
    *(" because C is not.", "!", "; C is a trap.", ". C is too small."),
    *("\n\n- because C is not.", "\n\nand C, D are wrong", "\n+ C) is too small"),
    *("\n\n### C is wrong", "\n/ C: too small", "\n\n- A is wrong\n- C as well"),
)


def sentences() -> Iterator[tuple[str, bool, str | None]]:
    """The beginnings of statements, up to the value, whether they hold, and the number in them."""
    for before, label, link in product(STATING, NEUTRAL, LINKS):
        yield f"{before}the {label}{link}", True, None
    for before, label, link in product(STATING, OTHERS, LINKS):
        yield f"{before}the {label}{link}", False, STATING[before]
    for before, label, link in product((*DENYING, *SUPPOSING), NEUTRAL, LINKS):
        yield f"{before}the {label}{link}", False, None
    for before, label, link in product(STATING, NEUTRAL, DENIED_LINKS):
        yield f"{before}the {label}{link}", False, STATING[before]


SENTENCES = tuple(sentences())


def some(number: int) -> Iterator[tuple[int, tuple[str, bool, str | None]]]:
    """Every third sentence and its position, others for each number."""
    yield from islice(enumerate(SENTENCES), number % 3, None, 3)


@pytest.mark.parametrize("written", NUMBERS)
def test_a_stated_number_is_read_whole_and_a_denied_one_never(written: str) -> None:
    wrong = []
    for number, (begin, holds, other) in some(tuple(NUMBERS).index(written)):
        tail = tuple(TAILS)[number % len(TAILS)]
        text = f"{begin}{written}{tail}"
        expected = NUMBERS[written] if holds else TAILS[tail] or other
        found = stated_number(text)
        if (found and found[1]) != (expected and Decimal(expected)):
            wrong.append((text, expected, found and found[0]))
    assert wrong == []


@pytest.mark.parametrize("written", LETTERS)
def test_a_stated_letter_is_read_and_a_denied_one_never(written: str) -> None:
    wrong = []
    for number, (begin, holds, _) in some(LETTERS.index(written)):
        text = f"{begin}{written}{LETTER_TAILS[number % len(LETTER_TAILS)]}"
        found = option_of(text, "ABCD")
        if found != ("B" if holds else None):
            wrong.append((text, holds, found))
    assert wrong == []


@pytest.mark.parametrize("gold", NUMBERS)
def test_a_number_equals_a_gold_if_both_mean_the_same(gold: str) -> None:
    grader = matcher(NumericGrader(relative_tolerance=0.0))
    for written, template in product(NUMBERS, ("{}", "It is {}.", "The answer is {}.", "#### {}")):
        is_right = grader.grade(template.format(written), [gold]).correct
        assert is_right == (Decimal(NUMBERS[written]) == Decimal(NUMBERS[gold])), written


CALLED = {  # what is said of a value, and whether it states it as the answer
    "is the answer": True,
    "is the final answer": True,
    "is therefore the correct answer": True,
    "was the right answer": True,
    "is the wrong answer": False,
    "is my first answer": False,
    "was the incorrect answer": False,
    "is not the answer": False,
    "is an answer": False,
}


@pytest.mark.parametrize("said", CALLED)
def test_a_value_that_is_called_the_answer_is_stated(said: str) -> None:
    for before in ("", "So ", "We find that ", "It is not 7, so "):
        text = f"{before}18 {said}. It took 77."
        number = stated_number(text)
        assert number is not None
        assert number[0] == ("18" if CALLED[said] else "77"), text
        again = stated_number(f"The answer is 15. {before}18 {said}.")
        assert again is not None
        assert again[0] == ("18" if CALLED[said] else "15"), text
    for before in (*DENYING, *SUPPOSING):
        number = stated_number(f"{before}18 {said}. It took 77.")
        assert number is not None
        assert number[0] == "77", before


@pytest.mark.parametrize("subject", ["B", "(B)", "Option B", "the letter B"])
def test_a_letter_that_is_called_right_is_stated(subject: str) -> None:
    for said in ("is correct", "is the right answer", "must be the answer", "is clearly the best"):
        for before in ("", "So ", "Therefore, ", "I think ", "A is wrong, but "):
            assert option_of(f"{before}{subject} {said}.", "ABCD") == "B", (before, said)
        for before in (*DENYING, *SUPPOSING, "Neither A nor "):
            assert option_of(f"{before}{subject} {said}.", "ABCD") is None, (before, said)
    for noun in ("Hepatitis ", "Vitamin ", "Group ", "Plan "):
        assert option_of(f"{noun}B is the right one.", "ABCD") is None


VERBS = ("choose", "pick", "select", "go with", "opt for")


@pytest.mark.parametrize("verb", VERBS)
def test_a_choice_that_is_refused_is_none(verb: str) -> None:
    for before in ("I ", "I would ", "So I ", "It is not A, so I "):
        assert option_of(f"{before}{verb} B.", "ABCD") == "B"
    for before in ("I would not ", "I wouldn't ", "I do not ", "We cannot ", "Never "):
        assert option_of(f"{before}{verb} B.", "ABCD") is None


@pytest.mark.parametrize("verb", ["rule out", "eliminate", "exclude", "reject", "discard"])
def test_an_option_that_is_ruled_out_is_none(verb: str) -> None:
    assert option_of(f"We {verb} option B.", "ABCD") is None
    assert option_of(f"We {verb} option A. It matches option B.", "ABCD") == "B"


REMARKS = (
    "",
    ".",
    " dollars",
    " Eggs",
    " km per hour",
    " (9 * 2)",
    " dollars (9 * 2)",
    " because 9 * 2",
)


@pytest.mark.parametrize(
    "remark", [*REMARKS, ", and 7 are left", " of 20", "%", " (or 7 if rounded)"]
)
@pytest.mark.parametrize("written", ["18", "$1,234.50", "**42**", "3 1/2", "2 hours 30 minutes"])
def test_a_marked_value_is_read_whatever_is_remarked(written: str, remark: str) -> None:
    found = stated_number(f"First 12 + 5.\n#### {written}{remark}\n\nQuestion: 3 pears?")
    assert found is not None
    assert found[1] == Decimal(NUMBERS[written])


@pytest.mark.parametrize("written", ["18", "**18**", "$18$", "18 eggs"])
@pytest.mark.parametrize("label", ["### Answer", "**Final answer:**", "Answer:\n"])
def test_a_value_below_its_label_ends_with_its_line(label: str, written: str) -> None:
    for tail in (tail for tail in TAILS if tail[:1] in ("\r", "\n")):
        found = stated_number(f"{label}\n{written}{tail}")
        assert found is not None, tail
        assert found[1] == 18, tail


SEEKING = ("Find", "To find", "Let us find", "We need to compute", "Now determine", "I must give")
FINDING = ("So we get", "Thus we obtain", "This gives", "Therefore, we find", "Adding them gives")


@pytest.mark.parametrize("article", ["the answer", "the final answer"])
def test_what_is_sought_is_not_stated_but_what_is_found(article: str) -> None:
    for before in (*SEEKING, *FINDING):
        text = f"{before} {article}: 18. It took 77."
        assert (stated_number(text) or "")[0] == "18", text
        assert option_of(f"{before} {article}: B. Option A is wrong.", "ABCD") == "B", before
    for before in SEEKING:
        text = f"{before} {article}: 9 boxes of 2 each hold as many. It is 77."
        assert (stated_number(text) or "")[0] == "77", text
        assert option_of(f"{before} {article}: A is too small, and C wrong.", "ABCD") is None
    for before in FINDING:
        text = f"{before} {article}: 18 boxes of 2 each. It is 77."
        assert (stated_number(text) or "")[0] == "18", text
        assert (stated_number(f"{before} {article} is 18. It is 77.") or "")[0] == "18"
