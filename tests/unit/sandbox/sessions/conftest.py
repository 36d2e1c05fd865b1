"""Shortens the grace period of scripted drivers, which never exit by themselves."""

import pytest

from services.sandbox.sessions import notebook


@pytest.fixture(autouse=True)
def _short_dismissal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "DISMISSAL_SECONDS", 0.01)
