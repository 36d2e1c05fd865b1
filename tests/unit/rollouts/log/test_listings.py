"""Listings that are kept between requests, of jobs that go on, start over or are deleted."""

from pathlib import Path

import pytest

from services.contracts.rollouts.rollouts import TrajectoryOrder
from services.contracts.rollouts.trajectories import Trajectory
from services.rollouts.log import columns, listing
from services.rollouts.log.filter import TrajectoryFilter
from services.rollouts.log.index import INDEX, TRAJECTORIES
from services.rollouts.log.listing import Listing
from services.rollouts.log.listings import GrowingListing, ListingCache
from services.rollouts.log.log import IndexedLog, open_listing, read_places
from services.rollouts.log.updates import UpdateLog
from tests.support.trajectories import trajectory


def write(folder: Path, *trajectories: Trajectory, keep: int | None = None) -> None:
    folder.mkdir(exist_ok=True)
    with IndexedLog(folder, keep=keep) as log:
        for each in trajectories:
            log.append(each)


def shown(folder: Path, listing: Listing) -> list[tuple[str, float | None]]:
    """Ids and rewards in the order in which the trajectories ended."""
    return [(each.id, each.reward) for each in read_places(folder, listing.places())]


def test_a_cached_listing_adds_new_trajectories(tmp_path: Path) -> None:
    kept = GrowingListing(tmp_path)
    write(tmp_path, trajectory(0, reward=0.0))
    first = kept.read()
    write(tmp_path, trajectory(1, reward=1.0))

    assert shown(tmp_path, kept.read()) == [("traj-0-0", 0.0), ("traj-1-0", 1.0)]
    assert shown(tmp_path, first) == [("traj-0-0", 0.0)]
    assert kept.read() is kept.read()


def test_a_trajectory_that_is_written_again_is_listed_once(tmp_path: Path) -> None:
    kept = GrowingListing(tmp_path)
    write(tmp_path, trajectory(0, reward=0.0), trajectory(1, reward=1.0))
    kept.read()
    write(tmp_path, trajectory(0, reward=0.5), trajectory(2), trajectory(2, reward=2.0))

    found = shown(tmp_path, kept.read())

    assert found == [("traj-1-0", 1.0), ("traj-0-0", 0.5), ("traj-2-0", 2.0)]
    assert found == shown(tmp_path, open_listing(tmp_path))


def test_resuming_from_a_checkpoint_replaces_later_trajectories(
    tmp_path: Path,
) -> None:
    kept = GrowingListing(tmp_path)
    write(tmp_path, trajectory(0, reward=0.0), trajectory(1, reward=1.0))
    kept.read()
    write(tmp_path, trajectory(2, reward=2.0), trajectory(3, reward=3.0), keep=1)

    expected = [("traj-0-0", 0.0), ("traj-2-0", 2.0), ("traj-3-0", 3.0)]
    assert shown(tmp_path, kept.read()) == expected


def test_the_steps_of_a_cached_listing_are_current(tmp_path: Path) -> None:
    write(tmp_path, trajectory(0), trajectory(1))
    listing = GrowingListing(tmp_path).read()
    before = listing.steps(tmp_path).tolist()
    with UpdateLog(tmp_path, keep=0) as log:
        log.append(1, ["traj-1-0"], None)
        between = listing.steps(tmp_path).tolist()
        log.append(2, ["traj-0-0", "traj-9-0"], None)

    assert (before, between) == ([0, 0], [0, 1])
    assert listing.steps(tmp_path).tolist() == [2, 1]


def test_lines_that_were_cut_off_are_not_listed(tmp_path: Path) -> None:
    kept = GrowingListing(tmp_path)
    write(tmp_path, trajectory(0, reward=0.0), trajectory(1, reward=1.0))
    (place, _) = kept.read().places()
    with open(tmp_path / TRAJECTORIES, "r+b") as file:
        file.truncate(place.end)

    assert shown(tmp_path, kept.read()) == [("traj-0-0", 0.0)]
    write(tmp_path, trajectory(4, reward=4.0))
    assert shown(tmp_path, kept.read()) == [("traj-0-0", 0.0), ("traj-4-0", 4.0)]


def test_without_files_a_listing_is_empty(tmp_path: Path) -> None:
    kept = GrowingListing(tmp_path)
    assert not len(kept.read())
    write(tmp_path, trajectory(0))
    assert len(kept.read()) == 1
    (tmp_path / INDEX).unlink()
    assert not len(kept.read())


def test_an_index_is_read_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "BLOCK", 2)
    monkeypatch.setattr(listing, "BLOCK", 2)
    write(tmp_path, *(trajectory(number, reward=float(number % 3)) for number in range(7)))

    opened = open_listing(tmp_path)
    places, has_more = opened.page(
        TrajectoryFilter(min_reward=1), TrajectoryOrder.REWARD, descending=True, after=None, limit=9
    )

    assert len(opened) == 7
    assert [each.prompt_index for each in read_places(tmp_path, places)] == [5, 2, 4, 1]
    assert not has_more


def test_the_listing_cache_is_bounded_by_listings_and_entries(tmp_path: Path) -> None:
    kept = ListingCache(max_listings=2, max_entries=4)
    sizes = {"one": 1, "two": 2, "three": 3, "five": 5}
    for name, size in sizes.items():
        write(tmp_path / name, *(trajectory(number) for number in range(size)))

    lengths, counts = [], []
    for name in ("one", "two", "one", "three", "two", "five"):
        lengths.append(len(kept.open(tmp_path / name)))
        counts.append(len(kept))

    assert lengths == [1, 2, 1, 3, 2, 5]
    assert counts == [1, 2, 2, 2, 1, 0]  # one larger than the limit is not cached
