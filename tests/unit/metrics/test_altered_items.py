"""Benchmark items in training data, with other numbers or in another order."""

import pytest

from services.metrics.contamination import AlteredItems

STORY = "Anna has 12 apples and buys 7 more at the market; how many has she in all?"
OTHER = STORY.replace("12", "31").replace("7", "4")
CHOICE = "Which gas do plants take in?\nA. Oxygen from water\nB. Carbon dioxide\nC. Pure nitrogen"
SHUFFLED = "C) Carbon dioxide\nWhich gas do plants take in?\nA) Pure nitrogen\nB) Oxygen from water"


def test_a_question_with_other_numbers_is_found() -> None:
    items = AlteredItems([STORY])

    assert items.holds(OTHER)
    assert items.holds(f"Solve it. {OTHER} 35.")
    assert not items.holds("Ben has 12 pears, sells 7 of them at the fair, and keeps how many?")


def test_questions_that_differ_by_their_numbers_alone_are_a_task_and_no_leak() -> None:
    items = AlteredItems([STORY, OTHER])

    assert not items.holds(STORY.replace("12", "55"))


def test_sums_are_no_leaks_of_other_sums() -> None:
    assert not AlteredItems(["What is 12 plus 7?"]).holds("What is 31 plus 4?")


def test_the_same_question_twice_is_no_template() -> None:
    assert AlteredItems([STORY, STORY]).holds(OTHER)


@pytest.mark.parametrize("text", [SHUFFLED, f"Answer.\n{SHUFFLED}\nIt is C."])
def test_the_fields_of_a_question_are_found_in_another_order(text: str) -> None:
    assert AlteredItems([CHOICE]).holds(text)


def test_all_fields_must_be_there() -> None:
    assert not AlteredItems([CHOICE]).holds("Which gas do plants take in?\nA. Carbon dioxide")


def test_sentences_are_fields_too() -> None:
    question = "A train leaves at noon. It drives at a constant speed of sixty. When does it stop?"
    items = AlteredItems([question])

    assert items.holds(
        "When does it stop? A train leaves at noon. It drives at a constant speed of sixty."
    )


def test_other_numbers_and_another_order_are_found_in_chinese() -> None:
    first = "小王在银行存入人民币{}万元"
    last = "年利率为{}%\uff0c五年后他可以取出多少钱"
    items = AlteredItems([f"{first.format(10)}\u3002{last.format(3)}\uff1f"])

    assert items.holds(f"请问{first.format(25)}\u3002{last.format(4)}\uff1f")
    assert items.holds(f"{last.format(3)}\uff1f{first.format(10)}\u3002")
    assert not items.holds(f"{first.format(10)}\u3002")


def test_fields_of_a_template_do_not_matter() -> None:
    template = "Think step by step before you answer the question.\nGive one word alone."
    items = AlteredItems(f"{template}\nTopic {chr(97 + each)}?" for each in range(26))

    assert not items.holds(template)


def test_other_questions_of_the_benchmark_show_its_template_and_are_not_looked_for() -> None:
    items = AlteredItems([STORY], others=[OTHER, CHOICE])

    assert not items.holds(STORY.replace("12", "55"))
    assert not items.holds(SHUFFLED)
