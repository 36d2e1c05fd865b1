from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.sandbox import Sandbox, running_sandbox

PROBE_SECONDS = 240.0
ANSWER_SECONDS = 300.0
"""A compiler takes seconds of a machine that has nothing else to do."""


@pytest.fixture(scope="package")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service in the strongest tier that works here."""
    folder: Path = tmp_path_factory.mktemp("sandbox")
    # None of the few that ask at once has to wait for its turn: nobody waits longer than 10 s.
    with running_sandbox(folder, TEMPER_SANDBOX_CONCURRENCY="8") as running:
        running.http.timeout = ANSWER_SECONDS
        yield running


@pytest.fixture(scope="package")
def missing(sandbox: Sandbox) -> dict[str, str]:
    """Reasons of unavailable languages."""
    answer = sandbox.http.get("/v1/languages", timeout=PROBE_SECONDS).json()
    return {
        each["language"]: each["message"] for each in answer["languages"] if not each["available"]
    }
