from pathlib import Path
from typing import Any

import pytest

from tests.support.runtime.runtime_tests import pytest_pycollect_makemodule

__all__ = ["pytest_pycollect_makemodule"]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tiny model; used only in the runtime."""
    from tests.support.models.tiny_parts import build_model, build_tokenizer

    folder = tmp_path_factory.mktemp("base")
    tokenizer = build_tokenizer()
    build_model(tokenizer, seed=1).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture
def learn(base: Path, tmp_path: Path) -> Any:
    """A function that makes a learner, has it learn a batch, and gives it and its metrics."""
    from services.trainer.rl.learner.learner import Learner
    from services.trainer.rl.learner.parallel import ProcessGroup
    from tests.support.training.learning import learner_spec
    from tests.support.training.updates import update

    def run(method: str, batch: Any, **settings: Any) -> tuple[Learner, dict[str, float]]:
        spec = learner_spec(base, method, tmp_path, **settings)
        learner = Learner(spec, ProcessGroup(spec.settings.optimizer))
        return learner, update(learner, tmp_path, batch).metrics

    return run
