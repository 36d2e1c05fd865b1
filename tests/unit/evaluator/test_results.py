"""Which rows survive a kill, and what the next attempt finds."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.contracts.evaluation.results import EvaluationMetrics, SampleResult
from services.contracts.failures import InfrastructureCause, LeftOut
from services.datasets.append_log import AppendLog
from services.evaluator.evaluation.results import RESULTS, Answered, ResultRow, prepare, read_rows
from services.evaluator.evaluation.totals import RunningTotals


def row(index: int, *, answer: str | None = "4", correct: bool | None = True) -> ResultRow:
    return ResultRow(index=index, gold=["4"], answer=answer, correct=correct)


def unanswered(index: int) -> ResultRow:
    return ResultRow(index=index, gold=["4"], answer=None, correct=None, error="HTTP 500")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / RESULTS


def write(path: Path, *rows: ResultRow) -> None:
    with AppendLog[ResultRow](path) as results:
        for item in rows:
            results.append(item)


def indexes(path: Path) -> list[int]:
    return [item.index for item in read_rows(path)]


def test_appended_rows_are_in_the_file_immediately(path: Path) -> None:
    with AppendLog[ResultRow](path) as results:
        results.append(row(3, answer="zażółć 答案 😀\n\u2028"))
        assert [item.answer for item in read_rows(path)] == ["zażółć 答案 😀\n\u2028"]
        assert path.read_bytes().count(b"\n") == 1


def test_a_row_has_all_fields_of_a_sample_result_except_its_id(path: Path) -> None:
    write(path, row(0))
    stored = json.loads(path.read_bytes())
    assert set(stored) == set(SampleResult.model_fields) - {"id"}
    assert SampleResult.model_validate(stored | {"id": "x-0"}).index == 0


def test_a_torn_last_line_is_truncated_before_new_rows_are_appended(path: Path) -> None:
    write(path, row(0), row(1))
    whole = path.read_bytes()
    first = whole.index(b"\n")
    for length in (0, 1, first, first + 1, first + 2, len(whole) - 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        prepare(path, {None: Answered(3)})
        kept = whole[:length].count(b"\n")
        assert path.read_bytes() == b"".join(whole.splitlines(keepends=True)[:kept])
        write(path, row(2))
        assert indexes(path) == [*range(kept), 2]


def test_rows_without_an_answer_are_dropped_and_retried(path: Path) -> None:
    write(path, row(2), unanswered(0), row(1, correct=False))
    prepare(path, {None: Answered(3)})
    assert indexes(path) == [2, 1]


def test_unreadable_unknown_and_duplicate_rows_are_dropped(path: Path) -> None:
    write(path, row(0), row(0, answer="5"), row(7), row(-1))
    with open(path, "ab") as file:
        file.write(b"\0" * 20 + b"\n{}\n[]\n")
    prepare(path, {None: Answered(3)})
    assert [(item.index, item.answer) for item in read_rows(path)] == [(0, "4")]


def test_a_valid_file_is_left_unchanged(path: Path) -> None:
    write(path, row(1), row(0))
    inode = path.stat().st_ino
    prepare(path, {None: Answered(2)})
    assert path.stat().st_ino == inode
    assert [item.name for item in path.parent.iterdir()] == [RESULTS]


def test_there_are_no_rows_before_the_first_attempt(path: Path) -> None:
    prepare(path, {None: Answered(3)})
    assert indexes(path) == []


def sample(index: int, number: int, extracted: str | None, gold: str = "4") -> ResultRow:
    return ResultRow(
        index=index,
        sample=number,
        gold=[gold],
        answer=extracted or "",
        extracted=extracted,
        correct=extracted == gold,
    )


def test_every_sample_of_an_item_has_a_row_of_its_own(path: Path) -> None:
    write(path, sample(0, 0, "4"), sample(0, 1, "5"), sample(0, 0, "6"), sample(1, 2, "4"))

    prepare(path, {None: Answered(2, 2)})

    assert [(each.index, each.sample, each.extracted) for each in read_rows(path)] == [
        (0, 0, "4"),
        (0, 1, "5"),
    ]


def test_benchmarks_have_rows_of_the_same_numbers(path: Path) -> None:
    rows = [row(0), row(1), row(0), row(0, correct=False), row(1)]
    for each, benchmark in zip(rows, ("a", "a", "b", "b", "b"), strict=True):
        each.benchmark = benchmark
    write(path, *rows, row(0))
    answered: dict[str | None, Answered] = {"a": Answered(2), "b": Answered(1, 2), "c": Answered(1)}

    prepare(path, answered)

    assert [(each.benchmark, each.index) for each in read_rows(path)] == [
        ("a", 0),
        ("a", 1),
        ("b", 0),
    ]
    assert [name for name, each in answered.items() if each.has(0, 0)] == ["a", "b"]
    assert not answered["b"].has(0, 1)


def test_a_row_written_before_samples_were_numbered_is_the_first(path: Path) -> None:
    write(path, row(1))
    path.write_bytes(path.read_bytes().replace(b'"sample":0,', b""))

    prepare(path, {None: Answered(2, 3)})

    assert [(each.index, each.sample) for each in read_rows(path)] == [(1, 0)]


def test_equal_answers_vote_together_and_rows_without_a_vote_by_their_text() -> None:
    answers = [("$18", "18"), ("18.00", "18"), ("18", None), ("20", None), ("20", None)]
    totals = RunningTotals(len(answers))
    for number, (extracted, vote) in enumerate(answers):
        row = sample(0, number, extracted, gold="20")
        row = row.model_copy(update={"vote": vote, "correct": extracted != "20"})
        stored = row.model_dump_json(exclude={"vote"} if vote is None else set())
        totals.add(ResultRow.model_validate_json(stored))

    majority = totals.metrics().majority

    assert majority is not None
    assert majority.mean == 1.0


def test_metrics_of_several_samples_are_over_items() -> None:
    totals = RunningTotals(3, extracts=True)
    items: list[list[str | None]] = [["4", "4", "5"], ["5", None, "5"]]
    for index, answers in enumerate(items):
        for number, extracted in enumerate(answers):
            totals.add(sample(index, number, extracted))

    metrics = totals.metrics()

    assert (metrics.items, metrics.samples_per_item, metrics.samples) == (2, 3, 6)
    assert metrics.accuracy == pytest.approx(1 / 3)
    assert (metrics.unparsable, metrics.errors) == (1, 0)
    assert metrics.stderr == pytest.approx(1 / 3)  # of the item means 2/3 and 0
    assert metrics.majority is not None
    assert metrics.majority.mean == 0.5
    assert metrics.pass_at_k is not None
    means = {k: each.mean for k, each in metrics.pass_at_k.items()}
    assert means == {"1": pytest.approx(1 / 3), "2": 0.5, "3": 0.5}


def test_missing_answers_and_missing_grades_are_counted_apart() -> None:
    totals = RunningTotals(extracts=True)
    totals.add(unanswered(0))
    totals.add(ResultRow(index=1, gold=["4"], answer="4", correct=None, error="no judge"))
    totals.add(sample(2, 0, None))
    totals.add(sample(3, 0, "4"))

    metrics = totals.metrics()

    assert (metrics.errors, metrics.unanswered, metrics.unparsable) == (2, 1, 1)
    assert (metrics.accuracy, metrics.pass_at_k, metrics.majority) == (0.25, None, None)


def test_samples_are_counted_by_subtask_whatever_became_of_them() -> None:
    totals = RunningTotals()
    lost = LeftOut(source="grader", cause=InfrastructureCause.TIMED_OUT, message="slow")
    for each in (
        row(0).model_copy(update={"group": "a"}),
        unanswered(1).model_copy(update={"group": "a"}),
        ResultRow(index=2, group="a", gold=["4"], answer="4", correct=None, error="no judge"),
        unanswered(3).model_copy(update={"group": "b"}),
        row(4).model_copy(update={"group": "b", "left_out": lost}),
        row(5),
    ):
        totals.add(each)

    found = {name: each.model_dump() for name, each in (totals.metrics().subtasks or {}).items()}
    assert found == {
        "a": {"samples": 3, "errors": 2, "unanswered": 1},
        "b": {"samples": 1, "errors": 1, "unanswered": 1},
    }


def test_the_mean_score_has_an_error_over_items() -> None:
    totals = RunningTotals(samples_per_item=2)
    for index, scores in enumerate([(0.0, 1.0), (1.0, 2.0), (4.0, 4.0)]):
        for score in scores:
            totals.add(row(index, correct=False).model_copy(update={"score": score}))
    metrics = totals.metrics()
    # Means of items 0.5, 1.5 and 4 around 2: sqrt((1.5^2 + 0.5^2 + 2^2) / 2 / 3)
    assert metrics.mean_score == pytest.approx(2)
    assert metrics.mean_score_stderr == pytest.approx((6.5 / 6) ** 0.5)
    assert metrics.mean_score_ci95 == pytest.approx((2 - 2.040, 2 + 2.040), abs=1e-3)


def test_the_mean_score_of_right_answers_has_the_interval_of_the_accuracy() -> None:
    totals = RunningTotals()
    for index in range(10):
        score = float(index > 0)
        totals.add(row(index, correct=index > 0).model_copy(update={"score": score}))
    metrics = totals.metrics()

    assert metrics.mean_score_ci95 == pytest.approx(metrics.ci95)


def test_answers_that_ended_at_a_limit_are_counted() -> None:
    totals = RunningTotals()
    endings = ["stop", "length", "reply_too_long", "answered", None, "length"]
    for index, ending in enumerate(endings):
        totals.add(row(index, correct=index == 1).model_copy(update={"finish_reason": ending}))
    lost = LeftOut(source="grader", cause=InfrastructureCause.TIMED_OUT, message="slow")
    totals.add(row(6).model_copy(update={"finish_reason": "length", "left_out": lost}))
    totals.add(unanswered(7))
    metrics = totals.metrics()

    assert (metrics.cut_off, metrics.cut_off_share) == (3, 0.5)
    old = EvaluationMetrics.model_validate(metrics.model_dump(exclude={"cut_off"}))
    assert (old.cut_off, old.cut_off_share) == (None, None)


SCORES = st.lists(
    st.lists(st.none() | st.floats(-5, 5, width=16), min_size=2, max_size=2),
    min_size=1,
    max_size=6,
)


def scored(
    items: list[list[float | None]], *, lower_is_better: bool = False, lost: bool = False
) -> EvaluationMetrics:
    """Metrics of items with these scores; None: the answer could not be graded, or was lost."""
    totals = RunningTotals(len(items[0]), lower_is_better=lower_is_better)
    infrastructure = LeftOut(source="grader", cause=InfrastructureCause.TIMED_OUT, message="slow")
    for index, scores in enumerate(items):
        for number, score in enumerate(scores):
            given = {"sample": number, "score": score, "error": None if score else "not JSON"}
            graded = row(index, correct=None if score is None else False)
            totals.add(graded.model_copy(update=given))
        if lost:
            absent = {"sample": len(scores), "left_out": infrastructure}
            totals.add(row(index, correct=None).model_copy(update=absent))
    return totals.metrics()


def test_answers_that_could_not_be_graded_count_as_the_worst_score() -> None:
    one_of_ten = scored([[None if number else 1.0] for number in range(10)])
    assert one_of_ten.mean_score == pytest.approx(0.1)
    assert one_of_ten.worst_score == 0.0
    assert one_of_ten.mean_score_stderr == pytest.approx(0.1)
    assert scored([[-2.0], [1.0], [None]]).mean_score == pytest.approx(-1)
    assert scored([[2.0], [4.0], [None]], lower_is_better=True).mean_score == pytest.approx(10 / 3)
    assert scored([[None]]).mean_score == 0.0
    assert scored([[None]], lower_is_better=True).mean_score is None


@given(SCORES, st.booleans())
def test_an_answer_without_a_grade_never_helps_and_a_lost_one_changes_nothing(
    items: list[list[float | None]], lower_is_better: bool
) -> None:
    found = scored(items, lower_is_better=lower_is_better)
    given_scores = [score for scores in items for score in scores if score is not None]
    if found.mean_score is None:
        assert not given_scores
        return
    sign = -1 if lower_is_better else 1
    if given_scores:
        survivors = sum(given_scores) / len(given_scores)
        assert sign * found.mean_score <= sign * survivors + 1e-9
    lost = scored(items, lower_is_better=lower_is_better, lost=True)
    assert (lost.mean_score, lost.worst_score) == (found.mean_score, found.worst_score)


def test_samples_that_were_lost_raise_no_pass_at_k() -> None:
    totals = RunningTotals(8)
    for index in range(10):
        for number in range(8 if index < 3 else 7):
            totals.add(sample(index, number, "4" if index < 3 else "5"))
    metrics = totals.metrics()
    assert metrics.pass_at_k is not None
    means = {k: each.mean for k, each in metrics.pass_at_k.items()}
    assert means == {k: pytest.approx(0.3) for k in ("1", "2", "4", "8")}
