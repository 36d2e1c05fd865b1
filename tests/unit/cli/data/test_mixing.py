"""Several datasets of a LLaMA-Factory file become one, in the order that the file specifies."""

import pytest

from services.contracts.errors import InvalidRequest
from services.contracts.llamafactory.names import MixStrategy
from services.mixing.order import Mixing, drawn


def mixed(strategy: str, lengths: list[int], probabilities: str | None = None) -> list[str]:
    mixing = Mixing.parse(strategy, probabilities, seed=7)
    return [f"{'abc'[source]}{row}" for source, row in mixing.order(lengths)]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        ("concat", "a0 a1 a2 b0"),
        ("interleave_under", "a0 b0"),
        ("interleave_over", "a0 b0 a1 b0 a2 b0"),
        ("interleave_once", "a0 b0 a1 a2"),
    ],
)
def test_datasets_take_turns_until_the_strategy_ends(strategy: str, expected: str) -> None:
    assert mixed(strategy, [3, 1]) == expected.split()


def test_probabilities_decide_how_often_a_dataset_is_drawn() -> None:
    rows = mixed("interleave_under", [10_000, 10_000], "0.75,0.25")

    share = sum(row.startswith("a") for row in rows) / len(rows)
    assert share == pytest.approx(0.75, abs=0.03)
    assert rows.count("a9999") + rows.count("b9999") == 1  # stops at the first exhausted one
    assert rows == mixed("interleave_under", [10_000, 10_000], "0.75,0.25")


def test_oversampling_repeats_the_smaller_dataset_until_all_rows_were_drawn() -> None:
    rows = mixed("interleave_over", [50, 2], "0.5,0.5")

    assert {f"a{number}" for number in range(50)} | {"b0", "b1"} == set(rows)
    assert rows.count("b0") > 5


@pytest.mark.parametrize("probabilities", ["0.5", "0.5,0.6", "1,0", "x,y", ""])
def test_invalid_probabilities_are_refused(probabilities: str) -> None:
    with pytest.raises(InvalidRequest, match="interleave_probs") as raised:
        mixed("interleave_over", [2, 2], probabilities)

    assert raised.value.param == "interleave_probs"


def test_an_unknown_strategy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InvalidRequest, match="concat, interleave_under"):
        Mixing.parse("shuffle", None, seed=0)


@pytest.mark.parametrize("samples", [3, 10, 25])
def test_samples_are_drawn_without_replacement_and_repeated_beyond_all_rows(samples: int) -> None:
    rows = drawn(10, samples, seed=3)

    assert len(rows) == samples
    assert len(set(rows[:10])) == min(samples, 10)
    assert rows == drawn(10, samples, seed=3) != drawn(10, samples, seed=4)
    assert rows[:10] != sorted(rows[:10])


def test_concatenation_is_the_default() -> None:
    assert Mixing.parse(None, None, seed=0).strategy is MixStrategy.CONCAT
