"""Settings of the command line, and the key with which it asks its own gateway."""

import hashlib
from pathlib import Path

import pytest

from temper.settings import ClientSettings
from temper.stack.access import access_of

HASH = "a" * 64


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("TEMPER_HOME", "TEMPER_API_KEY", "TEMPER_API_KEY_HASHES"):
        monkeypatch.delenv(name, raising=False)


def test_a_gateway_with_keys_gets_another_one_for_the_command_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)

    access, another = access_of(ClientSettings()), access_of(ClientSettings())

    assert access.api_key is not None
    own = hashlib.sha256(access.api_key.encode()).hexdigest()
    assert access.gateway_variables == {"TEMPER_API_KEY_HASHES": f"{HASH},{own}"}
    assert access.api_key not in repr(access)
    assert access.api_key != another.api_key


def test_the_users_own_key_is_used_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", HASH)
    monkeypatch.setenv("TEMPER_API_KEY", "mine")

    access = access_of(ClientSettings())

    assert (access.api_key, dict(access.gateway_variables)) == ("mine", {})


@pytest.mark.parametrize("hashes", ["", " , "])
def test_a_gateway_without_keys_stays_without(hashes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", hashes)

    access = access_of(ClientSettings())

    assert (access.api_key, dict(access.gateway_variables)) == (None, {})


def test_an_empty_variable_means_the_default(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("TEMPER_HOME", "TEMPER_API_KEY", "TEMPER_GRACE_SECONDS"):
        monkeypatch.setenv(name, "")

    settings = ClientSettings()

    assert settings.home == tmp_path / ".temper"
    assert settings.api_key is None
