"""Metrics downsampled for a plot: no extreme is lost, and the number of points is bounded."""

import json
import math
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.api.jobs.curve_files import CurveFile, CurveFiles, read_range
from services.api.jobs.downsampled_curves import DownsampledCurve
from services.api.jobs.step_set import StepSet
from services.contracts.jobs import Curve

VALUES = st.floats(allow_nan=False, allow_infinity=False, width=32)


def downsampled(values: list[float], points: int) -> Curve:
    curve = DownsampledCurve(points)
    for begin in range(0, len(values), 7):
        block = values[begin : begin + 7]
        steps = range(begin, begin + len(block))
        curve.extend(steps, block, [100.0 + step for step in steps])
    return curve.result()


def untimed(steps: list[int], values: list[float]) -> Curve:
    return Curve(steps=steps, values=values, times=[None] * len(steps))


@given(values=st.lists(VALUES, min_size=1, max_size=300), points=st.integers(4, 400))
def test_extremes_ends_and_the_bound_are_kept(values: list[float], points: int) -> None:
    curve = downsampled(values, points)

    assert len(curve.steps) <= points
    assert curve.steps == sorted(set(curve.steps))
    assert all(values[step] == value for step, value in zip(curve.steps, curve.values, strict=True))
    assert curve.times == [100.0 + step for step in curve.steps]
    assert (min(curve.values), max(curve.values)) == (min(values), max(values))
    assert (curve.steps[0], curve.steps[-1]) == (0, len(values) - 1)


@given(
    values=st.lists(VALUES | st.just(math.nan), min_size=1, max_size=300),
    points=st.integers(4, 400),
)
def test_the_means_of_the_intervals_are_those_of_all_values(
    values: list[float], points: int
) -> None:
    curve = downsampled(values, points)

    finite = [value for value in values if math.isfinite(value)]
    assert curve.nonfinite_count == len(values) - len(finite)
    if not curve.interval_ends:
        assert curve.values == finite
        return
    assert sum(curve.interval_counts) == len(finite)
    assert curve.interval_ends == sorted(set(curve.interval_ends))
    begin = 0
    for end, mean, count in zip(
        curve.interval_ends, curve.interval_means, curve.interval_counts, strict=True
    ):
        inside = [value for value in values[begin : end + 1] if math.isfinite(value)]
        assert len(inside) == count
        size = max(map(abs, inside))
        assert mean == pytest.approx(math.fsum(inside) / count, rel=1e-9, abs=1e-9 * size)
        begin = end + 1


def test_few_points_are_unchanged() -> None:
    few = Curve(steps=[0, 1, 2], values=[3.0, 1.0, 2.0], times=[100.0, 101.0, 102.0])
    assert downsampled([3.0, 1.0, 2.0], 100) == few


def test_the_latest_value_of_a_repeated_step_wins() -> None:
    at_once, in_turn = DownsampledCurve(100), DownsampledCurve(100)
    points = [(1, 5.0, 10.0), (2, 9.0, 11.0), (2, 4.0, 12.0), (3, 3.0, 13.0)]
    at_once.extend(*zip(*points, strict=True))
    for step, value, time in points:
        in_turn.extend([step], [value], [time])

    expected = Curve(steps=[1, 2, 3], values=[5.0, 4.0, 3.0], times=[10.0, 12.0, 13.0])
    assert at_once.result() == in_turn.result() == expected


def test_a_file_of_metrics_becomes_curves_by_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"step": 1, "time": 5.0, "loss": 2.0}, {"step": 2, "loss": 1.0, "reward": 0.5}]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert CurveFile(path, 100).read().metrics == {
        "loss": Curve(steps=[1, 2], values=[2.0, 1.0], times=[5.0, None]),
        "reward": untimed([2], [0.5]),
    }


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[1]",
        b"not json",
        b'{"loss": 1}',
        b'{"step": -1, "loss": 1}',
        b'{"step": 1e400, "loss": 1}',
        b'{"step": 1, "loss": "1"}',
        b'{"step": 1, "loss": 1',
    ],
)
def test_lines_without_a_number_are_left_out(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b'{"step": 0, "loss": 7}\n' + line + b'\n{"step": 2, "loss": 8}\n')

    assert CurveFile(path, 100).read().metrics["loss"] == untimed([0, 2], [7.0, 8.0])


@pytest.mark.parametrize("value", ["null", "NaN", "Infinity", "-1e400", "9" * 400])
def test_steps_whose_value_is_not_finite_are_named(tmp_path: Path, value: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 0, "loss": 7}}\n{{"step": 1, "loss": {value}}}\n')

    loss = CurveFile(path, 100).read().metrics["loss"]
    assert (loss.steps, loss.values, loss.nonfinite_steps) == ([0], [7.0], [1])


@given(finite=st.lists(st.booleans(), min_size=1, max_size=200), points=st.integers(4, 400))
def test_steps_that_are_not_finite_are_bounded_and_true(finite: list[bool], points: int) -> None:
    values = [float(step) if is_finite else math.nan for step, is_finite in enumerate(finite)]
    curve = downsampled(values, points)

    gone = curve.nonfinite_steps
    assert len(gone) <= max(1, points // 4)
    assert gone == sorted(gone)
    assert not any(finite[step] for step in gone)
    assert bool(gone) == (False in finite)
    assert points < 4 * len(finite) or gone == [n for n, ok in enumerate(finite) if not ok]


def test_a_step_that_is_reported_again_is_repaired() -> None:
    curve = DownsampledCurve(100)
    curve.extend([1, 2], [math.nan, math.nan], [1.0, 2.0])
    curve.extend([2], [5.0], [3.0])

    assert (curve.result().steps, curve.result().nonfinite_steps) == ([2], [1])
    assert curve.result().nonfinite_count == 1
    curve.extend([2], [math.nan], [4.0])
    assert (curve.result().steps, curve.result().nonfinite_steps) == ([], [1, 2])


@given(
    steps=st.lists(st.integers(0, 5000) | st.integers(2**40, 2**40 + 9), max_size=60),
    gone=st.lists(st.integers(0, 5000), max_size=60),
    power=st.integers(0, 14),
)
def test_a_set_of_steps_is_one(steps: list[int], gone: list[int], power: int) -> None:
    found, width = StepSet(), 2**power
    found.add(steps)
    found.discard([*gone, *steps[:3]])

    kept = set(steps) - {*gone, *steps[:3]}
    assert len(found) == len(kept)
    assert {step for step in {*steps, *gone} if step in found} == kept
    first = {step // width: step for step in sorted(kept, reverse=True)}
    assert found.firsts(width) == sorted(first.values())


def test_means_of_huge_values_are_finite_and_repeated_steps_count_once() -> None:
    curve = DownsampledCurve(4)
    curve.extend(range(8), [1.5e308] * 8, [0.0] * 8)
    curve.extend(range(4, 8), [1.5e308] * 4, [0.0] * 4)

    found = curve.result()
    assert (found.interval_ends, found.interval_counts) == ([7], [8])
    assert found.interval_means == [pytest.approx(1.5e308)]


def test_a_growing_file_is_read_incrementally(tmp_path: Path) -> None:
    path, files = tmp_path / "metrics.jsonl", CurveFiles()
    path.write_text('{"step": 1, "loss": 3}\n{"step": 2, "lo')
    assert files.read(path, 100).metrics == {"loss": untimed([1], [3.0])}

    with path.open("a") as file:
        file.write('ss": 2}\n{"step": 3, "loss": 1, "reward": 5}\n')

    grown = files.read(path, 100)
    assert grown == CurveFile(path, 100).read()
    assert grown.metrics["loss"] == untimed([1, 2, 3], [3.0, 2.0, 1.0])


@pytest.mark.parametrize("time", ['"5"', "true", "null", "-1", "1e400", "NaN", "[5]"])
def test_an_invalid_time_is_unknown(tmp_path: Path, time: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "time": {time}, "loss": 3}}\n')

    assert CurveFile(path, 100).read().metrics["loss"] == untimed([1], [3.0])


@pytest.mark.parametrize("is_replaced", [True, False])
def test_a_rewritten_file_is_read_from_the_beginning(tmp_path: Path, *, is_replaced: bool) -> None:
    path, files = tmp_path / "metrics.jsonl", CurveFiles()
    path.write_text('{"step": 1, "loss": 3}\n{"step": 2, "loss": 2}\n')
    files.read(path, 100)

    if is_replaced:
        path.unlink()
    path.write_text('{"step": 1, "kl": 3}\n{"step": 2, "kl": 2}\n{"step": 3, "kl": 1}\n')

    assert set(files.read(path, 100).metrics) == {"kl"}


@given(
    values=st.lists(VALUES, min_size=1, max_size=300),
    bounds=st.tuples(st.integers(0, 320), st.integers(0, 320)),
)
def test_a_range_has_only_the_points_of_its_steps(
    values: list[float], bounds: tuple[int, int]
) -> None:
    steps = range(min(bounds), max(bounds) + 1)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "metrics.jsonl"
        lines = [{"step": step, "loss": value} for step, value in enumerate(values)]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        found = read_range(path, 40, steps)

    inside = {step: values[step] for step in steps if step < len(values)}
    if not inside:
        assert found.metrics == {}
        return
    loss = found.metrics["loss"]
    shown = dict(zip(loss.steps, loss.values, strict=True))
    assert shown.items() <= inside.items()
    assert len(shown) <= 40
    assert not found.complete or shown == inside
    assert {min(inside), max(inside)} <= shown.keys()
    for extreme in (min, max):
        assert extreme(shown.values()) == extreme(inside.values())


def test_downsampled_curves_are_incomplete_and_a_range_of_them_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [{"loss": step / 7, "step": step} for step in range(1000)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    assert not CurveFile(path, 100).read().complete
    found = read_range(path, 100, range(500, 520))
    assert found.complete
    steps = list(range(500, 520))
    assert found.metrics == {"loss": untimed(steps, [step / 7 for step in steps])}
