import json
from pathlib import Path

from examples.demo_1_addition.data import split_pairs, worked_answer, write_data


def test_answers_are_worked_digit_by_digit_and_end_with_the_sum() -> None:
    assert worked_answer(47, 85) == "7+5=12; 4+8+1=13; answer: 132"
    assert worked_answer(20, 30) == "0+0=0; 2+3+0=5; answer: 50"


def test_held_out_pairs_are_not_in_the_training_data() -> None:
    train, held = split_pairs(4000, 300, seed=0)

    trained = {frozenset(pair) for pair in train}
    assert len(set(train)) == 4000
    assert len({frozenset(pair) for pair in held}) == 300
    assert not trained & {frozenset(pair) for pair in held}


def test_the_data_files_are_deterministic(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write_data(tmp_path / name)

    for file in ("train.jsonl", "heldout.jsonl"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    held = [json.loads(line) for line in (tmp_path / "a/heldout.jsonl").read_text().splitlines()]
    assert all(row["gold"].isdigit() and row["messages"][0]["role"] == "user" for row in held)
