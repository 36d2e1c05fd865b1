"""Boxed integers of AIME: which answers are unparsable, and what a second opinion says."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack

import pytest

from services.core.operator_environment import OperatorEnvironment
from services.rewards.factory import RewardFactory
from services.rewards.interface import RewardFailed, Sample, Score
from services.rewards.mathematics.equality import Equality


def scores(*cases: tuple[str, str]) -> list[Score]:
    """The scores of pairs of an answer and its gold, from 0 to 999."""

    async def run() -> list[Score]:
        async with AsyncExitStack() as stack:
            factory = RewardFactory(OperatorEnvironment(attempts=1), stack)
            component = await factory.bounded_integer((0, 999))
            return [
                await component.score(Sample.of_answer(answer, gold=[gold]))
                for answer, gold in cases
            ]

    return asyncio.run(run())


def test_an_integer_that_is_no_answer_is_unparsable_and_not_a_wrong_one() -> None:
    found = scores(
        (r"\boxed{073}", "73"),
        (r"\boxed{999}", "998"),
        (r"\boxed{1000}", "100"),
        (r"\boxed{-1}", "1"),
        ("no box", "1"),
    )
    assert [(each.value, each.extracted) for each in found] == [
        (1.0, "73"),
        (0.0, "999"),
        (0.0, None),
        (0.0, None),
        (0.0, None),
    ]


def test_mathematics_is_a_second_opinion_on_every_answer() -> None:
    right, other_form, wrong, percent, huge = scores(
        (r"\boxed{204}", "204"),
        (r"\boxed{\frac{408}{2}}", "204"),
        (r"\boxed{205}", "204"),
        (r"\boxed{x = 204}", "204"),
        (r"\boxed{9^{9^{9^9}}}", "204"),
    )
    assert right.measures == {"math_verify": 1.0, "agrees": 1.0}
    assert (other_form.value, other_form.measures) == (0.0, {"math_verify": 1.0, "agrees": 0.0})
    assert wrong.measures == {"math_verify": 0.0, "agrees": 1.0}
    assert percent.value == 0.0
    assert huge.measures == {"math_verify": 0.0, "agrees": 1.0}


def test_the_rule_decides_when_mathematics_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(_: Equality, _golds: Sequence[str], _answer: str) -> bool:
        raise RewardFailed("expressions cannot be compared")

    monkeypatch.setattr(Equality, "any_equal", broken)
    (found,) = scores((r"\boxed{204}", "204"))
    assert (found.value, found.measures) == (1.0, {})
