"""A service in both tiers with scripts enabled, and folders for them."""

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.programs.reachable import launcher
from tests.support.programs.sandbox_scripts import SETTINGS, ScriptClient
from tests.support.runtimes import installed_runtime
from tests.support.sandbox import Sandbox, running_sandbox

LIMITS = {
    "TEMPER_SANDBOX_CONCURRENCY": "2",
    "TEMPER_SANDBOX_PROCESSES": "64",
    "TEMPER_SANDBOX_SCRIPTS": "2",
    "TEMPER_SANDBOX_SCRIPT_HOURS": "1",
    "TEMPER_SANDBOX_SCRIPT_OUTPUT_MB": "64",
    "THE_SERVICES_SECRET": "hunter2",
}


@pytest.fixture(scope="session")
def datasets() -> Iterator[Path]:
    """A folder that all users can read, with two data sets and links out of it."""
    with tempfile.TemporaryDirectory(prefix="datasets-") as name:
        top = Path(name)
        top.chmod(0o755)
        for owner in ("mine", "others"):
            folder = top / owner
            folder.mkdir(mode=0o755)
            (folder / "rows.jsonl").write_text(f'{{"of": "{owner}"}}\n')
        (top / "mine" / "link").symlink_to("/etc")
        (top / "linked").symlink_to(top / "mine")
        (top / "file").write_text("no folder")
        yield top


@pytest.fixture(
    scope="session", params=["full", pytest.param("container", marks=pytest.mark.variant)]
)
def sandbox(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, datasets: Path
) -> Iterator[Sandbox]:
    """A service of one tier; it must survive every test."""
    tier: str = request.param
    if tier == "container" and os.geteuid() != 0:
        pytest.skip("only root can give every program a user id of its own")
    folder = tmp_path_factory.mktemp(f"scripts-{tier}")
    starting = launcher(tier, installed_runtime("sandbox").python)
    settings = {
        **LIMITS,
        **SETTINGS,
        "TEMPER_SANDBOX_TIER": tier,
        "TEMPER_SANDBOX_SCRIPT_FOLDERS": json.dumps({"campaigns": str(datasets)}),
    }
    with running_sandbox(folder, launcher=starting, **settings) as sandbox:
        yield sandbox
    assert "Traceback" not in (folder / "sandbox.log").read_text()


@pytest.fixture
def scripts(sandbox: Sandbox) -> ScriptClient:
    """A client with the key."""
    return ScriptClient(sandbox)


@pytest.fixture(autouse=True)
def programs_still_run(sandbox: Sandbox) -> Iterator[None]:
    """Ordinary programs still run, whatever a script did."""
    yield
    assert sandbox.output("print(1 + 1)") == "2\n"


@pytest.fixture
def is_full(request: pytest.FixtureRequest) -> bool:
    """Whether the tier gives scripts namespaces of their own."""
    return bool(request.node.callspec.params["sandbox"] == "full")
