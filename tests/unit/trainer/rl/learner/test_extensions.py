"""Advantages and objectives of other packages."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from services.contracts.errors import InvalidRequest
from services.trainer.rl.learner.protocol import Probe
from tests.support.extension import write_package, write_wheel
from tests.support.training.learning import drawn_batch, learner_spec

EXTENSION = """
import torch

def doubled(*, rewards, groups):
    return 2 * rewards + groups

def plain(*, log_probs, advantages, ratios, anchor_log_probs, sampler_log_probs, sequence_of):
    return -advantages * (log_probs - anchor_log_probs)

def short(*, log_probs, **others):
    return log_probs[1:]

def detached(*, log_probs, **others):
    return log_probs.detach()

def number(**tokens):
    return 1.0

def raising(**tokens):
    raise ZeroDivisionError("division by zero")

def greedy(**tokens):
    raise torch.OutOfMemoryError("CUDA out of memory")

def older(log_probs, advantages):
    return -advantages * log_probs

text = "not a function"
"""
OBJECTIVES = (
    *("plain", "short", "detached", "number", "raising", "greedy", "older", "text", "absent"),
)
POINTS = {
    "temper.advantages": {
        each: f"own_objectives:{each}" for each in ("doubled", "number", "older")
    },
    "temper.objectives": {
        **{each: f"own_objectives:{each}" for each in OBJECTIVES},
        "unreadable": "unreadable:loss",
    },
}


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of advantages and objectives, as pip leaves it in the runtime."""
    folder = write_package(tmp_path / "site-packages", "own_objectives", EXTENSION, POINTS)
    (folder / "unreadable.py").write_text("def :")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delitem(sys.modules, "own_objectives", raising=False)


def by(objective: str) -> dict[str, Any]:
    return {"loss": {"objective": "extension", "extension": objective, "tis_cap": None}}


@pytest.mark.usefixtures("installed")
def test_an_update_by_the_advantage_and_the_objective_of_a_package(learn: Any) -> None:
    own = {"advantage": "extension", "advantage_extension": "doubled", **by("plain")}

    _, metrics = learn("reinforcement", drawn_batch(), **own)

    sequences = drawn_batch().sequences
    advantages = [2 * each.reward + each.group for each in sequences]
    mean = np.average(advantages, weights=[each.mask.sum() for each in sequences])
    assert metrics["advantage_mean"] == pytest.approx(mean)
    assert metrics["loss"] == pytest.approx(0.0, abs=1e-6)  # nothing has moved yet
    assert metrics["grad_norm"] > 0


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("objective", "code", "message"),
    [
        ("missing", "not_found", "installed are: absent, "),
        ("unreadable", "failed", "'unreadable' cannot be imported: SyntaxError"),
        ("absent", "failed", "'absent' cannot be imported: AttributeError"),
        ("text", "failed", "'text' cannot be called with .*str is not callable"),
        ("older", "failed", "'older' cannot be called with log_probs, anchor_log_probs"),
    ],
)
@pytest.mark.parametrize("method", ["reinforcement", "ppo"])
def test_an_extension_that_cannot_be_called_is_named_before_a_model_is_loaded(
    tmp_path: Path, method: str, objective: str, code: str, message: str
) -> None:
    from services.trainer.rl.learner.learner import Learner
    from services.trainer.rl.learner.parallel import ProcessGroup

    spec = learner_spec(tmp_path / "no-model", method, tmp_path, **by(objective))

    with pytest.raises(InvalidRequest, match=message) as raised:
        Learner(spec, ProcessGroup(spec.settings.optimizer))
    assert raised.value.param == f"method.{method}.hyperparameters.loss.extension"
    assert raised.value.code == f"extension_{code}"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("objective", "message"),
    [
        ("short", "'short' must return a tensor of shape"),
        ("number", r"'number' must return a tensor of shape \(\d+,\), not float"),
        ("detached", "'detached' must return losses with a gradient"),
        ("raising", "'raising' failed: ZeroDivisionError: division by zero"),
    ],
)
def test_an_objective_that_fails_at_a_batch_is_named(
    learn: Any, objective: str, message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        learn("reinforcement", drawn_batch(), **by(objective))
    assert raised.value.param == "method.reinforcement.hyperparameters.loss.extension"


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("number", "'number' must return a tensor of shape"),
        ("older", "'older' cannot be called with rewards, groups"),
        ("missing", "installed are: doubled"),
    ],
)
def test_an_advantage_that_fails_is_named(learn: Any, name: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message) as raised:
        learn("reinforcement", drawn_batch(), advantage="extension", advantage_extension=name)
    assert raised.value.param == "method.reinforcement.hyperparameters.advantage_extension"


@pytest.mark.usefixtures("installed")
def test_a_lack_of_memory_is_not_blamed_on_the_extension(learn: Any) -> None:
    with pytest.raises(MemoryError, match="CUDA out of memory"):
        learn("reinforcement", drawn_batch(), **by("greedy"))


def test_the_example_of_an_extension_trains(
    learn: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(write_wheel(tmp_path)))
    batch = drawn_batch()
    good = batch.sequences[0].token_ids.tolist()
    own = {"advantage": "extension", "advantage_extension": "over-median"}

    learner, metrics = learn("reinforcement", batch, **own, **by("capped-reinforce"))

    # One of four samples has a reward, so that the others are the median.
    shares = [each.mask.sum() * each.reward for each in batch.sequences]
    trained = sum(each.mask.sum() for each in batch.sequences)
    assert metrics["advantage_mean"] == pytest.approx(sum(shares) / trained)
    untrained, _ = learn("reinforcement", batch, learning_rate=1e-9)
    now, before = (
        sum(each.answer(Probe(token_ids=[good])).log_probs[0]) for each in (learner, untrained)
    )
    assert now > before
