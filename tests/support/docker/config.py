"""What Docker Compose makes of the compose files; no Docker engine is needed."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.processes import REPOSITORY

WHOLE = "docker-compose.yml"
VARIANTS = {"default": [WHOLE], "gpu": [WHOLE, "infra/compose/gpu.yml"]}
WITHOUT_SETTINGS = REPOSITORY / "infra" / "compose"
"""A folder that has no settings.env of a developer's."""
NONE: Mapping[str, str] = {}


def compose_config(
    command: list[str],
    variant: str,
    *options: str,
    more: Sequence[str] = (),
    profile: str = "",
    variables: Mapping[str, str] = NONE,
    env_file: str = os.devnull,
    project: Path = WITHOUT_SETTINGS,
) -> str:
    """The output of ``docker compose config`` for the files of a variant and ``more``.

    Paths in the files, that of settings.env among them, are relative to ``project``.
    """
    named = [word for file in (*VARIANTS[variant], *more) for word in ("-f", file)]
    chosen = ["--env-file", env_file, "--project-directory", str(project)]
    chosen += ["--profile", profile] if profile else []
    # Ignore variables that the developer's shell sets for another stack.
    ignored = ("COMPOSE_", "TEMPER_", "POSTGRES_", "PIP_", "HF_")
    checked = subprocess.run(
        [*command, *named, *chosen, "config", *options],
        cwd=REPOSITORY,
        env={
            **{key: value for key, value in os.environ.items() if not key.startswith(ignored)},
            **variables,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert checked.returncode == 0, checked.stderr
    assert checked.stderr == ""
    return checked.stdout
