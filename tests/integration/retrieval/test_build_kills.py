"""SIGKILL at any moment of a build loses nothing that was served, and the build resumes."""

import shutil
import signal
from pathlib import Path

import pytest

from services.contracts.retrieval.indexes import IndexMode
from services.core.process.reporter import RESULT
from services.retrieval.store.query import Query
from services.retrieval.store.store import remove_atomically
from tests.support.search.crash_points import crash_points
from tests.support.search.hashing_encoder import HashingEncoder
from tests.support.search.index_building import IndexFolder, rows
from tests.support.waiting import wait_for

OLD = [f"old-{number}" for number in range(30)]
NEW = [f"new-{number}" for number in range(100)]


@pytest.fixture
def folder(tmp_path: Path) -> IndexFolder:
    """A folder with an index of the old passages."""
    folder = IndexFolder(tmp_path)
    first = folder.order("library", folder.corpus("old.jsonl", rows(30, "old")))
    first.run()
    first.built()
    return folder


@pytest.mark.parametrize("mode", [IndexMode.BM25, IndexMode.HYBRID])
def test_a_build_can_be_killed_at_any_moment(folder: IndexFolder, mode: IndexMode) -> None:
    corpus = folder.corpus("new.jsonl", rows(100, "new"))
    shutil.copytree(folder.indexes, folder.path / "before")
    moment, outcomes = 0, []
    with crash_points(folder.environment) as points:
        while True:
            moment += 1
            # As the store does: tantivy may still make a lock file in what was opened here.
            remove_atomically(folder.indexes, folder.path)
            shutil.copytree(folder.path / "before", folder.indexes)
            order = folder.order("library", corpus, mode)
            died = points.dies(order.folder, moment)
            answering = folder.ids("library")
            assert answering in (OLD, NEW), moment
            outcomes.append(answering == NEW)
            if not died:
                break
            switched = folder.store.version("library") if answering == NEW else None
            assert not points.dies(order.folder, 0), moment
            assert folder.ids("library") == NEW, moment
            if mode is IndexMode.HYBRID:
                assert nearest(folder, '"new 7"\nnew 7') == "new-7", moment
            built = order.built()
            assert built.metrics.documents == 100
            assert built.version == folder.store.version("library")
            assert switched in (None, built.version), "what was done is not done again"
            assert index_entries(folder) == ["current", "lock", "v", "v"], moment
    assert moment > 20  # the build was killed at least once
    assert outcomes == sorted(outcomes)  # the switch is permanent


def test_a_build_can_be_killed_repeatedly(folder: IndexFolder) -> None:
    order = folder.order("library", folder.corpus("new.jsonl", rows(100, "new")))
    deaths = 0
    with crash_points(folder.environment) as points:
        while points.dies(order.folder, 5 + 3 * deaths):  # kill a little later each time
            deaths += 1
            assert folder.ids("library") in (OLD, NEW)
    assert deaths > 2
    assert folder.ids("library") == NEW


def nearest(folder: IndexFolder, text: str) -> str:
    """The id of the passage whose vector is closest to a text's."""
    (vector,) = HashingEncoder().encode([text])
    index = folder.store.open("library").index
    try:
        ((hit,),) = index.search([Query(text, IndexMode.DENSE, 1, vector=vector)])
        return hit.id
    finally:
        index.close()


def index_entries(folder: IndexFolder) -> list[str]:
    """The entries of an index folder, with versions as ``v``."""
    names = [path.name for path in (folder.indexes / "library").iterdir()]
    return sorted("v" if name.startswith("v") else name for name in names)


def test_a_killed_build_resumes_from_its_last_commit(folder: IndexFolder) -> None:
    """The real process, killed each time its folder has grown."""
    corpus = folder.corpus("new.jsonl", rows(35_000, "new"))
    order = folder.order("library", corpus)
    places = folder.indexes / "library" / "building" / "passages" / "places"
    seen = []
    for _ in range(3):
        with order.process() as process:
            wait_until_larger(places)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert not (order.folder / RESULT).exists()
        assert folder.ids("library") == OLD
        seen.append(size(places))
    assert seen == sorted(seen)

    order.run()

    assert order.built().metrics.documents == 35_000
    told = [report["message"] for report in order.reports("message")]
    assert told == ["resuming an earlier attempt"] * 3
    assert folder.store.summary("library").documents == 35_000


def wait_until_larger(path: Path) -> None:
    before = size(path)
    wait_for(lambda: size(path) > before, f"{path} has grown", 60)


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def test_a_terminated_build_stops_and_resumes_later(folder: IndexFolder) -> None:
    order = folder.order("library", folder.corpus("new.jsonl", rows(35_000, "new")))
    building = folder.indexes / "library" / "building"
    with order.process() as process:
        wait_for(building.exists, "the build has begun", 60)
        process.terminate()
        assert process.wait(60) == 128 + signal.SIGTERM

    order.run()

    assert order.built().metrics.documents == 35_000
