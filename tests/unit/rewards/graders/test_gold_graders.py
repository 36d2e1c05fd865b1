"""Graders that compare with golds: exact, regex, numeric, boxed integers and tool calls."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest
from services.contracts.rewards.graders import (
    BoxedIntegerGrader,
    ChoiceGrader,
    ExactGrader,
    GoldGrader,
    NumericGrader,
    RegexGrader,
    ToolCallsGrader,
)
from services.metrics.repeated import RepeatedSamples
from services.rewards.graders.gold import Verdict, matcher
from tests.support.rewards import failure, rewarded, score, trajectory


def grade(settings: GoldGrader, answer: str, *golds: str) -> Verdict:
    return matcher(settings).grade(answer, golds)


def test_exact_strips_leading_and_trailing_whitespace_only() -> None:
    assert grade(ExactGrader(), "  blue whale\n", "blue whale") == Verdict(True, "blue whale")
    assert not grade(ExactGrader(), "blue  whale", "blue whale").correct


def test_any_of_several_golds_is_right() -> None:
    assert grade(ExactGrader(), "b", "a", "b").correct


@pytest.mark.parametrize(("answer", "gold"), [("STRASSE", "straße"), ("Ok", "oK"), ("ΣΑΣ", "σας")])
def test_exact_can_ignore_case(answer: str, gold: str) -> None:
    assert not grade(ExactGrader(), answer, gold).correct
    assert grade(ExactGrader(ignore_case=True), answer, gold).correct


@given(st.text(), st.text())
def test_exact_is_equality_of_stripped_texts(answer: str, gold: str) -> None:
    assert grade(ExactGrader(), answer, gold).correct == (answer.strip() == gold.strip())


def test_regex_without_a_group_only_has_to_match() -> None:
    grader = RegexGrader(pattern=r"(?i)\byes\b")
    assert grade(grader, "Oh YES, sure", "unused") == Verdict(True, "YES")
    assert grade(grader, "yesterday", "unused") == Verdict(False, None)


def test_regex_compares_the_last_match_of_its_group() -> None:
    grader = RegexGrader(pattern=r"Answer:\s*(?P<answer>[^\n.]+)")
    answer = "Answer: 3. No, wait.\nAnswer:  Łódź .\n"
    assert grade(grader, answer, "Łódź") == Verdict(True, "Łódź")
    assert not grade(grader, answer, "3").correct


def test_regex_compares_its_only_unnamed_group() -> None:
    grader = RegexGrader(pattern=r"answer: (\d+)")

    assert grade(grader, "answer: 20, no, answer: 21", "21").correct
    assert not grade(grader, "answer: 21", "999").correct


def test_regex_with_several_unnamed_groups_is_rejected() -> None:
    with pytest.raises(InvalidRequest, match="has 2 groups"):
        matcher(RegexGrader(pattern=r"(\w+): (\d+)"))


def test_regex_skips_matches_without_the_group() -> None:
    grader = RegexGrader(pattern=r"=(?P<answer>\d+)|;")
    assert grade(grader, "=42;;", "42") == Verdict(True, "42")
    assert grade(grader, ";;", "42") == Verdict(False, None)


def test_regex_ignores_case_in_pattern_and_comparison() -> None:
    grader = RegexGrader(pattern=r"answer (?P<answer>\w+)", ignore_case=True)
    assert grade(grader, "ANSWER Paris", "PARIS").correct


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", r"(a)\1", "(?=a)", "a{100000}"])
def test_a_pattern_that_is_not_re2_names_its_field(pattern: str) -> None:
    with pytest.raises(InvalidRequest, match="not an RE2 pattern") as error:
        matcher(RegexGrader(pattern=pattern))
    assert error.value.param == "grader.pattern"


def test_a_backtracking_pattern_takes_linear_time() -> None:
    assert not grade(RegexGrader(pattern=r"^(?:a|a)*(?:a*)*b$"), "a" * 50_000, "b").correct


@pytest.mark.drill
def test_searching_all_matches_of_a_long_answer_is_bounded() -> None:
    grader = RegexGrader(pattern=r"(?P<answer>.*b|a)")
    assert grade(grader, "a" * 100_000, "a") == Verdict(True, "a")


@given(st.text(max_size=200))
def test_regex_accepts_any_answer(answer: str) -> None:
    verdict = grade(RegexGrader(pattern=r"(?P<answer>\C+)"), answer, "x")
    assert verdict.extracted is None or isinstance(verdict.extracted, str)


def test_regex_accepts_text_with_lone_surrogates() -> None:
    assert grade(RegexGrader(pattern="ok"), "\ud800 ok", "x").correct


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("The answer is 42.", "42"),
        ("3 and then 4", "4"),
        ("1,234", "1234"),
        ("$1,234,567.89!", "1234567.89"),
        ("12,34", "34"),
        ("1,2345", "2345"),
        ("x = -3", "-3"),
        ("x = \u22123.5", "-3.5"),
        ("-$20", "-20"),
        ("是-7。", "-7"),
        ("10-3", "3"),
        ("(x)-3", "3"),
        ("GPT-4", "4"),
        ("+8", "8"),
        (".5", "0.5"),
        ("-.5", "-0.5"),
        ("45%", "45"),
        ("1.5e3", "1500"),
        ("2E\u22122", "0.02"),
        ("3/4", "0.75"),
        ("-3/4", "-0.75"),
        ("1/0", "0"),
        ("12/05/2024", "2024"),
        ("1/2.5", "2.5"),
        ("1.2.3", "3"),
        ("\uff14\uff12", "42"),
        ("#### 18", "18"),
        ("1e999999999", "1e999999999"),
        ("007", "7"),
        ("1{,}234", "1234"),
        ("12{,}345{,}678", "12345678"),
        ("70,\\!000", "70000"),
        ("11,\\! 111,\\! 100", "11111100"),
        ("70\\,000", "70000"),
        ("70\u2009000 and 1\u202f234", "1234"),
        ("\u20135", "-5"),
        ("\uff0d5", "-5"),
        ("10\u20133", "3"),
        ("#### 18\n\nQuestion: 3 apples and 4 pears?", "18"),
        ("#### 18 of 20", "18"),
        ("5 km^2", "5"),
        ("5 \\text{ m}^{3}", "5"),
        ("9.8 m/s^2", "9.8"),
        ("\\cfrac{3}{4}", "0.75"),
        ("-\\frac12", "-0.5"),
        ("2\\dfrac{1}{2}", "2.5"),
        ("The answer is \\frac{10}{2}. It took 3 steps.", "5"),
        ("{\\bf 5}", "5"),
        ("5 \\textbf{ meters}", "5"),
        ("90\\degree", "90"),
        ("x \\approx 11", "11"),
        ("6.02 \\times 10^{23}", "6.02e23"),
        ("10^3", "1000"),
        ("\\$5.50", "5.5"),
        ("45\\%", "45"),
        ("It is \\boxed{73} (in 2 steps).", "73"),
        ("\\boxed{x = 73}, by \\boxed{induction} on 3 cases", "73"),
        ("**The answer is 42.** That took 3 steps.", "42"),
        ("Answer: 42, because x = 3.", "42"),
        ("The answer is 3 + 4 = 7, of 10.", "7"),
        ("Answer: $1,234.5 (in 2024)", "1234.5"),
        ("The answer is not 5. It is 7.", "7"),
        ("The answer is 5. No: the answer is 6 of 7.", "6"),
        ("#### 18 dollars (9 * 2)\n\nQuestion: 3?", "18"),
        ("#### **$18.00**\n\nQuestion: 3?", "18"),
        ("so 9 * 2 = 18 #### 18\nQuestion: 3?", "18"),
        ("#### Step 1: Count\n5+7=12\n#### Step 2: Tax\n12+1=13\n\\[\\boxed{13}\\]", "13"),
        ("#### 1. Cost\n2*3 = 6\n#### 2. Add tax\n6+1=7\n\nThe final answer is 7. (2 steps)", "7"),
        ("#### 1.\nAdd 3.\n#### 2.\nAdd 4. It is 7", "7"),
        ("#### 2 apples cost $6\nTherefore the final answer is **13**.", "13"),
        ("#### Cost of 3 apples\n3*2=6\n#### Final Answer\n6 dollars", "6"),
        ("#### The answer is 18\nIt took 3 steps", "18"),
        ("#### 1\nSo it is \\boxed{13}.", "13"),
        ("To answer the question: we have 5 boxes with 3 each. Total: 15.", "15"),
        ("Let me answer this: there are 5 boxes with 3 balls each, hence 15.", "15"),
        ("Let's find the answer step by step: 16-3-4 = 9. Then 9*2 = 18 in all.", "18"),
        ("We need to find the answer, as follows: 16 less 7 is 9. So 9*2 = 18.", "18"),
        ("Find the answer: 16 - 7 = 9, and 9 * 2 = 18.", "18"),
        ("If the answer is 5, it is odd. It is 6.", "6"),
        ("Suppose the answer was 5: no. It is 6.", "6"),
        ("Add 9 to get the final answer: 18. That took 3 steps.", "18"),
        ("18 is the final answer. We multiplied 9 by 2.", "18"),
        ("18 dollars is therefore the answer, as 9 times 2 is.", "18"),
        ("If 18 is the answer, it is even. It is 7", "7"),
        ("The answer is 5. No: 6 is the answer of 7.", "6"),
        ("5 is the answer. No: the answer is 6 of 7.", "6"),
    ],
)
def test_numeric_compares_the_stated_number(text: str, number: str) -> None:
    exact = NumericGrader(relative_tolerance=0.0)
    assert grade(exact, text, number).correct
    assert grade(exact, number, text).correct


@pytest.mark.parametrize("text", ["", "none", "one two", "-", "1e99999999999999999999"])
def test_numeric_without_a_number_is_wrong(text: str) -> None:
    assert grade(NumericGrader(), text, "1") == Verdict(False, None)


def test_numeric_extracts_the_number_in_ascii() -> None:
    verdict = grade(NumericGrader(), "so \u22121,234.50 in all", "-1234.5")
    assert verdict == Verdict(True, "-1,234.50")


def test_numeric_tolerances_are_decimal() -> None:
    absolute = NumericGrader(absolute_tolerance=0.01, relative_tolerance=0.0)
    assert grade(absolute, "3.13", "3.14").correct
    assert not grade(absolute, "3.1299999", "3.14").correct
    relative = NumericGrader(relative_tolerance=0.1)
    assert grade(relative, "90", "100").correct
    assert not grade(relative, "89.9", "100").correct


def test_numeric_distinguishes_long_numbers() -> None:
    exact = NumericGrader(relative_tolerance=0.0)
    assert not grade(exact, "1" * 100 + "1", "1" * 100 + "2").correct
    assert grade(exact, "2/6", "1/3").correct


def test_numeric_handles_huge_numbers() -> None:
    huge = "1e999999999999999999"
    assert not grade(NumericGrader(), huge, "1").correct
    assert not grade(NumericGrader(), "1", huge).correct
    assert grade(NumericGrader(), huge, huge).correct
    assert grade(NumericGrader(), "9" * 200_000, "9" * 200_000).correct
    assert not grade(NumericGrader(), f"{'9' * 100_000}/{'7' * 50_000}", "1").correct


def test_numeric_rejects_a_gold_without_a_number() -> None:
    grader = matcher(NumericGrader())
    grader.check_gold("#### 18")
    with pytest.raises(InvalidRequest, match="'eighteen' contains no number"):
        grader.check_gold("eighteen")
    with pytest.raises(InvalidRequest, match=r"'Answer: 1 or 2' states no single number"):
        grader.check_gold("Answer: 1 or 2")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6), st.sampled_from(["", ","]))
def test_numeric_finds_any_number_in_a_sentence(number: Decimal, separator: str) -> None:
    sentence = f"First 17, then it is {number:{separator}f}, I think."
    assert grade(NumericGrader(relative_tolerance=0.0), sentence, str(number)).correct


WORDS = st.text(alphabet="abcdefgh ", min_size=1, max_size=20).map(str.strip).filter(bool)


@given(st.integers(0, 10**6), st.lists(WORDS, min_size=1, max_size=4), st.booleans())
def test_numeric_reads_no_heading_as_the_answer(
    number: int, titles: list[str], are_steps: bool
) -> None:
    headings = "\n".join(
        f"#### {'Step ' if are_steps else ''}{step}{':' if are_steps else '.'} {title}\n{step}+1"
        for step, title in enumerate(titles, 1)
    )
    for end in ("The answer is {}. (Step 3)", "so \\boxed{{{}}}, in step 3", "#### {}", "It is {}"):
        text = f"{headings}\n{end.format(number)}"
        assert grade(NumericGrader(relative_tolerance=0.0), text, str(number)).correct, text


@given(st.integers(-(10**6), 10**6), st.sampled_from(["", " dollars", " km per hour", "%", "."]))
def test_numeric_reads_what_is_marked_before_what_follows(number: int, unit: str) -> None:
    text = f"9 * 2\n#### {number}{unit}\n\nQuestion: Tom has 3 pears. The answer is 4."
    assert grade(NumericGrader(relative_tolerance=0.0), text, str(number)).correct


@pytest.mark.parametrize(
    "piece", ["answer: 5 ", "5 is ", "#### 5 a ", "#### 5 -", "#### 1.\n", "to find the answer: 5 "]
)
def test_numeric_reads_a_long_answer_in_linear_time(piece: str) -> None:
    grade(NumericGrader(), piece * 20_000, "5")


@given(st.text(alphabet=st.sampled_from("0123456789,./-+eE %$\u2212x)"), max_size=60))
def test_numeric_accepts_any_answer_and_equals_itself(answer: str) -> None:
    verdict = grade(NumericGrader(relative_tolerance=0.0), answer, answer)
    assert verdict.correct == (verdict.extracted is not None)


@pytest.mark.parametrize(
    ("grader", "text", "expected"),
    [
        ({"type": "exact"}, " 4 ", 1.0),
        ({"type": "exact"}, "four", 0.0),
        ({"type": "numeric"}, "2 + 2 is 4.0", 1.0),
        ({"type": "numeric"}, "2 + 2 is 5", 0.0),
        ({"type": "regex", "pattern": "is (\\d)"}, "2 + 2 is 4", 1.0),
        ({"type": "regex", "pattern": "is (\\d)"}, "2 + 2 is 5", 0.0),
        ({"type": "numeric"}, "<think>Is it 5?</think>4", 1.0),
    ],
)
def test_gold_graders_are_rewards(grader: dict[str, Any], text: str, expected: float) -> None:
    assert score(trajectory(text), grader) == expected


def test_only_the_last_turn_is_compared() -> None:
    assert score(trajectory("4", "It is 5."), {"type": "numeric"}) == 0.0


def test_gold_graders_are_weighted_with_other_rewards() -> None:
    parts = [
        {"name": "form", "weight": 0.5, "reward": {"type": "regex", "pattern": "^(\\d)$"}},
        {"name": "value", "weight": 1.0, "reward": {"type": "numeric"}},
    ]

    assert rewarded(trajectory("It is 4"), *parts).reward == 1.0
    assert rewarded(trajectory("4"), *parts).reward == 1.5


def test_a_row_without_a_usable_gold_has_no_reward() -> None:
    assert "no gold" in failure(trajectory("4", gold=()), {"type": "exact"})
    assert "no number" in failure(trajectory("4", gold=["four"]), {"type": "numeric"})


GOLD_CALLS = '[{"toolName": "a", "paramList": {"x": 100}}, {"toolName": "b"}]'


@pytest.mark.parametrize(
    "answer",
    [
        GOLD_CALLS,
        '```json\n{"label": [{"toolName": "b"}, {"toolName": "a", "paramList": {"x": 100}}]}\n```',
        '[{"toolName": "b", "paramList": {}}, {"toolName": "a", "paramList": {"x": "100"}}] it is',
    ],
)
def test_tool_calls_are_compared_without_order(answer: str) -> None:
    assert grade(ToolCallsGrader(), answer, GOLD_CALLS).correct


@pytest.mark.parametrize(
    "answer", ["", "none", "{}", '[{"toolName": "a", "paramList": {"x": 100}}]', '[{"name": "b"}]']
)
def test_missing_and_invalid_calls_are_wrong(answer: str) -> None:
    assert not grade(ToolCallsGrader(), answer, GOLD_CALLS).correct


def test_an_answer_without_calls_matches_an_empty_gold() -> None:
    assert grade(ToolCallsGrader(), "nothing to call", "[]") == Verdict(True, "[]")
    assert grade(ToolCallsGrader(), "[]", "[]") == Verdict(True, "[]")


def test_all_lists_of_an_answer_count_together() -> None:
    gold = '[{"toolName": "a"}]'
    extra = '[{"toolName": "del", "paramList": {"id": 1}}]'
    assert not grade(ToolCallsGrader(), f"{extra}\n\nthen\n\n{gold}", gold).correct
    assert not grade(ToolCallsGrader(), f"{gold}\n\nthen\n\n{extra}", gold).correct
    assert grade(ToolCallsGrader(), f"<think>{extra}</think>{gold}", gold).correct
    assert grade(ToolCallsGrader(), f"Plan: {gold}\nFinal answer:\n{gold}", gold).correct
    assert not grade(ToolCallsGrader(), f"{gold[:-1]}, {gold[1:]}", gold).correct
    both = '[{"toolName": "a"}, {"toolName": "b"}]'
    tagged = "".join(f'<tool_call>[{{"toolName": "{tool}"}}]</tool_call>' for tool in "ab")
    assert grade(ToolCallsGrader(), tagged, both).correct


def test_types_and_the_path_of_calls_are_settings() -> None:
    answer = '{"out": {"calls": [{"toolName": "a", "paramList": {"x": "1"}}]}}'
    gold = '[{"toolName": "a", "paramList": {"x": 1}}]'
    assert grade(ToolCallsGrader(path="out.calls"), answer, gold).correct
    assert not grade(ToolCallsGrader(path="out.calls", strict_types=True), answer, gold).correct
    assert not grade(ToolCallsGrader(), answer, gold).correct


def test_calls_within_reasoning_or_a_later_list_of_others_are_not_the_answer() -> None:
    assert not grade(ToolCallsGrader(), f"<think>{GOLD_CALLS}", GOLD_CALLS).correct
    assert grade(ToolCallsGrader(), f'{{"label": {GOLD_CALLS}}} See [1].', GOLD_CALLS).correct


@pytest.mark.parametrize("gold", ["call a", "{}", '[{"name": "a"}]'])
def test_a_gold_that_is_no_list_of_calls_is_rejected(gold: str) -> None:
    with pytest.raises(InvalidRequest, match="gold"):
        matcher(ToolCallsGrader()).check_gold(gold)


def test_tool_calls_are_also_a_reward() -> None:
    answer = '[{"toolName": "a"}]'
    assert score(trajectory(answer, gold=[answer]), {"type": "tool_calls"}) == 1.0
    assert score(trajectory(answer, gold=["[]"]), {"type": "tool_calls"}) == 0.0


@pytest.mark.parametrize(
    ("answer", "gold", "verdict"),
    [
        (r"so \boxed{073}", "73", Verdict(True, "73")),
        (r"\boxed{ 204 }", "204", Verdict(True, "204")),
        (r"\boxed{205}, I mean \boxed{204}", "204", Verdict(True, "204")),
        (r"\boxed{204} or \boxed{205}", "204", Verdict(False, "205")),
        (r"\boxed{204}, so \boxed{x = 3}", "204", Verdict(False, None)),
        (r"\boxed{204\%}", "204", Verdict(False, None)),
        (r"\boxed{\textbf{204}}", "204", Verdict(True, "204")),
        (r"\fbox{$204$}", "204", Verdict(True, "204")),
        (r"\boxed 204", "204", Verdict(True, "204")),
        (r"\boxed{1{,}204}", "1204", Verdict(True, "1204")),
        ("\\boxed{\u22125}", "-5", Verdict(True, "-5")),
        (r"\boxed{\frac{408}{2}}", "204", Verdict(False, None)),
        (r"\boxed{204", "204", Verdict(False, None)),
        ("204", "204", Verdict(False, None)),
    ],
)
def test_the_integer_of_the_last_box_is_compared(answer: str, gold: str, verdict: Verdict) -> None:
    assert grade(BoxedIntegerGrader(), answer, gold) == verdict


def test_the_gold_of_a_box_is_an_integer() -> None:
    boxed = matcher(BoxedIntegerGrader())
    boxed.check_gold("073")
    with pytest.raises(InvalidRequest, match=r"the gold '1\.5' is not an integer"):
        boxed.check_gold("1.5")


@pytest.mark.parametrize(
    ("answer", "letter"),
    [
        ("B", "B"),
        ("(b)", "B"),
        ("**B**", "B"),
        ("B) Lima", "B"),
        ("B. Lima, the capital.", "B"),
        ("so \\boxed{B}", "B"),
        ("so \\boxed{\\text{(B)}}", "B"),
        ("Not A. The answer is B.", "B"),
        ("The answer is A.\nNo: the answer is (B)", "B"),
        ("Answer: **B**\n", "B"),
        ("The correct option is B because Lima is.", "B"),
        ("Final Answer: $B$", "B"),
        ("A city in Peru", None),
        ("a city", None),
        ("The answer is A city in Peru", None),
        ("The answer is Lima", None),
        ("I think so", None),
        ("\\boxed{Lima}", None),
        ("Answer: E", None),
        ("", None),
    ],
)
def test_the_letter_of_the_chosen_option_is_read(answer: str, letter: str | None) -> None:
    for gold in ("B", "b", "1"):
        verdict = grade(ChoiceGrader(options=4), answer, gold)
        assert verdict == Verdict(letter == "B", letter)


def majority(settings: GoldGrader, gold: str, *answers: str) -> float:
    """The majority vote of one item."""
    repeated = RepeatedSamples(len(answers))
    for answer in answers:
        found = grade(settings, answer, gold)
        vote = found.extracted if found.vote is None else found.vote
        repeated.add(0, correct=found.correct, answer=vote)
    estimate = repeated.majority()
    assert estimate is not None
    return estimate.mean


def test_equal_answers_vote_together() -> None:
    numbers = ["It is $18", "$18", "18", "18", "So 18.00.", "20", "20", "20"]
    assert majority(NumericGrader(), "18", *numbers) == 1.0
    words = ["Paris", "paris ", "PARIS", "Lyon", "Lyon"]
    assert majority(ExactGrader(ignore_case=True), "paris", *words) == 1.0
    assert majority(ExactGrader(), "Paris", *words) == 0.0
    pattern = RegexGrader(pattern="(\\w+)", ignore_case=True)
    assert majority(pattern, "paris", *words) == 1.0
    calls = [
        *('[{"toolName": "a", "paramList": {"x": 1, "y": 2}}, {"toolName": "b"}]',),
        *('[{"toolName": "b"}, {"toolName": "a", "paramList": {"y": "2", "x": 1}}]',),
    ]
    wrong = ['[{"toolName": "c"}]'] * 2
    assert majority(ToolCallsGrader(), calls[0], *calls, calls[1], *wrong) == 1.0


def test_answers_without_calls_vote_for_no_calls() -> None:
    without = ["No tool is needed.", "[]", "None of them fits.", "Paris."]
    wrong = ['[{"toolName": "c"}]'] * 2
    assert majority(ToolCallsGrader(), "[]", *without, *wrong) == 1.0
    assert grade(ToolCallsGrader(), without[0], "[]").extracted == "[]"

    broken = grade(ToolCallsGrader(), '```json\n[{"toolName": "c"\n```', "[]")
    assert (broken.extracted, broken.vote) == (None, None), "invalid JSON is unparsable"


@given(st.decimals(allow_nan=False, allow_infinity=False), st.integers(0, 5), st.decimals(places=2))
def test_numbers_vote_together_if_they_are_equal(
    number: Decimal, zeros: int, other: Decimal
) -> None:
    exact = matcher(NumericGrader(relative_tolerance=0.0))
    written = f"{number:f}" if abs(number.adjusted()) < 99 else str(number)
    longer = f"{written}.{'0' * zeros}" if "." not in written and "E" not in written else written
    votes = [exact.grade(each, ["1"]).vote for each in (written, longer, f"${longer}", str(other))]
    assert votes[0] == votes[1] == votes[2]
    if other.is_finite():
        assert (votes[0] == votes[3]) == (number == other)
