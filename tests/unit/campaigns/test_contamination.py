"""Finding benchmark items in training rows."""

from services.campaigns.contamination import Contamination

LONG = "A train leaves the station at noon and travels for three hours at sixty miles an hour."


def test_an_equal_text_is_found_whatever_its_case_and_spaces() -> None:
    items = Contamination(["What is 1 plus 2?"])

    assert items.holds("what is  1 plus 2 ?")
    assert not items.holds("What is 1 plus 3?")


def test_a_long_question_is_found_inside_another_text() -> None:
    items = Contamination([LONG])

    assert items.holds(f"Solve this. {LONG} Answer in words.")
    assert not items.holds("A train leaves the station at noon and then it rains all day.")


def test_a_short_question_is_not_found_inside_another_text() -> None:
    assert not Contamination(["Why?"]).holds("Why? Because it is so.")
