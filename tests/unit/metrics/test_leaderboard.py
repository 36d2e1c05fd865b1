"""Leaderboards: which evaluations are compared, and in what order models stand."""

from typing import Any

import pytest

from services.metrics.leaderboard import Leaderboard, leaderboard
from tests.support.evaluation.evaluation_view import (
    evaluation,
    evaluation_of_several,
    graded_by,
    metrics_of,
)


def shown(board: Leaderboard) -> list[tuple[str, list[str | None], float | None]]:
    """Models, the evaluations in their cells, and their means."""
    return [
        (
            row.model,
            [
                row.cells[each].evaluation if each in row.cells else None
                for each in board.benchmarks
            ],
            row.mean,
        )
        for row in board.rows
    ]


def test_the_newest_evaluation_of_a_model_counts() -> None:
    board = leaderboard([evaluation("new", "m", "f", 0.25), evaluation("old", "m", "f", 0.75)])
    assert shown(board) == [("m", ["new"], 0.25)]


def test_models_stand_by_completeness_then_by_mean_and_benchmarks_by_age() -> None:
    board = leaderboard(
        [
            evaluation("e", "partial", "first", 1.0),
            evaluation("d", "better", "second", 0.75),
            evaluation("c", "worse", "second", 0.25),
            evaluation("b", "worse", "first", 0.5),
            evaluation("a", "better", "first", 0.25),
        ]
    )
    assert [each.file for each in board.benchmarks] == ["first", "second"]
    assert shown(board) == [
        ("better", ["a", "d"], 0.5),
        ("worse", ["b", "c"], 0.375),
        ("partial", ["e", None], None),
    ]


def test_other_graders_thresholds_and_samples_are_other_benchmarks() -> None:
    other = evaluation("x", "m", "f", 0.5)
    assert other.metrics is not None
    short = other.metrics.model_copy(update={"items": 5, "samples": 5})
    board = leaderboard(
        [
            evaluation("a", "m", "f", 0.5),
            evaluation("b", "m", "f", 0.5, grader={"type": "exact"}),
            evaluation("c", "m", "f", 0.5, grader={"type": "numeric", "absolute_tolerance": 0.1}),
            evaluation("d", "m", "f", 0.5, pass_threshold=0.5),
            evaluation("e", "m", "f", 0.5, metrics=short.model_dump()),
        ]
    )
    assert shown(board) == [("m", ["e", "d", "c", "b", "a"], 0.5)]


def test_evaluations_without_metrics_are_left_out() -> None:
    board = leaderboard([evaluation("a", "m", "f", 0.5, status="running", metrics=None)])
    assert (board.benchmarks, board.rows) == ([], [])


def test_remote_models_of_one_name_are_told_apart_by_their_origin() -> None:
    remote = [{"base_url": f"http://{host}/v1", "model": "m"} for host in ("a", "b")]
    board = leaderboard(evaluation(str(n), each, "f", 0.5) for n, each in enumerate(remote))
    assert [row.model for row in board.rows] == ["m (http://a:80)", "m (http://b:80)"]


def test_a_model_with_tools_is_a_row_of_its_own() -> None:
    with_tools = evaluation("e-2", "m", "f", 0.9, tools=[{"class_name": "a.SandboxFusionTool"}])

    board = leaderboard([with_tools, evaluation("e-1", "m", "f", 0.5)])

    assert [row.model for row in board.rows] == ["m with SandboxFusionTool", "m"]
    assert len(board.benchmarks) == 1


def test_benchmarks_of_one_evaluation_are_columns_in_its_order() -> None:
    board = leaderboard(
        [
            evaluation_of_several("b", "two", {"aime24": 0.5, "gsm8k": 1.0}),
            evaluation("a", "one", "gsm8k", 0.25, benchmark="gsm8k"),
        ]
    )
    assert [each.benchmark for each in board.benchmarks] == ["gsm8k", "aime24"]
    assert shown(board) == [("two", ["b", "b"], 0.75), ("one", ["a", None], None)]


def test_prompts_and_splits_make_other_benchmarks_of_one_file() -> None:
    board = leaderboard(
        [
            evaluation("c", "m", "f", 0.5, benchmark="panorama_pi4pc_cot"),
            evaluation("b", "m", "f", 0.5, benchmark="panorama_pi4pc"),
            evaluation("a", "m", "f", 0.5, benchmark="panorama_pi4pc", split="final"),
        ]
    )
    assert shown(board) == [("m", ["a", "b", "c"], 0.5)]


def translated(question: str, answer: str, prompt: str = "Translate: {question}") -> Any:
    grader = {"type": "exact"}
    return {"question": question, "answer": answer, "prompt": prompt, "grader": grader}


def test_benchmarks_of_ones_own_are_told_apart_by_what_they_ask_and_take_for_right() -> None:
    """Two directions of one file, which two evaluations list in another order each."""

    def both(name: str, model: str, accuracies: dict[str, float]) -> Any:
        several = evaluation_of_several(name, model, accuracies)
        assert several.benchmarks is not None
        entries = [
            {
                **each.model_dump(),
                "file": "f",
                "grader": {"type": "exact"},
                "benchmark": translated(*str(each.name).split("-")),
            }
            for each in several.benchmarks
        ]
        return type(several).model_validate({**several.model_dump(), "benchmarks": entries})

    board = leaderboard(
        [
            both("a", "better", {"en-de": 0.9, "de-en": 0.2}),
            both("b", "worse", {"de-en": 0.1, "en-de": 0.5}),
        ]
    )
    assert [(row.model, len(row.cells)) for row in board.rows] == [("better", 2), ("worse", 2)]
    assert [row.mean for row in board.rows] == pytest.approx([0.55, 0.3])
    assert {each.name for each in board.benchmarks} == {"en-de", "de-en"}


@pytest.mark.parametrize(
    "fields",
    [
        {"prediction": {"path": "answer"}},
        {"prediction": {"path": "label"}},
        {"keep_reasoning": True},
        {"benchmark": translated("en", "de")},
        {"benchmark": {**translated("en", "de"), "incorrect": ["fr"]}},
        {"benchmark": {**translated("en", "de"), "choices": "options"}},
        {"benchmark": {**translated("en", "de"), "choices": "options", "labels": "letters"}},
    ],
)
def test_what_is_graded_makes_another_benchmark(fields: dict[str, Any]) -> None:
    board = leaderboard([evaluation("a", "m", "f", 0.5), evaluation("b", "m", "f", 0.5, **fields)])
    assert len(board.benchmarks) == 2


def test_another_prompt_of_ones_own_is_the_same_benchmark() -> None:
    asked = [translated("en", "de", prompt) for prompt in ("{question}", "In German: {question}")]
    board = leaderboard(
        evaluation(str(number), "m", "f", 0.5, benchmark=each) for number, each in enumerate(asked)
    )
    assert shown(board) == [("m", ["0"], 0.5)]


def test_the_mean_over_several_benchmarks_has_an_interval() -> None:
    board = leaderboard(
        [
            evaluation_of_several("e", "m", {"a": 0.5, "b": 0.75}),
            evaluation("f", "n", "a", 0.5, benchmark="a"),
        ]
    )
    whole, partial = board.rows
    assert whole.interval is not None
    assert whole.interval.mean == 0.625
    assert whole.interval.stderr == pytest.approx(0.1 / 2**0.5)
    assert partial.interval is None


def test_a_mean_over_the_same_rows_graded_twice_has_no_interval() -> None:
    exact = evaluation("x", "m", "f", 0.5, grader={"type": "exact"})
    (row,) = leaderboard([exact, evaluation("y", "m", "f", 0.75)]).rows
    assert (row.mean, row.interval) == (0.625, None)


def measured(name: str, model: str, score: float, direction: str = "minimize") -> Any:
    """An evaluation whose main metric is the mean score, such as a distance."""
    benchmark = {"grader": {"type": "numeric"}, "metric": "mean_score", "direction": direction}
    one = evaluation(name, model, "distances", 0.5, benchmark=benchmark)
    assert one.metrics is not None
    one.metrics.mean_score, one.metrics.mean_score_stderr = score, 0.1
    one.metrics.mean_score_ci95 = (score - 0.2, score + 0.2)
    return one


def test_where_lower_is_better_the_lowest_model_stands_first() -> None:
    board = leaderboard([measured("a", "far", 3.5), measured("b", "near", 0.5)])
    assert shown(board) == [("near", ["b"], 0.5), ("far", ["a"], 3.5)]
    near, far = board.rows
    (column,) = board.benchmarks
    assert (column.metric, column.direction) == ("mean_score", "minimize")
    assert board.is_best(near, column)
    assert not board.is_best(far, column)


def test_where_lower_is_better_samples_without_a_score_do_not_help() -> None:
    silent = measured("b", "silent", 0.5)
    assert silent.metrics is not None
    silent.metrics.errors = 3
    board = leaderboard([measured("a", "far", 3.5), silent])
    (column,) = board.benchmarks
    assert [row.model for row in board.rows] == ["far", "silent"]
    assert board.is_best(board.rows[0], column)


def answered(
    name: str, model: str, score: float, worst: float | None, errors: int, direction: str
) -> Any:
    """An evaluation whose mean score counts ``errors`` as ``worst``."""
    one = measured(name, model, score, direction)
    one.metrics.worst_score, one.metrics.errors = worst, errors
    return one


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_samples_without_a_score_count_as_the_worst_of_the_column(direction: str) -> None:
    sign = 1 if direction == "maximize" else -1
    few = answered("b", "few", sign * -0.5, sign * -1.0, 9, direction)
    every = answered("a", "all", sign * -3.0, sign * -5.0, 0, direction)
    # Next to another benchmark without a common scale, so that ranks decide.
    others = [measured(f"{each}-2", each, 1.0) for each in ("few", "all")]
    for each in others:
        each.file = "others"
    board = leaderboard([few, every, *others])
    # Nine of ten answers of few count as 5 from zero, not as 1.
    assert [row.model for row in board.rows] == ["all", "few"]


def test_a_result_of_an_earlier_version_counts_ungraded_answers_as_0() -> None:
    old = answered("a", "one of ten", 1.0, None, 9, "maximize")
    board = leaderboard([old, answered("b", "nine of ten", 0.9, 0.0, 0, "maximize")])
    assert [(row.model, row.mean) for row in board.rows] == [
        ("nine of ten", 0.9),
        ("one of ten", pytest.approx(0.1)),
    ]


def test_a_row_that_was_lost_leaves_a_model_in_its_column() -> None:
    lost = evaluation("a", "lost", "f", 0.5)
    lost.metrics = lost.metrics and lost.metrics.model_copy(
        update={"items": 9, "samples": 9, "left_out": 1}
    )
    board = leaderboard([lost, evaluation("b", "whole", "f", 0.75)])
    assert shown(board) == [("whole", ["b"], 0.75), ("lost", ["a"], 0.5)]

    repeated = evaluation("c", "m", "f", 0.5)
    repeated.metrics = repeated.metrics and repeated.metrics.model_copy(
        update={"items": 9, "samples": 35, "left_out": 5, "samples_per_item": 4}
    )
    (column,) = leaderboard([repeated]).benchmarks
    assert column.rows == 10


def test_without_a_common_scale_models_stand_by_rank_and_have_no_mean() -> None:
    board = leaderboard(
        [
            *(measured("a", "far", 3.5), measured("b", "near", 0.5), measured("c", "middle", 1.0)),
            *(evaluation(name, name, "f", 0.5) for name in ("far", "near", "middle")),
        ]
    )
    assert [(row.model, row.mean, row.interval) for row in board.rows] == [
        ("near", None, None),
        ("middle", None, None),
        ("far", None, None),
    ]


def test_another_direction_is_another_benchmark() -> None:
    lower, higher = measured("a", "m", 0.5), measured("b", "m", 0.5, "maximize")
    assert len(leaderboard([lower, higher]).benchmarks) == 2


def test_tasks_of_panorama_stand_by_their_published_score() -> None:
    def patents(name: str, score: float, accuracy: float) -> Any:
        grader = {"type": "panorama", "task": "noc4pc"}
        estimate = {"mean": score, "samples": 10, "stderr": 0.1, "ci95": [0.0, 1.0]}
        measured = {**metrics_of(accuracy), "measures": {"noc4pc": {"macro_f1": estimate}}}
        metrics = graded_by(grader, measured)
        return evaluation(name, name, "f", accuracy, grader=grader, metrics=metrics)

    board = leaderboard([patents("accurate", 0.25, 0.9), patents("scored", 0.75, 0.1)])
    assert shown(board) == [("scored", ["scored"], 0.75), ("accurate", ["accurate"], 0.25)]
    assert board.benchmarks[0].metric == "macro_f1"
