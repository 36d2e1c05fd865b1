"""Docker Compose for the tests that read the compose files."""

import pytest

from infra.testing.compose import compose_command


@pytest.fixture(scope="module")
def command() -> list[str]:
    """The command of Docker Compose."""
    found = compose_command()
    if found is None:
        pytest.skip("Docker Compose is missing and could not be fetched; `make dev` says why")
    return found
