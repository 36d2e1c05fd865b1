"""One retrieval service over a small index for all contract tests of a test process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.search.library import LIBRARY
from tests.support.search.service import Retrieval, build_index, running_retrieval


@pytest.fixture(scope="session")
def library_indexes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the index ``library``."""
    indexes = tmp_path_factory.mktemp("indexes")
    build_index(indexes, "library", LIBRARY)
    return indexes


@pytest.fixture(scope="session")
def library(library_indexes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Retrieval]:
    """A service whose default index holds the passages of the library."""
    folder = tmp_path_factory.mktemp("retrieval")
    # Hundreds of concurrent queries can exceed the default time limit on a busy machine.
    patient = {"TEMPER_RETRIEVAL_SECONDS": "600"}
    with running_retrieval(folder, library_indexes, "library", LIBRARY, **patient) as service:
        yield service
