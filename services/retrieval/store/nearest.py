"""Nearest passages among those that exist and satisfy a filter."""

from dataclasses import dataclass, field

import numpy as np
import tantivy

from services.retrieval.store.errors import IndexUnusable
from services.retrieval.store.layout import VersionFolder
from services.retrieval.store.manifest import Manifest
from services.retrieval.store.query import Ranking
from services.retrieval.store.text import TextSearcher
from services.retrieval.vectors.errors import VectorsUnusable
from services.retrieval.vectors.index import DenseIndex

LISTED = 100_000
"""Up to this many matching passages are passed to the vector index as a list; for more, the
unfiltered nearest are post-filtered."""

_WIDENINGS = (1, 4, 16)
_MAX_KNOWN = 1_000_000


@dataclass(frozen=True)
class Nearest:
    """The vectors together with the text index, which knows which passages exist.

    Vectors of replaced and deleted passages remain in the vector index and are filtered out here.
    """

    dense: DenseIndex
    text: TextSearcher
    known: dict[int, bool] = field(default_factory=dict)

    def ranked(self, vectors: np.ndarray, topk: int, wanted: tantivy.Query | None) -> list[Ranking]:
        """The ``topk`` nearest passages of each of ``vectors`` (n, dimension), by cosine
        similarity."""
        if wanted is None and self._all_present():
            rankings = self._found(vectors, topk)
            if self._all_present():
                return rankings
        allowed = self.text.matching(wanted, LISTED) if wanted is not None else None
        if allowed is None:
            for widening in _WIDENINGS:
                rankings = self._post_filtered(vectors, topk, topk * widening, wanted)
                if all(len(ranking) == topk for ranking in rankings):
                    return rankings
            allowed = self.text.matching(wanted)
        return self._found(vectors, topk, np.sort(np.array(allowed, dtype=np.int64)))

    def _all_present(self) -> bool:
        """Whether vectors and passages coincide (every passage has one).

        Vectors are read live, not from this state: more may appear at any time.
        """
        return self.dense.count == self.text.count

    def _post_filtered(
        self, vectors: np.ndarray, topk: int, k: int, wanted: tantivy.Query | None
    ) -> list[Ranking]:
        """The existing, matching passages among the ``k`` nearest."""
        rankings = self._found(vectors, k)
        numbers = {number for ranking in rankings for number, _ in ranking}
        present = self._present(numbers) if wanted is None else self.text.present(numbers, wanted)
        return [[one for one in ranking if one[0] in present][:topk] for ranking in rankings]

    def _present(self, numbers: set[int]) -> set[int]:
        """Which numbers exist, with a cache of earlier lookups."""
        unknown = {number for number in numbers if number not in self.known}
        present = self.text.present(unknown)
        if len(self.known) < _MAX_KNOWN:
            self.known.update((number, number in present) for number in unknown)
        return present | {number for number in numbers - unknown if self.known[number]}

    def _found(
        self, vectors: np.ndarray, topk: int, allowed: np.ndarray | None = None
    ) -> list[Ranking]:
        count = self.dense.count if allowed is None else len(allowed)
        if not count:
            return [[] for _ in vectors]
        try:
            scores, numbers = self.dense.search(vectors, min(topk, count), allowed=allowed)
        except VectorsUnusable as error:
            raise IndexUnusable(error.message) from error
        return [
            [(number, score) for number, score in zip(*row, strict=True) if number >= 0]
            for row in zip(numbers.tolist(), scores.tolist(), strict=True)
        ]


def open_vectors(version: VersionFolder, manifest: Manifest, device: str) -> DenseIndex | None:
    """Open the vectors of a version, if any; raises IndexUnusable."""
    if manifest.dense is None:
        return None
    try:
        dense = DenseIndex.open(version.dense, device=device)
    except VectorsUnusable as error:
        raise IndexUnusable(error.message) from error
    if dense.dimension != manifest.dense.dimension or dense.count < manifest.documents:
        raise IndexUnusable(
            f"{version.dense} has {dense.count} vectors of {dense.dimension} dimensions, but"
            f" {manifest.documents} of {manifest.dense.dimension} belong to the index"
        )
    return dense
