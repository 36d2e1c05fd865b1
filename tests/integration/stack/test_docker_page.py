"""The commands of docs/operations/docker.md do what it says; no Docker engine is needed.

In place of ``docker`` a function of the shell notes what it is asked.
"""

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.docker.config import VARIANTS, compose_config
from tests.support.docker.operator import commands_of_the_page
from tests.support.processes import REPOSITORY

PAGES = ("README.md", "docs/operations/docker.md", "docs/operations/upgrading.md")
_BUILD = re.compile(r"docker compose ((?:--\w+ \w+ )*)build\b")
_NOTE = 'docker() { echo "$*" >> asked; }\n'


def follow(title: str, folder: Path) -> list[str]:
    """Run a block of the page in a folder; return what it asked of Docker, a line each."""
    for name in ("temper.dump", "home.tar"):
        (folder / name).touch()
    code = _NOTE + commands_of_the_page()[title]
    subprocess.run(["bash", "-euo", "pipefail", "-c", code], cwd=folder, check=True)
    return (folder / "asked").read_text().splitlines()


def configured(
    command: list[str], variant: str = "default", *, profile: str = "", env_file: str = os.devnull
) -> dict[str, Any]:
    as_json = ("--format", "json")
    text = compose_config(command, variant, *as_json, profile=profile, env_file=env_file)
    stack: dict[str, Any] = json.loads(text)
    return stack


def test_a_restore_deletes_only_what_the_backup_has(command: list[str], tmp_path: Path) -> None:
    asked = follow("restore", tmp_path)

    (removed,) = (set(line.split()[3:]) for line in asked if line.startswith("volume rm --force "))
    volumes = {key: each["name"] for key, each in configured(command)["volumes"].items()}
    # The broker's wake-ups are sent again. Base models and data sets would be lost.
    assert removed == {volumes[key] for key in ("home", "postgres", "redis")}
    assert not any("--volumes" in line or " -v" in line for line in asked)


def test_every_build_of_the_pages_has_the_command_line(command: list[str]) -> None:
    builds = [
        found[1] for page in PAGES for found in _BUILD.finditer((REPOSITORY / page).read_text())
    ]
    targets = re.findall(r"target: (\w+)", (REPOSITORY / VARIANTS["default"][0]).read_text())

    assert len(builds) >= 3
    for options in set(builds):
        (profile,) = re.findall(r"--profile (\w+)", options) or [""]
        services = configured(command, profile=profile)["services"]
        built = {each["build"]["target"] for each in services.values() if "build" in each}
        assert built == set(targets)


def test_later_commands_keep_the_number_of_workers(command: list[str], tmp_path: Path) -> None:
    asked = follow("scale", tmp_path)

    services = configured(command, env_file=str(tmp_path / ".env"))["services"]
    assert services["trainer"]["scale"] == 2
    assert not any("--scale" in line for line in asked)  # which the next command undoes


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_worker_can_have_several_containers(
    command: list[str], variant: str, tmp_path: Path
) -> None:
    variables = tmp_path / ".env"
    variables.write_text("TRAINERS=3\nEVALUATORS=3\nINDEXERS=3\n")

    services = configured(command, variant, env_file=str(variables))["services"]

    several = {name for name, each in services.items() if each.get("scale", 1) == 3}
    assert several == {"trainer", "evaluator", "indexer"}


@pytest.mark.parametrize("before", [None, "TEMPER_PORT=1\nPOSTGRES_PASSWORD=old\n"], ids=str)
def test_the_password_is_stored_with_and_without_variables(
    tmp_path: Path, before: str | None
) -> None:
    variables = tmp_path / ".env"
    if before is not None:
        variables.write_text(before)

    asked = follow("password", tmp_path)

    kept = [] if before is None else ["TEMPER_PORT=1"]
    assert variables.read_text().splitlines() == [*kept, "POSTGRES_PASSWORD=another"]
    assert asked[-1] == "compose up --wait"
