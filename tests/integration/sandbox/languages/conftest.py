from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sandbox import Sandbox, running_sandbox

PROBE_SECONDS = 240.0


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service in the strongest tier that works here."""
    folder: Path = tmp_path_factory.mktemp("sandbox")
    with running_sandbox(folder) as running:
        yield running


@pytest.fixture(scope="package")
def missing(sandbox: Sandbox) -> dict[str, str]:
    """Why the languages that do not work here do not."""
    answer = sandbox.http.get("/v1/languages", timeout=PROBE_SECONDS).json()
    return {
        each["language"]: each["message"] for each in answer["languages"] if not each["available"]
    }
