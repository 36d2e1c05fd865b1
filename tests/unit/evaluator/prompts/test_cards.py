"""Which GPUs an engine of a prompt batch takes."""

import pytest

from services.contracts.errors import InvalidRequest
from services.evaluator.prompts.cards import GIBIBYTE, Card, choose_cards


def card(uuid: str, free: float, total: float) -> Card:
    return Card(uuid, "H200", int(free * GIBIBYTE), int(total * GIBIBYTE))


def test_the_cards_with_most_free_memory_come_first() -> None:
    cards = [card("small", 23, 24), card("large", 140, 141), card("middle", 79, 80)]

    assert choose_cards(cards, 2, 0.9) == ["large", "middle"]


def test_usable_means_relative_to_the_size_of_the_card() -> None:
    cards = [card("busy", 100, 141), card("idle", 23, 24)]

    assert choose_cards(cards, 1, 0.9) == ["idle"]


def test_too_few_usable_cards_are_listed_with_their_memory() -> None:
    with pytest.raises(InvalidRequest) as error:
        choose_cards([card("a", 10, 80), card("b", 79, 80)], 2, 0.9)

    assert "2 GPUs with 90% of the memory free" in error.value.message
    assert "H200 a: 10.0 of 80.0 GiB free" in error.value.message


def test_no_card_at_all_is_said() -> None:
    with pytest.raises(InvalidRequest, match="there is none"):
        choose_cards([], 1, 0.9)
