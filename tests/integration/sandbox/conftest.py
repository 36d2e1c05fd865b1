"""One sandbox service, shared by the integration tests of a test process."""

from collections.abc import Iterator

import pytest

from tests.support.sandbox import Sandbox, running_sandbox


@pytest.fixture(scope="session")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    """A service with default settings; its log must not contain a traceback at the end."""
    folder = tmp_path_factory.mktemp("sandbox")
    with running_sandbox(folder) as sandbox:
        yield sandbox
    assert "Traceback" not in (folder / "sandbox.log").read_text()
