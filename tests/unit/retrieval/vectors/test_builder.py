"""Building a vector index, and resuming interrupted builds."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors import clusters
from services.retrieval.vectors.builder import DenseBuilder, DenseParameters
from services.retrieval.vectors.errors import DimensionMismatch, InvalidVector, VectorsUnusable
from services.retrieval.vectors.index import DenseIndex
from tests.unit.retrieval.vectors.conftest import DIMENSION, Build, clustered, nearest, recall

KINDS = [kind for kind in DenseKind if kind is not DenseKind.AUTO]

ENDLESS = """
import sys
from pathlib import Path
import numpy as np
from services.retrieval.vectors.builder import DenseBuilder
from services.retrieval.vectors.builder import DenseParameters

builder = DenseBuilder(Path(sys.argv[1]), DenseParameters(32))
while True:
    rows = np.arange(builder.rows, builder.rows + 100)
    rows = builder.append(np.eye(32, dtype=np.float32)[rows % 32])
    print(rows, flush=True)
"""


class Ended(Exception):
    """Stands in for the end of the process."""


def make(
    folder: Path, kind: DenseKind = DenseKind.FLAT, dimension: int = DIMENSION
) -> DenseBuilder:
    return DenseBuilder(folder, DenseParameters(dimension, kind))


def test_vectors_appended_by_a_killed_process_survive(folder: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(folder)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    with process:
        lines = [process.stdout.readline() for _ in range(5)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    acknowledged = int([line for line in lines if line.endswith("\n")][-1])
    with make(folder) as builder:
        rows = builder.rows
        assert acknowledged <= rows <= acknowledged + 100
        builder.finish()
    expected = np.eye(32, dtype=np.float32)[np.arange(rows) % 32]
    found = DenseIndex.open(folder).search(expected[:32], rows).scores
    assert ((found > 0.5).sum(axis=1) == np.bincount(np.arange(rows) % 32)).all()


def test_a_partial_vector_is_truncated(folder: Path) -> None:
    with make(folder) as builder:
        builder.append(clustered(3))
    with open(folder / "vectors.f32", "ab") as file:
        file.write(b"half")
    with make(folder) as builder:
        assert builder.rows == 3
        assert builder.append(clustered(2)) == 5


def test_vectors_can_be_truncated_at_a_row(folder: Path) -> None:
    vectors = clustered(30)
    with make(folder) as builder:
        builder.append(vectors)
        builder.truncate(10)
        assert builder.append(vectors[20:]) == 20
        builder.finish()
    found = DenseIndex.open(folder).search(vectors[20:], 1).numbers[:, 0]
    assert found.tolist() == list(range(10, 20))


@pytest.mark.parametrize("kind", KINDS)
def test_a_build_interrupted_at_any_step_resumes(
    kind: DenseKind, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters, "BLOCK_BYTES", 1)
    monkeypatch.setattr(clusters, "_CHUNK", 1000)
    vectors, queries = clustered(3500), clustered(20, seed=1)
    with make(folder, kind) as builder:
        builder.append(vectors)
    told: list[float] = []
    for steps in range(1, 40):
        left = steps

        def end_soon(part: float) -> None:
            nonlocal left
            told.append(part)
            left -= 1
            if not left:
                raise Ended

        with make(folder, kind) as builder:
            assert builder.rows == 3500
            try:
                builder.finish(end_soon)
                break
            except Ended:
                continue
    else:
        pytest.fail("the build never ended")
    assert 0 <= min(told) <= max(told) == 1
    index = DenseIndex.open(folder)
    assert recall(index.search(queries, 10).numbers, nearest(queries, vectors, 10)) >= 0.93
    assert not list(folder.glob("*.partial")) + list(folder.glob("block-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_half_written_files_are_rewritten(kind: DenseKind, folder: Path) -> None:
    vectors = clustered(2000)

    def end(part: float) -> None:
        if part == 1:
            raise Ended

    with make(folder, kind) as builder:
        builder.append(vectors)
        with pytest.raises(Ended):
            builder.finish(end)
    for name in ("lists.bin", "base.faiss", "base.faiss.partial", "quantizer.faiss.partial"):
        (folder / name).write_bytes(b"half of a file")
    if (folder / "codes.u8").exists():
        os.truncate(folder / "codes.u8", 1000 * DIMENSION + 5)
    with make(folder, kind) as builder:
        builder.finish()
    found = DenseIndex.open(folder).search(vectors[::100], 1).numbers[:, 0]
    assert found.tolist() == list(range(0, 2000, 100))


def test_a_finished_index_stays_finished(folder: Path) -> None:
    with make(folder, DenseKind.SQ8) as builder:
        builder.append(clustered(2000))
        builder.finish()
        before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
        builder.finish()
    with make(folder, DenseKind.SQ8) as builder:
        builder.finish()
        assert (builder.rows, builder.kind) == (2000, DenseKind.SQ8)
        with pytest.raises(ValueError, match="finished"):
            builder.append(clustered(1))
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before


def test_additions_survive_reopening_the_builder(build: Build, folder: Path) -> None:
    build(DenseKind.FLAT, clustered(10)).add(np.array([10]), clustered(1, seed=9))
    with make(folder) as builder:
        builder.finish()
    assert DenseIndex.open(folder).added == 1


def test_leftovers_of_another_kind_are_not_used(folder: Path) -> None:
    vectors = clustered(2000)

    def end(part: float) -> None:
        raise Ended

    with make(folder, DenseKind.RABITQ) as builder:
        builder.append(vectors)
        with pytest.raises(Ended):
            builder.finish(end)
    with make(folder, DenseKind.IVFPQ) as builder:
        builder.finish()
    found = DenseIndex.open(folder).search(vectors[:20], 1).numbers[:, 0]
    assert found.tolist() == list(range(20))


def test_vectors_of_another_dimension_are_refused(folder: Path) -> None:
    with make(folder) as builder:
        with pytest.raises(DimensionMismatch):
            builder.append(np.ones((2, DIMENSION + 1)))
        builder.append(clustered(2))
        builder.finish()
    with pytest.raises(DimensionMismatch):
        make(folder, dimension=DIMENSION * 2)


def test_a_non_finite_vector_is_named_and_none_is_kept(folder: Path) -> None:
    vectors = clustered(5)
    vectors[3, 1] = np.nan
    with make(folder) as builder:
        with pytest.raises(InvalidVector, match="vector 3 "):
            builder.append(vectors)
        assert builder.rows == 0


def test_an_unfinished_index_cannot_be_opened(folder: Path) -> None:
    with make(folder) as builder:
        builder.append(clustered(5))
    with pytest.raises(VectorsUnusable, match=r"dense\.json: missing"):
        DenseIndex.open(folder)


@pytest.mark.parametrize("kind", KINDS)
def test_missing_truncated_and_damaged_files_are_named(
    kind: DenseKind, build: Build, folder: Path
) -> None:
    build(kind, clustered(1500)).close()
    for path in [each for each in folder.iterdir() if each.name != "dense.json"]:
        content = path.read_bytes()
        for damaged in (
            None,
            content[:-1],
            content[: len(content) // 2] + b"~" + content[len(content) // 2 + 1 :],
        ):
            path.unlink(missing_ok=True)
            if damaged is not None:
                path.write_bytes(damaged)
            with pytest.raises(VectorsUnusable, match=path.name):
                DenseIndex.open(folder)
        path.write_bytes(content)
    DenseIndex.open(folder)


def test_an_invalid_description_is_named(build: Build, folder: Path) -> None:
    build(DenseKind.FLAT, clustered(5)).close()
    for nonsense in ("", "{}", '{"kind": "other"}'):
        (folder / "dense.json").write_text(nonsense)
        with pytest.raises(VectorsUnusable, match=r"dense\.json"):
            DenseIndex.open(folder)


def test_an_index_can_be_moved(build: Build, folder: Path, tmp_path: Path) -> None:
    vectors = clustered(1500)
    build(DenseKind.RABITQ, vectors).close()
    folder.rename(tmp_path / "moved")
    found = DenseIndex.open(tmp_path / "moved").search(vectors[:10], 1).numbers[:, 0]
    assert found.tolist() == list(range(10))


def test_opening_maps_the_vectors_and_does_not_read_them(build: Build, folder: Path) -> None:
    build(DenseKind.RABITQ, clustered(4000, dimension=256)).close()
    mapped = [line for line in _maps() if str(folder) in line]
    index = DenseIndex.open(folder)
    now = [line for line in _maps() if str(folder) in line]
    assert not mapped
    assert any("lists.bin" in line for line in now)
    assert index.held_bytes < 0.1 * index.memory_bytes


def _maps() -> list[str]:
    return Path(f"/proc/{os.getpid()}/maps").read_text().splitlines()
