"""A whole platform on the real runtimes: gateway, trainer and evaluator."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from services.common.contracts.models import RegisterModel
from services.common.process.runtimes import REPOSITORY
from temper import Temper
from tests.support.processes import running, running_gateway
from tests.support.runtimes import FOLDER, installed_runtime

DEMO = REPOSITORY / "infra" / "demo"


@dataclass(frozen=True)
class Platform:
    """A running platform with a tiny base model and data to teach it."""

    url: str
    temper: Temper
    data: Path


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    training = installed_runtime("training")
    installed_runtime("vllm")
    home = tmp_path_factory.mktemp("platform")
    make(str(training.python), "tiny_model.py", home / "models" / "tiny")
    make(sys.executable, "addition.py", home / "data", "--train", "400", "--heldout", "40")
    settings = {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER)}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(running_gateway(settings, home / "gateway.log"))
        for worker in ("trainer", "evaluator"):
            log = home / f"{worker}.log"
            stack.enter_context(running(f"services.{worker}", [], settings, log))
        temper = stack.enter_context(Temper(url))
        temper.models.register(RegisterModel(id="tiny", folder="tiny"))
        yield Platform(url, temper, home / "data")


def make(python: str, script: str, folder: Path, *arguments: str) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([python, str(DEMO / script), str(folder), *arguments], check=True)
