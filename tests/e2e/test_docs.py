"""Every command of README and quickstart, on a local stack with the real runtimes."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from services.core.process.runtimes import REPOSITORY
from tests.support.docs.blocks import Block, blocks_of, commands_of
from tests.support.models.tiny_model import make_tiny_model
from tests.support.runtimes import FOLDER, installed_runtime
from tests.support.stack import Home, home_in

pytestmark = pytest.mark.timeout(1800)

PAGES = ("README.md", "docs/quickstart.md")
COMMAND_SECONDS = 600.0
SUBMIT = "temper submit examples/train_lora/lora_sft.yaml"

_ID = re.compile(r"\b((file|ftjob|eval)-\w{12,})\b")
_PLACEHOLDER = re.compile(r"\b(file|ftjob|eval)-\.\.\.")


@dataclass
class Reader:
    """Runs the commands of the pages and tracks the latest id of each kind."""

    home: Home
    url: str
    ids: dict[str, str] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)

    def run(self, block: Block) -> None:
        """Run a block, skipping commands that were run before."""
        commands = commands_of(block) if block.language == "bash" else [block.code]
        for command in commands:
            if command not in self.done:
                self.done.add(command)
                if command.startswith("temper cancel"):  # the last job may have ended
                    self._run("bash", SUBMIT)
                self._run(block.language, command)

    def _run(self, language: str, command: str) -> None:
        text = command.replace("http://localhost:8080", self.url)
        text = text.replace("localhost:8080", self.url.removeprefix("http://"))
        text = _PLACEHOLDER.sub(lambda match: self.ids[match[1]], text)
        shell = ["bash", "-euo", "pipefail", "-c", re.sub(r"\bcurl ", "curl -sS --fail ", text)]
        found = subprocess.run(
            [sys.executable, "-c", text] if language == "python" else shell,
            cwd=REPOSITORY,
            env=self._environment(),
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert found.returncode == 0, f"{text}\n{found.stdout}\n{found.stderr}"
        self.ids |= {kind: name for name, kind in _ID.findall(found.stdout)}

    def _environment(self) -> dict[str, str]:
        bin_folder = Path(sys.executable).parent
        path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
        return {**self.home.environment(), "PATH": path, "TEMPER_API_URL": self.url}


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    for runtime in ("training", "vllm", "sandbox"):
        installed_runtime(runtime)
    with home_in(tmp_path_factory.mktemp("stack") / "home") as home:
        home.variables |= {"TEMPER_RUNTIMES": str(FOLDER), "HF_HUB_OFFLINE": "1"}
        make_tiny_model(home.path / "models" / "tiny-base")
        _, state = home.up()
        yield Reader(home, state.url)


@pytest.mark.parametrize("page", PAGES)
def test_every_documented_command_succeeds(reader: Reader, page: str) -> None:
    blocks = blocks_of((REPOSITORY / page).read_text())

    for block in blocks:
        if block.is_run:
            reader.run(block)

    assert any(block.is_run for block in blocks)
    jobs = reader.home.run("ps", "--status", "failed", "--json")
    assert '"data": []' in jobs.stdout
