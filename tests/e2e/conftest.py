"""A local stack on the real runtimes: gateway, trainer and evaluator."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from examples.demo_1_addition.data import write_data
from services.contracts.models.registered import RegisterModel
from temper import Temper
from tests.support.models.tiny_model import make_tiny_model
from tests.support.processes import running, running_gateway
from tests.support.runtimes import FOLDER, installed_runtime


@dataclass(frozen=True)
class Platform:
    """A running stack with its data and log folder."""

    url: str
    temper: Temper
    home: Path

    @property
    def data(self) -> Path:
        """Rows of the addition task: train.jsonl and heldout.jsonl."""
        return self.home / "data"


@contextlib.contextmanager
def running_platform(
    home: Path,
    environment: Mapping[str, str],
    workers: Sequence[str] = ("trainer", "evaluator"),
) -> Iterator[Platform]:
    """Run a platform for the duration of a block; ``environment`` is added to its processes."""
    settings = {"TEMPER_HOME": str(home), "TEMPER_RUNTIMES": str(FOLDER), **environment}
    with contextlib.ExitStack() as stack:
        url = stack.enter_context(running_gateway(settings, home / "gateway.log"))
        for worker in workers:
            log = home / f"{worker}.log"
            stack.enter_context(running(f"services.{worker}", [], settings, log))
        yield Platform(url, stack.enter_context(Temper(url)), home)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Platform]:
    """A platform with a tiny base model and training data, without a hub."""
    installed_runtime("training")
    installed_runtime("vllm")
    home = tmp_path_factory.mktemp("platform")
    make_tiny_model(home / "models" / "tiny")
    write_data(home / "data", train=400, heldout=40)
    with running_platform(home, {"HF_HUB_OFFLINE": "1"}) as platform:
        platform.temper.models.register(RegisterModel(id="tiny", folder="tiny"))
        yield platform
