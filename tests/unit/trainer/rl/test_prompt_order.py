"""Sources of one training file are drawn by their weights, whatever else decides about prompts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.errors import InvalidRequest, JobFailed
from services.trainer.rl.curriculum import CurriculumState, order_of
from services.trainer.rl.prompts import CYCLE, PromptSampler, read_row
from tests.support.rl.training import method

ROWS = [*["math"] * 50, *["shop"] * 3, None, "other"]
LONG = 9
"""Tokens of a prompt that is too long; others have one."""
SAMPLES = 8


class Draws:
    """Draws of a training, whose state passes through a checkpoint at `restart`."""

    def __init__(
        self,
        sources: Sequence[str | None],
        weights: Mapping[str, float],
        too_long: frozenset[int] = frozenset(),
        **settings: Any,
    ) -> None:
        self._rows = [
            read_row({"question": f"q{n}", "data_source": source}, n, "plain")
            for n, source in enumerate(sources)
        ]
        self._online = method(source_weights=weights, **settings)
        self._too_long = too_long
        self._open(None, 0)

    def next(self, passed: int = 0) -> int:
        """The row of the next draw, whose samples passed so often."""
        draw = self._sampler.next()
        self._order.observe(draw.number, SAMPLES, passed)
        return draw.prompt.index

    def restart(self) -> None:
        """Go on from a checkpoint."""
        state = self._order.state([]).model_dump_json()
        self._open(CurriculumState.model_validate_json(state), self._sampler.position)

    def _open(self, state: CurriculumState | None, position: int) -> None:
        order = order_of(self._online, self._rows, 0, state)
        assert order is not None
        self._order = order
        self._sampler = PromptSampler(
            self._rows,
            0,
            lambda prompt: LONG if prompt.index in self._too_long else 1,
            LONG - 1,
            position,
            order=order,
        )


def test_sources_are_drawn_by_their_weights() -> None:
    draws = Draws(ROWS, {"math": 1, "shop": 3})
    drawn = [ROWS[draws.next()] for _ in range(2 * CYCLE)]

    assert Counter(drawn) == {"math": CYCLE // 2, "shop": 3 * CYCLE // 2}
    for start in range(0, 2 * CYCLE, 8):  # in every batch
        assert 5 <= Counter(drawn[start : start + 8])["shop"] <= 7


@given(st.floats(0.01, 100.0), st.sets(st.integers(0, 48)))
def test_every_row_of_a_source_is_drawn_once_an_epoch(weight: float, too_long: set[int]) -> None:
    draws = Draws(ROWS, {"math": 1, "shop": weight}, frozenset(too_long))
    rows = [draws.next() for _ in range(1000)]
    for name, size in (("math", 50 - len(too_long)), ("shop", 3)):
        own = [row for row in rows if ROWS[row] == name]
        for start in range(0, len(own) - size, size):
            assert len(set(own[start : start + size])) == size


def test_checkpoints_of_earlier_versions_continue_in_their_order() -> None:
    weights = {"math": 9.0, "shop": 1.0}
    rows = [
        read_row({"question": f"q{n}", "data_source": source}, n, "plain")
        for n, source in enumerate(ROWS)
    ]
    whole = order_of(method(source_weights=weights), rows, 0, None)
    assert whole is not None
    expected = [whole.row(draw) for draw in range(60)]

    # With weights alone they have no state: the number of draws says which are next.
    restarted = order_of(method(source_weights=weights), rows, 0, None, drawn=33, pending=[30, 32])
    assert restarted is not None
    assert [restarted.row(draw) for draw in (30, 32)] == [expected[30], expected[32]]
    assert [restarted.row(draw) for draw in range(33, 60)] == expected[33:]

    # With a curriculum, one number of uniform draws, here of all.
    state = CurriculumState.model_validate_json('{"uniform": 33, "drawn": {"32": 7}}')
    curriculum = {"prioritized": 0.0, "replay": 0.0}
    restarted = order_of(
        method(source_weights=weights, curriculum=curriculum), rows, 0, state, drawn=33
    )
    assert restarted is not None
    assert restarted.row(32) == 7
    assert [restarted.row(draw) for draw in range(33, 60)] == expected[33:]


CURRICULA = st.none() | st.tuples(st.floats(0.0, 0.5), st.floats(0.0, 0.5)).map(
    lambda shares: {"prioritized": shares[0], "replay": shares[1]}
)


@given(
    sizes=st.lists(st.integers(2, 40), min_size=1, max_size=4),
    weights=st.lists(st.floats(0.5, 9.0), min_size=4, max_size=4),
    curriculum=CURRICULA,
    dynamic_sampling=st.none() | st.just({"max_batches": 2}),
    data=st.data(),
)
def test_no_other_option_changes_the_share_of_a_source(
    sizes: list[int],
    weights: list[float],
    curriculum: dict[str, float] | None,
    dynamic_sampling: dict[str, int] | None,
    data: st.DataObject,
) -> None:
    shares = {f"source {n}": weight for n, weight in zip(range(len(sizes)), weights, strict=False)}
    sources = [name for name, size in zip(shares, sizes, strict=True) for _ in range(size)]
    first = {sources.index(name) for name in shares}  # of each source one prompt can be used
    too_long = frozenset(data.draw(st.sets(st.integers(0, len(sources) - 1)))) - first
    passes = data.draw(st.lists(st.integers(0, SAMPLES), min_size=1, max_size=9))
    settings = {"curriculum": curriculum, "dynamic_sampling": dynamic_sampling}
    draws, restarted = (Draws(sources, shares, too_long, **settings) for _ in range(2))

    rows: list[int] = []
    stop = data.draw(st.integers(0, CYCLE))
    for draw in range(CYCLE):
        passed = passes[draw % len(passes)]
        rows.append(draws.next(passed))
        if draw == stop:
            restarted.restart()
        assert restarted.next(passed) == rows[-1]

    drawn = Counter(sources[row] for row in rows)
    for name, weight in shares.items():
        assert drawn[name] == pytest.approx(CYCLE * weight / sum(shares.values()), abs=3)
    assert not too_long & set(rows)


def test_a_large_source_with_a_small_weight_is_prioritized_within_its_share() -> None:
    sources = [*["math"] * 10, *["shop"] * 300]
    draws = Draws(
        sources, {"math": 9, "shop": 1}, curriculum={"prioritized": 0.8, "weights": [0, 0, 1, 0, 0]}
    )
    rows: list[int] = []
    for _ in range(6000):
        row = draws.next(SAMPLES // 2)  # the next one is row 0 or a prompt that passed half
        rows.append(row)

    assert Counter(sources[row] for row in rows) == {"math": 5400, "shop": 600}
    assert len({row for row in rows if sources[row] == "shop"}) > 90  # its uniform draws


def test_prompts_that_are_too_long_leave_the_share_of_prioritized_draws() -> None:
    sources = ["math"] * 400
    draws = Draws(
        sources, {}, frozenset(range(300)), curriculum={"prioritized": 0.5, "replay": 0.0}
    )
    rows = [draws.next(SAMPLES // 2) for _ in range(20)]
    again = [draws.next(SAMPLES // 2) for _ in range(100)]

    new = len(set(again) - set(rows))
    assert 35 <= new <= 65  # uniform: nothing is drawn twice in the first epoch


def test_a_weight_without_rows_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="no row of the training file has the source 'chess'"):
        Draws(ROWS, {"math": 1, "chess": 1})


def test_a_source_without_a_usable_prompt_fails_the_training() -> None:
    draws = Draws(ROWS, {"math": 1, "shop": 1}, frozenset({50, 51, 52}))

    with pytest.raises(JobFailed, match=r"no prompt of the source 'shop' is usable: row 5\d has"):
        for _ in range(2):
            draws.next()


def test_a_sampler_draws_only_sources_with_a_weight() -> None:
    draws = Draws(ROWS, {"shop": 1})

    assert {ROWS[draws.next()] for _ in range(20)} == {"shop"}
