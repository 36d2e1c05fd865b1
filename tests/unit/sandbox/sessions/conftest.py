"""Nobody waits long for a scripted driver to end by itself: it does not."""

import pytest

from services.sandbox.sessions import notebook


@pytest.fixture(autouse=True)
def _short_dismissal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "DISMISSAL_SECONDS", 0.01)
