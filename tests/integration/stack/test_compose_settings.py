"""Every setting can be given to the services of docker-compose.yml, through one of two files."""

import json
import re
from pathlib import Path
from typing import get_args

import pytest
from pydantic import SecretStr

from infra.tables.settings import READERS
from tests.support.docker.config import compose_config
from tests.support.processes import REPOSITORY

Environments = dict[str, dict[str, str | None]]

SERVICES = {"workers": ("trainer", "evaluator", "indexer")}
"""The services of a reader that the table of settings calls by another name."""
SETTINGS = {
    service: {f"TEMPER_{name.upper()}" for name in settings.model_fields}
    for settings, reader in READERS
    for service in SERVICES.get(reader, (reader,))
}
"""The settings that each service reads, by its name."""
FILES = {"default": (), "full": ("infra/compose/sandbox-full.yml",)}
IN_ENV = set(re.findall(r"^#([A-Z_]+)=", (REPOSITORY / ".env.example").read_text(), re.MULTILINE))
"""The variables of .env."""
AS_JSON = ("--format", "json")


@pytest.fixture(params=["default", "gpu"])
def variant(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("more", FILES.values(), ids=FILES)
def test_every_setting_reaches_the_services_that_read_it(
    command: list[str], variant: str, more: tuple[str, ...], tmp_path: Path
) -> None:
    settings = set().union(*SETTINGS.values())
    lines = [f"{name}='value of {name}'\n" for name in settings]
    (tmp_path / "settings.env").write_text("".join(lines))
    without = _environments(compose_config(command, variant, *AS_JSON, more=more))
    given = _environments(compose_config(command, variant, *AS_JSON, more=more, project=tmp_path))

    for service, names in SETTINGS.items():
        wanted = {name: f"value of {name}" for name in names} | without[service]
        assert {name: given[service].get(name) for name in wanted} == wanted, service
        # Those that the compose file leaves open are set in .env.
        assert {name for name, value in wanted.items() if value is None} <= IN_ENV, service


def test_secrets_are_set_where_the_sandbox_does_not_see_them() -> None:
    secret = {
        f"TEMPER_{name.upper()}"
        for settings, _ in READERS
        for name, field in settings.model_fields.items()
        if SecretStr in (field.annotation, *get_args(field.annotation))
    }

    # The stack's retrieval service asks for no key.
    assert secret - IN_ENV == {"TEMPER_RETRIEVAL_API_KEY"}
    assert {"TEMPER_ENDPOINT_KEYS", "TEMPER_EXPORT_OPTIONS"} <= IN_ENV


def test_only_services_that_read_settings_get_the_file(
    command: list[str], variant: str, tmp_path: Path
) -> None:
    (tmp_path / "settings.env").write_text("TEMPER_LOG_JSON=true\n")

    text = compose_config(command, variant, *AS_JSON, profile="cli", project=tmp_path)

    having = {name for name, each in _environments(text).items() if "TEMPER_LOG_JSON" in each}
    assert having == set(SETTINGS)


def test_json_in_single_quotes_stays_as_it_is(command: list[str], tmp_path: Path) -> None:
    programs = '{"solver": ["/opt/solver/run", "--key=$HOME", "# 1"]}'
    (tmp_path / "settings.env").write_text(f"TEMPER_AGENT_COMMANDS='{programs}'\n")

    text = compose_config(command, "default", *AS_JSON, project=tmp_path)

    # Compose doubles the dollar sign in its output, so that it can be read again.
    found = _environments(text)["evaluator"]["TEMPER_AGENT_COMMANDS"]
    assert found == programs.replace("$", "$$")


def test_nobody_commits_or_builds_in_the_variables_of_a_machine() -> None:
    assert {".env", "settings.env"} <= set((REPOSITORY / ".gitignore").read_text().split())
    sent = (REPOSITORY / ".dockerignore").read_text().splitlines()
    assert next(line for line in sent if not line.startswith("#")) == "*"
    assert not any(line.startswith("!") and line.endswith(".env") for line in sent)


def _environments(text: str) -> Environments:
    services = json.loads(text)["services"]
    return {name: service.get("environment", {}) for name, service in services.items()}
