"""Which prompts a curriculum draws, and that a restart changes nothing."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from services.contracts.rollouts.trajectories import Trajectory
from services.contracts.training.curriculum import Curriculum
from services.core.process.reporter import METRICS
from services.rollouts.log.log import read_indexed
from services.trainer.rl.curriculum import CurriculumOrder, CurriculumState
from services.trainer.rl.prompts import SourceTurns, read_row
from tests.support.rl.parts import SteadyEngine
from tests.support.rl.training import Run, method, questions
from tests.support.rl.virtual import run
from tests.support.rollouts import END_TEXT
from tests.unit.trainer.rl.test_loop import lines

SAMPLES = 8
ROWS = 20


def order(state: CurriculumState | None = None, **settings: Any) -> CurriculumOrder:
    turns = SourceTurns([None] * ROWS, {}, 7)
    return CurriculumOrder(Curriculum(**settings), turns, 7, state)


def seen(passed: dict[int, int], **settings: Any) -> CurriculumOrder:
    """A curriculum after one uniform epoch, in which these rows passed in so many samples."""
    made = order(**settings)
    for draw in range(ROWS):
        row = made.row(draw)
        made.observe(draw, SAMPLES, passed.get(row, 0))
    return made


def test_without_outcomes_every_prompt_is_drawn_once_an_epoch() -> None:
    made = order(prioritized=0.9)

    assert sorted(made.row(draw) for draw in range(ROWS)) == list(range(ROWS))


def test_prioritized_draws_follow_the_weights_of_the_pass_rates() -> None:
    passed = {0: 8, 1: 4, 2: 4, 3: 1}
    made = order(
        CurriculumState(
            seen=tuple(
                {"row": row, "samples": SAMPLES, "passed": count} for row, count in passed.items()
            )
        ),
        prioritized=1.0,
        replay=0.0,
        weights=[1, 0, 4, 0, 0],
    )

    drawn = Counter(made.row(draw) for draw in range(900))

    assert set(drawn) == {1, 2, 3}  # 4, 4 and 1 parts of 9
    for row, share in ((1, 400), (2, 400), (3, 100)):
        assert abs(drawn[row] - share) < 60


def test_a_prompt_that_is_solved_at_last_is_drawn_again() -> None:
    made = seen({4: 3}, prioritized=0.0, replay=1.0)
    [draw] = [n for n in range(ROWS, 2 * ROWS) if made.row(n) == 9]

    made.observe(draw, SAMPLES, 1)

    assert made.row(2 * ROWS) == 9
    assert made.metrics()["curriculum/replayed"] > 0.0
    rest = [made.row(n) for n in range(2 * ROWS + 1, 3 * ROWS + 1)]
    assert sorted(rest) == list(range(ROWS))  # once


def test_the_latest_groups_count_more() -> None:
    made = order(prioritized=1.0, replay=0.0, weights=[0, 0, 0, 0, 1])
    for draw in range(ROWS):
        row = made.row(draw)
        made.observe(draw, SAMPLES, 0)
    draws = {made.row(draw): draw for draw in range(ROWS, 2 * ROWS)}
    for draw in draws.values():
        made.observe(draw, SAMPLES, SAMPLES if made.row(draw) == 3 else 0)

    again = {made.row(draw): draw for draw in range(2 * ROWS, 3 * ROWS)}
    for row, draw in again.items():
        made.observe(draw, SAMPLES, SAMPLES if row == 3 else 0)

    assert {made.row(draw) for draw in range(3 * ROWS, 3 * ROWS + 10)} == {3}


def test_a_group_that_a_restart_ends_again_counts_once() -> None:
    made = order()
    made.row(0)
    made.observe(0, SAMPLES, 4)

    again = order(made.state([0]))
    again.observe(0, SAMPLES, 4)

    assert again.state([0]) == made.state([0])


@given(
    st.lists(st.tuples(st.integers(0, SAMPLES), st.booleans()), min_size=25, max_size=60),
    st.integers(0, 59),
)
def test_a_checkpoint_in_between_changes_no_draw(
    outcomes: list[tuple[int, bool]], stop: int
) -> None:
    straight, restarted = order(replay=0.3), order(replay=0.3)
    drawn: list[list[int]] = [[], []]
    pending: list[int] = []
    for draw, (passed, ends) in enumerate(outcomes):
        if draw == stop % len(outcomes):
            state = restarted.state(pending).model_dump_json()
            restarted = order(CurriculumState.model_validate_json(state), replay=0.3)
        pending.append(draw)
        for made, rows in zip((straight, restarted), drawn, strict=True):
            rows.append(made.row(draw))
            if ends:
                for each in pending:
                    made.observe(each, SAMPLES, passed)
        if ends:
            pending.clear()

    assert drawn[0] == drawn[1]


def test_training_with_a_curriculum_filters_fewer_groups(tmp_path: Path) -> None:
    def judge(trajectory: Trajectory) -> float:
        learnable = trajectory.prompt_index == 5
        return float(trajectory.sample_index % 2) if learnable else 1.0

    def filtered(name: str, **settings: Any) -> float:
        folder = tmp_path / name
        folder.mkdir()
        online = method(dynamic_sampling={"max_batches": 20}, steps=8, **settings)
        engine = SteadyEngine(lambda _: f"ok{END_TEXT}")
        job = Run(folder, online, engine, questions(16), judge)
        run(job.play())
        metrics = lines(folder / METRICS)
        assert len(metrics) == 8
        return sum(float(line["group_filter_rate"]) for line in metrics)

    uniform = filtered("uniform")
    curriculum = filtered("curriculum", curriculum={"prioritized": 0.8})

    assert curriculum < uniform


WEIGHTS = {"math": 3, "shop": 1}


@pytest.mark.parametrize(
    "settings",
    [
        {"curriculum": {"replay": 0.3}},
        {"source_weights": WEIGHTS, "max_staleness": 1},
        {"source_weights": WEIGHTS, "curriculum": {"replay": 0.3}, "dynamic_sampling": {}},
    ],
)
def test_an_interrupted_training_draws_as_an_uninterrupted_one(
    tmp_path: Path, settings: dict[str, Any]
) -> None:
    rows = [
        read_row({"question": f"q{n}", "source": "shop" if n < 4 else "math"}, n, "plain")
        for n in range(7)
    ]
    for number in (1, 5):
        rows[number].prompt.messages[0]["content"] = "q" * 100

    def judge(trajectory: Trajectory) -> float:
        return float((trajectory.prompt_index + trajectory.sample_index) % 3 == 0)

    def drawn(name: str, *, killed_after: float | None) -> Counter[int]:
        folder = tmp_path / name
        folder.mkdir()
        online = method(steps=8, checkpoint_steps=1, max_prompt_length=30, **settings)
        engine = SteadyEngine(lambda _: f"ok{END_TEXT}")
        if killed_after is not None:
            job = Run(folder, online, engine, rows, judge)
            assert run(job.play(killed_after)) is None
        run(Run(folder, online, engine, rows, judge).play())
        return Counter(each.prompt_index for each in read_indexed(folder))

    assert drawn("killed", killed_after=5.0) == drawn("straight", killed_after=None)


@pytest.mark.parametrize(
    "settings", [{"prioritized": 0.8, "replay": 0.3}, {"weights": [0] * 5}, {"weights": [1] * 4}]
)
def test_shares_and_weights_that_mean_nothing_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        Curriculum(**settings)
