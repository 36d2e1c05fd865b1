"""The data of ``temper demo rlhf``, and how two models' replies are compared."""

import json
from pathlib import Path
from typing import Any

import pytest

from examples.demo_4_rlhf.replies import RlhfData, write_data
from examples.demo_4_rlhf.run import win_rate


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def rated(wanted: dict[str, Any], reply: str) -> int:
    return sum(wanted[part] in reply for part in ("opening", "statement", "closing"))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> RlhfData:
    return write_data(tmp_path_factory.mktemp("rlhf"), seed=1)


def test_the_preferred_reply_of_a_pair_is_rated_higher(data: RlhfData) -> None:
    wanted = {row["messages"][0]["content"]: row for row in rows(data.prompts)}

    for pair in rows(data.pairs):
        question = wanted[pair["input"]["messages"][0]["content"]]
        better, worse = (
            pair[name][0]["content"] for name in ("preferred_output", "non_preferred_output")
        )
        assert rated(question, better) > rated(question, worse), pair


def test_held_out_questions_are_in_no_other_file(data: RlhfData) -> None:
    held_out = {row["messages"][0]["content"] for row in rows(data.held_out)}
    known = {row["messages"][0]["content"] for row in rows(data.demonstrations)}
    known |= {row["messages"][0]["content"] for row in rows(data.prompts)}
    known |= {row["input"]["messages"][0]["content"] for row in rows(data.pairs)}

    assert len(held_out) == 150
    assert not held_out & known


def test_data_of_a_seed_are_always_the_same(data: RlhfData, tmp_path: Path) -> None:
    again = write_data(tmp_path / "again", seed=1)
    other = write_data(tmp_path / "other", seed=2)

    assert again.pairs.read_bytes() == data.pairs.read_bytes()
    assert other.pairs.read_bytes() != data.pairs.read_bytes()


def test_a_win_rate_counts_ties_half_and_compares_by_prompt() -> None:
    wins = win_rate({0: [1.0, 1.0], 1: [0.5], 2: [0.0]}, {0: [0.5, 1.0], 1: [0.5], 3: [1.0]})

    assert wins.mean == pytest.approx((0.75 + 0.5) / 2)
    assert wins.ci95[0] < wins.mean < wins.ci95[1]
    assert win_rate({0: [1.0], 1: [1.0]}, {0: [0.0], 1: [0.0]}).ci95 == (1.0, 1.0)
