import pytest

from temper.cli.units import duration, number, size


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(-1, "0s"), (8.4, "8s"), (59.6, "1m00s"), (250, "4m10s"), (7500, "2h05m"), (273_600, "3d4h")],
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said


@pytest.mark.parametrize(
    ("count", "said"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 KB"), (2 * 10**13, "20 TB")]
)
def test_sizes(count: int, said: str) -> None:
    assert size(count) == said


@pytest.mark.parametrize(
    ("value", "said"),
    [(3.0, "3"), (0.000123456, "0.0001235"), (1e-7, "1e-07"), (12345.6, "12,346")],
)
def test_numbers(value: float, said: str) -> None:
    assert number(value) == said
