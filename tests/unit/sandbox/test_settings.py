"""Settings from the environment."""

import json
from pathlib import Path

import pytest
from pydantic import ValidationError

from services.contracts.validation import first_fault
from services.core.web.auth import hash_key
from services.sandbox.isolation.tier import Tier
from services.sandbox.settings import SandboxSettings


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SandboxSettings.model_fields:
        monkeypatch.delenv(f"TEMPER_{name.upper()}", raising=False)


def test_defaults_are_no_network_and_at_least_four_programs() -> None:
    settings = SandboxSettings()

    assert settings.sandbox_network_allow == []
    assert settings.busy_programs >= 4


def test_settings_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_CONCURRENCY", "3")
    monkeypatch.setenv("TEMPER_SANDBOX_MINIMUM_TIER", "full")
    monkeypatch.setenv("TEMPER_SANDBOX_NETWORK_ALLOW", "mirror.example:443, 10.0.0.1:80")
    monkeypatch.setenv("TEMPER_API_KEY_HASHES", hash_key("k"))

    settings = SandboxSettings()

    assert (settings.sandbox_concurrency, settings.busy_programs) == (3, 3)
    assert settings.sandbox_minimum_tier is Tier.FULL
    assert settings.sandbox_network_allow == ["mirror.example:443", "10.0.0.1:80"]
    assert settings.keyless_hosts is None


@pytest.mark.parametrize("address", ["host", "host:", ":80", "host:0", "host:65536", "host:²"])
def test_invalid_addresses_are_rejected(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_NETWORK_ALLOW", address)

    with pytest.raises(ValidationError, match="is not HOST:PORT"):
        SandboxSettings()


def test_folders_of_scripts_have_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    folders = {"a": str(tmp_path), "b": str(tmp_path / "link")}
    monkeypatch.setenv("TEMPER_SANDBOX_SCRIPT_FOLDERS", json.dumps(folders))

    assert SandboxSettings().sandbox_script_folders == {"a": tmp_path, "b": tmp_path}


@pytest.mark.parametrize("name", ["", "a/b", "..", "a b"])
def test_folders_of_scripts_have_plain_names(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_SCRIPT_FOLDERS", json.dumps({name: "/data"}))

    with pytest.raises(ValidationError):
        SandboxSettings()


@pytest.mark.parametrize("place", ["*.example.org:443", "a:1,b:2", "host"])
def test_scripts_have_one_destination(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    monkeypatch.setenv("TEMPER_SANDBOX_SCRIPT_NETWORK", place)

    with pytest.raises(ValidationError):
        SandboxSettings()


@pytest.mark.parametrize(
    ("given", "field", "message"),
    [
        ({"MEMORY": 4097}, "sandbox_memory_mb", r"4097 MB, is above \w+_MAX_MEMORY_MB, 4096 MB"),
        ({"MAX_MEMORY": 128}, "sandbox_max_memory_mb", r"128 MB, is below \w+_MEMORY_MB, 1024 MB"),
        (
            {"MAX_MEMORY": 128, "MEMORY": 256},
            "sandbox_memory_mb",
            r"256 MB, is above \w+_MAX_MEMORY_MB, 128 MB",
        ),
    ],
)
def test_a_default_above_the_maximum_is_rejected(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, int], field: str, message: str
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(f"TEMPER_SANDBOX_{name}_MB", str(value))

    with pytest.raises(ValidationError, match=message) as raised:
        SandboxSettings()
    fault = first_fault(raised.value)
    assert fault.field == field
    assert f"TEMPER_{field}".upper() not in fault.message  # the refusal begins with it


def test_database_settings_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEMPER_DATABASE_URL", "postgresql://secret@host/db")

    assert "secret" not in SandboxSettings().model_dump_json()
