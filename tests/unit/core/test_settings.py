"""Settings from the environment."""

import os
from pathlib import Path

import pytest

from services.api.settings import ApiSettings
from services.core.settings import Settings, make_private
from services.jobs.worker.settings import WorkerSettings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TEMPER_HOME", raising=False)


def test_everything_is_stored_under_the_current_folder_by_default(tmp_path: Path) -> None:
    settings = Settings()

    assert settings.home == tmp_path / ".temper"
    assert settings.database == f"sqlite:///{tmp_path}/.temper/temper.db"
    assert settings.models_folder == tmp_path / ".temper" / "models"
    assert settings.runtimes_folder == tmp_path / ".temper" / "runtimes"


def test_the_home_folder_is_made_private(tmp_path: Path) -> None:
    home = tmp_path / "home"
    (home / "artifacts").mkdir(parents=True, mode=0o755)
    before = os.umask(0o022)
    try:
        make_private(home)
        (home / "file").touch()
    finally:
        os.umask(before)

    assert home.stat().st_mode & 0o777 == 0o700
    assert (home / "artifacts").stat().st_mode & 0o777 == 0o700
    assert (home / "file").stat().st_mode & 0o777 == 0o600


def test_list_settings_are_comma_separated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_ALLOWED_ENDPOINTS", "https://a.example, http://b.example:8000/ ,")

    assert ApiSettings().allowed_endpoints == ["https://a.example:443", "http://b.example:8000"]


def test_printed_settings_hide_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_ENDPOINT_KEYS", '{"https://a.example": "sk-secret"}')

    settings = WorkerSettings()

    assert settings.endpoint_keys == {"https://a.example:443": "sk-secret"}
    assert "sk-secret" not in repr(settings)
