"""The rows of a data script: items of the benchmark are removed wherever they are."""

import json
from pathlib import Path

import pytest

from services.campaigns.data.benchmark import Item, KnownItems, Parts, read_items
from services.campaigns.data.rows import read_rows
from services.campaigns.run.signals import StepFailed
from services.contracts.campaigns.campaigns import CreateCampaign
from tests.support.campaigns.run import REQUEST

QUESTION, HIDDEN = "What is 1 plus 2?", "What is 3 plus 4?"
ITEMS = KnownItems(
    Parts([Item({}, QUESTION), Item({}, "2 + 2")], [Item({}, HIDDEN), Item({}, "5 + 6")])
)
CLEAN = [{"instruction": f"Add {n} to 7.", "input": "", "output": str(n + 7)} for n in range(30)]


def write(folder: Path, *rows: dict[str, str]) -> Path:
    path = folder / "data.json"
    path.write_text(json.dumps([*CLEAN, *rows]))
    return path


@pytest.mark.parametrize(
    ("instruction", "context", "output"),
    [
        ("Answer the question.", QUESTION, "3"),
        (f"Q: {QUESTION}", "", "3"),
        ("Solve.", f"Q: {QUESTION}\nA:", "3"),
        ("What is", "1 plus 2?", "3"),
        ("Invent a question.", "", f"Here is one: {QUESTION}"),
        ("Compute.", "Q: 2+2", "4"),
        (f"Q: {HIDDEN}", "", "7"),
        ("Compute.", "Q: 5+6", "11"),
    ],
)
def test_a_row_that_holds_a_short_item_anywhere_is_removed(
    tmp_path: Path, instruction: str, context: str, output: str
) -> None:
    row = {"instruction": instruction, "input": context, "output": output}

    rows = read_rows(write(tmp_path, row), ITEMS)

    assert (len(rows.rows), rows.contaminated) == (len(CLEAN), 1)


CHINESE = "小王在银行存入十万元"


@pytest.mark.parametrize("text", [f"问\uff1a{CHINESE}\uff1f", f"请回答{CHINESE}呢"])
def test_a_row_in_a_script_without_spaces_is_removed(tmp_path: Path, text: str) -> None:
    items = KnownItems(Parts([Item({}, QUESTION)], [Item({}, CHINESE)]))

    assert read_rows(write(tmp_path, leaked(text)), items).contaminated == 1


def test_of_a_conversation_what_users_say_is_an_item(tmp_path: Path) -> None:
    told = {"role": "system", "content": "You are a patient teacher of sums."}
    rows = [
        {"messages": [told, {"role": "user", "content": f"What is {n} and {n}?"}], "gold": "1"}
        for n in range(30)
    ]
    path = tmp_path / "items.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    items = read_items(path, CreateCampaign.model_validate(REQUEST))

    found = read_rows(write(tmp_path, leaked("What is 7 and 7?")), KnownItems(Parts(items, [])))

    assert found.contaminated == 1
    assert items[7].question.startswith("You are a patient"), "by which items are divided"


def leaked(question: str) -> dict[str, str]:
    return {"instruction": "Answer.", "input": question, "output": "3"}


def test_data_of_which_many_rows_hold_search_items_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StepFailed, match=r"4 of 34 rows hold items .* rows 31, 32, 33, 34;"):
        read_rows(write(tmp_path, *[leaked(QUESTION)] * 4), ITEMS)


def test_the_refusal_is_the_same_whether_other_rows_hold_final_items_or_not(
    tmp_path: Path,
) -> None:
    said = []
    for guess in (HIDDEN, "What is 8 plus 9?"):
        rows = [*[leaked(QUESTION)] * 5, *[leaked(guess)] * 5]
        with pytest.raises(StepFailed) as refused:
            read_rows(write(tmp_path, *rows), ITEMS)
        said.append(refused.value.message)

    assert said[0] == said[1]


def test_final_items_are_removed_without_a_word_however_many_they_are(tmp_path: Path) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps([leaked(HIDDEN)] * 9))

    rows = read_rows(path, ITEMS)

    assert (rows.rows, rows.contaminated) == ([], 9)


STORY = "Anna has 12 apples and buys 7 more at the market; how many has she in all?"
CHOICE = "Which gas do plants take in?\nA. Oxygen from water\nB. Carbon dioxide\nC. Pure nitrogen"


@pytest.mark.parametrize(
    "question",
    [
        STORY.replace("12", "55"),
        "A. Carbon dioxide\nB. Pure nitrogen\nC. Oxygen from water\nWhich gas do plants take in?",
    ],
)
def test_items_with_other_numbers_or_in_another_order_are_removed(
    tmp_path: Path, question: str
) -> None:
    known = [Item({}, STORY), Item({}, CHOICE)]
    other = [Item({}, QUESTION)]
    data = write(tmp_path, *[leaked(question)] * 4)

    rows = read_rows(data, KnownItems(Parts(other, known)))

    assert (len(rows.rows), rows.contaminated) == (len(CLEAN), 4), "and the LLM is told nothing"
    with pytest.raises(StepFailed, match="4 of 34 rows hold items"):
        read_rows(data, KnownItems(Parts(known, other)))
