"""A service that refuses to start says why in one line."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes import REPOSITORY, free_port
from tests.support.runtimes import FOLDER, installed_runtime


def refusal(tmp_path: Path, *arguments: str, **settings: str) -> str:
    """Start a sandbox that must refuse to start; return the last line of its output."""
    process = subprocess.run(
        [sys.executable, "-m", "services.sandbox", "--port", str(free_port()), *arguments],
        cwd=REPOSITORY,
        env={"TEMPER_HOME": str(tmp_path), "TEMPER_LOG_LEVEL": "ERROR", **settings},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert process.returncode == 2, process.stderr
    (line,) = process.stderr.splitlines()
    return line


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"TEMPER_SANDBOX_TIER": "none"}, "TEMPER_SANDBOX_TIER: "),
        ({"TEMPER_SANDBOX_MEMORY_MB": "5000"}, "the limit, 5000 MB, is above "),
        ({"TEMPER_RUNTIMES": "/nowhere"}, "sandbox"),
    ],
)
def test_invalid_settings_are_named(tmp_path: Path, settings: dict[str, str], reason: str) -> None:
    assert reason in refusal(tmp_path, **settings)


def test_it_refuses_public_addresses_without_keys(tmp_path: Path) -> None:
    assert "needs API keys" in refusal(tmp_path, "--host", "0.0.0.0")


def test_it_refuses_weaker_isolation_than_the_minimum(tmp_path: Path) -> None:
    installed_runtime("sandbox")
    settings = {
        "TEMPER_RUNTIMES": str(FOLDER),
        "TEMPER_SANDBOX_TIER": "container",
        "TEMPER_SANDBOX_MINIMUM_TIER": "full",
    }

    assert "weaker than the configured minimum" in refusal(tmp_path, **settings)
