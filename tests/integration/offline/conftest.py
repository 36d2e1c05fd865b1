from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.runtime.runtime_tests import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model; used only in the runtime."""
    from tests.support.training.offline import make_base

    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(autouse=True)
def original_library() -> Iterator[None]:
    """Undo what a test changes in LLaMA-Factory."""
    from tests.support.training.offline import restored_library

    with restored_library():
        yield
