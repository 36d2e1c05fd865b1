"""The meter of downloads: totals, rates and what is left."""

import pytest

from services.models.hub_download import DownloadStopped, Meter, Transfer

MIB = 1 << 20


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def told() -> list[Transfer]:
    return []


@pytest.fixture
def meter(clock: Clock, told: list[Transfer]) -> Meter:
    return Meter(told.append, clock)


def test_the_rate_is_of_what_comes_and_not_of_what_was_here(
    meter: Meter, clock: Clock, told: list[Transfer]
) -> None:
    meter.expect(100 * MIB)
    meter.add(50 * MIB)
    clock.now = 2.0
    meter.receive(10 * MIB)
    meter.tell()

    assert told == [Transfer(60 * MIB, 100 * MIB, 5.0 * MIB, 8.0)]


def test_the_rate_is_of_the_last_ten_seconds(
    meter: Meter, clock: Clock, told: list[Transfer]
) -> None:
    meter.expect(1000 * MIB)
    for second in range(1, 41):
        clock.now = float(second)
        meter.receive((10 if second <= 20 else 1) * MIB)
        meter.tell()

    assert told[-1].per_second == MIB


def test_nothing_is_told_again_while_nothing_comes(
    meter: Meter, clock: Clock, told: list[Transfer]
) -> None:
    meter.expect(10 * MIB)
    meter.receive(MIB)
    for second in range(1, 101):
        clock.now = float(second)
        meter.tell()

    assert (told[-1].per_second, told[-1].eta_seconds) == (0.0, None)
    assert len(told) < 20


def test_a_file_that_is_begun_again_is_counted_once(meter: Meter, told: list[Transfer]) -> None:
    meter.expect(10 * MIB)
    meter.receive(4 * MIB)
    meter.receive(-4 * MIB)
    meter.receive(10 * MIB)
    meter.tell()

    assert told == [Transfer(10 * MIB, 10 * MIB, None, None)]


def test_a_stopped_download_ends_before_its_next_bytes(meter: Meter) -> None:
    meter.stop()

    with pytest.raises(DownloadStopped):
        meter.receive(1)
