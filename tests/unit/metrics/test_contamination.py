"""Finding benchmark items in training rows."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.metrics.contamination import (
    LISTED_ROWS,
    ContaminatedItem,
    Contamination,
    Overlap,
    find_contamination,
)

LONG = "A train leaves the station at noon and travels for three hours at sixty miles an hour."


def test_an_equal_text_is_found_whatever_its_case_and_spaces() -> None:
    items = Contamination(["What is 1 plus 2?"])

    assert items.holds("what is  1 plus 2 ?")
    assert not items.holds("What is 1 plus 3?")


def test_a_long_question_is_found_inside_another_text() -> None:
    items = Contamination([LONG])

    assert items.holds(f"Solve this. {LONG} Answer in words.")
    assert not items.holds("A train leaves the station at noon and then it rains all day.")


def test_a_short_question_is_found_inside_another_text() -> None:
    items = Contamination(["What is 1 plus 2?", "What is 1 plus 2 plus 3?"])

    assert items.items_in("Q: What is 1 plus 2? A: 3") == {0: Overlap.N_GRAM}
    assert items.items_in("Solve what is 1 plus 2 plus 3? It is 6.") == {1: Overlap.N_GRAM}
    assert not items.holds("What is 1 plus 20? What is 1 plus")


def test_a_question_of_few_words_is_found_as_a_line_with_or_without_a_label() -> None:
    items = Contamination(["2 + 2", "Why?"])

    for text in ("Q: 2+2", "Question 7: 2 + 2", "3. 2+2\n4", "Answer.\n2+2"):
        assert items.items_in(text) == {0: Overlap.N_GRAM}
    assert not items.holds("so we ask this: 2+2")
    assert not items.holds("x" * 1_000_000)
    assert not items.holds("Why? Because it is so, as 2 + 2 is 4.")


def test_a_question_without_words_is_in_no_text() -> None:
    items = Contamination(["  "])
    assert not items.holds("")
    assert items.items_in("") == {}


def test_scripts_without_spaces_are_searched_within_a_line() -> None:
    items = Contamination(["中国的首都是哪个城市", "日本の首都はどこの都市ですか"])

    for text in (
        "中国的首都是哪个城市\uff1f",
        "问\uff1a中国的首都是哪个城市\uff1f答\uff1a北京",
        "问题\uff1a中国的首都是哪个城市\n答案\uff1a北京",
        "请回答下面的问题\uff0c中国的首都是哪个城市",
        "请问中国的首都是哪个城市呢\uff1f",
    ):
        assert list(items.items_in(text)) == [0], text
    assert list(items.items_in("質問\uff1a日本の首都はどこの都市ですか\uff1f")) == [1]
    assert not items.holds("日本的首都是哪个城市\uff1f")


@pytest.mark.parametrize(
    ("question", "text"),
    [
        ("한국의 수도는 어느 도시입니까", "다음 질문: 한국의 수도는 어느 도시입니까라고 물었다"),
        ("เมืองหลวงของประเทศไทยคือเมืองใด", "ตอบคำถามเมืองหลวงของประเทศไทยคือเมืองใดครับ"),
        ("你是谁", "问题1、你是谁\uff1f"),
        ("你是谁\uff1f", "\uff083\uff09你是谁"),
        ("What is \uff12 plus 2 (in words)?", "Q: what is 2 plus 2 \uff08in words\uff09\uff1f"),
    ],
)
def test_other_scripts_labels_and_wide_punctuation_hide_no_question(
    question: str, text: str
) -> None:
    assert Contamination([question]).holds(text)


CHARACTERS = "".join(chr(0x4E00 + 7 * number) for number in range(60))


def test_a_character_counts_as_half_a_word() -> None:
    items = Contamination([CHARACTERS])

    assert items.holds(f"前{CHARACTERS[20:46]}后")
    assert not items.holds(f"前{CHARACTERS[20:45]}后")
    assert not Contamination([CHARACTERS[:7]]).holds(f"前{CHARACTERS[:7]}后"), "a line of its own"
    assert Contamination([CHARACTERS[:8]]).holds(f"前{CHARACTERS[:8]}后")


@given(
    st.lists(st.sampled_from([*CHARACTERS[:20], "a ", " b1 ", "\uff0c", "3", "か"]), min_size=8),
    st.text("请问答\uff1a\uff1f\n x", max_size=5),
    st.text("呢\uff1f。答 x\n", max_size=5),
)
def test_an_item_is_found_wherever_it_stands_in_a_text(
    parts: list[str], before: str, behind: str
) -> None:
    question = "".join(parts)
    text = f"{before} {question} {behind}"

    items = Contamination([question])

    assert 0 in items.items_in(text)
    assert items.items_in(question) == {0: Overlap.EXACT}


def test_items_are_told_by_position_and_exact_matches_from_shared_sequences() -> None:
    items = Contamination(["What is 1 plus 2?", LONG, LONG])
    assert items.items_in("what is 1 plus 2?") == {0: Overlap.EXACT}
    assert items.items_in(LONG.upper()) == {1: Overlap.EXACT, 2: Overlap.EXACT}
    assert items.items_in(f"{LONG} Why?") == {1: Overlap.N_GRAM, 2: Overlap.N_GRAM}


def test_thirteen_words_in_a_row_are_an_overlap_and_twelve_are_not() -> None:
    words = [f"w{number}" for number in range(20)]
    items = Contamination([" ".join(words)])
    assert items.holds(f"before {' '.join(words[4:17])} behind")
    assert not items.holds(f"before {' '.join(words[4:16])} behind")


def test_the_template_of_many_questions_is_no_overlap() -> None:
    template = "Please reason step by step, and put your final answer within the box: {}"
    names = ["Ada", "Bo", "Cy", "Di", "Ed", "Flo", "Gil", "Hal", "Ida", "Jo", "Kim", "Lu"]
    questions = [f"How old is the friend of {name}? {template}" for name in names]
    items = Contamination(questions)

    assert not items.holds(f"What is the capital? {template}")
    assert items.items_in(f"No: {questions[4]} Thanks.") == {4: Overlap.N_GRAM}
    assert items.items_in(questions[4])[4] is Overlap.EXACT
    assert Contamination(questions[:2]).holds(f"What is the capital? {template}")


def test_every_text_of_a_row_is_searched_and_a_row_counts_once_for_an_item() -> None:
    rows = [
        {"messages": [{"role": "user", "content": LONG}, {"role": "user", "content": LONG + "!"}]},
        {"text": ["nothing"], "number": 3, "none": None},
        {"chosen": {"deep": [f"Now: {LONG}"]}},
    ]
    report = find_contamination(["Why?", LONG], rows)
    assert (report.items, report.rows, report.contaminated_rows) == (2, 3, 2)
    assert report.found == [ContaminatedItem(1, rows=2, exact=1, first_rows=[0, 2])]


def test_only_the_first_rows_of_an_item_are_listed() -> None:
    report = find_contamination(["Why?"], ["why?"] * (LISTED_ROWS + 2))
    assert report.found == [
        ContaminatedItem(0, LISTED_ROWS + 2, LISTED_ROWS + 2, list(range(LISTED_ROWS)))
    ]
