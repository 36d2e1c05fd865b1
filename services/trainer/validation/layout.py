"""Which layout the rows of a training file have."""

from collections.abc import Callable
from typing import Any

from services.contracts.fine_tuning import DataFormat
from services.datasets.record import JsonValue, RowError, shown
from services.trainer.validation.alpaca import read_alpaca
from services.trainer.validation.chat import read_chat
from services.trainer.validation.example import Example
from services.trainer.validation.sharegpt import read_sharegpt

_READERS: dict[DataFormat, Callable[[dict[str, Any]], Example]] = {
    DataFormat.CHAT: read_chat,
    DataFormat.ALPACA: read_alpaca,
    DataFormat.SHAREGPT: read_sharegpt,
}

_KEYS = {
    DataFormat.CHAT: "messages",
    DataFormat.SHAREGPT: "conversations",
    DataFormat.ALPACA: "instruction",
}


class RowReader:
    """Reads rows of one layout; with AUTO the first row that has the key of a layout decides."""

    def __init__(self, layout: DataFormat) -> None:
        self._layout = layout

    @property
    def layout(self) -> DataFormat | None:
        """The layout of the rows, None while it is unknown."""
        return None if self._layout is DataFormat.AUTO else self._layout

    def read(self, row: JsonValue) -> Example:
        """Check a row and return what it holds; raises RowError."""
        if not isinstance(row, dict):
            raise RowError(f"is {shown(row)}, not an object")
        if self._layout is DataFormat.AUTO:
            self._layout = layout_of(row)
        return _READERS[self._layout](row)


def layout_of(row: dict[str, Any]) -> DataFormat:
    """The layout that the keys of a row tell; raises RowError if they tell none."""
    for layout, key in _KEYS.items():
        if row.get(key) is not None:
            return layout
    known = ", ".join(f"{key} ({layout})" for layout, key in _KEYS.items())
    raise RowError(f"has none of the keys that tell a layout: {known}")
