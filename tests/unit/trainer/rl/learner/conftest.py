from pathlib import Path

import pytest

from tests.support.runtime.runtime_tests import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model; used only in the runtime."""
    from tests.support.models.tiny_parts import build_model, build_tokenizer

    folder = tmp_path_factory.mktemp("base")
    tokenizer = build_tokenizer()
    build_model(tokenizer, seed=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder
