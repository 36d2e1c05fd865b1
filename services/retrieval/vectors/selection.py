"""Which vectors a search may find."""

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np
from numpy.typing import NDArray

from services.retrieval.vectors.vectors import Numbers


@dataclass(frozen=True)
class Selection:
    """The rows of a base that may be found: ``count`` of them, those that ``selector`` passes."""

    selector: Any
    count: int


def select(allowed: Numbers | None, excluded: Numbers | None, rows: int) -> Selection | None:
    """The rows below ``rows`` that are allowed and not excluded; None when all are."""
    if allowed is None and (excluded is None or not len(excluded)):
        return None
    if allowed is None:
        passed = np.ones(rows, dtype=np.bool_)
    else:
        passed = np.zeros(rows, dtype=np.bool_)
        passed[_below(allowed, rows)] = True
    if excluded is not None:
        passed[_below(excluded, rows)] = False
    count = int(np.count_nonzero(passed))
    if count == rows:
        return None
    return Selection(faiss.IDSelectorBitmap(np.packbits(passed, bitorder="little")), count)


def mask(
    numbers: Numbers, allowed: Numbers | None, excluded: Numbers | None
) -> NDArray[np.bool_] | None:
    """Which of ``numbers`` are allowed and not excluded; None when all are."""
    if allowed is None and (excluded is None or not len(excluded)):
        return None
    passed = np.ones(len(numbers), dtype=np.bool_)
    if allowed is not None:
        passed &= np.isin(numbers, allowed)
    if excluded is not None:
        passed &= ~np.isin(numbers, excluded)
    return passed


def _below(numbers: Numbers, rows: int) -> Numbers:
    return numbers[(numbers >= 0) & (numbers < rows)]
