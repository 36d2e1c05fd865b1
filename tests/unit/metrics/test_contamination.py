"""Finding benchmark items in training rows."""

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
    assert not items.holds("Why? Because it is so, as 2 + 2 is 4.")


def test_a_question_without_words_is_in_no_text() -> None:
    items = Contamination(["  "])
    assert not items.holds("")
    assert items.items_in("") == {}


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
