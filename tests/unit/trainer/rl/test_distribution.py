"""That the statistics of drafted tokens tell right rules of acceptance from wrong ones."""

from collections.abc import Callable

import numpy as np
import pytest

from services.contracts.engine import Drafts
from services.trainer.rl.speculation import Lookup
from tests.support.rl.distribution import (
    LARGEST_DISTANCE,
    LARGEST_SURPLUS,
    Floats,
    distance,
    surplus,
)

TOKENS = 6_000
CHAIN = np.random.default_rng(3).dirichlet([1.0] * 4, size=4)
"""The probabilities of the next token, by the last one."""
Rule = Callable[[float], float]
"""With which probability a drafted token is accepted that has this one."""


def sampled(rule: Rule, *, rejected_again: bool = False) -> tuple[float, float]:
    """The surplus of drafted tokens and the distance of all, under a rule of acceptance. A token in
    the place of a rejected one may be the rejected one, if that is ``rejected_again``."""
    generator, known, last = np.random.default_rng(1), Lookup(Drafts(), [0, 1, 2, 3]), 3
    chosen, rows, drafted = list[int](), list[Floats](), list[int]()
    for _ in range(TOKENS):
        chances = CHAIN[last]
        draft = (known.draft() or [-1])[0]
        rest = chances.copy()
        if draft >= 0 and not rejected_again:
            rest[draft] = 0.0
        if draft >= 0 and generator.random() < rule(chances[draft]):
            last = draft
        else:
            last = int(generator.choice(4, p=rest / rest.sum()))
        known.append(last)
        chosen.append(last)
        rows.append(chances)
        drafted.append(draft)
    proposed, of_all, tokens = np.array(drafted), np.array(rows), np.array(chosen)
    has_draft = proposed >= 0
    hits = (tokens == proposed)[has_draft]
    more = surplus(hits, of_all[has_draft, proposed[has_draft]])
    return more, distance(tokens, of_all)


def test_tokens_of_the_model_are_found_to_be_its_own() -> None:
    more, far = sampled(lambda chance: chance)

    assert abs(more) < LARGEST_SURPLUS
    assert far < LARGEST_DISTANCE


@pytest.mark.parametrize(
    "rule",
    [lambda _: 1.0, lambda chance: chance**0.7, lambda chance: 0.8 * chance],
    ids=["always", "too often", "too rarely"],
)
def test_wrong_rules_of_acceptance_are_found(rule: Rule) -> None:
    assert abs(sampled(rule)[0]) > LARGEST_SURPLUS


def test_a_rejected_token_that_is_drawn_again_is_found() -> None:
    assert sampled(lambda chance: chance, rejected_again=True)[0] > LARGEST_SURPLUS
