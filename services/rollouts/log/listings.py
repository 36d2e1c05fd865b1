"""Listings of jobs that may still append trajectories, cached between requests."""

from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from services.rollouts.log.columns import read_columns
from services.rollouts.log.index import ENTRY, INDEX, TRAJECTORIES
from services.rollouts.log.listing import Listing

MAX_LISTINGS = 16
MAX_ENTRIES = 1_500_000
"""Maximum entries of all cached listings; an entry takes 45 bytes."""


class GrowingListing:
    """The listing of one job; each `read` adds its new trajectories."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        self._reset()

    def __len__(self) -> int:
        return len(self._listing)

    def _reset(self) -> None:
        self._listing = Listing()
        self._count = 0
        self._last = b""  # entry, to detect a rewritten index

    def read(self) -> Listing:
        """The current trajectories, also while the job runs; empty without files."""
        with self._lock:
            try:
                with open(self._folder / INDEX, "rb") as file:
                    self._append_new(file)
                size = (self._folder / TRAJECTORIES).stat().st_size
            except FileNotFoundError:
                self._reset()
                return self._listing
            if self._listing.end <= size:
                return self._listing
            inside = self._listing.within(size)
            self._reset()  # a resuming training is truncating both files
            return inside

    def _append_new(self, file: BinaryIO) -> None:
        if self._entry(file, self._count - 1) != self._last:
            self._reset()
        new = read_columns(file, self._count)
        if len(new):
            self._listing = self._listing.extended(new)
            self._count += len(new)
            self._last = self._entry(file, self._count - 1)

    def _entry(self, file: BinaryIO, position: int) -> bytes:
        """The bytes of an entry; empty for the position before the first."""
        if position < 0:
            return b""
        file.seek(position * ENTRY.itemsize)
        return file.read(ENTRY.itemsize)


class ListingCache:
    """An LRU cache of listings, so that a page of a million trajectories does not re-read their
    whole index."""

    def __init__(self, max_listings: int = MAX_LISTINGS, max_entries: int = MAX_ENTRIES) -> None:
        self._max_listings, self._max_entries = max_listings, max_entries
        self._lock = Lock()
        self._kept: OrderedDict[Path, GrowingListing] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def open(self, folder: Path) -> Listing:
        """The trajectories of a job at this moment."""
        with self._lock:
            kept = self._kept.setdefault(folder, GrowingListing(folder))
            self._kept.move_to_end(folder)
        listing = kept.read()
        with self._lock:
            while len(self._kept) > self._max_listings or self._entries() > self._max_entries:
                self._kept.popitem(last=False)
        return listing

    def _entries(self) -> int:
        return sum(len(each) for each in self._kept.values())


_listings = ListingCache()


def open_kept(folder: Path) -> Listing:
    """The current trajectories of a job, cached for a process that serves many requests."""
    return _listings.open(folder)
