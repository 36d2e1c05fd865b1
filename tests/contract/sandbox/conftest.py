"""One sandbox service for all contract tests of a test process."""

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.sandbox import running_sandbox


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL."""
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as service:
        yield service.url


@pytest.fixture(scope="session")
def languages(sandbox: str) -> dict[str, bool]:
    """All languages with their availability."""
    # The first request waits until every toolchain has been started once.
    listed = httpx.get(f"{sandbox}/v1/languages", timeout=240).raise_for_status().json()
    return {language["language"]: language["available"] for language in listed["languages"]}


@pytest.fixture(scope="session")
def needs_language(languages: dict[str, bool]) -> Callable[[str], None]:
    """Skip the test if a language is not available."""

    def check(name: str) -> None:
        if not languages[name]:
            pytest.skip(f"{name} has no toolchain here")

    return check


@pytest.fixture
def missing_language(languages: dict[str, bool]) -> str:
    """A language that does not work here."""
    missing = [name for name, available in languages.items() if not available]
    if not missing:
        pytest.skip("every language has its toolchain here")
    return missing[0]


@pytest.fixture
def one_slot_url(tmp_path: Path) -> Iterator[str]:
    """The URL of a service with one slot and a short queue timeout."""
    # Clients retry a few times within seconds; each attempt may wait this long for the slot.
    settings = {"TEMPER_SANDBOX_CONCURRENCY": "1", "TEMPER_SANDBOX_QUEUE_SECONDS": "3"}
    with running_sandbox(tmp_path, **settings) as service:
        yield service.url
