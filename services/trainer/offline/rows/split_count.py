"""How many rows of a file a training would hold out, before any of them is rendered."""

import json
from array import array

from services.contracts.training.checks import RowSplit
from services.contracts.training.offline import OfflineHyperparameters
from services.datasets.record import JsonValue
from services.trainer.offline.rows.held_out import HeldOut, RowKeys, keyed


class SplitCounter:
    """Counts the rows of one file by ``val_size`` and ``max_samples``, in 8 bytes for each."""

    def __init__(self, val_size: float, max_samples: int | None) -> None:
        self._size = val_size
        self._limit = max_samples
        self._keys: RowKeys = array("Q")

    @classmethod
    def of(cls, settings: OfflineHyperparameters) -> "SplitCounter | None":
        """The counter for a training; None for one that trains on every row."""
        size, limit = (settings.llamafactory.get(name) for name in ("val_size", "max_samples"))
        if not size and limit is None:
            return None
        return cls(
            float(size) if isinstance(size, int | float) else 0.0,
            limit if isinstance(limit, int) else None,
        )

    def add(self, row: JsonValue) -> None:
        """Count a row."""
        if self._limit is None or len(self._keys) < self._limit:
            text = json.dumps(row, sort_keys=True, ensure_ascii=False, default=str)
            # The seed of a training decides which rows are held out, hardly how many are trained.
            for _ in keyed([text.encode(errors="surrogatepass")], self._keys, seed=0):
                pass

    def split(self) -> RowSplit:
        """The numbers. Raises ArgumentRefused if no row would be left to train on."""
        if not self._size or not self._keys:
            return RowSplit(training_rows=len(self._keys), validation_rows=0)
        held = HeldOut([self._keys], self._size)
        return RowSplit(training_rows=len(held.left(self._keys)), validation_rows=held.rows)
