"""The kinds of vector index: choosing, building and opening one."""

from collections.abc import Iterable
from pathlib import Path

from services.contracts.retrieval.indexes import DenseKind
from services.retrieval.vectors.base import Base, Progress, Vectors
from services.retrieval.vectors.clusters import ClusteredBase, build_clusters
from services.retrieval.vectors.description import DenseFolder, Description
from services.retrieval.vectors.errors import DeviceUnavailable
from services.retrieval.vectors.faiss_files import read_mapped_lists
from services.retrieval.vectors.flat import GpuBase, build_bytes, build_flat, open_bytes, open_flat
from services.retrieval.vectors.graph import build_graph, open_graph

FEW = 1000
"""Below this many, vectors are always stored flat: too few to train on."""

FLAT_UP_TO = 10_000
"""Up to here exhaustive search is about as fast as IVF."""

_SEVEN_BITS = "RaBitQ7"
_PART = 8


def resolved_kind(kind: DenseKind, rows: int) -> DenseKind:
    """Resolve the kind for a number of rows."""
    if rows < FEW:
        return DenseKind.FLAT
    if kind is not DenseKind.AUTO:
        return kind
    return DenseKind.FLAT if rows <= FLAT_UP_TO else DenseKind.RABITQ


def build_base(
    kind: DenseKind, folder: DenseFolder, vectors: Vectors, report: Progress
) -> Iterable[Path]:
    """Build the index of a kind; returns the files that make it up."""
    match kind:
        case DenseKind.SQ8:
            return build_bytes(folder, vectors, report)
        case DenseKind.HNSW:
            return build_graph(folder, vectors, report)
        case DenseKind.RABITQ:
            return build_clusters(folder, vectors, _SEVEN_BITS, report)
        case DenseKind.IVFPQ:
            codes = _short_codes(vectors.shape[1])
            clusters = build_clusters(folder, vectors, codes, lambda part: report(0.8 * part))
            again = build_bytes(folder, vectors, lambda part: report(0.8 + 0.2 * part))
            return [*clusters, *again]
        case _:
            return build_flat(folder, vectors, report)


def open_base(folder: DenseFolder, description: Description, device: str) -> Base:
    """Open what `build_base` made. Raises VectorsUnusable or DeviceUnavailable."""
    kind = description.kind
    if device == "cuda" and kind is not DenseKind.FLAT:
        raise DeviceUnavailable(
            f"an index of kind {kind} is searched on the device cpu; build it as flat for a GPU"
        )
    match kind:
        case DenseKind.SQ8:
            return open_bytes(folder, description)
        case DenseKind.HNSW:
            return open_graph(folder, description)
        case DenseKind.RABITQ:
            return ClusteredBase(read_mapped_lists(folder.base, folder.lists))
        case DenseKind.IVFPQ:
            lists = read_mapped_lists(folder.base, folder.lists)
            return ClusteredBase(lists, open_bytes(folder, description))
        case _:
            flat = open_flat(folder, description)
            return GpuBase(flat) if device == "cuda" else flat


def _short_codes(dimension: int) -> str:
    """A byte for eight dimensions, or for as many fewer as divide the vector evenly."""
    parts = next(
        parts for parts in range(-(-dimension // _PART), dimension + 1) if dimension % parts == 0
    )
    return f"PQ{parts}x8"
