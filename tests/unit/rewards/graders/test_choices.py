"""The option that an answer names, in every form that models write."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.rewards.answers.choices import LETTERS, option_of

B = [
    "B",
    "(b)",
    "**B**",
    "`B`",
    "B) Lima",
    "B. Lima, the capital.",
    "B, since Lima is.",
    "B\n\nLima is the capital of Peru. A is wrong.",
    "Peru's capital is Lima.\n\nB",
    "**Answer:** B",
    "**Answer**: B",
    "**Answer:** (B)",
    "**Final Answer:** **B**",
    "**Answer:** B) Lima",
    "Answer: B (Paris)",
    'Answer: "B"',
    "Answer: B",
    "Answer\uff1aB",
    "答案\uff1aB",
    "答案是B",
    "正确答案为 B。",
    "所以选B",
    "Antwort: B",
    "Die Antwort ist B.",
    "La réponse est B.",
    "La respuesta es B.",
    "Ответ: B",
    "정답은 B",
    "The correct answer is b.",
    "The answer is B - Lima",
    'The answer is "B".',
    "The answer should be B.",
    "The answer would be B.",
    "The answer must be B.",
    "The answer to this question is option (B).",
    "The answer, given that x = 5, is B.",
    "Answer: the correct option is B",
    "Answer:\nB",
    "Therefore, B is correct.",
    "Option B is correct",
    "(B) is the right answer.",
    "So the right one is B.",
    "I would go with B.",
    "It must be option B.",
    "<answer>B</answer>",
    "<answer> (B) Lima </answer>",
    '{"answer": "B"}',
    '```json\n{"answer": ["B"]}\n```',
    r"$\text{B}$",
    r"The answer is \(\textbf{B}\).",
    r"\boxed{B}",
    r"\boxed{B. Lima}",
    r"\boxed{B) Lima}",
    r"\boxed{\text{B. Lima}}",
    r"\boxed{\textbf{B}}",
    r"\boxed{\textbf{(B)}}",
    r"\boxed{\textbf{(B)}\ 12}",
    r"\boxed{ \text{(B)} }",
    r"\boxed{\rm B}",
    r"\boxed {B}",
    r"\boxed B",
    r"\fbox{b}",
    r"The answer is B. The probability is \boxed{0.5}.",
    "Answer: B\n\nOption A: wrong.\nOption D: wrong.",
    "The answer is A.\nNo: the answer is (B)",
    "A. Rome: incorrect. C. Oslo: incorrect. So the right one is B.",
    "A. wrong. C. wrong. Therefore the correct one is B.",
    "Answer choices: A, B, C, D. The answer is B.",
    "If the answer is A, there is a contradiction. Therefore it must be B.",
    "Suppose the correct answer is A. That fails, so it has to be B.",
    "B is the final answer. A is close.",
    "B \u2013 Lima",
    "**B \u2014 Lima**",
    "Answer: B \u2013 Lima",
    "Answer: Lima (B)",
    "The correct answer is **Lima (B)**.",
    "The answer is the second option, B.",
    "B. Lima\n\nExplanation: A. Rome is in Italy.",
    "The answer is not A but B.",
    "The answer is not A, it is B.",
    "The wrong answer is A; pick B.",
    "Since A is wrong the answer is B.",
    "So we get the answer: B. Option A is wrong since C is too small.",
    "Therefore, we find the answer is B. Options A and C fail.",
    "So I can answer: B\n\nOption A is wrong.",
]


@pytest.mark.parametrize("answer", B)
def test_the_option_is_read(answer: str) -> None:
    assert option_of(answer, LETTERS[:4]) == "B"


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "Answer: A, B and C",
        "The answer is (A) or (B)",
        "The answer is A/B.",
        r"\boxed{A, B}",
        '{"answer": ["A", "B"]}',
        "<answer>A or B</answer>",
        "Option A is correct. Option B is correct.",
        "A\n\nB",
        "A. Rome: incorrect. B. Lima: correct.",
        "I. Introduction: the question is about capitals.\nII. Answer follows.",
        "A city in Peru",
        "a city",
        "The answer is A city in Peru",
        "The answer is Lima",
        "The answer is not A.",
        "Neither A nor B is correct.",
        "I think so",
        "C++ is a language",
        "Answer: C++",
        r"\boxed{Lima}",
        r"\boxed{0.5}",
        "Answer: K",
        "Answer choices: A. Rome",
        "If the answer is A, there is a contradiction.",
        "Let us check whether the answer is A.",
        "The incorrect answer is A.\nThe rest follows: C",
        "A common wrong answer is A. But photosynthesis needs light, thus C.",
        "We can rule out option A. That leaves C, which fits best.",
        "First I would eliminate option A. I am left with C.",
        "I would not choose A. C it is.",
        "Hepatitis A is the right diagnosis only if it is acute; that is C.",
        "It is false that A is correct.",
        "The answer that is wrong is A",
        "The answer is A? No.",
        "Answer: Rome (A) or Lima (B)",
        "A. Rome\nB. Lima\n\nThe list ends.",
    ],
)
def test_what_names_no_option_or_several_is_no_choice(answer: str) -> None:
    assert option_of(answer, LETTERS[:10]) is None


def test_the_last_of_several_statements_counts() -> None:
    assert option_of("A. wrong. B. wrong. Therefore the correct one is C.", "ABCD") == "C"
    assert option_of("Answer: A\nWait. Final answer: C, not B.", "ABCD") == "C"


@given(st.text(max_size=300) | st.text(alphabet="AB (.)answer is:\n\\boxed{}*", max_size=60))
def test_any_text_is_read(answer: str) -> None:
    assert option_of(answer, "ABCD") in {None, *"ABCD"}


LONG = ("answer ", "A, ", "(", "A is ", "option A: ", "A. x\n", "\n", " \n", "}\n{")


@pytest.mark.parametrize("piece", LONG)
def test_a_long_answer_is_read_in_linear_time(piece: str) -> None:
    for begin in ("", "I am not sure.", "B. Lima\n"):
        option_of(begin + piece * 30_000, "ABCD")
