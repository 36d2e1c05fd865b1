"""Reading bytes as a file of rows."""

from collections.abc import Callable
from pathlib import Path

import pytest

from services.datasets.reader import open_records
from services.datasets.record import MAX_ROW_BYTES, Problem, Record

Read = Callable[..., list[Record | Problem]]


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> Read:
    """Read all rows of a file with the given content."""
    path: Path = tmp_path_factory.mktemp("records") / "upload"

    def read_bytes(content: bytes, max_row_bytes: int = MAX_ROW_BYTES) -> list[Record | Problem]:
        path.write_bytes(content)
        return list(open_records(path, max_row_bytes=max_row_bytes))

    return read_bytes
